"""A short version of what `make fuzz` does for as long as one likes, and the tool itself."""

import runpy
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "fuzz.py"))


def test_a_few_seconds_find_nothing():
    found = TOOL["in_a_process"]("recipes", 5, 1)
    assert found["failures"] == []
    assert found["cases"]["cases"] >= 3  # in five seconds of a machine that may be busy: some hundreds of an idle one's
    assert {"refused"} < found["cases"].keys()


def test_every_fuzzer_that_is_named_is_there():
    for path, function, what in TOOL["FUZZERS"].values():
        assert f"def {function}(" in (ROOT / path).read_text("utf-8")
        assert what


def a_fuzzer(tmp_path, monkeypatch, text):
    path = tmp_path / "own.py"
    path.write_text(text, "utf-8")
    monkeypatch.setitem(TOOL["FUZZERS"], "recipes", (str(path), "main", "what it tries"))
    return TOOL["run"]("recipes", 1, 7)


def test_both_ways_to_tell_are_understood(tmp_path, monkeypatch):
    told = a_fuzzer(tmp_path, monkeypatch, "def main(seconds, seed):\n    return {('a', 1): 2}, ['seed 3: bad']\n")
    assert told == {"cases": {"a 1": 2}, "failures": [{"error": "seed 3: bad"}], "seconds": 1, "seed": 7}


def test_what_hangs_takes_memory_or_ends_the_process_is_a_failure():
    limited = runpy.run_path(str(Path(__file__).parent / "limited.py"))
    assert limited["limited"](lambda: "answered") == ("answered", "")
    assert limited["limited"](lambda: bytearray(3 << 30) and "answered")[0] == "traceback"  # MemoryError
    assert limited["limited"](lambda: 1 // 0)[1].startswith("ZeroDivisionError")
    limited["_run"].__globals__["SECONDS"] = 1
    began = time.monotonic()

    def never():
        while True:
            pass

    assert limited["limited"](never)[0] == "hang"
    assert time.monotonic() - began < 60
