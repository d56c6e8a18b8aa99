import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import SettingError
from headgate.experiment.sections import Training
from headgate.learning.server import newest_share


@given(st.integers(1, 200), st.floats(0, 20))
def test_the_weights_of_all_rounds_sum_to_one_and_rise(rounds, eta):
    weights = np.zeros(rounds)
    for t in range(1, rounds + 1):
        share = newest_share(t, eta)
        weights *= 1 - share
        weights[t - 1] = share
    assert weights.sum() == pytest.approx(1)
    assert np.all(np.diff(weights) >= -1e-12)


def test_a_negative_average_is_refused():
    with pytest.raises(SettingError, match=r"^average = -1"):
        Training(average=-1.0)
    assert Training(average=None).average is None
