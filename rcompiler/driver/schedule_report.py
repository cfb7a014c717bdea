"""The report of a schedule: what was decided, and what the simulator expects of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from torch_mlir import ir

from rcompiler.device.measure import summary
from rcompiler.device.model import Device
from rcompiler.dialects.attributes import to_python
from rcompiler.dialects.rtask import ROOT
from rcompiler.driver.one_eu import with_reasons
from rcompiler.passes.schedule.tables import Tables
from rcompiler.rammer.expected import expected
from rcompiler.rammer.placement import derive_graph
from rcompiler.rammer.program import Run
from rcompiler.report import OperatorReport, Report, is_explanation


def make_report(module: ir.Operation, tables: Tables, device: Device) -> Report:
    """The report of an S4 module."""
    kernels = {
        ir.StringAttr(v.operation.attributes["sym_name"]).value: v.operation
        for v in module.regions[0].blocks[0].operations
        if v.operation.name == "rtask.kernel"
    }
    of_kernel = {name: _operator(name, kernel) for name, kernel in kernels.items()}
    seen: dict[str, OperatorReport] = {}
    for program in tables.programs:
        for queue in program.queues:
            for instruction in queue:
                if isinstance(instruction, Run) and instruction.operator not in seen:
                    found = of_kernel[instruction.kernel]
                    seen[instruction.operator] = replace(found, name=instruction.operator)
    graph = derive_graph(tables.programs, list(tables.kernels.values()))
    timeline = expected(tables.programs, graph, device)
    return Report(
        device=summary(device),
        operators=with_reasons(seen, tables.programs, device.costs),
        eus=tables.eus,
        launches=len(tables.programs),
        makespan_ns=float(timeline.makespan_ns),
        work_bound_ns=float(timeline.work_bound_ns),
        path_bound_ns=float(timeline.path_bound_ns),
        idle_ns=tuple(float(t) for t in timeline.idle_ns),
        arena_bytes=max((p.arena for p in tables.programs), default=0),
        arena_bound_bytes=_bound(module),
        constant_bytes=max((p.constants for p in tables.programs), default=0),
    ).noted(*_states(tables))


def _states(tables: Tables) -> list[str]:
    """Which states are updated in place, and why others are not."""
    here = [state.name for state in tables.states if state.in_place]
    notes = [f"state updated in place: {', '.join(here)}"] if here else []
    for state in tables.states:
        if not state.in_place:
            why = tables.outputs[state.output].double_buffered
            notes.append(f"state double-buffered: {state.name}" + (f", as {why}" if why else ""))
    return notes


def _operator(name: str, kernel: ir.Operation) -> OperatorReport:
    """What is the same for all operators of a kernel."""
    attributes = kernel.attributes
    tasks = ir.IntegerAttr(attributes["tasks"]).value
    return OperatorReport(
        name="",
        kind=ir.StringAttr(attributes["kind"]).value,
        kernel=name,
        tile=tuple(ir.DenseI64ArrayAttr(attributes["tile"])),
        register_tile=tuple(ir.DenseI64ArrayAttr(attributes["register_tile"])),
        tasks=tasks,
        estimated_ns=tasks * ir.FloatAttr(attributes["estimated_ns"]).value,
        measured_ns=tasks * ir.FloatAttr(attributes["measured_ns"]).value
        if "measured_ns" in attributes
        else 0.0,
        reason=ir.StringAttr(attributes["reason"]).value if "reason" in attributes else "",
        source=ir.StringAttr(attributes["source"]).value,
        explanation=_explanation(kernel),
        root=ir.StringAttr(attributes[ROOT]).value if ROOT in attributes else "",
    )


def _explanation(kernel: ir.Operation) -> dict[str, Any]:
    """As it reads from JSON; empty where there is none, or one that was written by hand."""
    if "explanation" not in kernel.attributes:
        return {}
    found: dict[str, Any] = json.loads(json.dumps(to_python(kernel.attributes["explanation"])))
    return found if is_explanation(found) else {}


def _bound(module: ir.Operation) -> int:
    """The planner's lower bound, noted on the programs by rammer-schedule; 0 for a schedule written
    by hand.
    """
    bounds = [
        ir.IntegerAttr(v.operation.attributes["arena_bound"]).value
        for v in module.regions[0].blocks[0].operations
        if v.operation.name == "vdevice.program" and "arena_bound" in v.operation.attributes
    ]
    return max(bounds, default=0)
