"""Files of labelled samples: each sample that was paid for stands in one line, once,
and a line says so if it is rejected later.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from headgate.errors import DataError
from headgate.labels.tasks import DELIVERED, BoughtTask, Tasks
from headgate.writing import NOFOLLOW, sync


def append_new(tasks: Tasks, folder: Path, client: str) -> int:
    """Append what is new to the file of a client; return the number of lines.

    The length of the file is written down after each time. What a killed process wrote
    beyond it is removed and written again, and a file that is shorter is written again
    from its beginning.

    Parameters
    ----------
    tasks : Tasks
        What was bought, and what the file has.
    folder : Path
        Folder of the files, made if it does not exist.
    client : str
        Name of the client.
    """
    name = f"labelled/{client}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{client}.jsonl"
    known = int(tasks.mark_of(name) or 0)
    length = path.lstat().st_size if path.exists() or path.is_symlink() else 0
    if length < known:
        tasks.write_again(client, name)
        known = 0
    new = tasks.unwritten(client)
    if not new and length == known:
        return 0
    lines = [line for line in (_line(*each) for each in new) if line]
    length = _append(path, known, lines)
    tasks.set_written([task for task, _, _ in new], name, str(length))
    return len(lines)


def _line(task: BoughtTask, data: str, written: str) -> str:
    """Return the line for a task; empty for one that was rejected before the file had
    it.
    """
    own = {"key": task.key, "round": task.round}
    if task.booked == DELIVERED:
        line = {**own, **json.loads(data), "label": json.loads(task.label or "null")}
    elif written:
        line = {**own, "rejected": task.why or "rejected"}
    else:
        return ""
    return json.dumps(line, ensure_ascii=False) + "\n"


def _append(path: Path, known: int, lines: Sequence[str]) -> int:
    """Append lines to the first `known` bytes of a file; return its new length."""
    new = not path.exists()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | NOFOLLOW, 0o666)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from None
    with open(descriptor, "wb") as file:
        file.truncate(known)
        file.seek(known)
        file.write("".join(lines).encode("utf-8", "backslashreplace"))
        file.flush()
        os.fsync(file.fileno())
        length = file.tell()
    if new:
        sync(path.parent)
    return length
