// One run, round by round, as the gate shows it. Pure: numbers in, numbers out.
//
// A buffer is a window of its client's stream, so a sample is its place i in that stream: admitted when `hi` passes it,
// dropped when `lo` passes it. From admissions and occupancies all windows and all ages follow.

export function modelOf(given) {
  const trace = given.held && given.admitted_by_client ? given : together(given);
  const rounds = trace.t.length;
  const clients = trace.buffers.length;
  const cumulative = trace.buffers.map(() => new Float64Array(rounds + 1));
  for (let t = 0; t < rounds; t++) {
    for (let m = 0; m < clients; m++) cumulative[m][t + 1] = cumulative[m][t] + trace.admitted_by_client[t][m];
  }
  // held in round 1 without having been admitted: there from the beginning
  const stock = trace.buffers.map((_, m) => (rounds ? Math.max(0, trace.held[0][m] - cumulative[m][1]) : 0));
  const debt = Float64Array.from({ length: rounds + 1 }, (_, t) => (t < rounds ? trace.debt[t] : lastDebt(trace)));
  const spent = new Float64Array(rounds + 1);
  for (let t = 0; t < rounds; t++) spent[t + 1] = spent[t] + trace.spend[t];
  const mean = trace.price.reduce((a, b) => a + b, 0) / Math.max(1, rounds);
  return {
    ...trace, rounds, clients, cumulative, stock, debt, spent,
    labels: trace.clients,
    grouped: trace.clients.some((label) => label.includes("–")),
    meanPrice: mean,
    lowPrice: Math.min(...trace.price),
    highPrice: Math.max(...trace.price),
    mostDebt: Math.max(1e-9, ...debt),
    fullOpening: Math.max(1, quantile(trace.admitted, 0.9)),
    mostHeld: Math.max(1, ...trace.held.map((row) => Math.max(...row))),
    oldest: oldestAge({ ...trace, rounds, cumulative, stock }),
  };
}

// The window of client m after round t (0: before the first).
export function windowOf(model, m, t) {
  const hi = model.cumulative[m][t];
  return { lo: t === 0 ? -model.stock[m] : hi - model.held[t - 1][m], hi };
}

// The round in which sample i of client m was admitted; those held from the beginning came in round 0.
export function admittedIn(model, m, i) {
  const cumulative = model.cumulative[m];
  let low = 0;
  let high = cumulative.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (cumulative[middle] > i) high = middle;
    else low = middle + 1;
  }
  return low;
}

// How far the gate opens for so many samples, 0 to 1.
export const opening = (model, t) => (t < 1 ? 0 : Math.min(1, model.admitted[t - 1] / model.fullOpening));

function lastDebt(trace) {
  const t = trace.t.length - 1;
  return t < 0 ? 0 : Math.max(0, trace.debt[t] + trace.spend[t] - trace.budget);
}

function oldestAge(model) {
  let oldest = 1;
  for (let m = 0; m < model.buffers.length; m++) {
    for (let t = 1; t <= model.rounds; t++) {
      const { lo, hi } = windowOf(model, m, t);
      if (hi > lo) oldest = Math.max(oldest, t - admittedIn(model, m, lo));
    }
  }
  return Math.min(oldest, 40); // beyond that nobody sees a difference
}

// Where it was not recorded who let in and who holds what, all clients are shown as one buffer: their totals are known.
function together(trace) {
  return {
    ...trace,
    clients: ["all clients"],
    buffers: [trace.buffers.reduce((a, b) => a + b, 0)],
    held: trace.n.map((n) => [n]),
    admitted_by_client: trace.admitted.map((count) => [count]),
  };
}

export function quantile(values, q) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] : 0;
}
