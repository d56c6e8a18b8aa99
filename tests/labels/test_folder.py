"""Files of tasks go out, files of labels come back, and nothing in them is lost."""

import csv
import json
import os
import time

import pytest

from headgate.errors import SettingError
from headgate.labels.folder import FolderQueue
from headgate.labels.nouns import LabelAnswer, LabelTask, Later
from headgate.labels.rows import VALUE

TASKS = [LabelTask("team", f"k{n}", 1, {"text": f"text {n}"}) for n in range(4)]
KNOWN = {"team": {task.key: "waiting" for task in TASKS}}


@pytest.fixture
def queue(tmp_path):
    made = FolderQueue(str(tmp_path / "tasks"), str(tmp_path / "in"), settled=0)
    (tmp_path / "in" / "team").mkdir(parents=True)
    return made


def rows_of(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def seen_in(folder):
    return [
        (path.parent.name, row["key"])
        for path in folder.rglob("round-*.csv")
        for row in rows_of(path)
    ]


def fill_in(folder, what, task):
    """Do what labellers do, in a file of its own."""
    row = {"key": task.key, "state": what}
    if what == "labelled":
        row["label"] = "cat"
    own = folder / task.client
    own.mkdir(parents=True, exist_ok=True)
    (own / f"{time.monotonic_ns()}.jsonl").write_text(json.dumps(row))


def refused_in(folder):
    return {
        path.name: [(row["number"], row["key"], row["why"]) for row in rows_of(path)]
        for path in sorted(folder.rglob("*.refused.csv"))
    }


def test_a_spreadsheet_that_is_filled_in_comes_back(queue, tmp_path):
    queue.release(TASKS)
    sent = tmp_path / "tasks" / "team" / "round-0001.csv"
    rows = rows_of(sent)
    assert list(rows[0]) == ["key", "round", "text", "label", "state", "why"]
    rows[0]["label"], rows[1]["state"], rows[1]["why"] = "cat", "Skipped", "blurred"
    with (tmp_path / "in" / "team" / "back.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert list(queue.collect(KNOWN)) == [
        LabelAnswer("team", "k0", "labelled", "cat"),
        LabelAnswer("team", "k1", "skipped", None, "blurred"),
    ]
    assert list(queue.collect(KNOWN)) == [], "a file that did not change is not read"
    assert refused_in(tmp_path) == {}


def test_tasks_are_filled_in_where_they_are_if_the_folders_are_one(tmp_path):
    folder = str(tmp_path / "both")
    queue = FolderQueue(folder, folder, format="jsonl", settled=0)
    queue.release(TASKS)
    path = tmp_path / "both" / "team" / "round-0001.jsonl"
    text = path.read_text()
    path.write_text(text.replace('"label": null', '"label": {"box": [1, 2]}', 1))
    queue.withdraw({"team": ["k3"]})
    (answer,) = queue.collect(KNOWN)
    assert answer == LabelAnswer("team", "k0", "labelled", {"box": [1, 2]})


def test_only_new_tasks_of_an_order_are_written_and_none_is_overwritten(
    queue, tmp_path
):
    queue.release(TASKS[:2])
    first = tmp_path / "tasks" / "team" / "round-0001.csv"
    first.write_text(first.read_text() + "k-mine,,,,,\n")
    queue.release(TASKS)
    second = first.with_name("round-0001-2.csv")
    assert [row["key"] for row in rows_of(second)] == ["k2", "k3"]
    assert "k-mine" in first.read_text()
    queue.release(TASKS)
    assert len(list(first.parent.iterdir())) == 2


def test_no_text_of_a_task_is_a_formula_and_its_key_still_comes_back(queue, tmp_path):
    task = LabelTask("team", "=1+1", 1, {"text": '=HYPERLINK("http://x")'})
    queue.release([task])
    queue.release([task])
    ((key, _, text, *_),) = (
        row.values() for row in rows_of(tmp_path / "tasks/team/round-0001.csv")
    )
    assert (key, text) == ("'=1+1", '\'=HYPERLINK("http://x")')
    (tmp_path / "in" / "team" / "a.csv").write_text("key,label\n'=1+1,2\n")
    known = {"team": {"=1+1": "waiting"}}
    assert list(queue.collect(known)) == [LabelAnswer("team", "=1+1", "labelled", "2")]


BAD = {
    "semicolons.csv": (b"key;label\nk0;cat\n", "semicolons between its columns"),
    "latin.csv": ("key,label\nk0,k\u00e4tzchen\n".encode("latin-1"), "is not UTF-8"),
    "no-key.csv": (b"label\ncat\n", "has no key"),
    "other.csv": (b"key,label\nk99,cat\n", "is no task of team"),
    "excel.csv": (b"key,label\n1.5E+06,cat\n", "may have changed the key"),
    "state.csv": (b"key,label,state\nk0,cat,done\n", "must be labelled, skipped or"),
    "empty.csv": (b"key,label,state\nk0,,labelled\n", "has no label"),
    "comma.csv": (b"key,label\nk0,a,b\n", "put a value with a comma between double"),
    "twice.csv": (b"key,label,label\nk0,a,b\n", "has column 'label' twice"),
    "quote.csv": (b'key,label\nk0,"cat\n', "unexpected end of data"),
    "null.csv": (b"key,label\nk0,c\x00t\n", ""),
    "cut.jsonl": (b'{"key": "k0", "label": "c', "not valid JSON"),
    "list.jsonl": (b'["k0", "cat"]\n', "must hold an object"),
    "nan.jsonl": (b'{"key": "k0", "label": NaN}\n', "NaN is no number of JSON"),
    "deep.jsonl": (b'{"key": "k0", "label": ' + b"[" * 10**5, "not valid JSON"),
    "long.jsonl": (b'{"key": "k0", "label": "' + b"x" * VALUE + b'"}', "longer than"),
    "large.jsonl": (
        b'{"key": "k0", "label": "' + b"x" * 20_000 + b'"}',
        "label: longer than 10000",
    ),
    "flag.jsonl": (b'{"key": true, "label": "cat"}\n', "key True: must be text"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_taken_is_said_row_by_row(name, queue, tmp_path):
    content, why = BAD[name]
    path = tmp_path / "in" / "team" / name
    path.write_bytes(content)
    (tmp_path / "in" / "team" / "fine.csv").write_bytes(
        b"\xef\xbb\xbfkey,label\r\nk1,dog\r\n"
    )
    answers = list(queue.collect(KNOWN))
    assert LabelAnswer("team", "k1", "labelled", "dog") in answers
    if not why:
        return
    assert len(answers) == 1
    ((_, _, said),) = refused_in(tmp_path)[f"{name}.refused.csv"]
    assert why in said


def test_good_rows_of_a_file_are_taken_beside_bad_ones(queue, tmp_path):
    path = tmp_path / "in" / "team" / "a.csv"
    path.write_text("key,label\nk0,cat\nk99,dog\n\nk1,dog\n")
    assert [answer.key for answer in queue.collect(KNOWN)] == ["k0", "k1"]
    assert [row[:2] for row in refused_in(tmp_path)["a.csv.refused.csv"]] == [
        ("3", "k99")
    ]
    path.write_text("key,label\nk0,cat\nk1,dog\n")
    list(queue.collect(KNOWN))
    assert refused_in(tmp_path) == {}, "the report is gone once nothing is refused"


def test_a_label_for_a_task_that_is_bought_later_is_not_lost(queue, tmp_path):
    (tmp_path / "in" / "team" / "early.csv").write_text("key,label\nk0,cat\nk7,dog\n")
    assert [answer.key for answer in queue.collect(KNOWN)] == ["k0"]
    later = {"team": {**KNOWN["team"], "k7": "waiting"}}
    assert [answer.key for answer in queue.collect(later)] == ["k0", "k7"]


def test_links_are_not_followed(queue, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("key,label\nk0,secret\n")
    (tmp_path / "in" / "team" / "a.csv").symlink_to(secret)
    assert list(queue.collect(KNOWN)) == []
    ((_, _, why),) = refused_in(tmp_path)["a.csv.refused.csv"]
    assert "it is a link" in why
    (tmp_path / "in" / "other").symlink_to(tmp_path)
    with pytest.raises(Later, match="is a link"):
        list(queue.collect({"other": {"k0": "waiting"}}))
    pipe = tmp_path / "in" / "team" / "pipe.csv"
    os.mkfifo(pipe)
    assert list(queue.collect(KNOWN)) == [], "a pipe without a writer blocks nothing"


def test_a_file_that_is_still_written_is_read_later(tmp_path):
    queue = FolderQueue(str(tmp_path / "tasks"), str(tmp_path / "in"), settled=60)
    path = tmp_path / "in" / "team" / "a.csv"
    path.parent.mkdir(parents=True)
    path.write_text("key,label\nk0,ca")
    assert list(queue.collect(KNOWN)) == []
    path.write_text("key,label\nk0,cat\n")
    an_hour_ago = time.time() - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))
    assert [answer.label for answer in queue.collect(KNOWN)] == ["cat"]


def test_a_look_waits_a_moment_for_a_file_that_was_just_saved(tmp_path):
    queue = FolderQueue(str(tmp_path / "tasks"), str(tmp_path / "in"), settled=0.3)
    path = tmp_path / "in" / "team" / "a.csv"
    path.parent.mkdir(parents=True)
    path.write_text("key,label\nk0,cat\n")
    assert [answer.label for answer in queue.collect(KNOWN)] == ["cat"]


def test_a_drive_that_is_gone_is_for_later(queue, tmp_path):
    (tmp_path / "in").rename(tmp_path / "away")
    (tmp_path / "in").write_text("")
    with pytest.raises(Later, match="cannot be used now"):
        list(queue.collect(KNOWN))
    (tmp_path / "tasks").write_text("")
    with pytest.raises(Later, match="cannot be used now"):
        queue.release(TASKS)
    with pytest.raises(Later, match="cannot be used now"):
        queue.withdraw({"team": ["k0"]})


def test_withdrawn_tasks_are_listed_once(queue, tmp_path):
    queue.release(TASKS)
    queue.withdraw({"team": ["k0", "k1"]})
    queue.withdraw({"team": ["k1", "k2"]})
    listed = rows_of(tmp_path / "tasks" / "team" / "withdrawn.csv")
    assert [row["key"] for row in listed] == ["k0", "k1", "k2"]


def test_a_format_that_there_is_not_is_named():
    with pytest.raises(SettingError, match="format = xlsx: must be one of csv, jsonl"):
        FolderQueue("tasks", "in", format="xlsx")
