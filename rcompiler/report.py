"""What the compiler decided and expects, per operator and for the whole schedule."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from rcompiler.errors import ArtifactError


@dataclass(frozen=True)
class OperatorReport:
    """One rOperator: its rKernel, tile, number of rTasks, estimated and measured (0: not) time of
    all of them (ns), and the reason.
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


@dataclass(frozen=True)
class Report:
    """Operators in launch order and the schedule's figures; times in ns, memory in bytes.

    device: the figures that the estimates follow from, measured or not.
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

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data: dicts, lists, numbers and text."""
        data: dict[str, Any] = json.loads(self.to_json())
        return data

    def to_json(self) -> str:
        """One line of JSON; equal reports give equal text."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Report:
        """The report that `to_json` wrote. Raises ArtifactError for other text."""
        try:
            data = json.loads(text)
            operators = tuple(_frozen(OperatorReport, entry) for entry in data.pop("operators"))
            return _frozen(Report, {**data, "operators": operators})
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ArtifactError("the report is damaged; compile the model again") from None

    def __str__(self) -> str:
        lines = [
            f"{'operator':32} {'kind':12} {'tasks':>6} {'est. us':>9} {'meas. us':>9}  "
            "tile (registers): reason"
        ]
        for op in self.operators:
            tile = "x".join(map(str, op.tile)) or "-"
            registers = "x".join(map(str, op.register_tile)) or "-"
            measured = f"{op.measured_ns / 1e3:.1f}" if op.measured_ns else "-"
            lines.append(
                f"{op.name[:32]:32} {op.kind:12} {op.tasks:6} {op.estimated_ns / 1e3:9.1f} "
                f"{measured:>9}  {tile} ({registers}): {op.reason}"
            )
        lines.append(f"device: {self.device}")
        idle = ", ".join(f"{t / 1e3:.0f}" for t in self.idle_ns)
        lines.append(
            f"schedule: {self.launches} launch(es) on {self.eus} EUs, "
            f"makespan {self.makespan_ns / 1e3:.1f} us, bounds: "
            f"work {self.work_bound_ns / 1e3:.1f}, path {self.path_bound_ns / 1e3:.1f} us; "
            f"idle per EU [{idle}] us; arena {self.arena_bytes} bytes "
            f"(lower bound {self.arena_bound_bytes}), constants {self.constant_bytes} bytes"
        )
        return "\n".join(lines)


def _frozen(kind: Any, entry: dict[str, Any]) -> Any:
    if set(entry) != {f.name for f in fields(kind)}:
        raise ValueError
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()})
