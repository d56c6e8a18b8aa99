"""The controller of a job on NVFlare, in which headgate decides what each client
admits.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from nvflare.app_common.abstract.fl_model import FLModel, MetaKey, ParamsType
from nvflare.app_common.abstract.model import make_model_learnable
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.workflows.base_fedavg import BaseFedAvg

from headgate.books.books import Books
from headgate.books.nouns import Delivery, Purchase
from headgate.books.updates import NamedArrays, check_update, shorten
from headgate.control.checks import amount, optional, text, whole_number
from headgate.control.types import System
from headgate.errors import DataError, HeadgateError, SettingError
from headgate.escaping import one_line, shown
from headgate.limits import LINE, TINY
from headgate.nvflare.admissions import META, SENT_FIELDS
from headgate.nvflare.answers import Model, cast, read_report, read_update, same_shapes
from headgate.nvflare.settings import (
    amounts,
    checked_present,
    checked_price,
    plain_folder,
    plain_policy,
    plain_sites,
    plain_system,
)
from headgate.nvflare.stored import KeptModel, first, read_model, write_model
from headgate.registry import POLICY, make
from headgate.writing import clear_partial

MODELS = "model-*.safetensors"


class AdmissionController(BaseFedAvg):  # type: ignore[misc]  # NVFlare has no types
    """Federated averaging on NVFlare in which headgate decides what each client admits.
    It can be killed at any time.

    Clients are weighted by the samples that they hold. Subclasses may override `price`,
    `present`, `load_model` (the first model), `aggregate` and `update_model`.

    Parameters
    ----------
    folder : str
        Folder of the model and, if `accounts` is left out, of the accounts. It must be
        outside the job's workspace, which NVFlare empties.
    sites : list of str
        Names of NVFlare's clients, in the order of the buffers; additional names are
        for clients that join later.
    system : dict
        The settings of `headgate.System`: buffer, budget, horizon, weight, currency,
        quantum.
    policy : str or dict, optional
        The policy as in a recipe: its kind, or its kind and settings.
    prices : list of float, optional
        Price of a sample in each round. If it is left out, override `price`.
    timeout : int, optional
        Seconds to wait for the replies of a round; 0: no limit. A client that is late
        reports with its next reply.
    persistor_id : str, optional
        Id of the NVFlare component that loads the first model and saves the last one.
    norm_multiple : float, optional
        Multiple of the median length beyond which an update is shortened to the median
        length; 0: never.
    norm_cap : float, optional
        Length of the longest update that is accepted; a longer one is an offence; left
        out: any length.
    offences : int, optional
        Number of refused answers after which a client gets no more orders. What a valid
        report in its last answer says is charged, and the rest of its open orders is
        released.
    accounts : str, optional
        Address of the accounts, as in https://host/accounts/name or
        postgresql://host/database/name; left out: `folder`. The token of a service is
        that in HEADGATE_TOKEN.

    Examples
    --------
    >>> import tempfile
    >>> controller = AdmissionController(
    ...     tempfile.mkdtemp(),
    ...     ["site-1", "site-2"],
    ...     {"buffer": [8, 9], "budget": 20.0, "horizon": 2},
    ...     prices=[3.0, 1.5],
    ... )
    """

    def __init__(
        self,
        folder: str,
        sites: Sequence[str],
        system: Mapping[str, Any],
        policy: str | Mapping[str, Any] = "headgate",
        prices: Sequence[float] = (),
        timeout: int = 0,
        persistor_id: str = "",
        norm_multiple: float = 10.0,
        norm_cap: float | None = None,
        offences: int = 3,
        accounts: str = "",
    ) -> None:
        own = "AdmissionController"
        persistor_id = text(f"{own}: persistor_id", persistor_id, LINE)
        super().__init__(
            persistor_id=persistor_id,
            ignore_result_error=True,
            task_check_period=0.1,
        )
        # NVFlare writes attributes with the names of parameters into the job, as JSON,
        # and makes the object again from them
        self.folder = plain_folder(f"{own}: folder", folder)
        self.accounts = text(f"{own}: accounts", accounts, LINE)
        self.sites = plain_sites(f"{own}: sites", sites)
        self.system = plain_system(f"{own}: system", system)
        self.policy = plain_policy(f"{own}: policy", policy)
        self.prices = amounts(f"{own}: prices", prices)
        self.timeout = whole_number(f"{own}: timeout", timeout)
        self.norm_multiple = amount(f"{own}: norm_multiple", norm_multiple)
        self.norm_cap = optional(amount, f"{own}: norm_cap", norm_cap, TINY)
        self.offences = whole_number(f"{own}: offences", offences, 1)
        clients = len(self.system["buffer"])
        if len(self.sites) < clients:
            raise SettingError(
                f"{own}: sites = {shown(self.sites)}: must be {clients} names or more,"
                " one for each buffer"
            )

    def price(self, t: int) -> ArrayLike:
        """Return the price of a sample in a round; override it for prices that are not
        known in advance.

        Parameters
        ----------
        t : int
            The round, counted from 1.

        Returns
        -------
        array_like
            One number, or one for each client.

        Raises
        ------
        SettingError
            If `prices` has none for this round.
        """
        if t > len(self.prices):
            raise SettingError(
                f"prices: has {len(self.prices)} of them, none for round {t}; give"
                " more, or override `price`"
            )
        return self.prices[t - 1]

    def present(self, t: int) -> list[str]:
        """Return the clients that are connected in a round: by default, all sites that
        NVFlare knows.

        Parameters
        ----------
        t : int
            The round, counted from 1.

        Returns
        -------
        list of str
            Names of sites.
        """
        names = [client.name for client in self.engine.get_clients()]
        return [name for name in names if name in self.sites]

    def run(self) -> None:
        """Run the remaining rounds. NVFlare calls this method."""
        folder = Path(self.folder)
        new = None
        if not any(folder.glob(MODELS)):  # before there are accounts
            new = first(self._first_model())
        system, policy = System(**self.system), make(POLICY, self.policy, "policy")
        place = self.accounts or folder
        with Books(place, system, policy, offences=self.offences) as books:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            clear_partial(folder)
            if new is not None:
                self._begin_with(new, books)
            kept = read_model(self._path(books.ledger.t))
            while not self._is_over(books):
                clients = books.system.clients
                if clients > len(self.sites):
                    raise SettingError(
                        f"sites: names {len(self.sites)} clients, the accounts have"
                        f" {clients}"
                    )
                kept = self._round(books, books.ledger.t + 1, kept)
            self.info(f"headgate: {books.statement().sentence}")
        if self.persistor:
            self.save_model(FLModel(params=kept.arrays))

    def _is_over(self, books: Books) -> bool:
        horizon = books.system.horizon
        last = horizon is not None and books.ledger.t >= horizon
        return last or self.abort_signal.triggered

    def _first_model(self) -> Model:
        """Return what `load_model` gives, if it can be averaged."""
        params = getattr(self.load_model(), "params", None)
        if not params:
            raise SettingError(
                "persistor_id: names no component that has a model; name one, or"
                " override `load_model`"
            )
        if not isinstance(params, Mapping) or not all(
            isinstance(name, str) for name in params
        ):
            raise SettingError(
                f"load_model: params = {shown(params)}: must be arrays by name"
            )
        arrays = {name: np.array(own) for name, own in params.items()}
        try:
            same_shapes(arrays, arrays)
            check_update(arrays, arrays)
        except DataError as error:
            raise SettingError(f"load_model: {error}") from None
        return arrays

    def _begin_with(self, new: KeptModel, books: Books) -> None:
        if books.ledger.t:
            raise DataError(
                f"{self._path(books.ledger.t)}: is gone; the accounts go up to round"
                f" {books.ledger.t}"
            )
        write_model(self._path(0), new)

    def _round(
        self,
        books: Books,
        t: int,
        kept: KeptModel,
    ) -> KeptModel:
        """Run round t and return the new model. If no client can be asked or the job is
        stopped, return the same model.
        """
        self.current_round = t
        there = checked_present(t, self.present(t), self.sites)
        quarantined = {int(client) for client in books.quarantined}
        present = [
            m
            for m in range(books.system.clients)
            if self.sites[m] in there and m not in quarantined
        ]
        if not present:
            time.sleep(1.0)
            return kept
        price = checked_price(t, self.price(t), books.system.clients, len(self.sites))
        purchases = books.begin(price, present)
        answers = self._ask(purchases, t, kept.arrays, books.name)
        if self.abort_signal.triggered:
            return kept
        judged = self._judge(books, t, answers, kept.arrays)
        after = self._moved(t, judged.updates, kept)
        write_model(self._path(t), after)
        books.settle(judged.reports, judged.refused)
        self._path(t - 1).unlink(missing_ok=True)
        caught = {int(client) for client in books.quarantined} - quarantined
        for client in sorted(caught):
            lift = f"headgate flower clients {self.folder} --lift {client}"
            self.warning(
                f"{self.sites[client]}: gets no more orders after {self.offences}"
                f" refused answers; `{lift}` ends this"
            )
        accepted = len(judged.reports.keys() - judged.refused.keys())
        self.info(
            f"headgate: round {t}: {accepted} of {len(purchases)} answers;"
            f" {books.why}; {books.ledger.spent[0]:g} spent in all"
        )
        return after

    def _ask(
        self,
        purchases: Iterable[Purchase],
        t: int,
        model: Model,
        run: str,
    ) -> dict[int, FLModel]:
        """Send the purchases and the model, wait, and return the answers by client."""
        answers: dict[int, FLModel] = {}
        for each in purchases:
            client = int(each.client)
            sent = {name: getattr(each, name) for name in SENT_FIELDS}
            meta = {META: {**sent, "run": run}}
            self.send_model(
                data=FLModel(
                    params=model,
                    current_round=t,
                    meta=meta,
                ),
                targets=[self.sites[client]],
                timeout=self.timeout,
                callback=partial(answers.__setitem__, client),
            )
        while self.get_num_standing_tasks() and not self.abort_signal.triggered:
            time.sleep(self._task_check_period)
        return answers.copy()

    def _judge(
        self,
        books: Books,
        t: int,
        answers: Mapping[int, FLModel],
        model: Model,
    ) -> "_Judged":
        """Check the answers. An answer is accepted as a whole, or refused as a whole
        for a reason.
        """
        judged = _Judged({}, {}, {})
        for client, answer in sorted(answers.items()):
            try:
                report = read_report(answer.meta.get(META), t)
                deliveries = report.deliveries(books, client)
                held = books.check(client, deliveries)
                judged.reports[client] = deliveries
                if held:
                    is_change = answer.params_type == ParamsType.DIFF
                    update = read_update(answer.params, is_change, model, self.norm_cap)
                    judged.updates[client] = held, update
            except HeadgateError as error:
                judged.refused[client] = one_line(error)
        for client, reason in judged.refused.items():
            self.warning(f"{self.sites[client]}: its answer does not count: {reason}")
        return judged

    def _moved(
        self,
        t: int,
        updates: Mapping[int, tuple[int, Model]],
        kept: KeptModel,
    ) -> KeptModel:
        """Return the model after the updates of round t. If that is not finite, the
        model stays as it was.
        """
        if not updates:
            return kept
        arrays, medians = self._capped(updates, kept)
        results = []
        for (client, (n, _)), own in zip(updates.items(), arrays, strict=True):
            meta = {
                MetaKey.NUM_STEPS_CURRENT_ROUND: n,
                "client_name": self.sites[client],
            }
            results.append(
                FLModel(
                    params=_widened(own),
                    current_round=t,
                    meta=meta,
                )
            )
        # `update_model` may change them in place
        before = {name: own.copy() for name, own in kept.arrays.items()}
        with np.errstate(
            over="ignore",
            invalid="ignore",
        ):
            found = self.update_model(FLModel(params=before), self.aggregate(results))
        try:
            shaped = same_shapes(getattr(found, "params", None), kept.arrays)
        except DataError as error:
            raise SettingError(f"aggregate, update_model: {error}") from None
        try:
            moved = cast(shaped, kept.arrays)
            check_update(moved, kept.arrays)
        except DataError as error:
            self.warning(
                f"round {t}: the new model is not finite; the model stays as it was"
                f" ({error})"
            )
            return self._unmoved(KeptModel(kept.arrays, medians))
        return KeptModel(moved, medians)

    def _capped(
        self, updates: Mapping[int, tuple[int, Model]], kept: KeptModel
    ) -> tuple[list[NamedArrays], list[float]]:
        """Return the updates, none much longer than the median, and the medians."""
        arrays: list[NamedArrays] = [update for _, update in updates.values()]
        if not self.norm_multiple:
            return arrays, kept.medians
        arrays, medians, notes = shorten(
            arrays, kept.arrays, self.norm_multiple, kept.medians
        )
        clients = list(updates)
        for note in notes:
            self.warning(f"{self.sites[clients[note.place]]}: {note.reason}")
        return arrays, medians

    def _unmoved(self, kept: KeptModel) -> KeptModel:
        """Give NVFlare's other components the model that stays, in place of the one
        that `update_model` has given them.
        """
        learnable = make_model_learnable(
            weights=dict(kept.arrays),
            meta_props={},
        )
        self.fl_ctx.set_prop(
            AppConstants.GLOBAL_MODEL,
            learnable,
            private=True,
            sticky=True,
        )
        return kept

    def _path(self, t: int) -> Path:
        return Path(self.folder) / f"model-{t:08d}.safetensors"


class _Judged(NamedTuple):
    """The checked answers of a round, each sorted by client."""

    reports: dict[int, list[Delivery]]
    """reports that agree with the purchases, also of clients whose answers are refused
    for another reason
    """
    updates: dict[int, tuple[int, Model]]
    """samples held and model of each client that holds samples"""
    refused: dict[int, str]


def _widened(arrays: NamedArrays) -> Model:
    """Return the arrays for a weighted sum: NVFlare multiplies them by numbers of
    samples, for which float16 has no room.
    """
    return {
        name: own.astype(np.float32) if own.dtype == np.float16 else own
        for name, own in arrays.items()
    }
