"""Progress where nobody sees a bar: plain lines, few of them, and silence where it is
asked for.
"""

import io
import re
import sys

import pytest
from rich.console import Console

from headgate import progress


@pytest.fixture
def hurried(monkeypatch):
    """Every second call is due."""
    clock = iter(range(10_000))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(progress, "FIRST", 2.0)
    monkeypatch.setattr(progress, "NEXT", 2.0)


def test_lines_say_what_is_done_and_what_is_left_and_a_name_commands_no_terminal(
    hurried, capsys
):
    with progress.counted("learning \x1b[31mred\n") as tick:
        for done in range(1, 9):
            tick(done, 8)
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) <= 5
    for line in lines:
        assert re.fullmatch(
            r"learning \\x1b\[31mred\\n: \d of 8 rounds, \d:\d\d:\d\d",
            line,
        )


def test_estimates_are_right_within_a_factor_of_two_where_first_rounds_compile(
    capsys, monkeypatch
):
    """66 s: the first 5 of 1,080 rounds take 10 s, the others 52 ms each."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "NEXT", 2.0)
    console = Console(stderr=True, get_time=lambda: now[0])
    with progress.LinesOfProgress("rounds", console) as bar:
        task = bar.add_task("learning", total=None)
        for second in range(1, 66):
            now[0] = float(second)
            done = 5 * (second >= 10) + max(round((second - 10) / 56 * 1075), 0)
            bar.update(task, completed=done, total=1080)
    pattern = re.compile(r"(\d+) of 1,080 rounds, 0:(\d\d):(\d\d)(.*)")
    lines = capsys.readouterr().err.replace("1,0", "10").replace("of 1080", "of 1,080")
    found = [match.groups() for match in pattern.finditer(lines)]
    estimates = [each for each in found if each[3]]
    assert not any(int(done) < 54 for done, *_ in estimates)
    assert len(estimates) > 10
    for _, minutes, seconds, said in estimates:
        left = 66 - 60 * int(minutes) - int(seconds)
        (about,) = re.findall(r", about 0:00:(\d\d) left", said)
        assert left / 2 - 1 <= int(about) <= 2 * left + 1


def test_nothing_is_said_before_the_first_seconds_are_over_or_where_one_is_quiet(
    hurried, capsys, monkeypatch
):
    with progress.counted("learning", quiet=True) as tick:
        for done in range(8):
            tick(done, 8)
    monkeypatch.setattr(progress, "FIRST", 1e6)
    with progress.ticked("rehearsing", 100) as tick_round:
        for t in range(100):
            tick_round(t)
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress.counted("learning") as tick:
        tick(3, 8)
    assert "3/8" in screen.getvalue()
    assert "learning:" not in screen.getvalue()
