"""The zoo: policies and rules that come in as `module:Class`, checked as anybody's own
are, and one fact of each.
"""

import re
from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import (
    Candidates,
    Controller,
    Losses,
    Report,
    Reservoir,
    Scores,
    System,
)
from headgate.control.buffers import keeps_alone
from headgate.control.policies import Clairvoyant, Headgate
from headgate.control.policies.budgeted import latest_prices
from headgate.control.policy import PolicyContext
from headgate.control.prices import (
    Markov,
    PerClient,
    Trace,
    Uniform,
)
from headgate.control.prices.trace import Brent, Ercot
from headgate.control.randomness import Purpose
from headgate.control.ranking import chosen
from headgate.control.rehearse import rehearse
from headgate.errors import DataError, SettingError
from headgate.experiment import load
from headgate.registry import POLICY, RETENTION, SELECTION, make
from headgate.testing import a_system, check_policy, check_retention, check_selection
from headgate.theory.bound import BoundConstants
from studies.zoo import windows
from studies.zoo.age import Age, age_limits
from studies.zoo.cbrs import CBRS
from studies.zoo.early import Early, early_path
from studies.zoo.fashion import CLASSES, Fashion
from studies.zoo.fedbalancer import FedBalancer
from studies.zoo.gss import GSS
from studies.zoo.hindsight import Hindsight
from studies.zoo.kcentre import KCentre
from studies.zoo.listening import Listening
from studies.zoo.ode import ODE
from studies.zoo.plain import Pacing, Random, Resolving
from studies.zoo.prices import Drift, Integer
from studies.zoo.rccda import Rccda
from studies.zoo.released import Released
from studies.zoo.simplest import Unfloored, Unrounded
from studies.zoo.vessal import VeSSAL
from studies.zoo.windows import Windows

from ..control.following import follow_policy, follow_rule

RULES, SELECTIONS, POLICIES = (
    (GSS, ODE, FedBalancer, CBRS),
    (VeSSAL, KCentre),
    (Age, Early, Listening, Unfloored, Unrounded),
)
CHECKS = {
    RULES: (RETENTION, check_retention),
    SELECTIONS: (SELECTION, check_selection),
    POLICIES: (POLICY, check_policy),
}
SYSTEM = System(np.array([8, 9, 10, 11, 12] * 2), 55.0, 100)


@pytest.mark.parametrize("kind", [*RULES, *SELECTIONS, *POLICIES])
def test_each_comes_in_by_its_name_and_passes_the_public_check(kind):
    slot, check = next(CHECKS[kinds] for kinds in CHECKS if kind in kinds)
    made = make(slot, f"{kind.__module__}:{kind.__qualname__}", "part")
    assert type(made) is kind
    check(made, rounds=12)
    if slot is RETENTION:
        follow_rule(made, rounds=12)
    if slot is POLICY:
        follow_policy(made, rounds=12)


PLAIN = {
    "resolving": Resolving(rule=Reservoir(2)),
    "pacing": Pacing(rule=Reservoir(a_system().buffer)),
    "random": Random(chance=0.3),
    "released": Released(),
    "released, capacity and no least": Released(least=0, capacity=a_system().buffer),
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_policies_pass_the_public_check(name):
    check_policy(PLAIN[name], rounds=24)
    follow_policy(PLAIN[name], rounds=24)


@pytest.mark.parametrize("name", ["resolving", "pacing"])
def test_plain_policies_without_an_end(name):
    check_policy(PLAIN[name], a_system(None), rounds=16)
    follow_policy(PLAIN[name], a_system(None), rounds=16)


def test_one_plain_policy_knows_a_price_per_client():
    prices = PerClient(Uniform(1, 10), (0.5, 1.0, 1.0, 1.5, 2.0), 0.3)
    check_policy(PLAIN["resolving"], rounds=12, prices=prices)
    follow_policy(PLAIN["resolving"], rounds=12, prices=prices)


def test_the_early_pace_minimises_the_mean_error():
    """Where money m a round buys √m samples; any mixture with another pace has a higher
    ∫N^(−1/2).
    """
    fine = np.linspace(0.0, 1.0, 20_001)
    best = np.interp(fine, *early_path())

    def mean_error(spent):
        N = np.cumsum(np.sqrt(np.diff(spent) * fine.size)) / fine.size
        return np.mean(N**-0.5)

    for other in (fine, fine**0.3, fine**0.7, np.minimum(2 * fine, 1.0)):
        assert mean_error(best) < mean_error(0.9 * best + 0.1 * other)
        assert mean_error(best) < mean_error(0.5 * best + 0.5 * other)


def test_without_the_floor_headgate_falls_behind_an_even_spend():
    price = np.linspace(1.0, 9.0, 60)
    system = System(np.array([10, 10]), 20.0, 60)

    def bought(kind):
        made = kind(fill=0.0)
        one = rehearse(system, made, Trace(tuple(price)), np.arange(1), 60)
        return one.admitted[0].cumsum()

    even = np.minimum(20.0 / price, 20.0).cumsum()
    assert (bought(Headgate) >= even - 1).all()
    assert (bought(Unfloored) < even - 1).any()


def test_only_in_long_runs_are_shares_rounded():
    def bought(kind, rounds):
        system = System(np.array([10, 10]), 20.0, rounds)
        made = rehearse(system, kind(), Integer(1, 10), np.arange(2), rounds)
        return made.admitted

    assert np.array_equal(bought(Headgate, 200), bought(Unrounded, 200))
    whole, shares = (
        np.isin(bought(kind, 600), (0, 20)).mean() for kind in (Headgate, Unrounded)
    )
    assert whole > shares


def test_fashion_comes_from_four_files_or_says_where_it_looked(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADGATE_DATA", str(tmp_path))
    with pytest.raises(DataError, match="fashion-mnist: no idx files"):
        Fashion().load()
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    labels = np.arange(10, dtype=np.uint8)
    images = np.arange(10 * 28 * 28, dtype=np.uint8).reshape(10, 28, 28)
    for split in ("train", "t10k"):
        for values, name in ((images, "images-idx3"), (labels, "labels-idx1")):
            sizes = np.array(values.shape, ">u4").tobytes()
            head = bytes([0, 0, 8, values.ndim]) + sizes
            (folder / f"{split}-{name}-ubyte").write_bytes(head + values.tobytes())
    found = Fashion().load()
    assert (found.classes, found.shape) == (CLASSES, (1, 28, 28))
    assert np.array_equal(found.train_images[:, 0], images)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (Random, "chance", -0.1),
        (Random, "chance", 1.1),
        (Pacing, "step", 0.0),
        (Pacing, "initial", -1.0),
        (Released, "base", 1.5),
        (Released, "least", -1),
    ],
)
def test_a_bad_setting_of_a_plain_policy_is_named(kind, name, value):
    with pytest.raises(SettingError, match=re.escape(f"{name} = {value}")):
        kind(**{name: value})


def test_a_recipe_names_them():
    rule, selection = (
        "studies.zoo.gss:GSS",
        {"kind": "studies.zoo.vessal:VeSSAL", "ridge": 0.1},
    )
    one = (
        f"policies.one={{kind='headgate', rule='{rule}',"
        f" selection={{kind='{selection['kind']}', ridge=0.1}}}}"
    )
    table = load(load("digits", ["run.policies=['one']", one]).tables()).tables()[
        "policies"
    ]["one"]
    assert (table["rule"]["kind"], table["selection"]) == (rule, selection)


def kept(rule, room, scores, labels=None, seed=0, new=1):
    """Which samples one client keeps, of which the last `new` have just come."""
    samples = len(next(each for each in scores if each is not None))
    age = np.where(np.arange(samples) < samples - new, 1, 0)
    return keeps_alone(
        rule, room, seed, 0, np.arange(samples), age, labels, scores
    ).tolist()


def test_gss_keeps_what_points_elsewhere():
    like = Scores(
        error=np.tile([1.0, 0.0], (3, 1)),
        features=np.array([[1.0, 0.0], [0.9, 0.1], [0.5, 0.0]]),
    )
    away = like._replace(features=np.array([[1.0, 0.0], [0.9, 0.1], [-1.0, 0.0]]))
    for seed in range(30):
        assert kept(GSS(capacity=2), 2, like, seed=seed) == [True, True, False]
        assert kept(GSS(capacity=2), 2, away, seed=seed)[
            2
        ]  # its score is 0: it wins against any other


def test_ode_keeps_what_pulls_with_the_rest_of_every_class():
    pulls = Scores(
        error=np.ones((4, 1)), features=np.array([[1.0], [2.0], [-1.0], [0.5]])
    )
    assert kept(ODE(capacity=2), 2, pulls, np.zeros(4, int)) == [
        True,
        True,
        False,
        False,
    ]
    assert kept(ODE(capacity=2), 2, pulls, np.array([0, 0, 1, 1])) == [
        False,
        True,
        False,
        True,
    ]


def test_fedbalancer_mixes_hard_and_easy_samples():
    loss = Scores(loss=np.array([9.0, 8.0, 0.0, 0.1, 0.2]))
    for seed in range(10):
        stays = kept(FedBalancer(capacity=4, easy=0.5), 4, loss, seed=seed)
        assert stays[:2] == [True, True]
        assert sum(stays[2:]) == 2
    assert kept(FedBalancer(capacity=2, easy=0.0), 2, loss) == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_cbrs_keeps_classes_as_even_as_they_can_be():
    labels = np.array([0] * 6 + [1] + [0] * 4 + [1] + [0] * 2)
    for seed in range(20):
        stays = np.array(
            kept(CBRS(capacity=5), 5, Scores(loss=np.zeros(14)), labels, seed, new=14)
        )
        assert Counter(labels[stays]) == {0: 3, 1: 2}


def offer(features, room, **more):
    """Clients with the same number of samples before them, (C, W, H)."""
    clients, window = features.shape[:2]
    scores = Scores(guess=np.ones((clients, window, 1)), features=features)
    each, position = (
        np.arange(clients)[:, None],
        np.tile(np.arange(window), (clients, 1)),
    )
    return Candidates(
        position,
        each * 0 + room,
        each,
        each * 0,
        scores=scores,
        purpose=Purpose.SELECTION,
        **more,
    )


def test_vessal_prefers_what_is_unlike_what_was_bought():
    """Nine samples of one kind and one of another: the odd one is bought far more often
    than one in five.
    """
    runs = np.arange(400)
    features = np.tile([1.0, 0.0], (400, 10, 1))
    features[runs, runs % 10] = [0.0, 1.0]
    takes = chosen(VeSSAL(), offer(features, 2))
    assert takes[runs, runs % 10].mean() > 0.3
    assert takes.sum() == 2 * 400


def test_k_centre_takes_what_is_farthest_from_what_is_held():
    features = np.array([[[0.0], [1.0], [5.0], [6.0]]])
    held = {"held": np.array([[[6.0], [0.0]]]), "held_there": np.array([[True, False]])}
    assert chosen(KCentre(), offer(features, 1, **held)).tolist() == [
        [True, False, False, False]
    ]
    assert chosen(KCentre(), offer(features, 2)).tolist() == [
        [True, False, False, True]
    ]


def mean_age(purchases, places, power=1.0):
    """Of the samples held, over rounds: how often each was used before, to that power;
    the oldest leave.
    """
    held = (
        np.repeat(np.arange(t + 1.0), own[t::-1])[:places]
        for own in purchases
        for t in range(len(own))
    )
    return np.mean([(ages**power).mean() for ages in held])


def played(policy, prices, seeds, system=SYSTEM):
    made = policy.resolved(
        PolicyContext(system, prices, BoundConstants(), seeds, system.horizon)
    )
    return rehearse(system, made, prices, seeds, system.horizon)


@given(st.integers(0, 10**6), st.sampled_from([0.5, 1.0, 2.0]))
@settings(max_examples=20, deadline=None)
def test_no_schedule_of_whole_buffers_holds_younger_samples_than_hindsight(seed, power):
    system, prices = System(np.array([50, 50]), 250.0, 9), Uniform(1, 10)
    result = played(
        Hindsight(power=power, fill=100.0), prices, np.array([seed]), system
    )
    assert result.spend.sum() <= 250 * 9
    age = mean_age(result.admitted, 100, power)
    for rounds in (
        product([0, 100], repeat=8) if result.admitted[0, 0] == 100 else ()
    ):  # round 1 fills all places
        if ((bought := np.array([[100, *rounds]])) * result.price).sum() <= 250 * 9:
            assert age <= mean_age(bought, 100, power) + 0.02  # samples are whole


def test_hindsight_without_age_buys_the_cheapest():
    rules = Clairvoyant(fill=8.0), Hindsight(power=0.0)
    most, ours = (
        played(rule, Uniform(1, 10), np.arange(10)).N[:, -1] for rule in rules
    )
    assert np.abs(ours - most).max() <= 5


def test_hindsight_knows_the_prices_of_every_client_and_its_own_prices_alone():
    prices, seeds = (
        PerClient(Uniform(1, 10), tuple(np.linspace(0.5, 1.5, 10)), 0.2),
        np.arange(1),
    )
    least, spread = (
        played(Hindsight(crowding=crowding), prices, seeds) for crowding in (0.0, 1.0)
    )
    assert (
        0.98 * 5500
        < least.spend.sum(axis=-1).min()
        <= least.spend.sum(axis=-1).max()
        <= 5500
    )
    assert least.admitted.std() > spread.admitted.std()
    policy = Hindsight().resolved(
        PolicyContext(SYSTEM, prices, BoundConstants(), seeds, 100)
    )
    with pytest.raises(SettingError, match="other prices"):
        rehearse(SYSTEM, policy, prices, seeds + 1, 100)


@given(
    st.lists(st.floats(1, 10), min_size=2, max_size=40),
    st.floats(0.05, 3),
    st.integers(0, 10**6),
)
@settings(max_examples=30, deadline=None)
def test_no_other_limits_cost_less_than_those_of_the_age_rule(seen, kappa, seed):
    prices = np.sort(seen)
    best = age_limits(prices[None], np.array([[kappa]]))
    assert (np.diff(best.limit[0, 0]) >= 0).all()
    others = np.random.default_rng(seed).choice(
        [0.0, 1.0, 2.0, 5.0, 10.0], size=(50, 63)
    )
    for limit in [*np.sort(others), *others, best.limit[0, 0, :-1]]:
        here = prices <= np.append(limit, np.inf)[:, None]
        stays = np.cumprod(1 - here.mean(axis=-1))
        alive = np.append(1.0, stays[:-1])
        cost = alive @ (here * prices).mean(axis=-1) + kappa * stays @ np.arange(1, 65)
        assert cost / alive.sum() >= kappa * best.age[0, 0] + best.spend[0, 0] - 1e-9


def test_the_age_rule_holds_younger_samples_than_headgate():
    rules = (Hindsight(), Age(), Headgate(smooth=0.25, ahead=5.0), Headgate())
    results = [played(rule, Uniform(1, 10), np.arange(2)) for rule in rules]
    ages = [mean_age(each.admitted, 100) for each in results]
    assert ages == sorted(ages)
    assert (
        0.97 * 5500
        < results[1].spend.sum(axis=-1).min()
        <= results[1].spend.sum(axis=-1).max()
        <= 5500
    )


def test_listening_buys_more_for_those_with_more_to_learn():
    one, other = (
        rehearse(SYSTEM, policy, Uniform(1, 10), np.arange(5), 60)
        for policy in (Listening(), Headgate())
    )
    assert np.array_equal(one.ledger.admitted, other.ledger.admitted)
    new = np.ones((1, 10))
    new[0, 0] = 5.0
    controller = Controller(SYSTEM, Listening(most=2.0))
    ledger = controller.open()
    for price in Uniform(1, 10).path(np.arange(1), 1, 101)[0]:
        orders = controller.decide(ledger, price)
        ledger = controller.post(
            ledger, orders, Report(orders.admitted, losses=Losses(new, new / 2))
        )
    shares = (
        ledger.admitted[0] / ledger.admitted.sum() / (SYSTEM.buffer / SYSTEM.all_places)
    )
    assert shares.argmax() == 0
    assert 1.1 < shares.max() < 1.3


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (GSS, {"batch": 0}), (FedBalancer, {"easy": 1.5}), (VeSSAL, {"ridge": 0.0}),
        (Age, {"power": 0.0}), (Hindsight, {"crowding": -1.0}),
        (Listening, {"most": 0.5}), (Listening, {"smoothing": 1.5}),
    ],
)  # fmt: skip
def test_bad_settings_are_named(kind, settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        kind(**settings)


def rccda_updates(losses, rate, fill, V, proportional, derivative):
    """Which rounds update: the rule word for word. A round's loss is heard before the
    next; NaN where nobody tells.
    """
    queue, best, previous, updates = 0.0, None, None, []
    for t, heard in enumerate([np.nan, *losses]):
        loss = previous if np.isnan(heard) else heard
        rise = 0.0
        if loss is not None:
            best, previous = (
                (loss, loss) if best is None else (min(best, loss), previous)
            )
            rise = V * (proportional * (loss - best) + derivative * (loss - previous))
        update = rise > queue + 0.5 - rate or (t == 0 and fill > 0)
        queue, previous = max(queue + update - rate, 0.0), loss
        updates.append(update)
    return updates


SOMETIMES = st.sampled_from([0.0, 0.25, 1.0, 5.0])


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.sampled_from([0.0, 0.1, 0.5, 0.75, 1.0, 2.0, 8.0, np.nan]),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from([0.05, 0.25, 1.0]),
    st.sampled_from([0.0, 0.5, 8.0]),
    st.tuples(st.sampled_from([0.5, 2.0, 10.0]), SOMETIMES, SOMETIMES),
)
def test_rccda_renews_when_its_rule_says_so(losses, rate, fill, weights):
    """Money is no object here, so nothing but the rule decides: all places, or a
    probe.
    """
    named = dict(zip(("V", "proportional", "derivative"), weights, strict=True))
    controller = Controller(
        System(np.array([10, 10]), 1e6, 40),
        Rccda(rate=rate, probe=0.05, fill=fill, **named),
    )
    ledger, updates = controller.open(), []
    for loss in [*losses, 0.0]:
        orders = controller.decide(ledger, 1.0)
        assert orders.admitted.sum() in (1, 20)
        updates.append(orders.admitted.sum() == 20)
        told = np.full((1, 2), loss)
        ledger = controller.post(
            ledger, orders, Report(orders.admitted, losses=Losses(told, told))
        )
    assert updates == rccda_updates(losses, rate, fill, **named)


def test_the_rate_of_rccda_spends_the_budget_probes_included():
    given_ = PolicyContext(SYSTEM, Uniform(1, 10), BoundConstants(), np.arange(2), 100)
    rate = Rccda(probe=0.02).resolved(given_).rate
    assert 5.5 * 100 * (rate + 0.02 * (1 - rate)) == pytest.approx(55.0)
    check_policy(Rccda(V=0.1, probe=0.2).resolved(given_), rounds=20)


# windows: the bet on the order of prices, the ledgers of the windows, and what the
# policy makes of both


FOR_NETS = {"smooth": 0.25, "ahead": 5.0}


def capital(rows):
    """What the bets on these prices come to, (R,)."""
    rows = np.asarray(rows, dtype=np.float64)
    memory = windows.unseen(len(rows))
    for t, price in enumerate(rows.T, start=1):
        memory = windows.observe(memory, price.copy(), t, a_system())
    return memory["bets"].sum(axis=-1)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0, 2.5, 4.0, 7.0]), min_size=1, max_size=5))
def test_over_all_orders_of_any_prices_the_bet_neither_wins_nor_loses(prices):
    """The bet is linear in the lot that ranks equal prices, so its mean over lots is
    the bet at one half.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            windows,
            "uniform",
            lambda seed, purpose, t, price: np.full(price.shape, 0.5),
        )
        assert capital(list(permutations(prices))).mean() == pytest.approx(1.0)


@pytest.mark.parametrize("prices", [Uniform(1, 10), Integer(1, 10)])
def test_without_order_all_prices_count_but_in_one_run_of_a_hundred(prices):
    """Ville's inequality: the bet is won with a probability of at most 1/T. Where it is
    not, headgate buys as ever.
    """
    alone, auto = (
        rehearse(SYSTEM, each(), prices, np.arange(200), 100)
        for each in (Headgate, Windows)
    )
    won = auto.ledger.memory["wander"]
    assert won.mean() <= 0.02
    assert np.array_equal(alone.admitted[~won], auto.admitted[~won])


def samples_over_headgate(prices, more, horizon=True):
    system = SYSTEM if horizon else System(SYSTEM.buffer, SYSTEM.budget, None)
    auto, alone = (
        rehearse(system, each(**more), prices, np.arange(40), 100).admitted.sum()
        for each in (Windows, Headgate)
    )
    return auto / alone


@pytest.mark.parametrize("more", [{}, FOR_NETS], ids=["linear", "nets"])
def test_where_prices_rise_it_buys_more(more):
    assert samples_over_headgate(Drift(3.0, 8.0, 100), more) > (1.005 if more else 1.04)


OWN = PerClient(Uniform(1, 10), tuple(np.linspace(0.6, 1.4, 10)), 0.2)
STAYS = Markov((1.0, 5.0, 9.0), ((0.9, 0.1, 0.0), (0.1, 0.8, 0.1), (0.0, 0.1, 0.9)))


@pytest.mark.parametrize(
    ("prices", "more", "horizon"),
    [
        (Ercot(), {}, True),
        (Brent(), FOR_NETS, False),
        (STAYS, FOR_NETS, False),
        (OWN, {}, True),
    ],
)
def test_elsewhere_it_buys_nearly_as_much(prices, more, horizon):
    assert samples_over_headgate(prices, more, horizon) > 0.96


@pytest.mark.parametrize(
    ("smooth", "own_prices", "horizon"),
    [(0.0, False, 50), (0.25, True, 50), (0.0, True, None), (0.25, False, None)],
)
def test_with_windows_in_use_it_is_pure_and_causal_and_resumes_exactly(
    smooth, own_prices, horizon
):
    rising = Drift(2.0, 20.0, 50)
    prices = PerClient(rising, (0.8, 0.9, 1.0, 1.1, 1.2), 0.1) if own_prices else rising
    system, policy = a_system(horizon), Windows(smooth=smooth)
    found = rehearse(system, policy, prices, np.arange(8), 50)
    assert (found.ledger.memory["window"] < len(windows.WINDOWS)).any()
    check_policy(policy, system, 50, prices)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.25]))
def test_prices_that_wander_far_break_neither_the_purse_nor_the_floor(seed, smooth):
    draw, rounds = np.random.default_rng(seed), 60
    price = np.exp(np.cumsum(draw.normal(0, 0.3, rounds)))
    found = rehearse(
        System(SYSTEM.buffer, 40.0, rounds),
        Windows(smooth=smooth),
        Trace(tuple(price)),
        np.arange(1),
        rounds,
    )
    spent, number = found.spend[0].cumsum(), found.admitted[0].cumsum()
    assert spent[-1] <= 40.0 * rounds
    even = np.minimum(40.0 / price, SYSTEM.all_places).cumsum()
    rich = spent + SYSTEM.all_places * price <= 40.0 * rounds
    assert (number >= even - 1)[rich].all()


@given(st.lists(st.floats(0.1, 9.0), min_size=1, max_size=20), st.integers(1, 8))
def test_the_newest_of_a_longer_memory_are_those_of_a_shorter_one(prices, count):
    long, short = (latest_prices.unseen(1, each, costs=True) for each in (8, count))
    for price in prices:
        one = np.array([[price]])
        long, short = (
            latest_prices.remember(each, one, one + 1) for each in (long, short)
        )
    spend = np.array([1.3])
    today = np.array([prices[-1]])
    assert latest_prices.deserved(
        windows.newest(long, count), today, spend
    ) == pytest.approx(latest_prices.deserved(short, today, spend))
