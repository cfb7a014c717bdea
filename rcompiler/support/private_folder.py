"""Folders that only this user writes to: what lies in them is run, or decides what is built.

    folder = PrivateFolder(path)          # made with mode 0700 if it is not there
    folder.write("name", data); folder.read("name")

Of somebody else's folder, or one that others may write to, nothing is used: who can write there can
make this user run any code. Entries are opened relative to the folder that was looked at, never
through links, and only plain files of this user are read; a FIFO is not waited for.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from rcompiler.errors import CacheError

UNFINISHED = ".tmp"  # how the names of files end that are being written
_REMEDY = "give another folder (RC_CACHE_DIR, or none: RC_CACHE_DIR=''), or mend it: "


class PrivateFolder:
    """One folder, held open. Raises OSError where the system refuses something."""

    def __init__(self, path: Path) -> None:
        """Make the folder if need be, and look whose it is.

        Raises:
            CacheError: somebody else may write to it.
            OSError: it cannot be made or opened.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        self.path = path
        self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._check(os.fstat(self._handle))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Nothing may be read or written afterwards. Idempotent."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1

    def __enter__(self) -> PrivateFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def locked(self, alone: bool = False) -> Iterator[None]:
        """Wait for the lock of the folder, and hold it: alone, or with others that do not want it
        alone. It lasts while the folder is open, and no longer than the block.

        Network file systems that have no such locks keep nobody out.
        """
        with suppress(OSError):
            fcntl.flock(self._handle, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        try:
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(self._handle, fcntl.LOCK_UN)

    def read(self, name: str) -> bytes:
        """The bytes of an entry.

        Raises:
            CacheError: it is no plain file of this user.
            OSError: it is not there, is a link, or cannot be read.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(name, flags, dir_fd=self._handle)
        try:
            self._check_entry(name, os.fstat(handle))
        except CacheError:
            os.close(handle)
            raise
        with open(handle, "rb") as file:
            return file.read()

    def write(self, name: str, data: bytes) -> None:
        """Write an entry, by renaming: it is there completely or not at all. Raises OSError."""
        with self.writing(name) as file:
            file.write(data)

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """A new file that becomes an entry when the block ends well; else nothing changes.

        Raises OSError.
        """
        temporary = f".{name}.{secrets.token_hex(6)}{UNFINISHED}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(temporary, flags, 0o600, dir_fd=self._handle), "wb") as file:
                yield file
            os.replace(temporary, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self._handle)
            raise

    def checked(self, name: str) -> Path:
        """The path of an entry for those who must open it themselves; it need not be there.

        Raises CacheError, OSError.
        """
        with suppress(FileNotFoundError):
            found = os.stat(name, dir_fd=self._handle, follow_symlinks=False)
            self._check_entry(name, found)
        return self.path / name

    def _check(self, found: os.stat_result) -> None:
        if found.st_uid != os.geteuid():
            raise CacheError(
                f"cache folder {self.path}: it belongs to another user (number {found.st_uid}), "
                f"and what is in it would be run; {_REMEDY}chown {os.geteuid()} {self.path}"
            )
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise CacheError(
                f"cache folder {self.path}: other users may write to it, and what is in it would "
                f"be run; {_REMEDY}chmod 700 {self.path}, and remove what is in it"
            )

    def _check_entry(self, name: str, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise CacheError(
                f"cache folder {self.path}: entry {name} is no plain file of this user; remove it"
            )
