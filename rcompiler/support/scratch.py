"""Folders and files that are there for a moment, also where no usual place can be written to.

Containers that can only be read often have memory at /dev/shm in the place of a temporary folder.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from rcompiler.errors import DeviceError

_MEMORY = "/dev/shm"


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """A new folder, which goes with the block.

    Args:
        prefix: of its name.

    Raises:
        DeviceError: there is no place for one.
    """
    folder = _made(prefix)
    with folder as name:
        yield Path(name)


def _made(prefix: str) -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix=prefix)
    except OSError as error:
        with suppress(OSError):
            return tempfile.TemporaryDirectory(prefix=prefix, dir=_MEMORY)
        raise DeviceError(
            f"no temporary folder can be written to ({error.strerror or error}), nor {_MEMORY}; "
            "set TMPDIR to one that can"
        ) from None


def memory_file(name: str) -> BinaryIO:
    """A file that is in no folder, and goes when it is closed.

    Args:
        name: that the system shows of it.

    Raises:
        OSError: there is no memory for it.
    """
    return open(os.memfd_create(name, os.MFD_CLOEXEC), "w+b")


__all__ = ["memory_file", "scratch_folder"]
