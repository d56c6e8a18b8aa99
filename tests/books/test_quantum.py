"""Orders are rounded to a quantum: floats and exact sums agree to the cent, the budget
holds, and everything replays.
"""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import Books, Delivery, System, load
from headgate.control.charges import costs, exactly
from headgate.control.policies import Constant, Headgate
from headgate.errors import LedgerError, SettingError
from headgate.nvflare.settings import plain_system


@given(
    st.one_of(
        st.floats(0.0, 1e6),
        st.floats(0.0, 1e300),
        st.integers(0, 10**7).map(lambda mills: mills / 2000),
    ),
    st.integers(0, 10**5),
    st.sampled_from([1.0, 0.1, 0.01, 0.001, None]),
)
def test_floats_are_the_nearest_to_the_exact_costs(price, samples, quantum):
    exact = exactly(price, samples, quantum)
    (cost,) = costs([price], [samples], quantum)
    if quantum is None:
        assert cost == price * samples
    else:
        assert cost == float(exact)
        assert abs(exact - exactly(price, samples)) <= Decimal(str(quantum)) / 2


@pytest.mark.parametrize("policy", [Headgate(), Constant(K=3, rate=9.0)])
@pytest.mark.parametrize("own_prices", [False, True])
def test_every_order_is_whole_cents_within_the_budget_and_replays(
    place, policy, own_prices
):
    system = System([8, 9, 10], budget=0.7, horizon=40, currency="$", quantum=0.01)
    draw = np.random.default_rng(5)
    waiting = {}
    for start in (0, 20):
        with Books(place, system, policy) as own:
            for t in range(start + 1, start + 21):
                price = draw.uniform(0.001, 0.2, 3 if own_prices else None)
                reports = {}
                for each in own.begin(price):
                    if each.client == 1 and t % 3:  # reports later, and less
                        waiting[each.round] = each.samples
                        continue
                    reports[each.client] = each.samples
                if 1 in reports:
                    late = {
                        r: Delivery(cancelled=n, round=r) for r, n in waiting.items()
                    }
                    reports[1] = list(late.values())
                    waiting.clear()
                own.settle(reports)
            found = own.audit()
            assert float(own.ledger.spent[0]) == pytest.approx(float(found.spent))
    assert 0 < found.spent <= Decimal("28.00")
    for line in found.lines:
        assert line.charged == line.charged.quantize(Decimal("0.01"))
        exact = exactly(float(line.price), line.delivered)
        assert abs(line.charged - exact) <= Decimal("0.005")
    if isinstance(policy, Headgate):
        assert found.spent + found.reserved > Decimal("24.00")
    with pytest.raises(LedgerError, match=r"was opened with quantum = 0.01, this"):
        Books(place, System([8, 9, 10], 0.7, 40, currency="$"), policy)


def test_a_quantum_is_a_power_of_ten_and_travels_with_recipe_and_job():
    for wrong in (0.03, 0.0, -0.01, "cent"):
        with pytest.raises(SettingError, match="quantum"):
            System([8], 1.0, quantum=wrong)
    e = load("digits", "system.quantum=0.01")
    assert e.system.quantum == 0.01
    assert e.tables()["system"]["quantum"] == 0.01
    assert "quantum" not in load("digits").tables()["system"]
    job = {"buffer": [4], "budget": 1.0, "quantum": 0.01}
    assert plain_system("system", job)["quantum"] == 0.01
