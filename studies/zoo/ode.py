"""ODE: of each class the samples that pull the way all samples pull together.

Source: Gong et al., *To store or not? Online data selection for federated learning with
limited storage* (WWW 2023), and gongchenooo/WWW23-ODE (facts only, no licence). A
sample is worth ⟨∇ℓ, ĝ⟩, how far a step along it takes the mean loss down; each class
has a queue that the least worth leaves. Assumes that ĝ is like the gradient of all
clients' data.

What is simpler here: ĝ is the mean gradient of the client's own samples, held and new,
by the last layer and by the model of this round. There it is the mean over all that
came since the client last took part, put together by the server; so where clients have
different classes, ours points towards their own. Samples held are valued again in every
round. Their weights in training, which give back the shares that the classes have in
the stream, are left out, and so is the server's choice of who stores which class: each
client stores what comes.
"""

from headgate.control.ranking import Candidates, ordered, rank_within
from headgate.control.retention import Retention
from headgate.control.types import Floats, Ints


class ODE(Retention):
    """Places are split evenly over the classes that a client has; of each class those
    stay whose gradients point most along the mean gradient of all that the client has.
    Without a model lots decide, as in `reservoir`."""

    by_class = True
    scores = ("error", "features")

    def rank(self, candidates: Candidates) -> Ints | Floats:
        if candidates.scores is None:
            return candidates.draw()
        error, features = candidates.scores.error, candidates.scores.features
        assert error is not None
        assert features is not None
        together = error.transpose(0, 2, 1) @ features  # a gradient is error ⊗ features
        value = ((error @ together) * features).sum(
            axis=-1
        )  # along their mean it is an n-th of that
        turn = ordered(
            -value, -candidates.position
        )  # by worth; of equal ones the newer first
        return ordered(rank_within(candidates.group, turn, turn), turn)
