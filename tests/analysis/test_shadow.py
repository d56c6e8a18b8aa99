"""In the shadow of a pipeline the gate decides as it would in a run, knows nothing of later rounds, and buys nothing."""

import numpy as np
import pytest

import headgate
from headgate.control.prices import Trace
from headgate.control.rehearse import rehearse
from headgate.errors import DataError, SettingError


def an_experiment(*more):
    return headgate.load("digits", 'run.policies=["headgate"]', "run.rounds=30", "run.seeds=1", *more)


def written(path, rows, header="time,price,samples"):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]))
    return path


def test_it_decides_what_a_run_at_these_prices_would(tmp_path):
    prices = np.random.default_rng(5).uniform(1, 10, 30).round(3)
    given = an_experiment()
    rows = [(t, price, 3) for t, price in enumerate(prices)]
    answer = headgate.shadow(written(tmp_path / "all.csv", rows), given, "$")
    ((_, policy),) = given.policies.items()
    played = rehearse(given.system, policy, Trace(tuple(prices)), given.seeds, 30)
    assert answer.frame["ordered"].to_list() == played.admitted[0].tolist()
    assert answer.frame["cost"].to_list() == pytest.approx(played.spend[0].tolist())
    assert answer.frame["left"][-1] == pytest.approx(given.system.budget * 30 - played.spend.sum())
    assert answer.frame["paid"].sum() == pytest.approx(3 * prices.sum())
    part = headgate.shadow(written(tmp_path / "part.csv", rows[:11]), given)
    assert part.frame.equals(answer.frame[:11]), "later rounds change nothing"
    assert "you bought 90 samples" in answer.sentence
    assert f"would have bought {played.admitted.sum():,} for" in repr(answer)


def test_a_client_without_an_offer_is_ordered_nothing(tmp_path):
    given = an_experiment("system.clients=2", "system.buffers=[5]", "system.budget=40")
    rows = [(1, "a", 2, 1), (1, "b", 2, 1), (2, "a", 1, 0), (3, "a", 1, 1), (3, "b", 1, 1)]
    path = written(tmp_path / "clients.csv", rows, "time,client,price,samples")
    answer = headgate.shadow(path, given)
    assert answer.frame["bought"].to_list() == [2, 0, 2]
    assert answer.frame["cost"].to_list() == pytest.approx([2 * answer.frame["ordered"][0], *answer.frame["ordered"][1:]])
    with pytest.raises(DataError, match=r"has 2 clients, the recipe has system\.clients = 10"):
        headgate.shadow(path, an_experiment())


def test_what_does_not_fit_is_refused(tmp_path):
    rows = [(t, 2, 1) for t in range(31)]
    with pytest.raises(DataError, match=r"has 31 rounds, the recipe has run\.rounds = 30"):
        headgate.shadow(written(tmp_path / "long.csv", rows), an_experiment())
    with pytest.raises(SettingError, match="a shadow has one policy"):
        headgate.shadow(written(tmp_path / "few.csv", rows[:3]), "digits")
