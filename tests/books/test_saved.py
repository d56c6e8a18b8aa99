"""What purchases saved beside even ones, by hand and by the controller, and that show,
export and replay say the same.
"""

import csv
import json

import numpy as np
import pytest

from headgate import Books, Delivery, System, replay
from headgate.books.saved import BoughtRound, money_text, saved
from headgate.control import Controller, Supply
from headgate.control.policies import Below, Headgate


def bought_round(price, bought, places):
    price, bought = np.array(price, float), np.array(bought)
    return BoughtRound(price, bought, float((price * bought).sum()), np.array(places))


@pytest.mark.parametrize(
    ("rounds", "even_cost", "even_labels"),
    [
        # 6 labels at (1 + 2 + 6)/3; 4 money a round, 1 left over where places end
        (
            [([1], [5], [5]), ([2], [1], [5]), ([6], [0], [5])],
            18.0,
            7 / 3 + 7 / 6 + 7 / 18,
        ),
        # nothing could be bought in round 2: it does not count
        ([([1], [4], [4]), ([9], [0], [0]), ([3], [0], [4])], 8.0, 2 + 2 / 3),
        # each client's labels at its own mean price
        (
            [([1, 4], [4, 0], [4, 4]), ([3, 2], [0, 4], [4, 4])],
            4 * 2 + 4 * 3,
            6 / 20 * 8 + 6 / 20 * 8,
        ),
        # client 1 joins in round 2
        ([([2], [3], [3]), ([4, 1], [0, 3], [3, 3])], 9 + 3, 4.5 / 2 + 4.5 / 15 * 6),
        # what round 1 cannot spend is left to round 2
        ([([1], [2], [2]), ([4], [2], [9])], 10.0, 2 + 8 / 4),
        # labels for nothing
        ([([0], [2], [2]), ([3], [0], [2])], 3.0, 2.0),
        ([], 0.0, 0.0),
    ],
    ids=["one price", "closed", "own prices", "joined", "full", "free", "no round"],
)
def test_even_buyers_pay_what_a_calculation_by_hand_says(
    rounds, even_cost, even_labels
):
    found = saved([bought_round(*each) for each in rounds])
    assert found.even_cost == pytest.approx(even_cost)
    assert found.even_labels == pytest.approx(even_labels)


@pytest.mark.parametrize("clients", [0, 3])
def test_the_even_spender_gets_as_much_as_a_policy_that_spends_evenly(clients):
    """Whole labels alone make the difference."""
    buffer, rounds = np.array([8, 9, 10]), 60
    draw = np.random.default_rng(3)
    prices = draw.uniform(0.1, 4.0, (rounds, clients or 1))
    supplies = [Supply(most=draw.integers(0, 11, 3)) for _ in range(rounds)]
    played = [
        bought_round(price, [0, 0, 0], supply.places(System(buffer, 1.0), None, 1))
        for price, supply in zip(prices, supplies, strict=True)
    ]
    played[0] = played[0]._replace(paid=900.0)
    found = saved(played)

    controller = Controller(System(buffer, 15.0, rounds), Below(quantile=1.0, fill=0.0))
    ledger = controller.open()
    for price, supply in zip(prices, supplies, strict=True):
        orders = controller.decide(
            ledger, price[None] if clients else price, supply=supply
        )
        ledger = controller.post(ledger, orders)
    bought = int(ledger.ever[0])
    assert bought > 300
    assert found.even_labels == pytest.approx(bought, rel=0.01)


def test_a_sentence_tells_savings_losses_and_what_cannot_be_known():
    cheap, dear = bought_round([1], [2], [9]), bought_round([3], [0], [9])
    said = saved([cheap, dear]).sentence("$")
    assert said.startswith(
        "2 labels for $ 2.00, $ 1.00 each; bought evenly at the same prices: $ 2.00"
        " each; saved $ 2.00 (50 %). The same money spent evenly,"
    )
    late = [bought_round([1], [0], [9]), bought_round([3], [2], [9])]
    assert "; cost $ 2.00 more (50 %). The same" in saved(late).sentence("$")
    steady = [cheap, bought_round([1], [0], [9])]
    assert saved(steady).sentence().endswith("so there was nothing to save.")
    both = [bought_round([1], [2], [9]), bought_round([3], [2], [9])]
    assert "saved nothing" in saved(both).sentence()
    assert saved([dear]).sentence() == "No label was bought yet."


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (389.619, "€ 389.62"),
        (0.07628, "€ 0.0763"),
        (0.9999, "€ 1.00"),
        (-0.5, "€ −0.50"),
    ],
)
def test_amounts_have_two_to_four_digits(amount, said):
    assert money_text(amount, "€") == said


PRICES = (3.0, 9.5, 9.5, 1.2, 6.0, 0.5)


@pytest.fixture(params=[False, True], ids=["one price", "own prices"])
def accounts(request, place):
    """Accounts in which a client is away, one delivers less and purchases rest."""
    system = System([8, 9], budget=20.0, horizon=7, currency="$")
    with Books(place, system, Headgate(fill=8.0)) as own:
        for t, price in enumerate(PRICES, 1):
            if t == 3:
                own.amend(suspend=True)
            if t == 4:
                own.amend(suspend=False, join=4)
            prices = price
            if request.param:
                prices = price * np.linspace(1.0, 1.5, own.system.clients)
            there = [0] if t == 2 else None
            orders = own.begin(prices, present=there)
            reports = {each.client: each.samples for each in orders}
            if t == 4:
                reports[1] = Delivery(3)
            own.settle(reports)
        own.adjust(1, 0, -1.5)
    return place


def test_show_export_and_replay_of_accounts_agree(accounts, tmp_path, headgate):
    out, _ = headgate("ledger", "show", accounts, "--format", "json")
    shown = json.loads(out)
    csv_file = tmp_path / "orders.csv"
    headgate("ledger", "export", accounts, "--out", csv_file)
    with csv_file.open() as file:
        rows = list(csv.DictReader(file))
    assert {int(row["round"]) for row in rows} == set(range(1, len(PRICES) + 1))
    labels = sum(int(row["delivered"]) for row in rows)
    charged = sum(float(row["charged"]) for row in rows)
    assert shown["saved"]["labels"] == labels > 0
    assert shown["saved"]["paid"] == pytest.approx(charged)
    assert "$ −1.50 in all, are not in this" in shown["sentence"]

    of_accounts, of_file = replay(accounts), replay(csv_file)
    assert of_accounts.you.samples == of_file.you.samples == labels
    assert of_file.you.paid == pytest.approx(charged)
    assert str(of_accounts) == str(of_file)
    assert of_accounts.frame.height == len(PRICES)
    assert of_file.sentence.startswith("You paid $ ")
    printed, _ = headgate("replay", accounts)
    assert f"for {labels} samples from 1 to {len(PRICES)}" in printed


def test_a_statement_is_printed_as_the_command_shows_it(accounts, headgate):
    out, _ = headgate("ledger", "show", accounts)
    with Books(
        accounts, System([8, 9], 20.0, 7, currency="$"), Headgate(fill=8.0)
    ) as own:
        text = str(own.statement())
    assert out.splitlines() == text.splitlines()
    assert text.startswith("round 6 of 7, 3 clients\napproved $ 140.00, spent $ ")
    assert "each; bought evenly at the same prices: $ " in text.replace("\n", " ")
    assert max(map(len, text.splitlines())) <= 80
