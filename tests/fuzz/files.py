"""Data files and price traces with any bytes changed, cut or repeated, and small bombs: refused in one line, or read."""

import gzip
import random
import struct
import sys
import tempfile
import zlib
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from limited import tried

from headgate.control.prices import Trace
from headgate.learning.data import Data, TableFile
from headgate.learning.formats import recognise
from learning.formats import written

LAYOUTS = {
    "idx": lambda folder, grey, colour: written.write_idx(folder, grey, False),
    "idx.gz": lambda folder, grey, colour: written.write_idx(folder, grey, True),
    "records": lambda folder, grey, colour: written.write_binary(folder, colour),
    "pictures": lambda folder, grey, colour: written.write_pictures(folder, colour),
    "trace.csv": lambda folder, grey, colour: (folder / "trace.csv").write_text("price\n1\n2.5\n3\n", "utf-8"),
    "table.csv": lambda folder, grey, colour: (folder / "table.csv").write_text("a,b,y\n" + "1,2.5,no\n3,4,yes\n" * 5, "utf-8"),
    "table.npz": lambda folder, grey, colour: np.savez(folder / "table.npz", x=np.eye(10), y=np.arange(10) % 2),
}
NUMBERS = [b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x00" * 4, b"\xff" * 8, b"\x80", b"\x00", b"nan", b"1e999", b"9" * 5000]
CORPUS = [
    {"bomb": "idx.gz"}, {"bomb": "png"}, {"bomb": "parquet pages"},
    {"layout": "idx", "file": 0, "changes": [["put", 4, "00000000ffffffffffffffff"]]},
]  # fmt: skip


@cache
def originals(layout):
    """(path inside the folder, bytes) of every file of a layout."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if layout == "parquet":
            written.write_parquet(folder, written.Sample(3, 32), classes=[str(i) for i in range(10)])
        elif layout == "table.parquet":
            import polars as pl

            pl.DataFrame({"a": np.arange(10), "y": ["no", "yes"] * 5}).write_parquet(folder / layout)
        else:
            LAYOUTS[layout](folder, written.Sample(1, 28), written.Sample(3, 32))
        return [(path.relative_to(folder), path.read_bytes()) for path in sorted(folder.rglob("*")) if path.is_file()]


def make(pick):
    layout = pick.choice([*LAYOUTS, "parquet", "table.parquet"])
    changes = []
    for _ in range(pick.choice([1, 1, 2, 5, 20])):
        what = pick.choice(["put", "put", "cut", "repeat", "drop"])
        place = (
            pick.random() if pick.random() < 0.5 else pick.random() * 0.01 if pick.random() < 0.5 else 1 - pick.random() * 0.05
        )
        with_ = pick.choice(NUMBERS) if pick.random() < 0.5 else pick.randbytes(pick.choice([1, 1, 2, 4]))
        changes.append([what, place, with_.hex()])
    return {"layout": layout, "file": pick.randrange(10**6), "changes": changes}


def changed(content, changes):
    for what, place, with_ in changes:
        at = place if isinstance(place, int) else int(place * len(content))
        data = bytes.fromhex(with_)
        if what == "put":
            content = content[:at] + data + content[at + len(data) :]
        elif what == "cut":
            content = content[:at]
        elif what == "repeat":
            content = content[:at] + content[max(at - 64, 0) : at] * 50 + content[at:]
        else:
            content = content[:at] + content[at + 7 :]
    return content


def run(given):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "bomb" in given:
            bomb(folder, given["bomb"])
        else:
            files = originals(given["layout"])
            which = given["file"] % len(files)
            for i, (path, content) in enumerate(files):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(changed(content, given["changes"]) if i == which else content)
            if given["layout"] == "trace.csv":
                Trace(file=str(folder / "trace.csv"), at_end="repeat").path(np.arange(2), 1, 10)
                return "read"
            if given["layout"].startswith("table."):
                Data(TableFile(str(folder / given["layout"]), label="y")).load()
                return "read"
        found = recognise(folder)
        if found is None:
            return "not recognised"
        found.counts()
        found.read(3, 10, size=16)
        return "read"


def bomb(folder, kind):
    if kind == "idx.gz":
        inside = bytes([0, 0, 8, 3]) + struct.pack(">3I", 80, 1024, 1024) + bytes(80 << 20)
        for name in ("train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz"):
            (folder / name).write_bytes(gzip.compress(inside, 1))
        for name in ("train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"):
            (folder / name).write_bytes(bytes([0, 0, 8, 1]) + struct.pack(">I", 80) + bytes(80))
    elif kind == "png":
        head = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
        data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))
        for split in ("train", "test"):
            (folder / split / "one").mkdir(parents=True)
            (folder / split / "one" / "a.png").write_bytes(data)
    else:
        import polars as pl

        picture = pl.Series("image", [{"bytes": bytes(10**5), "path": ""}]).new_from_index(0, 1500)
        frame = pl.DataFrame({"image": picture, "label": [0] * 1500})
        for name in ("train.parquet", "test.parquet"):
            frame.write_parquet(folder / name)


def main(seconds=None, seed=0, steps=None):
    for layout in LAYOUTS:
        originals(layout)  # parquet is written in the child alone: its threads do not survive a fork
    return tried(seconds, seed, steps, CORPUS, make, run)


if __name__ == "__main__":
    print(main(10, random.randrange(10**6)))
