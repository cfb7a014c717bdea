"""What the compiler decided and expects, per operator and for the whole schedule."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from rcompiler.errors import ArtifactError
from rcompiler.support.html_table import html_table


@dataclass(frozen=True)
class OperatorReport:
    """One rOperator: what it runs, and why.

    Attributes:
        name: of the operator, after the ONNX node of its root.
        kind: of its root, as in the dialect `rtask`.
        kernel: name of its rKernel.
        tile: the rTile of one rTask, an extent for each axis.
        register_tile: the part of it that is summed in registers.
        tasks: number of rTasks.
        estimated_ns: time of all of them, by the cost model.
        measured_ns: the same as it was measured; 0: it was not.
        reason: why this tile, as a sentence.
        source: who chose the tile: "roller" or "osdi22" (the policies), "measured", or as the
            schedule says.
        explanation: a `roller.explain.Explanation` as plain data (see `is_explanation`), or empty
            for a schedule written by hand.
        spilled_bytes: of a thread of a GPU, by the assembler; None where it was not asked.
        one_eu: why it runs on one EU only of several; "" if it does not.
        root: which algorithm it is one of, and why; "" where there was no choice.
    """

    name: str
    kind: str
    kernel: str
    tile: tuple[int, ...]
    register_tile: tuple[int, ...]
    tasks: int
    estimated_ns: float
    measured_ns: float
    reason: str
    source: str
    explanation: dict[str, Any]
    spilled_bytes: int | None = None
    one_eu: str = ""
    root: str = ""

    @property
    def task_ns(self) -> float:
        """Of one rTask, measured if it was."""
        return (self.measured_ns or self.estimated_ns) / max(self.tasks, 1)

    @property
    def reasons(self) -> str:
        """Why it has this root, where there was a choice, and why this tile."""
        return "; ".join(filter(None, (self.root, self.reason)))

    @property
    def parts(self) -> tuple[tuple[str, float], ...]:
        """ "compute" and the memory levels that an rTask waits for, with the ns of each alone."""
        return tuple(self.explanation.get("parts_ns", {}).items())


@dataclass(frozen=True)
class Report:
    """Operators in launch order and the schedule's figures; times in ns, memory in bytes.

    Attributes:
        device: the figures that the estimates follow from, measured or not.
        operators: an entry for each, in the order of the launches.
        eus: execution units of the schedule.
        launches: number of programs.
        makespan_ns: from the start of the first launch to the end of the last rTask.
        work_bound_ns: all rTasks spread evenly.
        path_bound_ns: the longest chain of operators that wait for one another.
        idle_ns: of each EU.
        arena_bytes: of temporary memory.
        arena_bound_bytes: no placement of the values needs fewer.
        constant_bytes: of weights.
        registers: of a thread of the persistent kernel of a GPU, by the assembler; None where it
            was not asked.
        note: which policy that does not come with the compiler has scheduled, why the schedule or
            the code is another than the options ask for, and what the assembler warns of, a line
            each; or nothing.
    """

    device: str
    operators: tuple[OperatorReport, ...]
    eus: int
    launches: int
    makespan_ns: float
    work_bound_ns: float
    path_bound_ns: float
    idle_ns: tuple[float, ...]
    arena_bytes: int
    arena_bound_bytes: int
    constant_bytes: int
    registers: int | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data: dicts, lists, numbers and text."""
        data: dict[str, Any] = json.loads(self.to_json())
        return data

    def to_json(self) -> str:
        """The same as one line of JSON; equal reports give equal text.

        Returns:
            Text that `from_json` reads.
        """
        return json.dumps(self, default=vars, sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Report:
        """The report that `to_json` wrote.

        Args:
            text: of it.

        Raises:
            ArtifactError: it is other text.
        """
        try:
            data = json.loads(text)
            operators = tuple(_operator(entry) for entry in data.pop("operators"))
            return _frozen(Report, {**data, "operators": operators})
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ArtifactError("the report is damaged; compile the model again") from None

    def assembled(self, registers: int, spilled: Mapping[str, int]) -> Report:
        """The report with what an assembler says.

        Args:
            registers: of a thread.
            spilled: bytes by function.
        """
        operators = tuple(
            replace(op, spilled_bytes=spilled.get(op.kernel, 0)) for op in self.operators
        )
        return replace(self, operators=operators, registers=registers)

    def noted(self, *notes: str) -> Report:
        """The report with more lines in its note.

        Args:
            *notes: a line each; empty ones are left out.
        """
        return replace(self, note="\n".join(filter(None, [self.note, *notes])))

    def explain(self) -> str:
        """A text of several lines per operator: which tile won, why, and what came second."""
        stories = ["\n  ".join(_story(op)) for op in self.operators]
        return "\n".join([*stories, *self._compared_elsewhere()])

    def _compared_elsewhere(self) -> list[str]:
        """A line where tiles were compared on another number of EUs than the schedule has."""
        seconds = (op.explanation.get("runner_up", {}).get("by", "") for op in self.operators)
        found = {int(match[1]) for by in seconds if (match := _ON_EUS.search(by))} - {self.eus}
        if not found:
            return []
        return [
            f"The schedule has {self.eus} EUs. Makespans on {max(found)} EUs compare tiles where "
            "no number of EUs is asked for, so that machines with fewer choose the same tiles"
        ]

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int | None = None) -> str:
        """The same as lines.

        A name that leaves no room for its figures has a line of its own, and so has a tile; none is
        cut. Why each tile won is what `explain` says.

        Args:
            width: characters of a line at most, None for as long as they come.

        Returns:
            A table of the operators, and lines about the schedule.
        """
        column = max((len(op.name) for op in self.operators), default=0)
        if width is not None:
            column = min(column, width - len(_HEADER) - _TILE)
        column = max(column, len("operator"))
        lines = [f"{'operator':{column}} {_HEADER}tile (registers)"]
        for op in self.operators:
            name, tile = op.name, _cut(op)
            if len(name) > column:
                lines.append(name)
                name = ""
            line = f"{name:{column}} {_figures(op)}"
            if width is not None and len(line) + len(tile) > width:
                lines += [line.rstrip(), f"{tile:>{width}}"]
            else:
                lines.append(line + tile)
            if op.root:
                lines += _folded(f"  root: {op.root}", width)
        lines += [folded for line in self._summary() for folded in _folded(line, width)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """For notebooks: a row for each operator, the figures of the schedule below."""
        heads = "operator", "kind", "tasks", "est. us", "meas. us", "tile", "registers", "reason"
        return html_table("Report", heads, map(_cells, self.operators), self._summary())

    def _summary(self) -> list[str]:
        """What holds for all operators, a line each."""
        idle = ", ".join(f"{t / 1e3:.0f}" for t in self.idle_ns)
        lines = [
            f"device: {self.device}",
            f"schedule: {self.launches} launch(es) on {self.eus} EUs, "
            f"makespan {self.makespan_ns / 1e3:.1f} us, bounds: "
            f"work {self.work_bound_ns / 1e3:.1f}, path {self.path_bound_ns / 1e3:.1f} us; "
            f"idle per EU [{idle}] us; arena {self.arena_bytes} bytes "
            f"(lower bound {self.arena_bound_bytes}), constants {self.constant_bytes} bytes",
        ]
        if self.registers is not None:
            lines.append(f"machine code: {self.registers} registers of a thread")
        return [*lines, *(f"note: {note}" for note in self.note.splitlines())]


def _cells(op: OperatorReport) -> tuple[str, ...]:
    """Name, kind, tasks, estimated and measured us, tile, registers and reason of an operator."""
    sizes = _sizes(op.tile), _sizes(op.register_tile)
    return op.name, op.kind, *_times(op), *sizes, f"{op.reasons}{_spills(op)}"


_ON_EUS = re.compile(r"\bon (\d+) EUs")
_TILE = 27  # characters that most tiles take, with the space before
_HEADER = f"{'kind':12} {'tasks':>6} {'est. us':>9} {'meas. us':>9}  "
_NUMBER = (int, float)
_ALIGNMENT = {
    **dict.fromkeys(("lanes", "waste"), _NUMBER),
    **dict.fromkeys(("accumulators", "hiding", "row_bytes", "line", "rows_per_set", "ways"), int),
}
_SECOND = {
    **{"tile": list, "register_tile": list, "tasks": int, "estimated_ns": _NUMBER},
    **{"by": str, "ratio": _NUMBER},
}
_EXPLANATION = {
    **{"limit": str, "parts_ns": dict, "saturation": _NUMBER, "registers": list},
    **{"loads": _NUMBER, "alignment": _ALIGNMENT},
}
_UNIT = {"name": str, "rows": int, "columns": int, "padding": _NUMBER}
_OPTIONAL = {"runner_up": _SECOND, "note": str, "unit": _UNIT}


def is_explanation(found: Any) -> bool:
    """Whether plain data has the form of an explanation.

    Args:
        found: whatever a file has in its place.
    """
    if not isinstance(found, dict):
        return False
    optional = {key: kind for key, kind in _OPTIONAL.items() if key in found}
    return (
        _has_form(found, _EXPLANATION | optional)
        and all(isinstance(ns, _NUMBER) for ns in found["parts_ns"].values())
        and len(found["registers"]) == 2
    )


def _has_form(found: Any, form: Any) -> bool:
    if not isinstance(form, dict):
        return isinstance(found, form)
    if not isinstance(found, dict) or set(found) != set(form):
        return False
    return all(_has_form(found[key], kind) for key, kind in form.items())


def _story(op: OperatorReport) -> list[str]:
    """The lines about one operator."""
    each = f"{op.tasks} tasks of {op.estimated_ns / max(op.tasks, 1) / 1e3:.1f} us"
    if op.one_eu:
        each += f", on one EU: {op.one_eu}"
    if op.measured_ns:
        each += f", measured {op.measured_ns / max(op.tasks, 1) / 1e3:.1f} us"
    tile, registers = _sizes(op.tile), _sizes(op.register_tile)
    found = op.explanation
    note = f", {found['note']}" if "note" in found else ""
    lines = [f"{op.name}: {op.kind}", f"tile: {tile}, {each}; chosen by {op.source}{note}"]
    root = [f"root: {op.root}"] if op.root else []
    if not found:
        return [*lines, *root, f"registers: {registers}"]
    aligned = found["alignment"]
    slowest = sorted(found["parts_ns"].items(), key=lambda part: (-part[1], part[0]))
    parts = ", ".join(f"{name} {ns / 1e3:.1f} us" for name, ns in slowest)
    used, there = found["registers"]
    lines += [
        f"bound by {found['limit']}: {parts}; {found['saturation']:.0%} of the peak of one EU",
        f"registers: {registers} takes {used} of {there}, {found['loads']:.2f} loads per operation",
        f"alignment: {aligned['accumulators']} accumulators where {aligned['hiding']} hide the "
        f"latency, {aligned['lanes']:.0%} of the lanes, rows of {aligned['row_bytes']} bytes on "
        f"lines of {aligned['line']}, {aligned['rows_per_set']} rows in a set of "
        f"{aligned['ways']} ways, {aligned['waste']:.1%} beyond the axes",
        "second: none, there is no other tiling",
    ]
    if "unit" in found:
        unit = found["unit"]
        lines[3] = (
            f"unit: {unit['name']} multiplies {unit['rows']}x{unit['columns']} at a time, "
            f"{unit['padding']:.1%} of it padding; sums in {used} of {there} registers, "
            f"{found['loads']:.2f} elements from shared memory per operation"
        )
    if "runner_up" in found:
        second = found["runner_up"]
        lines[-1] = (
            f"second: {_sizes(second['tile'])} ({_sizes(second['register_tile'])} in registers), "
            f"{second['tasks']} tasks of {second['estimated_ns'] / 1e3:.1f} us: "
            f"{second['ratio']:.3f} times the {second['by']}"
        )
    return lines + root


def _figures(op: OperatorReport) -> str:
    """What stands between its name and its tile."""
    tasks, estimated, measured = _times(op)
    return f"{op.kind:12} {tasks:>6} {estimated:>9} {measured:>9}  "


def _times(op: OperatorReport) -> tuple[str, str, str]:
    """Its tasks, and what they take together in us, estimated and measured."""
    measured = f"{op.measured_ns / 1e3:.1f}" if op.measured_ns else "-"
    return str(op.tasks), f"{op.estimated_ns / 1e3:.1f}", measured


def _cut(op: OperatorReport) -> str:
    """Its tile, and what is said of it."""
    unit = f", {op.explanation['unit']['name']}" if "unit" in op.explanation else ""
    return f"{_sizes(op.tile)} ({_sizes(op.register_tile)}){unit}{_spills(op)}"


def _folded(line: str, width: int | None) -> list[str]:
    if width is None:
        return [line]
    return textwrap.wrap(line, width, subsequent_indent="    ", break_long_words=False)


def _spills(op: OperatorReport) -> str:
    return f"; spills {op.spilled_bytes} bytes of a thread" if op.spilled_bytes else ""


def _sizes(tile: Sequence[int]) -> str:
    return "x".join(map(str, tile)) or "-"


def _operator(entry: dict[str, Any]) -> OperatorReport:
    if entry["explanation"] and not is_explanation(entry["explanation"]):
        raise ValueError
    found: OperatorReport = _frozen(OperatorReport, entry)
    return found


def _frozen(kind: Any, entry: dict[str, Any]) -> Any:
    if set(entry) != {f.name for f in fields(kind)}:
        raise ValueError
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()})
