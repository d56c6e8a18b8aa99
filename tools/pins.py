"""Makes constraints.txt from pip's report of a dry-run install with all extras.

pip install --dry-run --ignore-installed --report report.json '.[sim,flower,web,track,dev]'
python tools/pins.py report.json
"""

import json
import re
import sys
from pathlib import Path

HEAD = """\
# Every version that an install of headgate with all extras resolves to on Python 3.11; `make` installs with it.
# Made by tools/pins.py, which says how.
"""


def pins(report: dict) -> list[str]:
    found = {
        re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower(): item["metadata"]["version"].split("+")[0]
        for item in report["install"]
    }
    found.pop("headgate", None)
    return [f"{name}=={version}" for name, version in sorted(found.items())]


if __name__ == "__main__":
    lines = pins(json.loads(Path(sys.argv[1]).read_text("utf-8")))
    (Path(__file__).parent.parent / "constraints.txt").write_text(HEAD + "\n".join(lines) + "\n", "utf-8")
