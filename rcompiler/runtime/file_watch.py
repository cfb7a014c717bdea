"""A file that a model has mapped: whether it still has the bytes that were loaded.

Whoever writes over such a file, or cuts it off, changes weights that are in use: answers would be
those of other weights, and what is no longer there ends the process when it is read. A lease
(`file_lease`) prevents both where the system gives one. Elsewhere both can be seen from outside at
the price of a microsecond: the system keeps the size of a file and the time of the last write.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from pathlib import Path

from rcompiler.errors import ArtifactError
from rcompiler.runtime.file_lease import FileLease, file_state


class FileWatch:
    """Looks at a file by a handle of its own: what takes its name later is another file.

    Attributes:
        size: of the file when it was loaded.
        lease: on the file, see `protect`; None: there is none.
    """

    def __init__(self, path: Path, handle: int) -> None:
        """path: what to call it. handle: of the open file, before anything of it is read."""
        self._path = path
        self._handle = os.dup(handle)
        weakref.finalize(self, os.close, self._handle)
        self._seen = file_state(self._handle)
        self.size = self._seen[0]
        self.lease: FileLease | None = None
        self._intact: Callable[[], bool] = lambda: False
        self._fault: str | None = None

    def protect(self) -> bool:
        """Take a lease, where the system gives one.

        Returns:
            Whether the file may be mapped: not while somebody has it open for writing, who is told
            of no lease and could change it at any time.
        """
        try:
            self.lease = FileLease(self._handle)
        except BlockingIOError:
            return False
        except OSError:  # the file is another user's, or its file system has no leases
            pass
        return True

    def expect(self, intact: Callable[[], bool]) -> None:
        """What is asked when the file was written to: whether all that is read has its checksums.

        Args:
            intact: reads the mapping, unless the file has another size.
        """
        self._intact = intact

    def check(self) -> None:
        """See whether the file is as it was loaded; one that was only touched is.

        Raises:
            ArtifactError: it is not, now and from now on.
        """
        if self.lease is not None:
            self.lease.renew()
        if self._fault is None:
            now = file_state(self._handle)
            # In this order: who writes waits until there is a copy.
            if now == self._seen or (self.lease is not None and self.lease.copied):
                return
            if now[0] != self.size:
                self._fault = f"it had {self.size} bytes when it was loaded and has {now[0]}"
            elif not self._intact():
                self._fault = "it has other bytes than when it was loaded"
            else:
                self._seen = now
                return
        raise ArtifactError(
            f"{self._path}: the file was written over while a model is loaded that has its weights "
            f"mapped: {self._fault}; load it again. Replace a file by renaming another one to it "
            "(mv, or save()), not by writing into it (cp), or load it with mapped=False"
        )
