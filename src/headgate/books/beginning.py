"""What accounts begin with, and what they say of it when they are opened again."""

import json
from typing import Any, NamedTuple, Self

import numpy as np

from headgate.books.addresses import Place
from headgate.books.database import Tables
from headgate.books.journal import Journal
from headgate.books.opening import tables_at
from headgate.books.state import system_of
from headgate.control.checks import optional, whole_number
from headgate.control.controller import Controller
from headgate.control.policy import AdmissionPolicy, check_is_policy
from headgate.control.types import System
from headgate.errors import DataError, SettingError
from headgate.escaping import shown
from headgate.limits import LARGEST


class Opening(NamedTuple):
    """What accounts begin with.

    Parameters
    ----------
    system : System
        Buffers, budget and horizon.
    policy : AdmissionPolicy
        The policy.
    seed : int
        Seed of policies and rules that choose at random.
    offences : int or None
        Number of refused reports after which a client is in quarantine; None: never.
    """

    system: System
    policy: AdmissionPolicy
    seed: int = 0
    offences: int | None = None

    @classmethod
    def checked(
        cls,
        system: object,
        policy: object,
        seed: object,
        offences: object,
    ) -> Self:
        """Refuse what no accounts can begin with, before anything is on disk."""
        if not isinstance(system, System):
            raise SettingError(
                f"Books: system = {shown(system)}: must be a headgate.System"
            )
        number = optional(whole_number, "Books: offences", offences, 1)
        found = whole_number("Books: seed", seed, 0, LARGEST)
        check_is_policy(policy, "Books: policy")
        assert isinstance(policy, AdmissionPolicy)
        opening = cls(system, policy, found, number)
        opening.controller()
        return opening

    @classmethod
    def of(cls, tables: Tables) -> Self:
        """Return what accounts say that they began with; refuse those that do not name
        their policy, or name one that is not shipped with headgate.
        """
        from headgate.registry import POLICY, Search, make

        first = next(tables.entries(), None) if tables.account else None
        if first is None:
            raise DataError(
                f"{tables.path}: holds no accounts yet; give Books a system and a"
                " policy"
            )
        with tables.readable("opening"):
            body = json.loads(first.body)
            system, seed = system_of(body["system"]), body["seed"]
        if "policy" not in body or seed is None:
            raise DataError(
                f"{tables.path}: does not say how its policy is set; give Books the"
                " system and the policy"
            )
        nothing = Search(trusted=())  # a ledger names no code that is imported
        policy = make(POLICY, body["policy"], f"{tables.path}: policy", nothing)
        return cls(system, policy, seed, body.get("offences"))

    @property
    def limited(self) -> AdmissionPolicy:
        """The policy within the approved money and the buffers."""
        # a policy is of a module that is loaded already; this one need not be before
        from headgate.control.policies.references import held

        return held(self.policy)

    def controller(self) -> Controller:
        """Return the controller of the first round."""
        return Controller(self.system, self.limited, 1, np.array([self.seed]))

    def described(self) -> dict[str, Any]:
        """Return the policy as a recipe describes it, for the first entry; empty if no
        recipe can.
        """
        from headgate.registry import POLICY, Unnamed, table_of

        try:
            found: dict[str, Any] = {"policy": table_of(POLICY, self.policy)}
        except Unnamed:
            return {}
        if self.offences is not None:
            found["offences"] = self.offences
        return found


def create(
    place: Place,
    opening: Opening,
    by: str,
    key: str,
    digest: str,
) -> bool:
    """Write the first entry of accounts; return False if they are there.

    The entry has who asked for it, the key of the request and the digest of its
    content.
    """
    tables = tables_at(place, new=True)
    try:
        if tables.account:
            return False
        more = {**opening.described(), "digest": digest}
        first = opening.controller()
        Journal.create(tables, first, opening.seed, more, by, f"key {key}")
        return True
    finally:
        tables.close()
