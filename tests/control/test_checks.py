"""What a setting may be, and that a refusal names the setting and its value."""

import pytest

from headgate.control.checks import inside_unit, positive, whole_numbers, zero_or_more
from headgate.errors import SettingError

MIXED = [[1], [1, 2]]
"""numpy makes no array of it"""


@pytest.mark.parametrize(
    ("check", "value", "wanted"),
    [
        (positive, 0, "must be a positive, finite number"),
        (positive, 1e16, r"must not be beyond 1e\+15"),
        (positive, 1e-200, "must be at least 1e-100"),
        (positive, "7", "must be a positive, finite number"),
        (positive, MIXED, "must be a positive, finite number"),
        (zero_or_more, [1, -1], "must be a finite number, zero or more"),
        (zero_or_more, float("nan"), "must be a finite number, zero or more"),
        (inside_unit, 1, "must lie strictly between 0 and 1"),
        (inside_unit, MIXED, "must lie strictly between 0 and 1"),
        (whole_numbers, [1, 2.5], "must be whole numbers"),
        *(
            (whole_numbers, value, "must .*")
            for value in (10**400, [10**400], "x", None, MIXED, float("nan"), object())
        ),
        (whole_numbers, -(10**16), "must not be beyond 1,000,000,000,000,000"),
    ],
)
def test_a_setting_is_refused_by_name(check, value, wanted):
    with pytest.raises(SettingError, match=rf"^rate = .*: {wanted}$"):
        check("rate", value)
