"""Which code compiles here: a digest of all sources of this package, and of what they import.

Not the version alone, which a checkout changes without: of an entry of a cache that another code
has made nothing may be used.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from functools import cache

from rcompiler.support.installed import PACKAGE, version

# What decides what is compiled, beside our own sources.
_PACKAGES = ("torch-mlir", "llvmlite", "onnx", "numpy", "ml_dtypes")
_SUFFIXES = (".py", ".json")
_ELSEWHERE = frozenset({"tools", "viz", "__pycache__"})  # folders that compile nothing

State = tuple[str, int, int, int]  # of a file: path, bytes, when it and its entry changed


@cache
def code_version() -> str:
    """A digest of the code as it was when this was called first.

    Raises OSError where the sources cannot be read.
    """
    return _read()[0]


def is_current() -> bool:
    """Whether no source has changed since: modules that are imported later, and other processes,
    would be of another code. Raises OSError."""
    return [state for state, _ in _sources()] == _read()[1]


@cache
def _read() -> tuple[str, list[State]]:
    """Of the sources a digest, and the states in which they were read."""
    found, states = hashlib.sha256(), []
    versions = [f"{package} {version(package)}" for package in _PACKAGES]
    found.update("\n".join([sys.implementation.cache_tag or sys.version, *versions]).encode())
    for state, path in _sources():
        with open(path, "rb") as file:
            content = hashlib.sha256(file.read()).digest()
        found.update(state[0].encode() + b"\0" + content)
        states.append(state)
    if not any(name == "compile.py" for name, *_ in states):
        raise FileNotFoundError(f"{PACKAGE}: there are no sources")
    return found.hexdigest(), states


def _sources() -> Iterator[tuple[State, str]]:
    """Each source with its path, in an order that is the same everywhere."""
    folders = [""]
    while folders:
        inside = folders.pop()
        with os.scandir(PACKAGE / inside) as entries:
            there = sorted(entries, key=lambda entry: entry.name)
        for entry in there:
            name = f"{inside}/{entry.name}" if inside else entry.name
            if entry.name.endswith(_SUFFIXES):
                found = entry.stat()
                yield (name, found.st_size, found.st_mtime_ns, found.st_ctime_ns), entry.path
            elif name not in _ELSEWHERE and entry.name != "__pycache__" and entry.is_dir():
                folders.append(name)
