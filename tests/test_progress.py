"""A terminal gets a bar; files, pipes and those who asked for silence get nothing."""

import io
import sys

import pytest

from headgate import progress


class Screen(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.mark.parametrize(("terminal", "quiet"), [(True, False), (True, True), (False, False)])
def test_a_terminal_gets_a_bar_and_nobody_else(monkeypatch, terminal, quiet):
    screen = Screen(terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress.counted("run \x1b[31mred\n", quiet) as tick:
        tick(3, 8)
    with progress.ticked("rehearsing", 100, quiet) as tick_round:
        for t in range(100):
            tick_round(t)
    shown = terminal and not quiet
    assert ("3/8" in screen.getvalue(), "100/100" in screen.getvalue()) == (shown, shown)
    assert "\x1b[31mred" not in screen.getvalue()
    assert shown or not screen.getvalue()
