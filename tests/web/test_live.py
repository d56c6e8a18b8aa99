"""Server-sent events: rounds as they land, states, reconnecting after a restart, and nothing left behind."""

import threading
import time

import pytest

from .folders import MadeUp, change_state, nobody
from .served import Served


def until(true, seconds=120):
    """Waits for what another thread does."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "did not come true"
        time.sleep(0.01)


@pytest.fixture
def run(tmp_path):
    return MadeUp(tmp_path / "run", parts=True).play(3)


def test_rounds_and_states_are_told_as_they_come(run):
    with Served(run.folder.parent, pause=0.02) as page, page.events("run") as events:
        assert next(events) == ("state", 12, {"name": "run", "round": 3, "rounds": 12, "state": "running", "diverged": 0})
        run.play(1, ["constant"])  # one part is ahead of the other
        kind, number, data = next(events)
        assert (kind, number, data["round"]) == ("round", 14, 3)
        run.play(1, ["acdpp"])
        assert next(events)[:2] == ("round", 16)
        run.say("running", diverged=[("acdpp", 1)])
        kind, number, data = next(events)
        assert (kind, number, data["diverged"]) == ("state", 16, 1)
        change_state(run.folder, pid=nobody())
        assert next(events)[2]["state"] == "interrupted"
        run.play(1)
        seen = {next(events)[0], next(events)[0]}  # in either order; and a look between the two parts sees two rounds
        assert seen == {"round", "state"} or (seen == {"round"} and next(events)[0] == "state")
        run.finish()
        rest = list(events)
        assert rest[-1][0] == "state"
        assert rest[-1][2] == {"name": "run", "round": 12, "rounds": 12, "state": "finished", "diverged": 0}
        assert rest[-1][1] == 48


def once_both_played(events, number):
    """What is told of a round: a look between its two parts sees two rows fewer, and then the next look sees the rest."""
    kind, told, _ = next(events)
    return next(events)[:2] if told == number - 2 else (kind, told)


def test_a_reader_that_comes_back_after_a_restart_learns_what_it_missed(run):
    with Served(run.folder.parent, pause=0.02) as page, page.events("run") as events:
        port, (_, last, _) = page.port, next(events)
    run.play(2)
    with Served(run.folder.parent, port=port, pause=0.02) as page, page.events("run", last) as events:
        assert next(events)[:2] == ("state", 20)
        kind, number, data = next(events)
        assert (kind, number, data["round"]) == ("round", 20, 5)
        since = page.get("/api/runs/run/curves?since=3").json
        assert [own["t"] for own in since["policies"]] == [[4, 5], [4, 5]]
    with Served(run.folder.parent, port=port, pause=0.02) as page, page.events("run", 20) as events:
        assert next(events)[:2] == ("state", 20)
        run.play(1)
        assert once_both_played(events, 24) == ("round", 24)  # and not 20 again


def test_a_finished_run_ends_the_stream_and_is_not_asked_for_again(run):
    run.finish()
    with Served(run.folder.parent) as page:
        with page.events("run") as events:
            (only,) = list(events)
            assert (only[0], only[2]["state"]) == ("state", "finished")
        with page.events("run", only[1]) as status:
            assert status == 204
        with page.events("none") as status:
            assert status == 404


def test_many_readers_share_one_look_and_leave_nothing(run):
    with Served(run.folder.parent, pause=0.02) as page:
        before = threading.active_count()
        open_ = [page.events("run") for _ in range(30)]
        streams = [each.__enter__() for each in open_]
        for events in streams:
            assert next(events)[0] == "state"
        assert page.live.watched == {"run": 30}
        run.play(1)
        assert {once_both_played(events, 16) for events in streams} == {("round", 16)}
        assert threading.active_count() - before <= 4  # those who read and plan, however many readers there are
        for each in open_:
            each.__exit__(None, None, None)
        run.play(1)  # what nobody can take any more tells the server that they have left
        until(lambda: page.live.watched == {})


def test_a_run_that_is_removed_ends_its_stream(run):
    with Served(run.folder.parent, pause=0.02) as page, page.events("run") as events:
        next(events)
        run.folder.rename(run.folder.parent / "other")
        assert list(events) == []
        with page.events("run") as status:
            assert status == 404


def test_nothing_grows_over_many_rounds(tmp_path):
    """An hour of looks and questions in small: what is kept is as much after a hundred rounds as after ten."""
    run = MadeUp(tmp_path / "run", rounds=120, policies=("constant",))
    with Served(tmp_path, pause=0.01) as page:
        sizes = []
        for _ in range(10):
            run.play(10)
            with page.events("run") as events:
                next(events)
            for path in ("/api/runs", "/api/runs/run", "/api/runs/run/curves", "/api/runs/run/clients", "/api/runs/run/trace"):
                assert page.get(path).status == 200
            library = page.library
            sizes.append((len(library._found), len(library._rows), len(library._opened), len(library._followers)))
            assert sum(each.rows.nbytes for each in library._followers.values()) < 10**6
        assert set(sizes) == {(1, 1, 1, 4)}  # metrics, held, admitted, and the two columns of the list
        until(lambda: not page.live.watched)
