"""Finished models in the cache folder, by the hash of all that decides them (`model_key`).

An entry is the `.rcx` file of the model whose header has the key, too: it is mapped, checked and
proved as any file of a stranger. One that is damaged, or of another key or format, is reported,
and made again.

A large one is written while its caller goes on: with its checksums it takes as long as a tenth of
the compilation, and the first call does not need it.

Beside them lie the facts about ONNX files that only onnx could tell, by the hash of their bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from rcompiler.bucketed import BucketedModel
from rcompiler.driver.cross_compiled import CrossCompiledModel, compiled_family, compiled_model
from rcompiler.errors import (
    ArtifactError,
    CacheError,
    CacheWarning,
    CompilerError,
    ScheduleError,
)
from rcompiler.model import Model, being_loaded
from rcompiler.options import cache_bytes
from rcompiler.runtime import container, family
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.family import Family
from rcompiler.runtime.memory import room_for
from rcompiler.support.bounded_folder import BoundedFolder
from rcompiler.support.callers import callers_level
from rcompiler.support.private_folder import PrivateFolder
from rcompiler.support.written_later import WrittenLater

_KEY = "key"  # in the header of an entry
_LARGE = 4 << 20  # bytes that take some hundredths of a second to write
_SHARE = 4  # of the folder, and of the room on the disk, that one entry may take: one of so many

Kept = Model | CrossCompiledModel | BucketedModel


class FinishedModels:
    """Those of a folder. Threads and processes may share it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str, eus: int | None, begin: Callable[[], None]) -> Kept | None:
        """The model of a key, ready to run; None where there is none that can be used.

        eus: as of compile_onnx. begin: called where there is an entry, which is loaded then. Raises
        DeviceError where this machine gives it no memory or threads.
        """
        name = f"{key}.rcx"
        _WRITERS.wait(str(self.folder / name))
        if not (self.folder / name).exists():
            return None
        begin()
        try:
            with PrivateFolder(self.folder) as folder:
                path = folder.checked(name)
            with being_loaded(str(path)), room_for(f"{path}: reading it"):
                found = _read(path, key)
                made = (
                    compiled_family(found, eus)
                    if isinstance(found, Family)
                    else compiled_model(found)
                )
        except (CacheError, OSError):
            return None  # who compiles says so: objects are in the same folder
        except (ArtifactError, ScheduleError):
            if (self.folder / name).exists():  # else another process has removed it
                self._remove(name)
                self._warn(f"entry {name} is damaged and is built again")
            return None
        _bounded(self.folder).touch(name)
        return made

    def put(self, key: str, made: Kept) -> None:
        """Keep a model; failure is only a warning. Models that are large for the folder are not
        kept, nor those that a defect of the compiler has left its mark on."""
        found = made.family if isinstance(made, BucketedModel) else made.artifact
        parts = found.programs if isinstance(found, Family) else (found,)
        if any("passes left out" in part.provenance for part in parts):
            return
        if not parts[0].storage.is_there():  # the file was written to meanwhile
            return
        most = cache_bytes()
        try:
            if (self.folder / f"{key}.rcx").exists():  # another process was faster
                return
            size = _size(found)
            if size > min(most, _room(self.folder)) // _SHARE:
                return
        except OSError as error:
            self._warn_of(error)
            return
        write = partial(self._write, key, found, most)
        if size < _LARGE:
            write()
        else:
            _WRITERS.begin(str(self.folder / f"{key}.rcx"), write)

    def _write(self, key: str, found: Artifact | Family, most: int) -> None:
        try:
            header, sections = found.content()
            header |= {_KEY: key, "sections": _sums(sections) | header.get("sections", {})}
            with PrivateFolder(self.folder) as folder, folder.writing(f"{key}.rcx") as file:
                container.write_to(file, header, sections)
                size = file.tell()
            _bounded(self.folder).added(size, most)
        except (CompilerError, OSError, MemoryError) as error:
            self._warn_of(error)

    def _warn_of(self, error: BaseException) -> None:
        self._warn(f"cannot be written ({_words(error)}); finished models are not kept")

    def _remove(self, name: str) -> None:
        with suppress(OSError):
            (self.folder / name).unlink()

    def facts(self, digest: str) -> dict[str, Any] | None:
        """What is known of an ONNX file by the digest of its bytes; None where nothing is."""
        try:
            if not self.folder.is_dir():
                return None
            with PrivateFolder(self.folder) as folder:
                entry = folder.read(f"{digest}.facts")
            text = entry[32:]
            found = json.loads(text) if _sealed(digest, text) == entry else None
        except (CacheError, OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def keep_facts(self, digest: str, facts: dict[str, Any]) -> None:
        """Keep what is known of an ONNX file, if that is possible."""
        entry = _sealed(digest, json.dumps(facts).encode())
        try:
            with PrivateFolder(self.folder) as folder:
                folder.write(f"{digest}.facts", entry)
            _bounded(self.folder).added(len(entry), cache_bytes())
        except (CompilerError, OSError):
            return  # it is read again

    def _warn(self, what: str) -> None:
        text = f"model cache {self.folder}: {what}"
        warnings.warn(text, CacheWarning, stacklevel=callers_level())


def _read(path: Path, key: str) -> Artifact | Family:
    """What an entry holds. Raises ArtifactError unless it is that of the key."""
    with container.reading(path) as (header, sections, file):
        if header.pop(_KEY, None) != key:
            raise ArtifactError(f"{path}: it is an entry of another key")
        return family.checked(path, header, sections, False, file)


def _sums(sections: Mapping[str, container.Bytes]) -> dict[str, Any]:
    """What the header says of large sections: nobody asks an entry for the sha256 of these."""
    large = {n: data for n, data in sections.items() if data.size > container.STRONG_UP_TO}
    return {name: container.sums(data) for name, data in large.items()}


def _size(found: Artifact | Family) -> int:
    """About how many bytes the file will have."""
    first = found.programs[0] if isinstance(found, Family) else found
    others = getattr(found, "others", ())
    levels = [d.size for level in others for pieces in level.sections.values() for d in pieces]
    return int(np.sum([first.constants.size, *levels], dtype=np.int64))


def _room(folder: Path) -> int:
    """Bytes that are free where the folder is, or will be. Raises OSError."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    found = os.statvfs(there)
    return found.f_bavail * found.f_frsize


def _sealed(digest: str, text: bytes) -> bytes:
    """An entry: one of another digest in its place is found out."""
    return hashlib.sha256(digest.encode() + b"\0" + text).digest() + text


def _words(error: BaseException) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or "no memory"


@cache
def _bounded(folder: Path) -> BoundedFolder:
    """One for each folder of this process: it knows what was written since it looked."""
    return BoundedFolder(folder)


_WRITERS = WrittenLater()
