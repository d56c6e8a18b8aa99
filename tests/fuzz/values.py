"""Values that a setting might be given: fine ones, others of another type, and those that are too large for anything."""

FINE = [0, 1, 2, 3, 10, 100, 0.5, 0.1, 0.9, 1.0, 2.5, 20.0]
LARGE = [
    1e3,
    1e6,
    10**6,
    10**9,
    1e9,
    1e12,
    1e15,
    10**15,
    1e16,
    10**18,
    1e18,
    2**63,
    2**64,
    10**23,
    1e100,
    1e200,
    1e300,
    1.7e308,
]
TINY = [1e-9, 1e-30, 1e-90, 1e-150, 1e-300, 5e-324, -0.0]
ODD = [-1, -0.5, -1e300, -(10**20), float("nan"), float("inf"), float("-inf"), True, False, None]
TEXTS = [
    "",
    "x",
    "buffer",
    "none",
    "open",
    "headgate",
    "fifo",
    "os:system",
    "a[/b]",
    "\x1b[2J",
    "x" * 500,
    "x" * 20_000,
    "\u202e",
    "../..",
    "/",
]


def number(pick):
    return pick.choice(pick.choices([FINE, LARGE, TINY, ODD], [5, 4, 1, 2])[0])


def value(pick, depth=0):
    """Of any type."""
    what = pick.random()
    if what < 0.6 or depth > 3:
        return number(pick)
    if what < 0.75:
        return pick.choice(TEXTS)
    if what < 0.9:
        many = pick.choice([0, 1, 2, 3, 10, 100, 2000] if depth == 0 else [0, 1, 2, 3])
        first = value(pick, depth + 1)
        return [first] * many if many > 10 else [value(pick, depth + 1) for _ in range(many)]
    if what < 0.95:
        nested = []
        for _ in range(pick.choice([5, 30, 300])):
            nested = [nested]
        return nested
    return {
        pick.choice(["kind", "K", "a", "capacity", "common", "length"]): value(pick, depth + 1)
        for _ in range(pick.randint(1, 3))
    }


def toml(value):
    """As TOML writes it; what TOML has no word for as text that is none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        import json

        return json.dumps(value).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(each)}" for key, each in value.items()) + "}"
    return "null" if value is None else repr(value)
