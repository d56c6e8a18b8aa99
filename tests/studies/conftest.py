"""The command line of the studies, as a fixture."""

import sys

import pytest

from headgate.cli.commands import play
from studies.__main__ import app


@pytest.fixture
def studies(monkeypatch, capsys):
    """What a command prints on both streams; it must end with `code`."""

    def typed(*words, code=0):
        monkeypatch.setattr(sys, "argv", ["studies", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            play(app)
        out, err = capsys.readouterr()
        assert (end.value.code or 0) == code, err
        return out, err

    return typed
