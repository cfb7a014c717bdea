"""The cache folder does not grow for ever: what was not used for the longest time goes first.

Entries that can be made again count, by the endings of their names. Use is what `touch` notes; of
entries that nobody touches it is when the system saw them read, or written.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock

from rcompiler.support.private_folder import UNFINISHED

_ENTRIES = (".o", ".rcx", ".facts")
_FORSAKEN_S = 3600.0  # a file that nobody has written to for so long is of a process that ended
_SHARE = 16  # of the most bytes that are written before the folder is looked at again


class BoundedFolder:
    """A folder of this user, with at most so many bytes of entries. Threads may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: int | None = None  # since it was looked at
        self._lock = Lock()

    def added(self, size: int, most: int) -> None:
        """Note an entry of so many bytes, and remove others where they are too many together.

        Several processes may do so at once. Raises OSError.
        """
        with self._lock:
            written = None if self._written is None else self._written + size
            if written is not None and written < most // _SHARE:
                self._written = written
                return
            self._written = 0
        self._shrink(most)

    def touch(self, name: str) -> None:
        """Note that an entry is used."""
        with suppress(OSError):
            os.utime(self._path / name)

    def _shrink(self, most: int) -> None:
        found, forsaken = [], time.time() - _FORSAKEN_S
        with os.scandir(self._path) as entries:
            for entry in entries:
                unfinished = entry.name[0] == "." and entry.name.endswith(UNFINISHED)
                if not unfinished and not entry.name.endswith(_ENTRIES):
                    continue
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if not stat.S_ISREG(status.st_mode):
                        continue
                    if not unfinished:
                        used = max(status.st_atime, status.st_mtime)
                        found.append((used, status.st_size, entry.path))
                    elif status.st_mtime < forsaken:
                        os.unlink(entry.path)
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= most:
                break
            with suppress(OSError):  # another process was faster
                os.unlink(path)
            total -= size
