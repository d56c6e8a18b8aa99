"""Recipes and run folders of older versions, in the words of today."""

from collections.abc import Mapping
from typing import Any

from headgate.control.policies import KINDS as POLICIES
from headgate.control.policies import Buyer

PARTITION_KEYS = {"pairs": ("per_class",), "iid": ("per_client",), "dirichlet": ("alpha",), "column": ("column",)}
RULE_KEYS = ("retention", "K", "capacity", "ratio")


def modern(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a recipe as they are written today; what is new already stays as it is."""
    tables = {"prices" if section == "cost" else section: _copied(table) for section, table in raw.items()}
    for section in ("data", "model"):
        table = tables.get(section)
        if isinstance(table, dict) and "name" in table:
            name = table.pop("name")
            table.setdefault("kind", name)
    if isinstance(tables.get("data"), dict):
        _partition(tables["data"])
    if isinstance(tables.get("prices"), dict):
        tables["prices"] = _per_client(tables["prices"])
    if isinstance(tables.get("policies"), dict):
        for name, table in tables["policies"].items():
            if isinstance(table, dict):
                _rule(table, table.get("kind", name))
    return tables


def _copied(value: Any) -> Any:
    return {key: _copied(each) for key, each in value.items()} if isinstance(value, Mapping) else value


def _partition(data: dict[str, Any]) -> None:
    """`partition = "pairs"` with `per_class` beside it."""
    said = data.get("partition", "pairs")
    table = {"kind": said} if isinstance(said, str) else said
    flat = {key: data.pop(key) for keys in PARTITION_KEYS.values() for key in keys if key in data}
    if isinstance(table, dict) and flat:
        own = PARTITION_KEYS.get(table.get("kind", ""), ())
        data["partition"] = {**table, **{key: value for key, value in flat.items() if key in own}}


def _per_client(prices: dict[str, Any]) -> dict[str, Any]:
    """`per_client` and `client_noise` beside the keys of the common price."""
    factors, noise = prices.pop("per_client", None), prices.pop("client_noise", None)
    if factors is None and noise is None:
        return prices
    return {"kind": "per-client", "common": prices} | {
        key: value for key, value in (("factors", factors), ("noise", noise)) if value is not None
    }


def _rule(policy: dict[str, Any], kind: Any) -> None:
    """`retention`, `K`, `capacity` and `ratio` of a policy that has a rule."""
    for key in [key for key, value in policy.items() if value == "auto"]:
        del policy[key]
    own = POLICIES.get(kind) if isinstance(kind, str) else None
    buyer = own is not None and issubclass(own, Buyer)
    if "rule" in policy or not (buyer or "retention" in policy):
        return
    flat = {key: policy.pop(key) for key in RULE_KEYS if key in policy}
    if not flat:
        return
    rule = flat.pop("retention", "fifo")
    if rule == "fifo" and "K" in flat:
        rule, flat = "kstep", {"capacity": "buffer", **flat}
    if not buyer and "K" in flat:
        policy["K"] = flat["K"]
    policy["rule"] = {"kind": rule, **flat}
