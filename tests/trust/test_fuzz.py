"""The fuzzer of run folders, for some seconds; `tests/trust/fuzz_folders.py` runs for as long as one likes."""

from .fuzz_folders import main


def test_no_damage_makes_a_trace_or_reaches_outside():
    told, failures = main(seconds=12, seed=20_000)
    assert failures == []
    assert sum(told.values()) >= 20
    assert {came for _, _, came in told} >= {"fine", "refused"}
