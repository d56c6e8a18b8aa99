"""Nothing is written through a link, and none is followed, wherever a stranger puts
it.
"""

import json
import os
from contextlib import suppress
from itertools import product

import pytest

import headgate
from headgate.errors import DataError
from headgate.simulation.schedule import perform
from headgate.writing import replace_file

from .folders import copied


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim.txt"
    path.write_text("mine")
    yield path
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    "name",
    ["report.html", ".report.html.partial", "summary.json", ".summary.json.partial"],
)
def test_a_report_is_not_written_through_a_link(tmp_path, victim, name):
    folder = copied("finished", tmp_path)
    (folder / name).symlink_to(victim)
    page = headgate.open(folder).report()
    assert page.is_file()
    assert not page.is_symlink()


@pytest.mark.parametrize(
    "name",
    ["metrics/part-00003.parquet", "config.toml", "environment.json", "state.json"],
)
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_run_is_not_resumed_through_a_link(tmp_path, victim, name, link):
    folder = copied("interrupted", tmp_path)
    (folder / name).unlink()
    link(victim, folder / name)
    with pytest.raises(DataError, match=name):
        perform(None, folder, processes=1)


WITHIN = [
    "checkpoints",
    "metrics",
    "clients",
    "checkpoints/c000-00000003",
]


@pytest.mark.parametrize(
    ("kind", "name"),
    [*product(["interrupted"], WITHIN[:3]), *product(["chunks"], WITHIN)],
)
def test_folders_within_that_are_links_are_left_alone(tmp_path, kind, name):
    folder, elsewhere = copied(kind, tmp_path), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "00000099").mkdir()
    (elsewhere / "mine").write_text("mine")
    place = folder / name
    if place.exists():
        place.rename(tmp_path / "moved")
    place.symlink_to(elsewhere)
    with suppress(DataError):
        perform(None, folder, processes=1)
    assert sorted(each.name for each in elsewhere.iterdir()) == ["00000099", "mine"]


@pytest.mark.parametrize(
    "points",
    [*([each] for each in ("..", ".", "", "../elsewhere", "/etc", 7, None)), 3],
)
def test_points_of_a_sweep_lie_within_it(tmp_path, points):
    folder = copied("sweep", tmp_path)
    (folder / "sweep.json").write_text(json.dumps({"points": points}))
    for way in (
        lambda: headgate.open(folder),
        lambda: perform(None, folder, processes=1),
    ):
        with pytest.raises(DataError, match=r"sweep\.json: is damaged"):
            way()


def test_a_point_that_is_a_link_is_refused(tmp_path):
    folder = copied("sweep", tmp_path)
    point = folder / "system.budget=20.0"
    point.rename(tmp_path / "elsewhere")
    point.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="is a link"):
        perform(None, folder, processes=1)


def test_the_writers_themselves(tmp_path, victim):
    (tmp_path / "link").symlink_to(victim)
    os.link(victim, tmp_path / "second name")
    for name in ("link", "second name"):
        replace_file(tmp_path / name, b"new")
        assert (tmp_path / name).read_bytes() == b"new"
        assert not (tmp_path / name).is_symlink()
    assert [path.name for path in tmp_path.glob(".*")] == []
