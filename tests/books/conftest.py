"""The places of accounts: tests with `place` are run in a folder and in PostgreSQL."""

import secrets
from contextlib import closing

import pytest

from tests import cluster

from .kept import InPostgres

DATABASES = ("sqlite", "postgres")


@pytest.fixture(scope="session")
def database(tmp_path_factory, request):
    """The address of a database of PostgreSQL, one for all workers."""
    if why := cluster.why_not():
        pytest.skip(why)
    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        folder = folder.parent
    with cluster.shared(folder) as address:
        yield address


@pytest.fixture(scope="module")
def own_server():
    """A server for tests that kill it or change its settings."""
    if why := cluster.why_not():
        pytest.skip(why)
    with closing(cluster.Cluster()) as own:
        yield own


@pytest.fixture
def in_postgres(database):
    """A place for accounts in PostgreSQL."""
    return InPostgres(f"{database}/t_{secrets.token_hex(6)}")


@pytest.fixture(scope="module", params=DATABASES)
def module_place(request, tmp_path_factory):
    """A place for accounts that all tests of a file look at, in each kind of
    database.
    """
    if request.param == "sqlite":
        return tmp_path_factory.mktemp("place")
    database = request.getfixturevalue("database")
    return InPostgres(f"{database}/t_{secrets.token_hex(6)}")


@pytest.fixture(params=DATABASES)
def place(request):
    """A place for accounts, in each kind of database."""
    name = "tmp_path" if request.param == "sqlite" else "in_postgres"
    return request.getfixturevalue(name)
