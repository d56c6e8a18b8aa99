// What a run says while it is played. The connection is made again when it breaks; the first word after that is the state.

const LAST = new Set(["finished", "diverged"]);

// `heard(data)` for each event; `mark` is told "live", "reconnecting" or null when there is nothing more to come.
export function follow(address, heard, mark, signal) {
  let source = null;
  let wait = 1000;
  let timer = 0;
  let done = false;

  function end() {
    done = true;
    clearTimeout(timer);
    source?.close();
    mark(null);
  }

  function take(event) {
    wait = 1000;
    const data = JSON.parse(event.data);
    mark("live");
    heard(data);
    if (LAST.has(data.state)) end();
  }

  function connect() {
    source = new EventSource(address);
    source.addEventListener("round", take);
    source.addEventListener("state", take);
    source.onerror = () => {
      if (done || signal.aborted) return;
      mark("reconnecting");
      if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
      source.close();
      timer = setTimeout(connect, wait);
      wait = Math.min(8000, 2 * wait);
    };
  }

  signal.addEventListener("abort", () => {
    done = true;
    clearTimeout(timer);
    source?.close();
  });
  connect();
}

// Calls `act` soon after it is asked for, once for many asks, and never twice at the same time.
export function gathered(act, pause) {
  let asked = false;
  let busy = false;
  async function run() {
    if (busy) return;
    busy = true;
    while (asked) {
      asked = false;
      try {
        await act();
      } catch { /* the caller reports what went wrong */ }
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
    busy = false;
  }
  return () => {
    asked = true;
    run();
  };
}
