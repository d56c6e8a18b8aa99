"""A grey and a coloured data set."""

import pytest

from .written import Sample


@pytest.fixture(scope="module")
def grey() -> Sample:
    return Sample(1, 28)


@pytest.fixture(scope="module")
def colour() -> Sample:
    return Sample(3, 32)
