"""A database for accounts, as in the tests of accounts."""

from tests.books.conftest import database

__all__ = ["database"]
