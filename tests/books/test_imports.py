"""`Books` stands beside the gate: it needs the control core alone."""

ABOVE = (
    "learning",
    "experiment",
    "records",
    "simulation",
    "analysis",
    "flower",
    "nvflare",
    "registry",
)
"""rooms and files of the package that accounts do without"""
MOST = 44
"""modules of headgate that `from headgate import Books` may load"""


def test_books_load_no_room_above_them_and_few_modules(python):
    code = (
        "import sys\n"
        "from headgate import Books\n"
        "loaded = [name for name in sys.modules if name.startswith('headgate')]\n"
        "rooms = {name.split('.')[1] for name in loaded if '.' in name}\n"
        f"assert not rooms & set({ABOVE!r}), rooms\n"
        "assert 'headgate.books.books' in loaded\n"
        f"assert len(loaded) <= {MOST}, sorted(loaded)\n"
    )
    python("-c", code)
