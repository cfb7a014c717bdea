"""Measured times of the tasks of a schedule: a JSON file, and which task each line of it is.

    {"format": "rcompiler-measured-1",
     "tasks": {"operator": ["conv1", ...], "first": [0, ...], "eu": [0, ...],
               "start_ns": [812.0, ...], "end_ns": [90210.0, ...]}}

One entry per run of rTasks: the operator and the first rTask of the run name it, since every rTask
runs once. eu: the EU or thread it ran on. Times in ns from the start of the inference.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from rcompiler.errors import ArtifactError

if TYPE_CHECKING:  # a machine that measures need not have the compiler
    from rcompiler.rammer.timeline import Span

FORMAT = "rcompiler-measured-1"
MOST_EUS = 4096
_COLUMNS = {
    "operator": (str,),
    "first": (int,),
    "eu": (int,),
    "start_ns": (int, float),
    "end_ns": (int, float),
}


@dataclass(frozen=True)
class Measured:
    """Per task of the view: EU and times in ns. eus: of the measurement, maybe fewer."""

    eus: int
    eu: tuple[int, ...]
    start: tuple[float, ...]
    end: tuple[float, ...]

    @property
    def makespan_ns(self) -> float:
        """From the start of the inference to the end of the last task."""
        return max(self.end, default=0.0)


def usual(launches: Sequence[Mapping[str, list[Any]]]) -> dict[str, list[Any]]:
    """The columns of several launches of one schedule as one: of each run the medians of when it
    began and ended, so that a thread that once had no CPU moves nothing. Order is that of the
    launches: what is before another in each of them is so in the medians.

    Where threads took what was next, no two launches are alike, and it is the one of median length.
    """
    first = launches[0]
    alike = ("operator", "first", "eu")
    if any(each[name] != first[name] for each in launches for name in alike):
        ordered = sorted(launches, key=lambda each: max(each["end_ns"], default=0))
        return dict(ordered[len(ordered) // 2])
    medians = {
        name: [median(times) for times in zip(*(each[name] for each in launches), strict=True)]
        for name in ("start_ns", "end_ns")
    }
    return {**{name: first[name] for name in alike}, **medians}


def measured_text(tasks: Mapping[str, Sequence[Any]]) -> str:
    """The text of a file. tasks: columns operator, first, eu, start_ns, end_ns."""
    columns = {name: list(tasks[name]) for name in _COLUMNS}
    return json.dumps({"format": FORMAT, "tasks": columns}, separators=(",", ":")) + "\n"


def read_measured(path: Path, spans: Sequence[Span]) -> Measured:
    """The times of exactly these tasks.

    Raises ArtifactError: it is no such file, or of another schedule.
    """
    try:
        columns = _columns(json.loads(path.read_text()))
    except OSError as error:
        raise ArtifactError(f"{path}: it cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise ArtifactError(
            f'{path}: no measured times ("format": "{FORMAT}"); write them with '
            "rc-run MODEL --profile=FILE"
        ) from None
    return _of_tasks(path, columns, spans)


def _columns(data: Any) -> dict[str, list[Any]]:
    if data["format"] != FORMAT:
        raise ValueError
    found = {name: data["tasks"][name] for name in _COLUMNS}
    for name, kinds in _COLUMNS.items():
        if not isinstance(found[name], list) or any(type(v) not in kinds for v in found[name]):
            raise TypeError
    if len({len(column) for column in found.values()}) > 1:
        raise ValueError
    times = zip(found["start_ns"], found["end_ns"], strict=True)
    if not all(0 <= start <= end < inf for start, end in times):
        raise ValueError
    if not all(0 <= eu < MOST_EUS for eu in found["eu"]):
        raise ValueError
    return found


def _of_tasks(path: Path, columns: dict[str, list[Any]], spans: Sequence[Span]) -> Measured:
    place = {
        key: row for row, key in enumerate(zip(columns["operator"], columns["first"], strict=True))
    }
    rows = [place.get((span.operator, span.first), -1) for span in spans]
    if -1 in rows or len(columns["first"]) != len(spans):
        missing = next((s for s, row in zip(spans, rows, strict=True) if row < 0), None)
        which = (
            f", not operator {missing.operator} from rTask {missing.first} on" if missing else ""
        )
        raise ArtifactError(
            f"{path}: measured on another schedule: it tells of {len(columns['first'])} runs "
            f"where this has {len(spans)}{which}; measure this one"
        )
    eu, start, end = (
        tuple(columns[name][row] for row in rows) for name in ("eu", "start_ns", "end_ns")
    )
    return Measured(max(eu, default=0) + 1, eu, tuple(map(float, start)), tuple(map(float, end)))
