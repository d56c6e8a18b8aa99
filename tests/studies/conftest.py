"""The command line of the studies, as a fixture."""

from functools import partial

import pytest

from headgate.cli.commands import play
from studies.__main__ import app


@pytest.fixture
def studies(typed):
    return partial(typed, "studies", main=partial(play, app))
