"""Recipes in the words of earlier versions come to the same experiments as in today's."""

import pytest

from headgate.errors import SettingError
from headgate.experiment import build, load

SYSTEM = {"buffers": [3, 4], "budget": 9.0}
UNIFORM = {"kind": "uniform", "low": 1.0, "high": 5.0}
RUN = {"rounds": 9, "seeds": 2, "policies": ["headgate"]}
PLAIN = {"system": SYSTEM, "prices": UNIFORM, "run": RUN}


def tables(**sections):
    return build("any", {**PLAIN, **sections}).tables()


def policy(name, **settings):
    return tables(run={**RUN, "policies": [name]}, policies={name: settings})


@pytest.mark.parametrize(
    ("older", "today"),
    [
        (policy("headgate", retention="reservoir"), policy("headgate", rule="reservoir")),
        (policy("headgate", retention="static", ratio=0.25), policy("headgate", rule={"kind": "static", "ratio": 0.25})),
        (policy("headgate", K=4), policy("headgate", rule={"kind": "kstep", "K": 4, "capacity": "buffer"})),
        (policy("pacing", K=4, capacity=2), policy("pacing", rule={"kind": "kstep", "K": 4, "capacity": 2})),
        (policy("pi", capacity=2), policy("pi", rule={"kind": "fifo", "capacity": 2})),
        (
            policy("constant", retention="dynamic", capacity="buffer"),
            policy("constant", rule={"kind": "dynamic", "capacity": "buffer"}),
        ),
        (policy("acdpp", K=4, V="auto", rate="auto", rho="auto"), policy("acdpp", K=4)),
        (tables(data={"name": "digits"}), tables(data={"kind": "digits"})),
        (tables(model={"name": "lenet"}), tables(model={"kind": "lenet"})),
        (
            tables(data={"partition": "pairs", "per_class": 5, "alpha": 0.5}),
            tables(data={"partition": {"kind": "pairs", "per_class": 5}}),
        ),
        (tables(data={"partition": "iid", "per_client": 5}), tables(data={"partition": {"kind": "iid", "per_client": 5}})),
        (
            tables(data={"partition": "dirichlet", "alpha": 0.3}),
            tables(data={"partition": {"kind": "dirichlet", "alpha": 0.3}}),
        ),
        (
            tables(prices={**UNIFORM, "per_client": [0.5, 2.0], "client_noise": 0.25}),
            tables(prices={"kind": "per-client", "common": UNIFORM, "factors": [0.5, 2.0], "noise": 0.25}),
        ),
    ],
)
def test_flat_keys_are_read(older, today):
    assert older == today


def test_the_section_cost_is_read_and_overridden_by_either_name():
    older = {"system": SYSTEM, "cost": UNIFORM, "run": RUN}
    assert build("any", older).tables() == tables()
    assert load(older, ["cost.low=2.0"]).prices.low == load(older, ["prices.low=2.0"]).prices.low == 2.0
    assert load(PLAIN, ["cost.low=2.0"]).tables() == load(PLAIN, ["prices.low=2.0"]).tables()


def test_what_was_given_is_left_alone():
    older = {"system": SYSTEM, "cost": dict(UNIFORM), "run": RUN, "policies": {"headgate": {"retention": "reservoir"}}}
    build("any", older)
    assert older == {"system": SYSTEM, "cost": UNIFORM, "run": RUN, "policies": {"headgate": {"retention": "reservoir"}}}


def test_a_misspelt_older_key_is_still_refused():
    with pytest.raises(SettingError, match=r"policies.headgate.retnetion: unknown key"):
        policy("headgate", retnetion="reservoir")
