"""The accounts of a job may be at a service: what is bought and paid is the same."""

from headgate import Books
from headgate.books.statement import opened, statement
from tests.web.served import Kept

from .faked import Faked


def paid(found):
    return [line._replace(time="") for line in found.lines]


def test_a_job_with_its_accounts_at_a_service_buys_and_pays_the_same(
    tmp_path, monkeypatch
):
    with Kept(tmp_path / "accounts") as kept:
        monkeypatch.setenv("HEADGATE_TOKEN", kept.token)
        address = f"http://127.0.0.1:{kept.served.port}/accounts/job"
        (tmp_path / "there").mkdir()
        (tmp_path / "here").mkdir()
        Faked(tmp_path / "there", accounts=address).run()
        Faked(tmp_path / "here").run()
        with Books(address) as books, opened(tmp_path / "here" / "server") as here:
            found, own = books.audit(), statement(here)
            assert books.ledger.t == 6
    assert paid(found) == paid(own) != []
    assert found.spent == own.spent
