"""The profile index: measured times of kernels in one SQLite file, shared by all processes.

A time counts for one operator (the digest of its body), one tiling, one machine and one version of
the code generation. An entry of another machine or version is never found; it stays for them.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import rcompiler
from rcompiler.codegen.emit import toolchain
from rcompiler.errors import ArtifactError

NAME = "profile-index.sqlite"
_APPLICATION = 0x72635049  # "rcPI": whose file it is
_LAYOUT = 1  # of the tables: a file of another one counts as damaged
_PATIENCE_S = 10.0  # for another process that writes
_CODE = ("kernelgen", "codegen", "profiler")  # what is measured, and how
_TABLE = """CREATE TABLE IF NOT EXISTS measurement (
    operator TEXT NOT NULL, tiling TEXT NOT NULL, machine TEXT NOT NULL, code TEXT NOT NULL,
    ns REAL NOT NULL, spread REAL NOT NULL, rounds INTEGER NOT NULL, date TEXT NOT NULL,
    PRIMARY KEY (operator, tiling, machine, code)) WITHOUT ROWID"""


class IndexWarning(UserWarning):
    """The profile index could not be used or was damaged; kernels are measured again."""


@dataclass(frozen=True)
class Measurement:
    """`ns` of all tasks of a kernel, one after the other on one EU.

    operator, tiling: digests. machine: `device.store.fingerprint`. code: `code_version`. spread:
    standard error, relative. date: UTC, ISO 8601.
    """

    operator: str
    tiling: str
    machine: str
    code: str
    ns: float
    spread: float
    rounds: int
    date: str


def digest(text: str) -> str:
    """A name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@cache
def code_version() -> str:
    """What decides the machine code of a kernel besides its tiling, and how it is measured.

    A digest, so that nobody has to remember to raise a number.
    """
    root = Path(rcompiler.__file__).parent
    found = hashlib.sha256(toolchain().encode())
    for package in _CODE:
        for path in sorted((root / package).glob("*.py")):
            found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:16]


class ProfileIndex:
    """Measured times by operator, tiling, machine and code version.

    A file that is damaged or foreign is put aside with a warning and begun anew; one that cannot be
    used costs a warning, and times are kept for this process only.
    """

    def __init__(self, path: Path | None) -> None:
        """path: None for an index in memory."""
        self._path = path
        self._connection = self._open()

    def close(self) -> None:
        """Nothing may be looked up or recorded afterwards."""
        self._connection.close()

    def find(self, operator: str, machine: str, code: str) -> dict[str, Measurement]:
        """All measurements of an operator, by tiling."""
        where = "WHERE operator = ? AND machine = ? AND code = ?"
        found = self._try(lambda c: _select(c, where, (operator, machine, code)))
        return {m.tiling: m for m in found}

    def record(self, measurements: Iterable[Measurement]) -> None:
        """Keep these, instead of older ones for the same kernels."""
        rows = [tuple(asdict(m).values()) for m in measurements]

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                marks = ", ".join("?" * len(fields(Measurement)))
                connection.executemany(f"INSERT OR REPLACE INTO measurement VALUES ({marks})", rows)

        self._try(write)

    def export(self) -> Iterator[str]:
        """All measurements as lines of JSON, in the order of their keys."""
        for found in self._try(lambda c: _select(c, "ORDER BY operator, tiling, machine, code")):
            yield json.dumps(asdict(found), sort_keys=True)

    def load(self, lines: Iterable[str]) -> int:
        """Record what `export` wrote; how many there were.

        Raises ArtifactError for a line that is none, and then records nothing.
        """
        found = [_parse(number, line) for number, line in enumerate(lines, 1) if line.strip()]
        self.record(found)
        return len(found)

    # -- the file ----------------------------------------------------------------------------------
    def _open(self) -> sqlite3.Connection:
        if self._path is None:
            return _prepared(":memory:")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return _prepared(self._path)
        except (OSError, sqlite3.OperationalError) as error:
            return self._in_memory(error)
        except sqlite3.DatabaseError as error:
            return self._anew(error)

    def _anew(self, error: Exception) -> sqlite3.Connection:
        assert self._path is not None
        aside = self._path.with_suffix(".damaged")
        self._warn(f"{error}; it is begun anew, and the old file is {aside.name}")
        try:
            os.replace(self._path, aside)
            return _prepared(self._path)
        except (OSError, sqlite3.Error) as again:
            return self._in_memory(again)

    def _in_memory(self, error: Exception) -> sqlite3.Connection:
        self._warn(f"{error}; measurements are not kept")
        self._path = None
        return _prepared(":memory:")

    def _try(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        """Do it; once more in a new file if this one proves damaged."""
        try:
            return work(self._connection)
        except sqlite3.OperationalError as error:  # locked for long, disk full, read-only
            self._connection.close()
            self._connection = self._in_memory(error)
        except sqlite3.DatabaseError as error:
            self._connection.close()
            self._connection = self._anew(error)
        return work(self._connection)

    def _warn(self, what: str) -> None:
        warnings.warn(f"profile index {self._path}: {what}", IndexWarning, stacklevel=4)


def _prepared(path: Path | str) -> sqlite3.Connection:
    """Raises DatabaseError for a file that is none of ours."""
    connection = sqlite3.connect(path, timeout=_PATIENCE_S)
    try:
        [application] = connection.execute("PRAGMA application_id").fetchone()
        [layout] = connection.execute("PRAGMA user_version").fetchone()
        [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and (application, layout) != (_APPLICATION, _LAYOUT):
            raise sqlite3.DatabaseError("not a profile index of this version")
        if not tables:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_LAYOUT}")
                connection.execute(_TABLE)
    except BaseException:
        connection.close()
        raise
    return connection


def _select(connection: sqlite3.Connection, how: str, values: tuple = ()) -> list[Measurement]:
    names = ", ".join(f.name for f in fields(Measurement))
    rows = connection.execute(f"SELECT {names} FROM measurement {how}", values).fetchall()
    return [Measurement(*row) for row in rows]


def _parse(number: int, line: str) -> Measurement:
    try:
        data: Mapping[str, Any] = json.loads(line)
        found = Measurement(**data)
        texts = (found.operator, found.tiling, found.machine, found.code, found.date)
        if not all(isinstance(text, str) for text in texts):
            raise TypeError
        if not (0 < float(found.ns) < 1e15 and float(found.spread) >= 0 and int(found.rounds) > 0):
            raise ValueError
    except (ValueError, TypeError):
        raise ArtifactError(
            f"profile index: line {number} is no measurement; export the index again"
        ) from None
    return found
