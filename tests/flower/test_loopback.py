"""A deployment on loopback with processes that only sleep: it comes up whole, follows its run, and leaves nothing behind."""

import json
import os
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from headgate.errors import HeadgateError
from headgate.flower.deploy import loopback
from headgate.flower.deploy.door import Door
from headgate.flower.deploy.loopback import ATTEMPTS, STARTING, Loopback, progress
from headgate.flower.deploy.processes import environment, marked, start
from headgate.flower.deploy.superlink import SuperLink
from headgate.flower.deploy.supernode import SuperNode

JOINS = "Starting Flower SuperNode\\nSuperNode ID: 7"


def sleeping(said=""):
    code = f"import time; print('{said}', flush=True); time.sleep(600)"
    return lambda log, home, mark: start([sys.executable, "-c", code], log, environment(home, mark))


@pytest.fixture
def registered(monkeypatch):
    """Services that sleep, SuperNodes that say they joined; (client, public key) of all that were registered."""
    known = []
    up, joins = sleeping(), sleeping(JOINS)
    monkeypatch.setattr(SuperLink, "start", lambda self: up(self.log, self.folder / "home", self.mark))
    monkeypatch.setattr(Door, "start", lambda self: up(self.log, self.link.folder / "home", self.link.mark))
    monkeypatch.setattr(SuperNode, "start", lambda self: joins(self.log, self.folder / "home", self.mark))
    monkeypatch.setattr(SuperLink, "register", lambda self, client, public: known.append((client, public.read_bytes())))
    return known


def test_a_deployment_comes_up_whole_and_leaves_no_process_behind(tmp_path, registered):
    said = []
    with Loopback(tmp_path, 2, said.append) as up:
        assert list(up.supervisor.kept) == ["SuperLink", "front", "SuperNode 0", "SuperNode 1"]
        assert [process.poll() for process in up.supervisor.processes] == [None] * 4
        node = up.supervisor.kept["SuperNode 1"].service
        assert node.config == {"partition-id": 1, "num-partitions": 2, "headgate-store": str(tmp_path / "node-1" / "store")}
        assert node.superlink == up.door.where
    assert None not in [process.returncode for process in up.supervisor.processes]
    assert list(marked(up.mark)) == []
    assert [line.partition(":")[0] for line in said] == ["SuperLink", "SuperLink", "SuperNodes"]
    authority, keys = up.door.certificates.authority.read_bytes(), list(registered)
    assert [client for client, _ in keys] == [0, 1]
    assert keys[0][1] != keys[1][1]
    with Loopback(tmp_path, 2) as again:
        assert again.mark == up.mark
        assert again.door.certificates.authority.read_bytes() == authority
    assert registered == [*keys, *keys], "brought up again, each client has the key that it had"


def test_what_came_up_is_ended_where_the_rest_does_not(tmp_path, registered, monkeypatch):
    def refuses(self, client, public):
        raise HeadgateError("the key is refused")

    monkeypatch.setattr(SuperLink, "register", refuses)
    deployment = Loopback(tmp_path, 1)
    with pytest.raises(HeadgateError, match="the key is refused"):
        deployment.__enter__()
    assert len(deployment.supervisor.processes) == 2
    assert None not in [process.returncode for process in deployment.supervisor.processes]
    with Loopback(tmp_path, 0) as again:  # the folder is free
        assert again.supervisor.processes


def test_who_does_not_join_is_named(tmp_path, registered, monkeypatch):
    silent = sleeping()
    with Loopback(tmp_path, 0) as up:
        monkeypatch.setattr(SuperNode, "start", lambda self: silent(self.log, self.folder / "home", self.mark))
        up.supervisor.keep("SuperNode 0", up.node(0))
        with pytest.raises(HeadgateError, match=r"^SuperNode 0: did not join within 0\.3 s"):
            up.await_nodes(0.3)


# a run that is followed, with a SuperLink and a clock of paper


@dataclass
class PaperLink:
    """Each run is a list of looks: what state.json says, and whether its ServerApp is there; then its status."""

    out: object
    runs: list
    port: int = 1
    log: str = "superlink.log"
    submitted: list = field(default_factory=list)
    stopped: list = field(default_factory=list)

    def submit(self, app, settings):
        self.submitted.append((app, settings))
        self.looks, self.ended = self.runs[len(self.submitted) - 1]
        self.looks = list(self.looks)
        return len(self.submitted)

    def look(self):
        """Whether a ServerApp is there now."""
        if not self.looks:
            return False
        settled, here = self.looks.pop(0)
        self.out.mkdir(exist_ok=True)
        (self.out / "state.json").write_text(json.dumps({"round": settled, "rounds": 9, "told": f"round {settled}"}))
        return here

    def status(self, run):
        assert run == len(self.submitted)
        return self.ended

    def said(self, run):
        return f"run {run}\nheadgate.errors.DataError: the disk is full\nFor more, visit\n"

    def stop(self, run):
        self.stopped.append(run)


@pytest.fixture
def follow(tmp_path, monkeypatch):
    """Plays an app on a SuperLink of paper."""
    now, said = [0.0], []

    def sleep(seconds):
        now[0] += seconds

    monkeypatch.setattr(loopback, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    monkeypatch.setattr(loopback, "listening", lambda port: True)
    deployment = Loopback(tmp_path / "deployment", 0, said.append)
    deployment.said, deployment.now = said, now

    def play(*runs, tick=None):
        deployment.link = PaperLink(tmp_path / "out", list(runs))
        monkeypatch.setattr(loopback, "marked", lambda mark, word: iter([os.getpid()] if deployment.link.look() else []))
        deployment.run(tmp_path / "app", tmp_path / "out", {"deadline": 5.0}, tick)
        return deployment

    play.deployment = deployment
    return play


def test_a_run_is_followed_to_its_end_a_line_a_round(follow, tmp_path):
    ticks = []
    done = follow(([(0, True), (1, True), (1, True), (9, True)], "finished:completed"), tick=lambda *at: ticks.append(at))
    assert done.link.submitted == [(tmp_path / "app", {"out": str(tmp_path / "out"), "deadline": 5.0})]
    assert done.said == ["run 1: submitted", "round 0", "round 1", "round 9", "run 1: completed; its processes are ended"]
    assert ticks == [(0, 0), (0, 9), (1, 9), (1, 9), (9, 9)]
    assert progress(tmp_path / "out") == (9, 9)


def test_a_lost_server_app_is_submitted_again(follow):
    done = follow(([(0, True), (3, True)], "running"), ([(3, True), (9, True)], "finished:completed"))
    assert done.link.stopped == [1]
    assert len(done.link.submitted) == 2
    assert "run 1: its ServerApp is gone after round 3; submitted again" in done.said


def test_a_run_that_failed_is_not_repeated_and_its_error_is_quoted(follow):
    with pytest.raises(
        HeadgateError, match=r"^run 1: finished:failed after round 2: .*DataError: the disk is full \(.*run-1.log"
    ):
        follow(([(2, True)], "finished:failed"))
    assert (follow.deployment.folder / "run-1.log").read_text().startswith("run 1\n")


def test_a_server_app_that_is_lost_again_and_again_is_given_up_unless_rounds_are_settled_between(follow):
    moving = [([(t, True)], "running") for t in range(1, 9)]
    stuck = [([(9, True)], "running")] * (ATTEMPTS + 1)
    with pytest.raises(HeadgateError, match="after round 9"):
        follow(*moving, *stuck, ([], "never comes to it"))
    assert len(follow.deployment.link.submitted) == len(moving) + len(stuck)


def test_a_server_app_that_never_appears_is_told_after_two_minutes(follow):
    with pytest.raises(HeadgateError, match=r"run 1: no ServerApp has started; see superlink\.log"):
        follow(([], "pending"))
    assert follow.deployment.now[0] == pytest.approx(STARTING, abs=1)


def test_a_run_that_was_over_before_anybody_looked_is_over(follow):
    done = follow(([], "finished:completed"))
    assert done.link.stopped == []
