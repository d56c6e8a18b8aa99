"""What models say of samples, asked of a learner by who decides, and what that takes."""

import time

from headgate.control.scores import Scores
from headgate.control.types import Ints
from headgate.records.scored import Scored
from headgate.simulation.learner import Learner, Models


class Scoring:
    """Counts as it asks. What was counted goes on with a run that is resumed."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.took = learner, Scored()

    def __call__(self, models: Models, asked: tuple[str, ...], runs: Ints, rows: Ints) -> Scores:
        """Of rows of the training set, each under the model of its run, one after the other."""
        began = time.perf_counter()
        found = self.learner.scores(models, asked, runs, rows)
        self.took = Scored(self.took.samples + len(rows), self.took.seconds + time.perf_counter() - began)
        return found
