"""Files of labelled samples: each sample that was paid for stands in one line, once,
and a line says so if it is rejected later.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from headgate.errors import DataError
from headgate.labels.tasks import FileLine, Tasks
from headgate.writing import NOFOLLOW, sync


def append_new(tasks: Tasks, folder: Path, client: str) -> None:
    """Append what is new to the file of a client.

    Each line has its number before it is written, and the length of the file is noted
    after it. So what a killed process wrote beyond the noted length is removed and
    written again, and a file that was cut or lost gets the same bytes that it had.

    Parameters
    ----------
    tasks : Tasks
        What was bought, and what the file has.
    folder : Path
        Folder of the files, made if it does not exist.
    client : str
        Name of the client.
    """
    name, path = f"labelled/{client}", folder / f"{client}.jsonl"
    tasks.number_lines(client)
    known, last = map(int, (tasks.mark_of(name) or "0 0").split())
    length = path.lstat().st_size if path.exists() or path.is_symlink() else 0
    if length < known:
        known, last = 0, 0
    new = tasks.lines(client, last)
    if new or length != known:
        folder.mkdir(parents=True, exist_ok=True)
        length = _append(path, known, new)
        last = new[-1].place if new else last
        tasks.set_written(name, f"{length} {last}")


def _append(path: Path, known: int, lines: Sequence[FileLine]) -> int:
    """Append lines to the first `known` bytes of a file; return its new length."""
    new = not path.exists()
    text = "".join(map(_text, lines))
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | NOFOLLOW, 0o666)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from None
    with open(descriptor, "wb") as file:
        file.truncate(known)
        file.seek(known)
        # half a character, which JSON may hold, is written as JSON escapes it
        file.write(text.encode("utf-8", "backslashreplace"))
        file.flush()
        os.fsync(file.fileno())
        length = file.tell()
    if new:
        sync(path.parent)
    return length


def _text(line: FileLine) -> str:
    own = {"key": line.key, "round": line.round}
    if line.data is None or line.label is None:
        own["rejected"] = line.why or "rejected"
    else:
        own = {**own, **json.loads(line.data), "label": json.loads(line.label)}
    return json.dumps(own, ensure_ascii=False) + "\n"
