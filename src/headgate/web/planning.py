"""The planner behind the page: a system, prices and a policy in; K, money, memory and bounds out, within a moment.

What is asked is put together as a recipe and built as any other, so the answer is that of `headgate plan` or
`headgate rehearse` on the file that comes back with it.
"""

import json
import threading
import time
import tomllib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tomli_w

from headgate.analysis.curves import thinned
from headgate.analysis.rehearsal import summarise
from headgate.control.controller import Controller
from headgate.control.plan import Plan, plan
from headgate.control.policies import Acdpp
from headgate.control.policies.drift.dpp import Dpp
from headgate.control.policies.references.foresight import clairvoyant
from headgate.control.rehearse import Rehearsal, rehearse
from headgate.control.types import AdmissionPolicy, Floats
from headgate.experiment import Experiment
from headgate.experiment.parse import parse
from headgate.theory.comparison import oracle_bound
from headgate.web.answers import number, plain, with_interval
from headgate.web.asking import PlanRequest, build_recipe, built, check_waiting, command
from headgate.web.gate import rehearsed_trace
from headgate.web.uploads import Refused

FORESIGHT = 3e7
"""rounds times samples that can be bought: beyond it the clairvoyant takes more than a moment"""
POINTS = 500


class Superseded(Refused):
    def __init__(self) -> None:
        super().__init__(409, "page: a newer request has taken the place of this one")


class Planner:
    """Answers; remembers the last few clairvoyant bounds, which change with few of the sliders."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[str, object] = {}
        self._bounds: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def arrive(self, raw: Mapping[str, Any]) -> Callable[[], dict[str, Any]]:
        """The work to be done for a request, which may have to wait; older work of the same page is given up now."""
        began, me = time.perf_counter(), object()
        asked = parse(PlanRequest, dict(raw), "plan")
        if asked.page:
            with self._lock:
                self._newest[asked.page] = me

        def tick(t: int) -> None:
            if asked.page and self._newest.get(asked.page) is not me:
                raise Superseded

        def work() -> dict[str, Any]:
            try:
                tick(0)
                with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                    told = self._worked_out(asked, tick)
                return told | {"took_ms": round(1e3 * (time.perf_counter() - began), 1)}
            finally:
                with self._lock:
                    if self._newest.get(asked.page) is me:
                        del self._newest[asked.page]

        return work

    def answer(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        return self.arrive(raw)()

    def _worked_out(self, asked: PlanRequest, tick: Callable[[int], None]) -> dict[str, Any]:
        experiment, recipe, prices = built(asked)
        check_waiting(experiment)
        policy, made = experiment.policies[asked.policy], None
        if isinstance(policy, Acdpp) and asked.K is None and not {"rate", "V", "rho"} & asked.options.keys():
            args = experiment.system, experiment.prices, experiment.bound, policy, experiment.seeds
            made = plan(*args, asked.gamma, asked.phi, tick)
            point = {"K": made.chosen.K, "rate": made.chosen.rate, "V": made.V, "rho": made.rho}
            recipe["policies"][asked.policy] |= point
            result = made.rehearsal
        else:
            result = rehearse(experiment.system, policy, experiment.prices, experiment.seeds, experiment.rounds, tick)
        told = _answer(experiment, asked, made, policy, result)
        told |= self._foresight(experiment, result, recipe, prices)
        toml = tomli_w.dumps(recipe)
        traced = _trace(experiment, asked.policy, toml, prices, tick) if asked.trace else None
        return told | {
            "trace": traced,
            "toml": toml,
            "prices_csv": prices,
            "command": command(toml, prices, made is not None, asked),
        }

    def _foresight(
        self, experiment: Experiment, result: Rehearsal, recipe: Mapping[str, Any], prices: str | None
    ) -> dict[str, Any]:
        """The least surrogate cost at the first seed's prices, beside what the policy came to at the same."""
        own = float(result.penalty(experiment.bound)[0].sum())
        key = json.dumps([recipe[part] for part in ("system", "prices", "bound")] + [experiment.rounds, prices])
        known = self._bounds.get(key)
        if known is None:
            known = _least(experiment)
            with self._lock:
                self._bounds[key] = known
                while len(self._bounds) > 16:
                    self._bounds.popitem(last=False)
        least, note = known
        if note or not np.isfinite(own):
            return {"clairvoyant": None, "clairvoyant_note": note or "the policy had no sample in the first rounds"}
        found = {"bound": least, "surrogate": own, "ratio": own / least, "seeds": 1}
        return {"clairvoyant": found, "clairvoyant_note": ""}


def _answer(
    experiment: Experiment, asked: PlanRequest, made: Plan | None, policy: AdmissionPolicy, result: Rehearsal
) -> dict[str, Any]:
    k, system, rounds = experiment.bound, experiment.system, experiment.rounds
    summary = summarise(experiment, asked.policy, result)
    oracle = oracle_bound(system.buffer, rounds, k)
    peak = result.peak_occupancy.max(axis=0)
    over = int(np.argmax(peak - system.buffer))
    return {
        "policy": asked.policy,
        **_point(made, policy, rounds),
        "why": made.why if made is not None else "as asked for",
        "rounds": rounds,
        "seeds": len(experiment.seeds),
        "budget": system.budget,
        "spend": summary.spend_per_round,
        "spend_share": summary.spend_per_round / system.budget,
        "overspending_runs": summary.overspending_runs,
        "cost_violation": summary.cost_violation,
        "buffer_violation": summary.buffer_violation,
        "memory": system.memory,
        "peak_n": summary.peak_n,
        "peak_buffer": int(peak[over]),
        "peak_client": over,
        "peak_excess": summary.peak_excess,
        "N": summary.N,
        "n_eff": number(summary.n_eff),
        "bound": number(summary.bound),
        "oracle_bound": float(oracle.sum()),
        "regret": number(summary.regret),
        "surrogate": number(result.penalty(k).sum(axis=-1).mean()),
        "candidates": [] if made is None else _candidates(made),
        "curves": _curves(result, result.bound(k), oracle),
    }


def _point(made: Plan | None, policy: AdmissionPolicy, rounds: int) -> dict[str, Any]:
    if made is not None:
        return {"K": made.chosen.K, "rate": made.chosen.rate, "V": made.V, "rho": made.rho}
    K, rate = getattr(policy, "K", None), getattr(policy, "rate", None)
    V = rho = None
    if isinstance(policy, Dpp):
        V = float(policy.V) if policy.V is not None else rounds**policy.gamma
    if isinstance(policy, Acdpp):
        rho = float(policy.rho) if policy.rho is not None else 1.0 - rounds**-policy.phi
    return {"K": None if K is None else int(K), "rate": None if rate is None else float(rate), "V": V, "rho": rho}


def _candidates(made: Plan) -> list[dict[str, Any]]:
    shown = ("K", "rate", "spend", "bound", "cost_violation", "buffer_violation", "peak_buffer")
    return [
        {name: number(getattr(each, name)) for name in shown}
        | {"K": each.K, "peak_buffer": each.peak_buffer, "chosen": each is made.chosen}
        for each in made.candidates
    ]


def _curves(result: Rehearsal, bound: Floats, oracle: Floats) -> dict[str, Any]:
    places = thinned(result.rounds, POINTS)
    lines = {
        "price": result.price,
        "spend": result.spend,
        "spent": np.cumsum(result.spend, axis=1),
        "debt": result.debt,
        "admitted": result.admitted,
        "n": result.n,
        "N": result.N,
        "n_eff": result.n_eff,
        "bound": bound,
    }
    series = {name: with_interval(np.asarray(values[:, places], dtype=np.float64)) for name, values in lines.items()}
    series["oracle_bound"] = {"mean": plain(oracle[places]), "half": [None] * len(places)}
    return {"t": (places + 1).tolist(), "series": series}


def _least(experiment: Experiment) -> tuple[float, str]:
    """The clairvoyant bound at the first seed's prices; or why there is none."""
    system, rounds = experiment.system, experiment.rounds
    prices = experiment.prices.path(experiment.seeds[:1], 1, rounds + 1)
    if prices.ndim != 2:
        return 0.0, "every client has a price of its own, for which there is no clairvoyant bound"
    affordable = 1 + np.searchsorted(np.cumsum(np.sort(prices[0]) * system.memory), system.budget * rounds)
    if rounds * system.memory * min(int(affordable), rounds) > FORESIGHT:
        return 0.0, "too many rounds and samples to solve while you wait"
    bound = float(clairvoyant(prices, system, experiment.bound, tolerance=1e-3).bound[0])
    return (bound, "") if np.isfinite(bound) and bound > 0 else (0.0, "the money does not buy a sample in the first round")


def _trace(experiment: Experiment, name: str, toml: str, prices: str | None, tick: Callable[[int], None]) -> dict[str, Any]:
    """The first seed's run, client by client, with the point that was chosen."""
    recipe = tomllib.loads(toml)
    recipe["run"]["seeds"] = 1
    one = build_recipe(recipe, prices)
    controller = Controller(one.system, one.policies[name], 1)
    ledger, held, admitted = controller.open(), [], []
    columns: dict[str, list[float]] = {key: [] for key in ("price", "spend", "spent", "debt", "admitted", "n", "N", "accuracy")}
    path = one.prices.path(one.seeds, 1, one.rounds + 1)
    for t in range(one.rounds):
        orders = controller.decide(ledger, np.ascontiguousarray(path[:, t]))
        after = controller.post(ledger, orders)
        held.append(after.occupancy[0])
        admitted.append(orders.admitted[0])
        money = [orders.price.mean(), orders.charge(orders.admitted)[0], after.spent[0], ledger.debt[0]]
        samples = [orders.admitted.sum(), after.occupancy.sum(), after.distinct[0], np.nan]
        for column, value in zip(columns.values(), money + samples, strict=True):
            column.append(float(value))
        ledger = after
        tick(ledger.t)
    arrays = {key: np.array(values) for key, values in columns.items()}
    told = rehearsed_trace(arrays, one.system.buffer.tolist(), np.array(held), np.array(admitted))
    K = getattr(one.policies[name], "K", None)
    return {
        "name": None,
        "policy": name,
        "seed": int(one.seeds[0]),
        "policies": [name],
        "seeds": one.seeds.tolist(),
        "state": "finished",
        "rounds": one.rounds,
        "budget": one.system.budget,
        **told,
        "K": None if K is None else int(K),
    }
