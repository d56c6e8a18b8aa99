"""The planner behind the page: a system, prices and a policy in; K, money, memory and bounds out, within a moment.

What is asked is put together as a recipe and built as any other, so the answer is that of `headgate plan` on the file that
comes back with it, or of `headgate rehearse` where K or another number of the policy was stated.
"""

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tomli_w

from headgate.analysis.curves import thinned
from headgate.analysis.planned import POINT, plan_json
from headgate.analysis.rehearsal import summarise
from headgate.control.plan import Plan, plan
from headgate.control.policies.references.foresight import foresee
from headgate.control.rehearse import Rehearsal, rehearse
from headgate.control.types import Floats
from headgate.experiment import Experiment
from headgate.registry import checked
from headgate.theory.comparison import oracle_bound
from headgate.web.answers import number, plain, with_interval
from headgate.web.asking import PlanRequest, built, check_waiting, command
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
        asked = checked(PlanRequest, dict(raw), "plan")
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
        experiment, recipe = built(asked)
        check_waiting(experiment)
        policy = experiment.policies[asked.policy]
        stated = asked.K is not None or bool({"rate", "V", "rho"} & asked.options.keys())
        made = plan(experiment.given_for(policy), policy, asked.gamma, asked.phi, tick, search=not stated)
        if made.candidates:
            recipe["policies"][asked.policy] |= {name: made.setting(name) for name in POINT}
        told = _answer(experiment, asked.policy, made)
        told |= self._foresight(experiment, made.rehearsal, recipe)
        toml = tomli_w.dumps(recipe)
        return told | {
            "trace": _trace(experiment, asked.policy, made, tick) if asked.trace else None,
            "toml": toml,
            "command": command(toml, stated, asked),
        }

    def _foresight(self, experiment: Experiment, result: Rehearsal, recipe: Mapping[str, Any]) -> dict[str, Any]:
        """The least surrogate cost at the first seed's prices, beside what the policy came to at the same."""
        own = float(result.penalty(experiment.bound)[0].sum())
        key = json.dumps([recipe[part] for part in ("system", "prices", "bound")] + [experiment.rounds])
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


def _answer(experiment: Experiment, name: str, made: Plan) -> dict[str, Any]:
    k, system, rounds, result = experiment.bound, experiment.system, experiment.rounds, made.rehearsal
    summary = summarise(experiment, name, result)
    oracle = oracle_bound(system.buffer, rounds, k)
    return {
        **{key: said if isinstance(said, str) else number(said) for key, said in plan_json(experiment, name, made).items()},
        "rounds": rounds,
        "seeds": len(experiment.seeds),
        "budget": system.budget,
        "spend_share": summary.spend_per_round / system.budget,
        "runs_over_budget": summary.runs_over_budget,
        "dearest_share": summary.dearest_share,
        "memory": system.memory,
        "peak_n": summary.peak_n,
        "peak_buffer": made.peak_buffer,
        "peak_client": made.peak_client,
        "peak_places": int(system.buffer[made.peak_client]),
        "peak_excess": summary.peak_excess,
        "N": summary.N,
        "n_eff": number(summary.n_eff),
        "surrogate": number(result.penalty(k).sum(axis=-1).mean()),
        "candidates": _candidates(made),
        "curves": _curves(result, result.bound(k), oracle),
    }


def _candidates(made: Plan) -> list[dict[str, Any]]:
    shown = ("K", "rate", "spend", "bound", "cost_violation", "buffer_violation", "peak_buffer")
    return [
        {name: number(getattr(each, name)) for name in shown}
        | {"K": each.K, "peak_buffer": each.peak_buffer, "chosen": made.setting("K") == each.K}
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
    bound = float(foresee(prices, system, experiment.bound, tolerance=1e-3).bound[0])
    return (bound, "") if np.isfinite(bound) and bound > 0 else (0.0, "the money does not buy a sample in the first round")


def _trace(experiment: Experiment, name: str, made: Plan, tick: Callable[[int], None]) -> dict[str, Any]:
    """The first seed's run, client by client."""
    system, seeds = experiment.system, experiment.seeds[:1]
    prices = experiment.given_for(made.policy).prices
    one = rehearse(system, made.policy, prices, seeds, experiment.rounds, tick, by_client=True)
    assert one.held_by_client is not None
    assert one.admitted_by_client is not None
    columns = {key: getattr(one, key)[0] for key in ("price", "spend", "debt", "admitted", "n", "N")}
    columns |= {"spent": np.cumsum(one.spend[0]), "accuracy": np.full(one.rounds, np.nan)}
    told = rehearsed_trace(columns, system.buffer.tolist(), one.held_by_client[0], one.admitted_by_client[0])
    return {
        "name": None,
        "policy": name,
        "seed": int(seeds[0]),
        "policies": [name],
        "seeds": seeds.tolist(),
        "state": "finished",
        "rounds": one.rounds,
        "budget": system.budget,
        **told,
        "K": made.setting("K"),
    }
