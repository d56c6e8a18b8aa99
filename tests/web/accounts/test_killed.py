"""The service is killed at random moments: no round twice, no cent lost, and each
request that is sent again is answered the same.
"""

import pytest

from .killed import killed


@pytest.mark.parametrize("kills", [3, pytest.param(200, marks=pytest.mark.long)])
def test_what_is_cut_off_is_asked_again_and_done_once(tmp_path, kills):
    answered, again = killed(tmp_path / "accounts", kills, seed=kills)
    assert answered > 10
    assert again >= kills
