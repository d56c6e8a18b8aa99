"""Admission for Flower: clients are real, and no sample that was paid for is lost or
paid for twice.

Names are imported on first use, so that stores work without Flower and custom clients
without torch.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from headgate.errors import SettingError

if TYPE_CHECKING:
    from headgate.flower.buffer_store import erase
    from headgate.flower.client import headgate_client
    from headgate.flower.recipe import recipe_client, recipe_server
    from headgate.flower.rounds import Discipline
    from headgate.flower.sources import DatasetSource
    from headgate.flower.strategy import AdmissionStrategy, Gated

__all__ = [
    "ENVIRONMENT",
    "AdmissionStrategy",
    "DatasetSource",
    "Discipline",
    "Gated",
    "erase",
    "headgate_client",
    "recipe_client",
    "recipe_server",
]

ENVIRONMENT: Mapping[str, str] = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""environment of every process that starts Flower: no telemetry, no check for updates
and no installation at run time
"""
_HOMES = {
    "AdmissionStrategy": "strategy",
    "DatasetSource": "sources",
    "Discipline": "rounds",
    "Gated": "strategy",
    "erase": "buffer_store",
    "headgate_client": "client",
    "recipe_client": "recipe",
    "recipe_server": "recipe",
}
_EXTRAS = {"flwr": "flower", "torch": "sim"}
"""packages that may be missing, and the extras of headgate that install them"""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        raise SettingError(
            f"{__name__}.{name}: needs {error.name}: pip install"
            f" 'headgate[{_EXTRAS[error.name]}]'"
        ) from None


def __dir__() -> list[str]:
    return __all__
