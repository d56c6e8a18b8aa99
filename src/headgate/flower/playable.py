"""The experiments that can run on Flower. This file needs no Flower."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from headgate.errors import SettingError
from headgate.escaping import shown
from headgate.experiment import Experiment
from headgate.flower.rules import stated
from headgate.registry import SELECTION, Unnamed, table_of


class StatedRules(NamedTuple):
    """The fields of an order that state how clients drop and choose samples."""

    rule: str
    settings: str
    choice: str


def check_playable(experiment: Experiment) -> StatedRules:
    """Return the rules as orders state them; refuse an experiment that cannot run on
    Flower.
    """
    if len(experiment.policies) != 1 or len(experiment.seeds) != 1:
        found = (
            f"run.policies = {list(experiment.policies)}, run.seeds ="
            f" {len(experiment.seeds)}"
        )
        raise SettingError(f"{found}: a run on Flower has one policy and one seed")
    if experiment.data.delays is not None:
        raise SettingError(
            f"data.delay = {shown(experiment.data.delay)}: is for a simulation; on"
            " Flower, samples arrive when clients report them"
        )
    ((name, policy),) = experiment.policies.items()
    which = "retention"
    try:
        rule, settings = stated(policy.retention(experiment.system))
        which = "buying"
        return StatedRules(rule, settings, _stated_choice(experiment))
    except Unnamed as error:
        raise Unnamed(
            f"policies.{name}: clients on Flower must know its {which} rule by name:"
            f" {error}"
        ) from None


def _stated_choice(experiment: Experiment) -> str:
    """Return the field `choice` of an order as JSON; empty if clients have no choice of
    what to buy.
    """
    (policy,), data = experiment.policies.values(), experiment.data
    if not data.chooses(policy.selection):
        return ""
    rule = table_of(SELECTION, policy.selection)
    return json.dumps({"rule": rule, "window": data.window, "keep": data.keep})


def without_folder(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a recipe without the folder of its modules."""
    run = {key: value for key, value in tables["run"].items() if key != "folder"}
    return {**tables, "run": run}
