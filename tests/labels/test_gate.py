"""A gate buys, releases, collects and pays; what it cannot do now it does later."""

import json
import shutil
import sys
from contextlib import closing

import pytest

from headgate.books.statement import amend, opened
from headgate.control.amendments import Amendment
from headgate.errors import DataError, LedgerError, SettingError
from headgate.labels.gate import Gate, run
from headgate.labels.nouns import Later
from headgate.labels.settings import load
from tests.labels.test_killed_between import GATE, put


@pytest.fixture
def folder(tmp_path):
    rows = [json.dumps({"key": f"k{n}", "text": f"text {n}"}) for n in range(50)]
    (tmp_path / "samples.jsonl").write_text("\n".join(rows) + "\n")
    (tmp_path / "gate.toml").write_text(GATE)
    return tmp_path


class Log(list):
    def step(self, folder, begin):
        with Gate(folder / "gate.toml", self.append) as gate:
            gate.step(begin=begin)
            return gate.status(None)["clients"]["team"]


@pytest.fixture
def log():
    return Log()


def labelled(folder):
    text = (folder / "labelled" / "team.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def change(folder, old, new):
    text = (folder / "gate.toml").read_text()
    assert old in text
    (folder / "gate.toml").write_text(text.replace(old, new))


def test_a_line_of_the_log_says_what_was_done_and_why(folder, log):
    log.step(folder, True)
    put(folder, "a", [{"key": "k0", "label": "cat"}, {"key": "k1", "state": "skip"}])
    log.step(folder, False)
    log.step(folder, False)
    first, second = log
    assert first.startswith("round 1: price 0.1")
    assert "released 7; under way 7; spent 0.00 of 1.50" in first
    assert second == (
        "round 1: labelled 1, skipped 1; under way 5; spent 0.10 of 1.50"
    ), "a step without news says nothing"


def test_a_label_stands_in_the_file_once_and_its_rejection_too(folder, log):
    log.step(folder, True)
    put(folder, "a", [{"key": "k0", "label": "cat"}, {"key": "k2", "label": "dog"}])
    log.step(folder, False)
    put(folder, "b", [{"key": "k0", "state": "rejected", "why": "no cat"}])
    log.step(folder, False)
    log.step(folder, False)
    assert labelled(folder) == [
        {"key": "k0", "round": 1, "text": "text 0", "label": "cat"},
        {"key": "k2", "round": 1, "text": "text 2", "label": "dog"},
        {"key": "k0", "round": 1, "rejected": "no cat"},
    ]


def test_a_file_of_labels_that_is_lost_is_written_again(folder, log):
    log.step(folder, True)
    put(folder, "a", [{"key": "k0", "label": "cat"}, {"key": "k2", "label": "dog"}])
    log.step(folder, False)
    put(folder, "b", [{"key": "k0", "state": "rejected"}])
    log.step(folder, False)
    path = folder / "labelled" / "team.jsonl"
    before = path.read_bytes()
    for content in (None, before[:30], before[:-1], before + b'{"key": "k9", "la'):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        log.step(folder, False)
        assert path.read_bytes() == before
    (folder / "other").write_bytes(before)
    path.unlink()
    path.symlink_to(folder / "other")
    put(folder, "c", [{"key": "k3", "label": "cat"}])
    with pytest.raises(DataError, match=r"team.jsonl: cannot be written"):
        log.step(folder, False)
    assert (folder / "other").read_bytes() == before


def test_only_the_first_label_is_paid_and_others_are_counted(folder, log):
    log.step(folder, True)
    put(folder, "a", [{"key": "k0", "label": "cat"}, {"key": "k0", "label": "dog"}])
    log.step(folder, False)
    put(folder, "b", [{"key": "k0", "label": "cat"}, {"key": "k0", "label": "bird"}])
    own = log.step(folder, False)
    assert (own["delivered"], own["extra"]) == (1, 1)
    assert [line["label"] for line in labelled(folder)] == ["cat"]


def test_what_is_skipped_or_rejected_stays_so(folder, log):
    log.step(folder, True)
    put(folder, "a", [{"key": "k0", "state": "skipped"}, {"key": "k1", "label": "x"}])
    log.step(folder, False)
    put(folder, "b", [{"key": "k1", "state": "rejected"}])
    log.step(folder, False)
    put(folder, "c", [{"key": "k0", "label": "x"}, {"key": "k1", "label": "y"}])
    own = log.step(folder, False)
    assert (own["cancelled"], own["rejected"], own["delivered"]) == (1, 1, 0)
    assert own["under_way"] == 5, "a label for another task took no place of theirs"


def test_what_comes_after_its_order_has_expired_is_not_paid(folder, log):
    for begin in (True, True, True):
        own = log.step(folder, begin)
    assert own["withdrawn"] == 7
    listed = (folder / "tasks" / "team" / "withdrawn.csv").read_text("utf-8-sig")
    assert listed.split() == ["key", *(f"k{n}" for n in range(7))]
    put(folder, "a", [{"key": "k0", "label": "cat"}, {"key": "k1", "state": "skip"}])
    own = log.step(folder, False)
    assert (own["too_late"], own["delivered"], own["cancelled"]) == (1, 0, 1)
    assert not (folder / "labelled" / "team.jsonl").exists()


def test_a_queue_that_is_down_delays_the_release_and_nothing_else(folder, log):
    (folder / "tasks").write_text("the drive is gone")
    log.step(folder, True)
    assert log[0].startswith("later: the queue does not answer:")
    assert "7 samples; no news; under way 7" in log[1]
    (folder / "tasks").unlink()
    log.step(folder, False)
    assert "released 7" in log[2]


def test_a_round_waits_for_its_price(folder, log):
    missing = [sys.executable, "-c", "raise SystemExit(1)"]
    change(folder, "price = 0.1", f"price = {{kind='command', command={missing}}}")
    log.step(folder, True)
    assert log[0].startswith("later: round 1 waits for its price: command")
    change(folder, "raise SystemExit(1)", "print(0.2)")
    log.step(folder, None)
    assert log[1].startswith("round 1: price 0.2")


def test_a_round_begins_once_in_its_time(folder, log):
    for _ in range(3):
        log.step(folder, None)
    (line,) = log
    assert line.startswith("round 1")


def test_after_the_last_round_only_labels_are_taken(folder, log):
    for _ in range(5):
        log.step(folder, True)
    assert sum(line.startswith("round 3: price") for line in log) == 1
    with Gate(folder / "gate.toml", log.append) as gate:
        assert not gate.over()
        assert not gate.due()
        waiting = gate.tasks.known()["team"]
    keys = [key for key, state in waiting.items() if state == "waiting"]
    put(folder, "a", [{"key": key, "label": "cat"} for key in keys])
    with Gate(folder / "gate.toml", log.append) as gate:
        gate.step()
        assert gate.over()
        assert gate.books.balance().reserved == 0


def test_a_refund_of_an_order_that_is_refunded_already_stops_nothing(folder, log):
    log.step(folder, True)
    put(folder, "a", [{"key": f"k{n}", "label": "cat"} for n in range(3)])
    log.step(folder, False)
    amend(folder / "accounts", Amendment(adjust=-0.2), "ann", "a bad day", (1, 0))
    rejected = [{"key": f"k{n}", "state": "rejected"} for n in range(3)]
    put(folder, "b", rejected)
    own = log.step(folder, False)
    assert own["rejected"] == 3
    assert sum(line.startswith("no refund:") for line in log) == 2
    with Gate(folder / "gate.toml", log.append) as gate:
        assert gate.books.audit().spent == 0


def test_samples_may_be_added_at_any_time_and_bad_ones_are_said(folder, log):
    samples = folder / "samples.jsonl"
    samples.write_text('{"key": "a", "text": "1"}\n{"key": "a"}\n{"label": 3}\n{"x":')
    own = log.step(folder, True)
    assert own["unsold"] + own["under_way"] == 1
    assert "3 rows were refused" in log[0]
    report = (folder / "samples.jsonl.refused.csv").read_text("utf-8-sig")
    assert "is in the file already" in report
    assert "has a column 'label', which is that of an answer" in report
    samples.write_text('{"key": "a", "text": "1"}\n{"text": "2"}\n{"text": "2"}\n')
    own = log.step(folder, True)
    assert own["unsold"] + own["under_way"] == 2, "a row without a key has a digest"


def test_accounts_and_tasks_must_belong_together(folder, log):
    log.step(folder, True)
    shutil.copytree(folder / "accounts", folder / "copy")
    log.step(folder, True)
    (folder / "accounts" / "tasks.sqlite").rename(folder / "tasks.sqlite")
    with pytest.raises(DataError, match=r"tasks.sqlite: is missing.*one backup"):
        log.step(folder, True)
    shutil.copytree(folder / "copy", folder / "accounts", dirs_exist_ok=True)
    shutil.copy(folder / "tasks.sqlite", folder / "accounts")
    with pytest.raises(LedgerError, match="has come to round 2, the accounts beside"):
        log.step(folder, True)


def test_two_gates_do_not_run_at_once(folder, log):
    with closing(Gate(folder / "gate.toml", log.append)):
        with pytest.raises(DataError, match="is in use by another process"):
            Gate(folder / "gate.toml", log.append)
        with opened(folder / "accounts") as accounts:
            assert accounts.settled == 0


def test_a_client_joins_by_the_ledger_and_the_file(folder, log):
    log.step(folder, True)
    more = '[clients.other]\nsamples = "other.jsonl"\nplaces = 10\n'
    change(folder, "[queue]", f"{more}[queue]")
    with pytest.raises(SettingError, match=r"--join 10 --name other"):
        log.step(folder, True)
    joins = Amendment(join=10, name="other")
    amend(folder / "accounts", joins, "ann", "a second team")
    (folder / "other.jsonl").write_text('{"key": "new", "text": "new"}\n')
    with Gate(folder / "gate.toml", log.append) as gate:
        gate.step(begin=True)
        gate.step(begin=True)
        assert gate.status(None)["clients"]["other"]["under_way"] == 1
    change(folder, more, "")
    with pytest.raises(SettingError, match="other is missing"):
        log.step(folder, True)


def test_the_file_keeps_the_terms_that_the_accounts_were_opened_with(folder, log):
    log.step(folder, True)
    change(folder, "budget = 0.5", "budget = 5.0")
    with pytest.raises(SettingError, match=r"money.budget = 5.*ledger amend.*changes"):
        log.step(folder, True)
    change(folder, "budget = 5.0", "budget = 0.5")
    amend(folder / "accounts", Amendment(money=2.0), "ann", "a good year")
    log.step(folder, True)
    assert "of 3.50" in log[-1]


BAD = [
    ("price = 0.1", "price = 1\nprise = 0.1", "prise: unknown key; did you mean price"),
    ("budget = 0.5", "budget = -1", "budget"),
    ("expires = 1", "expires = -1", "orders.expires = -1"),
    ('kind = "folder"', 'kind = "foldr"', "queue.kind = foldr: no such queue"),
    ('tasks = "tasks"', "tasks = 7", "queue.tasks = 7"),
    ("[clients.team]", "[clients.'../x']", "clients.../x: must be letters"),
    ("samples.jsonl", "samples.xlsx", "must end in .csv or .jsonl"),
    ("[queue]", "[schedule]\nevery = '1 fortnight'\n[queue]", "schedule.every"),
    ("[clients.team]\nsamples = \"samples.jsonl\"\nplaces = 50\n", "[clients]\n",
     "at least one"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), BAD)
def test_a_wrong_setting_is_named_in_one_line(old, new, message, folder):
    change(folder, old, new)
    with pytest.raises(SettingError) as error:
        load(folder / "gate.toml")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


OWN_SECTION = '[queue]\nkind = "folder"\ntasks = "tasks"\nlabels = "in"\nsettled = 0\n'


def test_a_gate_keeps_going_until_all_is_labelled(folder, log):
    (folder / "ringing.py").write_text(
        "from headgate.labels.nouns import LabelAnswer, Queue\n"
        "class Ringing(Queue):\n"
        "    def release(self, tasks): pass\n"
        "    def withdraw(self, keys): pass\n"
        "    def collect(self, known):\n"
        "        for client, own in known.items():\n"
        "            for key in own:\n"
        "                yield LabelAnswer(client, key, 'labelled', 'cat')\n"
        "    def wait(self, seconds, stop):\n"
        "        assert 1 <= seconds <= 5\n"
        "        stop.wait(0.02)\n"
    )
    often = '[schedule]\nevery = "1 second"\npoll = "5 seconds"\n'
    change(folder, OWN_SECTION, f'{often}[queue]\nkind = "ringing:Ringing"\n')
    change(folder, "rounds = 3", "rounds = 2")
    run(folder / "gate.toml", log.append)
    assert [line.partition(":")[0] for line in log] == [
        "round 1",
        "round 1",
        "round 2",
        "round 2",
        "all rounds are over, and nothing is under way",
    ]
    run(folder / "gate.toml", log.append)
    assert log[-1] == "all rounds are over, and nothing is under way"
    with opened(folder / "accounts") as accounts:
        delivered = [order.delivered for order in accounts.tables.orders()]
    assert len(labelled(folder)) == sum(delivered)
    assert len(delivered) == 2


def test_a_queue_of_ones_own_is_named_as_module_and_class(folder, log):
    (folder / "own_queue.py").write_text(
        "from dataclasses import dataclass\n"
        "from headgate.labels.nouns import LabelAnswer, Queue\n"
        "@dataclass\n"
        "class AtOnce(Queue):\n"
        "    label: str = 'cat'\n"
        "    def release(self, tasks): pass\n"
        "    def withdraw(self, keys): pass\n"
        "    def collect(self, known):\n"
        "        for client, own in known.items():\n"
        "            for key in own:\n"
        "                yield LabelAnswer(client, key, 'labelled', self.label)\n"
    )
    change(folder, OWN_SECTION, '[queue]\nkind = "own_queue:AtOnce"\nlabel = "dog"\n')
    log.step(folder, True)
    own = log.step(folder, False)
    assert own["delivered"] == 7
    assert {line["label"] for line in labelled(folder)} == {"dog"}


def test_answers_before_an_error_count(folder, log, monkeypatch):
    log.step(folder, True)
    put(folder, "a", [{"key": "k0", "label": "cat"}])
    with Gate(folder / "gate.toml", log.append) as gate:
        whole = gate.settings.queue.collect

        def cut(known):
            yield from whole(known)
            raise Later("the connection was cut")

        monkeypatch.setattr(gate.settings.queue, "collect", cut)
        gate.step(begin=False)
        assert gate.status(None)["clients"]["team"]["delivered"] == 1
        assert gate.status(None)["down"] == "the connection was cut"
