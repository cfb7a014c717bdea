"""What the compiler decided and expects, per operator and for the whole schedule."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.device.model import Device
from rcompiler.passes._tables import Tables
from rcompiler.rammer.program import Run
from rcompiler.rammer.simulate import simulate
from rcompiler.rammer.placement import derive_graph


@dataclass(frozen=True)
class OperatorReport:
    """One rOperator: its rKernel, tile, number of rTasks, estimated time of all of them (ns) and the reason."""

    name: str
    kind: str
    kernel: str
    tile: tuple[int, ...]
    register_tile: tuple[int, ...]
    tasks: int
    estimated_ns: float
    reason: str


@dataclass(frozen=True)
class Report:
    """Operators in launch order and the schedule's figures; times in ns, memory in bytes."""

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

    def __str__(self) -> str:
        lines = [f"{'operator':32} {'kind':12} {'tasks':>6} {'est. us':>9}  tile (registers): reason"]
        for op in self.operators:
            tile = "x".join(map(str, op.tile)) or "-"
            registers = "x".join(map(str, op.register_tile)) or "-"
            lines.append(
                f"{op.name[:32]:32} {op.kind:12} {op.tasks:6} {op.estimated_ns / 1e3:9.1f}  {tile} ({registers}): {op.reason}"
            )
        idle = ", ".join(f"{t / 1e3:.0f}" for t in self.idle_ns)
        lines.append(
            f"schedule: {self.launches} launch(es) on {self.eus} EUs, makespan {self.makespan_ns / 1e3:.1f} us, bounds: "
            f"work {self.work_bound_ns / 1e3:.1f}, path {self.path_bound_ns / 1e3:.1f} us; idle per EU [{idle}] us; "
            f"arena {self.arena_bytes} bytes (lower bound {self.arena_bound_bytes}), constants {self.constant_bytes} bytes"
        )
        return "\n".join(lines)


def make_report(module: ir.Operation, tables: Tables, device: Device) -> Report:
    """The report of an S4 module."""
    kernels = {
        ir.StringAttr(v.operation.attributes["sym_name"]).value: v.operation
        for v in module.regions[0].blocks[0].operations
        if v.operation.name == "rtask.kernel"
    }
    seen: dict[str, OperatorReport] = {}
    for program in tables.programs:
        for queue in program.queues:
            for instruction in queue:
                if isinstance(instruction, Run) and instruction.operator not in seen:
                    seen[instruction.operator] = _operator(instruction, kernels[instruction.kernel])
    graph = derive_graph(tables.programs, list(tables.kernels.values()))
    timeline = simulate(tables.programs, graph, device.costs)
    return Report(
        operators=tuple(seen.values()),
        eus=tables.eus,
        launches=len(tables.programs),
        makespan_ns=float(timeline.makespan_ns),
        work_bound_ns=float(timeline.work_bound_ns),
        path_bound_ns=float(timeline.path_bound_ns),
        idle_ns=tuple(float(t) for t in timeline.idle_ns),
        arena_bytes=max((p.arena for p in tables.programs), default=0),
        arena_bound_bytes=_bound(module),
        constant_bytes=max((p.constants for p in tables.programs), default=0),
    )


def _operator(run: Run, kernel: ir.Operation) -> OperatorReport:
    attributes = kernel.attributes
    tasks = ir.IntegerAttr(attributes["tasks"]).value
    return OperatorReport(
        name=run.operator,
        kind=ir.StringAttr(attributes["kind"]).value,
        kernel=run.kernel,
        tile=tuple(ir.DenseI64ArrayAttr(attributes["tile"])),
        register_tile=tuple(ir.DenseI64ArrayAttr(attributes["register_tile"])),
        tasks=tasks,
        estimated_ns=tasks * ir.FloatAttr(attributes["estimated_ns"]).value,
        reason=ir.StringAttr(attributes["reason"]).value if "reason" in attributes else "",
    )


def _bound(module: ir.Operation) -> int:
    """The planner's lower bound, noted on the programs by rammer-schedule; 0 for a schedule written by hand."""
    bounds = [
        ir.IntegerAttr(v.operation.attributes["arena_bound"]).value
        for v in module.regions[0].blocks[0].operations
        if v.operation.name == "vdevice.program" and "arena_bound" in v.operation.attributes
    ]
    return max(bounds, default=0)
