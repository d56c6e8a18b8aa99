"""Admission through `headgate.Books` on NVFlare: `AdmissionController` on the server, `Admissions` in a client's script."""

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from nvflare.app_common.abstract.fl_model import FLModel, MetaKey, ParamsType
from nvflare.app_common.workflows.base_fedavg import BaseFedAvg
from safetensors.numpy import load_file, save

from headgate.books.books import Books, Delivery, Purchase
from headgate.books.messages import checked
from headgate.control.types import System
from headgate.errors import DataError, HeadgateError, SettingError
from headgate.escaping import one_line, shown
from headgate.registry import POLICY, make
from headgate.writing import clear_partial, json_bytes, replace_file, sync

Model = dict[str, NDArray[Any]]
META = "headgate"  # the key of purchases and reports in the meta data of an FLModel


class Admissions:
    """The admissions of one client in one run, on disk. `report` goes into the meta data of the client's reply.

    Parameters
    ----------
    folder : str or Path
        Folder of the count, created if it does not exist. It must be outside the job's workspace, which NVFlare empties.
    """

    def __init__(self, folder: Path | str) -> None:
        self._path = Path(folder) / "admissions.json"
        self.report: dict[str, Any] = {}

    def admit(self, model: Any, most: int | None = None, erased: int = 0) -> range:
        """Admit the purchase of this round, once. If the round is repeated, report what was admitted the first time.

        Parameters
        ----------
        model : FLModel
            The model as it was received.
        most : int, optional
            Number of new samples that are available in this round, by default all. Missing samples are not charged.
        erased : int, optional
            Number of samples that the client should hold now, but that were erased.

        Returns
        -------
        range
            The samples to hold and to train on, as positions among all samples that the client ever admits, counted from 0.
        """
        fields = dict(model.meta[META])
        run, order = fields.pop("run"), Purchase(**fields)
        known, position, done = order.last - order.samples, 0, dict[int, int]()
        if self._path.exists():
            found = json.loads(self._path.read_bytes())
            position, done = found["position"], {int(t): admitted for t, admitted in found["rounds"].items()}
            if found["run"] != run:
                raise DataError(f"{self._path}: belongs to another run; give this one a folder of its own")
        if not position - sum(done.values()) <= known <= position or order.round < max(done, default=0):
            raise DataError(f"{self._path}: counts {position} samples, the server {known}: one of both is an old copy")
        if order.round not in done:
            left = max(order.last - position, 0)
            done[order.round] = left if most is None else max(min(left, most), 0)
            position += done[order.round]
        while len(done) > 1 and position - sum(done.values()) + done[min(done)] <= known:
            del done[min(done)]  # the server has received this report
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self._path, json_bytes({"run": run, "position": position, "rounds": done}))
        sync(self._path.parent)
        self.report = {META: {"rounds": sorted(done), "admitted": [done[t] for t in sorted(done)], "erased": erased}}
        return order.held(position)


class AdmissionController(BaseFedAvg):  # type: ignore[misc]  # NVFlare has no types
    """Federated averaging on NVFlare in which headgate decides what each client admits. It can be killed at any time.

    Clients are weighted by the samples that they hold. Subclasses may override `price`, `present`, `load_model` (the first
    model), `aggregate` and `update_model`.

    Parameters
    ----------
    folder : str
        Folder of the accounts and the model. It must be outside the job's workspace, which NVFlare empties.
    sites : list of str
        Names of NVFlare's clients, in the order of the buffers; additional names are for clients that join later.
    system : dict
        The settings of `headgate.System`: buffer, budget, horizon, weight, currency.
    policy : str or dict, optional
        The policy as in a recipe: its kind, or its kind and settings.
    prices : list of float, optional
        Price of a sample in each round. If it is left out, override `price`.
    timeout : int, optional
        Seconds to wait for the replies of a round; 0: no limit. A client that is late reports with its next reply.
    persistor_id : str, optional
        Id of the NVFlare component that loads the first model and saves the last one.
    """

    def __init__(
        self, folder: str, sites: Sequence[str], system: Mapping[str, Any], policy: str | Mapping[str, Any] = "headgate",
        prices: Sequence[float] = (), timeout: int = 0, persistor_id: str = "",
    ) -> None:  # fmt: skip
        super().__init__(persistor_id=persistor_id, ignore_result_error=True, task_check_period=0.1)
        self.folder, self.sites, self.system = folder, sites, system  # NVFlare writes attributes of these names into the job
        self.policy, self.prices, self.timeout = policy, prices, timeout

    def price(self, t: int) -> ArrayLike:
        """Return the price of a sample in round t, counted from 1: one number, or one for each client."""
        if t > len(self.prices):
            raise SettingError(f"prices: has {len(self.prices)} of them, none for round {t}; give more, or override `price`")
        return self.prices[t - 1]

    def present(self, t: int) -> list[str]:
        """Return the names of the clients that are connected in round t: by default, all that NVFlare knows."""
        return [client.name for client in self.engine.get_clients()]

    def run(self) -> None:
        """Run the remaining rounds. NVFlare calls this method."""
        with Books(self.folder, System(**self.system), make(POLICY, self.policy, "policy")) as books:
            clear_partial(Path(self.folder))
            if not (t := books.ledger.t) and not self._path(0).exists():
                self._write(0, {name: np.asarray(own) for name, own in self.load_model().params.items()})
            model = load_file(self._path(t))
            while not self.abort_signal.triggered and books.ledger.t < (books.system.horizon or np.inf):
                if books.system.clients > len(self.sites):
                    raise SettingError(f"sites: names {len(self.sites)} clients, the accounts have {books.system.clients}")
                model = self._round(books, books.ledger.t + 1, model)
        if self.persistor:
            self.save_model(FLModel(params=model))

    def _round(self, books: Books, t: int, model: Model) -> Model:
        """Run round t and return the new model. If no client is present or the job is stopped, return the same model."""
        self.current_round, there, answers = t, self.present(t), dict[int, FLModel]()
        if not (present := [m for m in range(books.system.clients) if self.sites[m] in there]):
            time.sleep(1.0)
            return model
        for each in (purchases := books.begin(self.price(t), present)):
            task = FLModel(params=model, current_round=t, meta={META: {**each._asdict(), "run": books.name}})
            keep = partial(answers.__setitem__, each.client)
            self.send_model(data=task, targets=[self.sites[each.client]], timeout=self.timeout, callback=keep)
        while self.get_num_standing_tasks() and not self.abort_signal.triggered:
            time.sleep(self._task_check_period)
        if self.abort_signal.triggered:
            return model
        reports, refused, results = dict[int, Delivery](), dict[int, str](), list[FLModel]()
        for client, answer in sorted(answers.copy().items()):
            try:
                report = _delivery(answer.meta.get(META), t)
                if n := books.check(client, report):
                    meta = {MetaKey.NUM_STEPS_CURRENT_ROUND: n, "client_name": self.sites[client]}
                    results.append(FLModel(params=_params(answer, model), current_round=t, meta=meta))
                reports[client] = report
            except HeadgateError as error:
                refused[client] = one_line(error)
                self.warning(f"{self.sites[client]}: its answer does not count: {refused[client]}")
        if results:
            found = self.update_model(FLModel(params=dict(model)), self.aggregate(results)).params
            model = {name: np.asarray(found[name], own.dtype) for name, own in model.items()}
        self._write(t, model)
        books.settle(reports, refused)
        self._path(t - 1).unlink(missing_ok=True)
        self.info(f"headgate: round {t}: {len(reports)} of {len(purchases)} answers, {books.ledger.spent[0]:g} spent in all")
        return model

    def _path(self, t: int) -> Path:
        return Path(self.folder) / f"model-{t:08d}.safetensors"

    def _write(self, t: int, model: Model) -> None:
        if not model:
            raise SettingError("persistor_id: names no component that has a model; name one, or override `load_model`")
        replace_file(self._path(t), save({name: np.asarray(own, order="C") for name, own in model.items()}))
        sync(Path(self.folder))


def _params(answer: FLModel, model: Model) -> Model:
    """Return the full parameters of a client. Names, shapes or types that do not fit the model are refused."""
    params = answer.params
    if not isinstance(params, dict) or params.keys() != model.keys():
        raise DataError(f"params = {shown(params)}: must have the names {shown(list(model))}")
    for name, own in model.items():
        found = params[name] if isinstance(params[name], np.ndarray) else np.array(None)
        if found.shape != own.shape or found.dtype.kind not in "fiub" or not np.isfinite(found).all():
            raise DataError(f"params.{name}: must be finite numbers of shape {own.shape}")
    return {name: own + params[name] for name, own in model.items()} if answer.params_type == ParamsType.DIFF else params


def _delivery(sent: Any, t: int) -> Delivery:
    """Return a client's report on round t. A malformed report is refused; the accounts check whether it can be true."""
    report = sent if isinstance(sent, dict) else {}
    rounds, admitted = (checked(name, tuple[int, ...], report.get(name)) for name in ("rounds", "admitted"))
    if len(rounds) != len(admitted) or max(rounds, default=0) != t:
        raise DataError(f"rounds = {shown(rounds)}: must go up to {t}, with as many numbers as in admitted")
    done = dict(zip(rounds, admitted, strict=True))
    return Delivery(done.pop(t), earlier=done, erased=checked("erased", int, report.get("erased")))
