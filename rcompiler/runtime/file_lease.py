"""A lease on a file that is mapped: who opens it for writing waits until we have a copy.

Pages of a file that is cut off are gone at once, also for those who have mapped it: a kernel that
reads them is ended by SIGBUS, whatever it looked at before it began. Linux tells the holder of a
lease (`fcntl(2)`, F_SETLEASE) that somebody opens the file for writing or cuts it off, and lets
that one wait, for 45 s at most, until the lease is given back. Meanwhile we copy the file to memory
that has no name and is sealed, and map it in the place of the file: a step of the system that
threads which read do not see. Calls go on with the weights that were loaded.

Nothing is copied before, and calls pay nothing. Processes share the pages of the file until then.

Leases are given to the owner of a file (or with CAP_LEASE), by file systems of this machine.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import threading
import weakref
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from rcompiler.errors import DeviceError
from rcompiler.runtime.memory import address, map_file, map_pages, map_whole
from rcompiler.support.this_process import PerProcess, this_process

_F_SETOWN_EX, _F_SETSIG = 15, 10  # of Linux
_F_OWNER_TID = 0  # one thread
# Only the thread of ours gets it, and has it blocked: no handler of the host runs.
_BREAKS = signal.SIGRTMAX - 1
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def file_state(handle: int) -> tuple[int, int]:
    """Size of an open file, and the time in ns of the last write."""
    found = os.fstat(handle)
    return found.st_size, found.st_mtime_ns


class _Pages(NamedTuple):
    """Whole pages of memory where the bytes of a file from `offset` on are mapped."""

    place: np.ndarray
    offset: int


class FileLease:
    """One, held as long as this object lives or until somebody wants to write.

    Attributes:
        copied: the pages that were mapped are those of a copy now, which nobody can change.
    """

    def __init__(self, handle: int) -> None:
        """handle: of the open file, before anything of it is read.

        Raises:
            BlockingIOError: somebody has the file open for writing.
            OSError: the system gives no lease on it.
        """
        self.copied = False
        self._locks = PerProcess(threading.Lock)  # a child may be forked while one is held
        self._pages: list[_Pages] = []
        self._copy = -1
        self._take(handle)
        self._seen = file_state(self._handle)

    def _take(self, file: int) -> None:
        """A lease of this process on an open file, by a handle of its own."""
        self._process = this_process()
        self._handle = os.open(f"/proc/self/fd/{file}", os.O_RDONLY | os.O_CLOEXEC)
        self._close = weakref.finalize(self, _closed, self._handle, self._process)
        try:
            _KEEPERS.get().begin(self)
        except OSError:
            self._close()
            raise

    def map(self, place: np.ndarray, content: np.ndarray, offset: int) -> slice:
        """As `memory.map_file`, of the file or, once it is copied, of the copy."""
        with self._locks.get():
            pages = map_file(place, content, self._source, offset)
            if pages.stop > pages.start:
                self._pages.append(_Pages(place[pages], offset + pages.start))
            return pages

    def map_whole(self) -> np.ndarray:
        """As `memory.map_whole`, of the same. Raises OSError."""
        with self._locks.get():
            whole = map_whole(self._source)
            self._pages.append(_Pages(whole, 0))
            return whole

    @property
    def _source(self) -> int:
        return self._copy if self.copied else self._handle

    def renew(self) -> None:
        """Take another one in a forked child, which has no thread that would answer for this one.

        Where none is given, the child is as without.
        """
        if self.copied or self._process == this_process():
            return
        with self._locks.get():
            if self._process == this_process():
                return
            self._close.detach()
            inherited, self._process = self._handle, this_process()
            try:
                self._take(inherited)
            except OSError:
                self._handle = inherited
                self._close = weakref.finalize(self, _closed, inherited, -1)
            else:
                os.close(inherited)

    def answer(self) -> None:
        """Somebody may wait for the file: if so, let the copy take its place, and give it back."""
        with self._locks.get():
            if self.copied or fcntl.fcntl(self._handle, fcntl.F_GETLEASE) == fcntl.F_RDLCK:
                return
            try:
                with suppress(OSError, DeviceError):  # no memory: who calls the model is told
                    self._copy_and_map()
            finally:
                _give_back(self._handle)

    def _copy_and_map(self) -> None:
        """Nothing where the file has changed: the system waited no longer for us.

        It is read, not taken from the mapping, so that a file that is cut off now is no SIGBUS.
        """
        size, _ = self._seen
        copy = os.memfd_create("weights of a model", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        weakref.finalize(self, os.close, copy)
        done = 0
        while done < size and (sent := os.sendfile(copy, self._handle, done, size - done)):
            done += sent
        if file_state(self._handle) != self._seen or done != size:
            return
        fcntl.fcntl(copy, fcntl.F_ADD_SEALS, _SEALS)
        for place, offset in self._pages:
            map_pages(address(place), place.size, copy, offset)
        self._copy, self.copied = copy, True


def _closed(handle: int, process: int) -> None:
    """Give a lease back. A child closes only: it shares that of its parent."""
    if process == this_process():
        _give_back(handle)
    os.close(handle)


def _give_back(handle: int) -> None:
    with suppress(OSError):  # there is none any more
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)


class _Keeper:
    """The thread of a process that answers for its leases: it sleeps until the system asks."""

    def __init__(self) -> None:
        self._leases: weakref.WeakSet[FileLease] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._thread: int | None = None

    def begin(self, lease: FileLease) -> None:
        """Take a lease, and answer for it from now on. Raises OSError where there is none."""
        handle = lease._handle
        with self._lock:
            if self._thread is None:
                self._thread = self._started()
            fcntl.fcntl(handle, _F_SETSIG, _BREAKS)
            # Before the lease: the system would give it the process as its owner.
            fcntl.fcntl(handle, _F_SETOWN_EX, struct.pack("ii", _F_OWNER_TID, self._thread))
            self._leases.add(lease)
            fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)

    def _started(self) -> int:
        ready = threading.Event()
        thread = threading.Thread(
            target=self._run, args=(ready,), name="leases of model files", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            raise OSError(str(error)) from None  # no thread can be started
        ready.wait()
        assert thread.native_id is not None
        return thread.native_id

    def _run(self, ready: threading.Event) -> None:
        # SIGIO comes instead where no more signals can be queued.
        signal.pthread_sigmask(signal.SIG_BLOCK, {_BREAKS, signal.SIGIO})
        ready.set()
        while True:
            signal.sigwaitinfo({_BREAKS})
            self._answer()

    def _answer(self) -> None:
        with self._lock:
            leases = list(self._leases)
        for lease in leases:
            lease.answer()


_KEEPERS = PerProcess(_Keeper)

__all__ = ["FileLease", "file_state"]
