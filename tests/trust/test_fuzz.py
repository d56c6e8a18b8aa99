"""Run folders that strangers, disks and editors have damaged, read in every way there
is.

Every reader must end well or in one line of headgate's own, in time, and touch nothing
outside the folder. What is resumed although it was damaged must come to the same
tables.
"""

import hashlib
import json
import os
import shutil
import time
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import tomli_w
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import headgate
from headgate.analysis.tables import list_rows
from headgate.errors import HeadgateError
from headgate.records.reader import scan_runs
from headgate.records.tables import sealed
from headgate.web import answers
from headgate.web.api import Json
from headgate.web.runs import Library

from .folders import KINDS, copied, made, resumed, truth, unvouched

SECONDS = 20.0
"""the most that one look may take"""
DEEP = {"a": 1}
for _ in range(60):
    DEEP = {"a": DEEP}
EVIL = [
    None, True, -1, 0, 1, 2**31, 2**63, -(2**63), 10**400, 1e308, -1e308, float("inf"),
    float("nan"), 0.5, "", "x" * 5000, "os:system", "../..", "/etc/passwd",
    "\x1b[31mred", "\u202e", "0", [], [[]], [None], {}, {"kind": "os:system"},
    ["constant"] * 3000, DEEP, list(range(3000)), "9999-12-31T23:59:59+00:00",
    "0001-01-01T00:00:00+23:59", [{"policy": "constant", "seed": 0}], [1e300],
]  # fmt: skip


def places(value, path=()):
    """Where in nested tables and lists something stands."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in inside:
        yield (*path, key)
        yield from places(each, (*path, key))


def changed(value, random):
    """The same with something else at one place, or without it."""
    path = random.choice(list(places(value)) or [()])
    if not path:
        return value
    inside = value
    for key in path[:-1]:
        inside = inside[key]
    if random.random() < 0.2:
        del inside[path[-1]]
    else:
        inside[path[-1]] = random.choice(EVIL)
    return value


def files_of(folder, suffix=""):
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name.endswith(suffix)
    ]


# ways to damage a folder; each says whether there was anything to damage


def value_of_json(folder, random):
    path = random.choice(files_of(folder, ".json"))
    facts = changed(json.loads(path.read_text()), random)
    if random.random() < 0.7 and "seal" in facts:
        facts = sealed({key: value for key, value in facts.items() if key != "seal"})
    path.write_text(json.dumps(facts))
    return True


def value_of_toml(folder, random):
    """Vouched for, as by one who changes settings on purpose."""
    path = random.choice(files_of(folder, ".toml"))
    try:
        text = tomli_w.dumps(changed(tomllib.loads(path.read_text()), random))
    except (TypeError, ValueError, RecursionError):
        text = path.read_text() + "\nx" + ".x" * 3000 + " = 1\n"
    path.write_text(text)
    beside = path.with_name("environment.json")
    facts = json.loads(beside.read_text()) | {
        "config_sha256": hashlib.sha256(path.read_bytes()).hexdigest()
    }
    beside.write_text(
        json.dumps(
            sealed({key: value for key, value in facts.items() if key != "seal"})
        )
    )
    return True


def some_bytes(folder, random):
    path = random.choice([path for path in files_of(folder) if path.stat().st_size])
    content = bytearray(path.read_bytes())
    at, how = random.randrange(len(content)), random.randrange(3)
    if how == 0:
        content[at] ^= 1 << random.randrange(8)
    elif how == 1:
        del content[at:]
    else:
        content[at:0] = random.randbytes(random.randrange(1, 50))
    path.write_bytes(content)
    return True


def another_file(folder, random):
    path, victim = random.choice(files_of(folder)), folder.parent / "victim.txt"
    path.unlink()
    replace = [
        lambda: None,
        path.touch,
        path.mkdir,
        lambda: path.symlink_to(victim),
        lambda: os.mkfifo(path),
    ]
    random.choice([*replace, lambda: os.link(victim, path)])()
    return True


def another_folder(folder, random):
    folders = [path for path in sorted(folder.rglob("*")) if path.is_dir()]
    if folders:
        path = random.choice(folders)
        if random.random() < 0.5:
            shutil.rmtree(path)
            path.symlink_to(folder.parent / "victims")
        else:
            path.rename(
                path.with_name(
                    random.choice(
                        ["00000099", "0x", "9" * 30, "-1", "~", "a\nb", ".hidden"]
                    )
                )
            )
    return bool(folders)


def parquet(folder, random):
    tables = files_of(folder, ".parquet")
    if tables:
        path = random.choice(tables)
        frame = pl.read_parquet(path)
        odd = [{"a": 1}, [[1]], "x" * 100, float("nan"), 1e308, None, 2**62, True]
        values = [random.choice(odd)] * frame.height
        if random.random() < 0.1:
            values = [[1] * 1_000_000] + [[1]] * (frame.height - 1)
        frame = frame.with_columns(pl.Series(random.choice(frame.columns), values))
        if random.random() < 0.3 and frame.estimated_size() < 100_000:
            frame = pl.concat([frame] * 2000)
        frame.write_parquet(path)
        if random.random() < 0.7:
            unvouched(folder)
    return bool(tables)


DAMAGES = (
    value_of_json,
    value_of_toml,
    some_bytes,
    another_file,
    another_folder,
    parquet,
)


# ways to look at it


def runs(folder):
    whole, damaged = scan_runs(folder.parent)
    rows = list_rows(whole)
    json.dumps(rows), json.dumps(damaged)
    assert any("beside" in each["name"] for each in rows), "a bad folder hid another"


def opened(folder):
    run = headgate.open(folder)
    assert run.status in ("finished", "running", "interrupted", "diverged")
    assert run.summary.height
    run.report()


def page(folder):
    library = Library(folder.parent)
    for sort in ("started", "accuracy"):
        Json(answers.run_list(library, "", sort, "desc", 100, 0))
    assert "beside" in library.heads(), "a bad folder hid another"
    for name in [name for name in library.heads() if name != "beside"]:
        for ask in (
            lambda name: Json(answers.detail(library, name)),
            lambda name: Json(answers.curves(library, name)),
            lambda name: Json(answers.clients(library, name, None, None)),
        ):
            try:
                ask(name)
            except HeadgateError as error:
                in_one_line(error)


def in_one_line(error):
    assert "\n" not in str(error), "more than one line"


READERS = (runs, opened, page, resumed)


@settings(
    max_examples=settings.default.max_examples // 4
)  # a case takes a tenth of a second
@given(
    choose=st.randoms(use_true_random=False),
    kind=st.sampled_from(KINDS),
    damage=st.sampled_from(DAMAGES),
    read=st.sampled_from(READERS),
)
def test_no_damage_makes_a_trace_or_reaches_outside(choose, kind, damage, read):
    with TemporaryDirectory() as name:
        inside = Path(name)
        victims = inside / "victims"
        (victims / "00000001").mkdir(parents=True)
        (victims / "file").write_text("mine")
        (inside / "victim.txt").write_text("mine")
        folder = copied(kind, inside)
        shutil.copytree(made("finished"), inside / "beside")
        assume(damage(folder, choose))
        began = time.monotonic()
        try:
            found = read(folder)
            if read is resumed and damage is some_bytes and kind == "interrupted":
                assert [each.equals(truth()) for each in found] == [True], (
                    "other values"
                )
        except HeadgateError as error:
            in_one_line(error)
        assert time.monotonic() - began < SECONDS, "took too long"
        assert (inside / "victim.txt").read_text() == "mine", "wrote through a link"
        assert sorted(each.name for each in victims.iterdir()) == [
            "00000001",
            "file",
        ], "wrote through a link"
