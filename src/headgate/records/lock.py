"""One process at a time writes a run: what it plays is locked until it ends, however it ends.

The locks are the kernel's, on the folder and on files that are there anyway, so they leave nothing behind. A file system
that knows none is gone without.
"""

import os
import sys
from contextlib import ExitStack
from pathlib import Path

from headgate.errors import DataError
from headgate.writing import NOFOLLOW

if sys.platform != "win32":
    import fcntl


class FolderLock(ExitStack):
    """What this process plays. The whole of a run is held by its folder, a part by its config: they may be the same run."""

    def __init__(self) -> None:
        super().__init__()
        self._paths: set[Path] = set()

    def take(self, path: Path, folder: Path) -> None:
        """Hold `path`, a folder or file of the run in `folder`; refused where another process does."""
        if path in self._paths or sys.platform == "win32":
            return
        try:
            descriptor = os.open(path, os.O_RDONLY | (NOFOLLOW if path != folder else 0))
        except OSError as error:
            raise DataError(f"{path}: cannot be opened ({error.strerror})") from None
        self.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"{folder}: is being played by another process; wait for it to end") from None
        except OSError:  # no locks here
            pass
        self._paths.add(path)
