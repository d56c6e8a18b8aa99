import numpy as np
import pytest

from headgate.errors import SettingError
from headgate.learning.server import aggregation_weights

ALPHA = np.array([0.5, 0.25, 0.25])
N = np.array([[2, 4, 0], [0, 0, 0]])


@pytest.mark.paper("eq:global-aggregation")
@pytest.mark.parametrize(
    ("rule", "expected"), [("memory", [0.5, 0.5, 0.0]), ("alpha", [2 / 3, 1 / 3, 0.0]), ("uniform", [0.5, 0.5, 0.0])]
)
def test_weights(rule, expected):
    weights = aggregation_weights(rule, ALPHA, N)
    assert weights[0] == pytest.approx(expected)
    assert weights[1].tolist() == [0.0, 0.0, 0.0]


def test_an_unknown_rule_is_named():
    with pytest.raises(SettingError, match=r"training.aggregation = median"):
        aggregation_weights("median", ALPHA, N)
