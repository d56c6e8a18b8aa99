"""The command line, as a fixture."""

import sys

import pytest

from headgate.cli import main


@pytest.fixture
def headgate(monkeypatch, capsys):
    """What a command prints on both streams; it must end with `code`."""

    def typed(*words, code=0):
        monkeypatch.setattr(sys, "argv", ["headgate", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        assert (end.value.code or 0) == code, err
        return out, err

    return typed
