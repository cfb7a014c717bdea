"""What the profile index holds: times of kernels, of whole programs, and of explored plans."""

import dataclasses
import datetime
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from rcompiler.errors import ArtifactError

_MOST_NS = 1e15  # eleven days


@dataclass(frozen=True)
class _Record:
    """One row of a table. `KIND` names table and lines of JSON, `KEY` its primary key.

    Raises ValueError or TypeError for figures that cannot be.
    """

    KIND: ClassVar[str]
    KEY: ClassVar[tuple[str, ...]]
    ABOVE_ZERO: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, _TYPES[field.type]):
                raise TypeError
            least = 1e-6 if field.name in self.ABOVE_ZERO else 0
            if not isinstance(value, str) and not least <= value < _MOST_NS:
                raise ValueError


@dataclass(frozen=True)
class Measurement(_Record):
    """`ns` of all tasks of a kernel, one after the other on one EU, while the others of `eus` EUs
    do the same; 1: alone.

    operator, tiling: digests. machine: `device.store.fingerprint`. code: `code_version`. spread:
    standard error, relative. date: UTC, ISO 8601. tasks, registers, on_chip_bytes and workspace
    (bytes per EU) are what the decision says of a task; 0 where they are not known.
    """

    KIND = "kernel"
    KEY = ("operator", "tiling", "machine", "code", "eus")
    ABOVE_ZERO = ("ns", "rounds", "eus")

    operator: str
    tiling: str
    machine: str
    code: str
    ns: float
    spread: float
    rounds: int
    date: str
    eus: int = 1
    tasks: int = 0
    registers: int = 0
    on_chip_bytes: int = 0
    workspace: int = 0


@dataclass(frozen=True)
class ProgramTime(_Record):
    """`ns` of one inference by a schedule, on `eus` threads: the 5th percentile of `launches`, a
    launch that others were hardly in the way of; `median_ns`: of them all.

    schedule: digest of its text. machine, code, date: as for a `Measurement`.
    """

    KIND = "program"
    KEY = ("schedule", "machine", "code", "eus")
    ABOVE_ZERO = ("ns", "median_ns", "launches", "eus")

    schedule: str
    machine: str
    code: str
    eus: int
    ns: float
    median_ns: float
    launches: int
    date: str


@dataclass(frozen=True)
class TrialRun(_Record):
    """Time of a scope under one choice in its context, in times of what it takes in the incumbent;
    0: it stopped, or threw.

    trial: the mangled key, see `astra.variables`. session, number: which run it is, of which
    process; a run counts once, however often it is recorded. machine, code, date: as for a
    `Measurement`; the date has microseconds, which order runs.
    """

    KIND = "trial"
    KEY = ("trial", "machine", "code", "session", "number")
    ABOVE_ZERO = ()

    trial: str
    session: str
    number: int
    machine: str
    code: str
    ratio: float
    date: str


@dataclass(frozen=True)
class ChosenPlan(_Record):
    """What exploration has ended with: all processes serve this one.

    space: digest of the tree of choices and of what they are of. plan: variables and digests of
    choices as an object in JSON. ratio: its time in times of the static plan's, in the final duel;
    1: the static plan. machine, code, date: as for a `Measurement`.
    """

    KIND = "plan"
    KEY = ("space", "machine", "code")
    ABOVE_ZERO = ("ratio",)

    space: str
    machine: str
    code: str
    plan: str
    ratio: float
    date: str


Record = Measurement | ProgramTime | TrialRun | ChosenPlan
_Kind = type[Measurement] | type[ProgramTime] | type[TrialRun] | type[ChosenPlan]
KINDS: Mapping[str, _Kind] = {
    kind.KIND: kind for kind in (Measurement, ProgramTime, TrialRun, ChosenPlan)
}
_TYPES: Mapping[Any, Any] = {str: str, int: int, float: int | float}
_COLUMNS: Mapping[Any, str] = {str: "TEXT", int: "INTEGER", float: "REAL"}


def utc_date(timespec: str = "seconds") -> str:
    """The date of what is measured now."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec=timespec)


def columns(kind: type[Record]) -> list[str]:
    """The names of the columns of a kind of records."""
    return [field.name for field in dataclasses.fields(kind)]


def table(kind: type[Record]) -> str:
    """The SQL that makes the table of a kind of records."""
    parts = []
    for field in dataclasses.fields(kind):
        known = field.default is not dataclasses.MISSING
        default = f" DEFAULT {field.default}" if known else ""
        parts.append(f"{field.name} {_COLUMNS[field.type]} NOT NULL{default}")
    parts.append(f"PRIMARY KEY ({', '.join(kind.KEY)})")
    return f"CREATE TABLE {kind.KIND} ({', '.join(parts)}) WITHOUT ROWID"


def to_line(record: Record) -> str:
    """A record as a line of JSON."""
    return json.dumps({"kind": record.KIND, **asdict(record)}, sort_keys=True)


def from_line(number: int, line: str) -> Record:
    """What `to_line` wrote; a line without a kind is a kernel. Raises ArtifactError for others."""
    try:
        data: dict[str, Any] = dict(json.loads(line))
        return KINDS[data.pop("kind", Measurement.KIND)](**data)
    except (KeyError, ValueError, TypeError):
        raise ArtifactError(
            f"profile index: line {number} is no measurement; export the index again"
        ) from None
