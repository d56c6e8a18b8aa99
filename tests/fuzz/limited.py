"""One case in a child process of its own: twenty seconds of processor time and two gigabytes, or it has failed."""

import os
import random
import resource
import signal
import time
from collections import Counter
from pathlib import Path

from headgate.errors import HeadgateError

SECONDS, GIB = 20, 2
PATIENCE = 120
"""seconds by the clock: the machine may have other work. Processor time counts what a busy host takes away, too"""
LONGEST = 2000
"""characters of what is refused"""
ENOUGH = 20
"""failures after which there is nothing more to learn"""


def limited(case):
    """(what became of it, why it is a failure or the empty string). `case` returns a word for what it came to."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _run(case, write)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode("utf-8", "replace")
    _, status, used = os.wait4(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        slow = number in (signal.SIGXCPU, signal.SIGALRM)
        return ("hang", f"more than {SECONDS} s") if slow else ("killed", signal.Signals(number).name)
    own = used.ru_maxrss - resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if own > GIB * 2**20:
        return "memory", f"{own / 2**20:.1f} GiB"
    word, _, why = said.partition("\n")
    return word, why


def _run(case, write):
    """In the child: never returns."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    taken = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + GIB * 2**30,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(PATIENCE)
    try:
        said = case()
    except HeadgateError as error:
        text = str(error)
        fine = "\n" not in text and len(text) <= LONGEST
        said = "refused" if fine else f"refused\nnot one line: {text[:200]!r}"
    except BaseException as error:
        said = f"traceback\n{type(error).__name__}: {str(error)[:300]}"
    os.write(write, said.encode("utf-8", "replace"))
    os._exit(0)


def tried(seconds, seed, steps, corpus, make, run):
    """The corpus, and then cases made from their own seeds until the time or the steps are over."""
    cases, failures, began = Counter(), [], time.monotonic()
    known = [(f"corpus/{number}", given) for number, given in enumerate(corpus)]
    while len(failures) < ENOUGH:
        done = cases["cases"]
        over = seconds is not None and time.monotonic() - began >= seconds
        if done >= len(known) and (over or (steps is not None and done >= steps)):
            break
        name, given = known[done] if done < len(known) else (f"{seed}/{done}", make(random.Random(f"{seed}/{done}")))
        word, why = limited(lambda given=given: run(given))
        cases.update(["cases", word])
        if why:
            failures.append({"seed": name, "outcome": word, "error": why, "case": repr(given)[:500]})
    return {"cases": dict(cases), "failures": failures}
