"""The profile index: measured times in one SQLite file, shared by all processes.

The time of a kernel counts for one operator (the digest of its body), one tiling, one number of EUs
that run it at once, one machine and one version of the code generation; that of a program for one
schedule, machine and version. An entry of another machine or version is never found; it stays for
them, until the file is large or `prune` is asked to remove those of other versions.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from rcompiler.astra.measurements import KEPT
from rcompiler.codegen.emit import toolchain
from rcompiler.errors import ArtifactError, CacheError
from rcompiler.profiler.records import (
    KINDS,
    ChosenPlan,
    Measurement,
    ProgramTime,
    Record,
    TrialRun,
    from_line,
    to_line,
    utc_date,
)
from rcompiler.profiler.storage import (
    NewerLayout,
    bytes_of,
    give_back,
    insert,
    opened,
    remove_version,
    select,
    versions,
    writing,
)
from rcompiler.support.private_folder import PrivateFolder

_MOST_BYTES = 64 << 20  # of the file: some 200,000 kernels, or 500 networks
# What is measured, and how.
_CODE = ("linalg", "passes/tiles", "kernelgen", "codegen", "profiler", "runtime")
_TILING = ("passes/roller_ti*_*.py", "pipelines/rc_tile_kernels.py", "dialects/task_body.py")


class IndexWarning(UserWarning):
    """The profile index could not be used, was damaged or has lost what is measured again."""


def digest(text: str) -> str:
    """A name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@cache
def code_version() -> str:
    """What decides the machine code of a kernel besides its tiling, and how it is measured.

    A digest, so that nobody has to remember to raise a number.
    """
    root = Path(__file__).parents[1]
    found = hashlib.sha256(toolchain().encode())
    files = [path for package in _CODE for path in (root / package).rglob("*.py")]
    files += [path for pattern in _TILING for path in root.glob(pattern)]
    for path in sorted(files):
        found.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return found.hexdigest()[:16]


class ProfileIndex:
    """Measured times by what was measured, machine and code version.

    A file that is damaged or foreign is put aside with a warning and begun anew; one that cannot be
    used, or was written by a newer version, costs a warning, and times are kept for this process
    only. One that has grown too large loses the code versions whose last measurement is the oldest,
    with a warning, until it is half as large; never the present one.
    """

    def __init__(self, path: Path | None, *, most: int = _MOST_BYTES) -> None:
        """path: None for an index in memory. most: bytes of the file."""
        self._path = path
        self._file: tuple[int, int] | None = None  # that the path named when it was opened
        self._connection = self._open()
        size = self._try(bytes_of)
        if size > most:
            self._shrink(most / 2 / size)

    def close(self) -> None:
        """Nothing may be looked up or recorded afterwards."""
        self._connection.close()

    def find(self, operator: str, machine: str, code: str, eus: int = 1) -> dict[str, Measurement]:
        """All measurements of an operator on so many EUs at once, by tiling."""
        where = "WHERE operator = ? AND machine = ? AND code = ? AND eus = ?"
        values = operator, machine, code, eus
        return {m.tiling: m for m in self._try(lambda c: select(c, Measurement, where, values))}

    def program(self, schedule: str, machine: str, code: str, eus: int) -> ProgramTime | None:
        """The time of a schedule on so many threads."""
        where = "WHERE schedule = ? AND machine = ? AND code = ? AND eus = ?"
        values = schedule, machine, code, eus
        found = self._try(lambda c: select(c, ProgramTime, where, values))
        return found[0] if found else None

    def trials(self, machine: str, code: str) -> list[TrialRun]:
        """All runs of explored plans, the oldest first."""
        how = "WHERE machine = ? AND code = ? ORDER BY date, session, number"
        found: list[TrialRun] = self._try(lambda c: select(c, TrialRun, how, (machine, code)))
        return found

    def keep_trials(
        self, machine: str, code: str, runs: Sequence[TrialRun], forgotten: Collection[str]
    ) -> None:
        """Keep runs of explored plans, of each trial the last ones; what failed is never removed.

        forgotten: trials whose earlier runs are removed.
        """
        where = "trial = ? AND machine = ? AND code = ? AND ratio > 0"
        older = (
            f"DELETE FROM trial WHERE {where} AND (session, number) NOT IN (SELECT session, number "
            f"FROM trial WHERE {where} ORDER BY date DESC, session DESC, number DESC LIMIT {KEPT})"
        )

        def write(connection: sqlite3.Connection) -> None:
            with writing(connection):
                for trial in sorted(forgotten):
                    connection.execute(f"DELETE FROM trial WHERE {where}", (trial, machine, code))
                insert(connection, runs)
                for trial in sorted({run.trial for run in runs}):
                    connection.execute(older, 2 * (trial, machine, code))

        self._try(write)

    def plan(self, space: str, machine: str, code: str) -> ChosenPlan | None:
        """What exploration of this space has ended with."""
        where = "WHERE space = ? AND machine = ? AND code = ?"
        found = self._try(lambda c: select(c, ChosenPlan, where, (space, machine, code)))
        return found[0] if found else None

    def choose(self, key: tuple[str, str, str], plan: str, ratio: float) -> ChosenPlan:
        """Keep a plan unless another process was first; the one that is kept.

        key: space, machine and code of a `ChosenPlan`; plan, ratio: see there.
        """
        where = "WHERE space = ? AND machine = ? AND code = ?"
        mine = ChosenPlan(*key, plan, ratio, utc_date())

        def write(connection: sqlite3.Connection) -> ChosenPlan:
            with writing(connection):
                found: list[ChosenPlan] = select(connection, ChosenPlan, where, key)
                if not found:
                    insert(connection, [mine])
            return found[0] if found else mine

        kept: ChosenPlan = self._try(write)
        return kept

    def record(self, records: Iterable[Record]) -> None:
        """Keep these, instead of older ones for the same kernels and programs."""
        found = [*records]

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                insert(connection, found)

        self._try(write)

    def export(self) -> Iterator[str]:
        """All that it holds as lines of JSON, in the order of their keys."""
        for kind in KINDS.values():
            yield from map(to_line, self._all(kind))

    def load(self, lines: Iterable[str], machine: str | None = None) -> int:
        """Record what `export` wrote; how many there were.

        machine: count all of it as measured on this one. Raises ArtifactError for a line that is
        none, or for lines of several machines that are to count as one, and then records nothing.
        """
        found = [from_line(number, line) for number, line in enumerate(lines, 1) if line.strip()]
        if machine is not None:
            machines = {record.machine for record in found}
            if len(machines) > 1:
                raise ArtifactError(
                    f"profile index: lines of {len(machines)} machines cannot count as measured "
                    "on one; keep those of the machine that you mean"
                )
            found = [replace(record, machine=machine) for record in found]
        self.record(found)
        return len(found)

    def prune(self, code: str, before: str | None = None) -> int:
        """Remove what was measured with other code versions than `code`; how many entries.

        before: a date (UTC, ISO 8601); only versions with which nothing was measured since then.
        """

        def remove(connection: sqlite3.Connection) -> int:
            with writing(connection):
                removed = sum(
                    remove_version(connection, version)
                    for version, last, _ in versions(connection)
                    if version != code and (before is None or last < before)
                )
            give_back(connection)
            return removed

        found: int = self._try(remove)
        return found

    def _shrink(self, share: float) -> None:
        """Remove the oldest other code versions until no more than this share of it is left."""

        def shrink(connection: sqlite3.Connection) -> int:
            removed = 0
            with writing(connection):
                found = versions(connection)
                total = sum(count for *_, count in found)
                for version, *_ in found:
                    if version != code_version() and total - removed > share * total:
                        removed += remove_version(connection, version)
            give_back(connection)
            return removed

        removed = self._try(shrink)
        if removed:
            self._warn(
                f"it had grown too large; {removed} times that were taken with the oldest versions "
                "of the compiler were removed"
            )

    def _all(self, kind: type[Record]) -> list[Record]:
        order = f"ORDER BY {', '.join(kind.KEY)}"
        found: list[Record] = self._try(lambda c: select(c, kind, order))
        return found

    # -- the file ----------------------------------------------------------------------------------
    def _open(self) -> sqlite3.Connection:
        if self._path is None:
            return opened(":memory:")
        try:
            with PrivateFolder(self._path.parent) as folder, folder.locked():
                return self._opened(folder)
        except (OSError, CacheError, sqlite3.OperationalError, NewerLayout) as error:
            return self._in_memory(error)
        except sqlite3.DatabaseError as error:
            return self._anew(error)

    def _opened(self, folder: PrivateFolder) -> sqlite3.Connection:
        """Nobody puts the file aside meanwhile: the folder is locked."""
        assert self._path is not None
        path = folder.checked(self._path.name)
        try:
            return opened(path)
        finally:
            self._file = _identity(path)

    def _anew(self, error: Exception) -> sqlite3.Connection:
        """Put the damaged file aside and begin a new one; once only, if other processes find it
        damaged at the same time: the file that one of them has begun must not go, too.
        """
        assert self._path is not None
        damaged = self._path.with_suffix(".damaged")
        try:
            with PrivateFolder(self._path.parent) as folder, folder.locked(alone=True):
                if _identity(self._path) == self._file:
                    self._warn(f"{error}; it is begun anew, and the old file is {damaged.name}")
                    os.replace(self._path, damaged)
                else:
                    self._warn(f"{error}; another process has begun it anew")
                return self._opened(folder)
        except (OSError, CacheError, sqlite3.Error, NewerLayout) as again:
            return self._in_memory(again)

    def _in_memory(self, error: Exception) -> sqlite3.Connection:
        self._warn(f"{error}; measurements are not kept")
        self._path = None
        return opened(":memory:")

    def _try(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        """Do it; once more in a new file if this one proves damaged."""
        try:
            return work(self._connection)
        except sqlite3.ProgrammingError:  # a use in another thread, or after `close`: no damage
            raise
        except sqlite3.OperationalError as error:  # locked for long, disk full, read-only
            self._connection.close()
            self._connection = self._in_memory(error)
        except sqlite3.DatabaseError as error:
            self._connection.close()
            self._connection = self._anew(error)
        return work(self._connection)

    def _warn(self, what: str) -> None:
        warnings.warn(f"profile index {self._path}: {what}", IndexWarning, stacklevel=4)


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path names now; None for none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
