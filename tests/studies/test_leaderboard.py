"""Who is ranked, and in which order."""

import numpy as np
import pytest

from studies import HOME
from studies.leaderboard import leaderboard_content, ranked

NOISE = np.random.default_rng(0).normal(0.0, 0.01, 12)


def result(policy, last, *, kept=True, reference=False, gain=0.0):
    values = (last + NOISE + gain).tolist()
    limits = {"kept_limits": kept, "reference": reference, "learnt": list(range(12))}
    return {"policy": policy, "last": [float(np.mean(values)), None, None], "last_by_seed": values, **limits}


def test_the_order_is_that_of_the_means_within_the_limits():
    wobble = np.random.default_rng(1).normal(0.0, 0.02, 12)
    rows = [
        result("poor", 0.5, gain=wobble * 0.1),
        result("spender", 0.9, kept=False),
        result("good", 0.7),
        result("level", 0.699, gain=wobble - wobble.mean()),
        result("oracle", 0.95, reference=True),
    ]
    names, gaps = ranked({row["policy"]: row for row in rows})
    assert names == ["good", "level", "poor"]
    assert gaps["poor"].mean == pytest.approx(100 * (-0.2 + 0.1 * wobble.mean()))
    assert gaps["poor"].p < 1e-6 < 0.05 < gaps["level"].p
    assert ranked({"spender": rows[1]}) == ([], {})


def test_the_page_has_every_table_and_no_place_for_who_broke_a_limit():
    found = leaderboard_content(HOME / "results" / "better")
    lines = found.table.splitlines()[2:]
    assert len(lines) == found.numbers["tables"] > found.numbers["first"] > 0
    assert not [line for line in lines if "`released`" in line or "`oracle`" in line]
