"""About how long an experiment takes on a GPU, before it is run there."""

from headgate.control.rehearse import rehearse
from headgate.experiment import Experiment

SECONDS = {"cifar10": (0.020, 200.0, 0.04), "imagenette": (0.170, 400.0, 0.06)}
"""ResNet-9 in bfloat16, E = 10, on an H200: seconds for a round of one run with so many samples, and for judging one model"""


def gpu_seconds(experiment: Experiment) -> float | None:
    """None where there is no measured time to go by."""
    if experiment.data.name not in SECONDS or experiment.model.name != "resnet9":
        return None
    round_s, samples, judge_s = SECONDS[experiment.data.name]
    seconds = 0.0
    for policy in experiment.policies.values():
        held = rehearse(experiment.system, policy, experiment.prices, experiment.seeds, experiment.rounds).n
        judged = -(-experiment.rounds // experiment.training.evaluate_every) * len(experiment.seeds)
        seconds += round_s * float(held.sum()) / samples + judge_s * judged
    return seconds
