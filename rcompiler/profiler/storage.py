"""The file of a profile index: whose it is, which layout its tables have, and older layouts."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

from rcompiler.profiler.records import KINDS, ChosenPlan, Record, TrialRun, columns, table

NAME = "profile-index.sqlite"
_APPLICATION = 0x72635049  # "rcPI": whose file it is
_LAYOUT = 4  # of the tables
_PATIENCE_S = 10.0  # for another process that writes


class NewerLayout(Exception):
    """A file of a later version of the compiler, which must not lose it."""


def opened(path: Path | str) -> sqlite3.Connection:
    """The tables, made or converted if need be.

    Raises DatabaseError for a file that is none of ours or damaged, OperationalError for one that
    cannot be used now, NewerLayout.
    """
    connection = sqlite3.connect(path, timeout=_PATIENCE_S)
    try:
        with _transaction(connection, "DEFERRED"):  # or another may fill the file between two reads
            layout = _layout(connection)
        if layout != _LAYOUT:
            with writing(connection):
                _prepare(connection, _layout(connection))  # perhaps by another process by now
    except BaseException:
        connection.close()
        raise
    return connection


def counted(path: Path) -> dict[str, int]:
    """How many records of each kind a file holds, all of which are looked at; {} where its layout
    is older. Nothing is written.

    Raises what `opened` does.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro"
    opening = closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE_S))
    with opening as connection, connection:
        connection.execute("BEGIN")  # all of it as it is at one moment
        if _layout(connection) != _LAYOUT:  # it is converted when it is used
            return {}
        [found] = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        return {name: len(select(connection, kind, "")) for name, kind in KINDS.items()}


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """What is read and written inside is one transaction."""
    with _transaction(connection, "IMMEDIATE"):
        yield


def bytes_of(connection: sqlite3.Connection) -> int:
    """Of the file."""
    pages, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
    )
    return int(pages * size)


def versions(connection: sqlite3.Connection) -> list[tuple[str, str, int]]:
    """The code versions, each with the date of its last entry and their number; the oldest one
    first.
    """
    tables = " UNION ALL ".join(f"SELECT code, date FROM {kind}" for kind in KINDS)
    wanted = f"SELECT code, max(date) AS last, count(*) FROM ({tables})"
    return connection.execute(f"{wanted} GROUP BY code ORDER BY last, code").fetchall()


def remove_version(connection: sqlite3.Connection, code: str) -> int:
    """Remove the entries of a code version; how many."""
    return sum(
        connection.execute(f"DELETE FROM {kind} WHERE code = ?", (code,)).rowcount for kind in KINDS
    )


def give_back(connection: sqlite3.Connection) -> None:
    """Make the file as small as what it holds, unless another process is using it."""
    with suppress(sqlite3.OperationalError):
        connection.execute("VACUUM")


def insert(connection: sqlite3.Connection, records: Iterable[Record]) -> None:
    """Records of any kinds, in the place of those with the same keys."""
    rows: dict[str, list[tuple[object, ...]]] = {kind: [] for kind in KINDS}
    for record in records:
        rows[record.KIND].append(astuple(record))
    for kind, values in rows.items():
        names = columns(KINDS[kind])
        marks = ", ".join("?" * len(names))
        how = f"INSERT OR REPLACE INTO {kind} ({', '.join(names)}) VALUES ({marks})"
        connection.executemany(how, values)


def select(
    connection: sqlite3.Connection, kind: type[Record], how: str, values: Sequence[object] = ()
) -> list[Any]:
    """Records of a kind; how: which, and in what order, as SQL.

    Raises DatabaseError for rows with figures that cannot be.
    """
    names = ", ".join(columns(kind))
    rows = connection.execute(f"SELECT {names} FROM {kind.KIND} {how}", values).fetchall()
    try:
        return [kind(*row) for row in rows]
    except (TypeError, ValueError):
        raise sqlite3.DatabaseError(f"a {kind.KIND} in it has figures that cannot be") from None


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    with connection:
        connection.execute(f"BEGIN {kind}")
        yield


def _layout(connection: sqlite3.Connection) -> int:
    """0 for an empty file."""
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [layout] = connection.execute("PRAGMA user_version").fetchone()
    [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables:
        return 0
    if application != _APPLICATION or layout < 1:
        raise sqlite3.DatabaseError("not a profile index")
    if layout > _LAYOUT:
        raise NewerLayout("written by a newer version of the compiler")
    return int(layout)


def _prepare(connection: sqlite3.Connection, layout: int) -> None:
    if layout == _LAYOUT:
        return
    new: list[type[Record]] = [*KINDS.values()]
    if layout in (2, 3):
        new = [TrialRun, ChosenPlan] if layout == 2 else [ChosenPlan]
    for kind in new:
        connection.execute(table(kind))
    if layout == 1:  # kernels alone on an EU, without their resources
        names = "operator, tiling, machine, code, ns, spread, rounds, date"
        connection.execute(f"INSERT INTO kernel ({names}) SELECT {names} FROM measurement")
        connection.execute("DROP TABLE measurement")
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_LAYOUT}")
