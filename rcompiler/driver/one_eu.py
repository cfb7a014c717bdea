"""Which operators of a schedule run on one EU only, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rcompiler.device.model import Costs
from rcompiler.rammer.program import Program, Run
from rcompiler.report import OperatorReport


def with_reasons(
    operators: Mapping[str, OperatorReport], programs: Iterable[Program], costs: Costs
) -> tuple[OperatorReport, ...]:
    """The operators; those that run on one EU of several say why."""
    used: dict[str, set[int]] = {}
    several: set[str] = set()
    for program in programs:
        for number, queue in enumerate(program.queues):
            for step in queue:
                if isinstance(step, Run):
                    used.setdefault(step.operator, set()).add(number)
                    several |= {step.operator} if program.eus > 1 else set()
    return tuple(
        replace(op, one_eu=_reason(op, costs)) if name in several and len(used[name]) == 1 else op
        for name, op in operators.items()
    )


def _reason(op: OperatorReport, costs: Costs) -> str:
    if op.kind == "sequential":
        return "each of its steps needs the one before"
    if op.tasks > 1:
        return f"the schedule keeps its {op.tasks} rTasks together"
    whole, least = op.tasks * op.task_ns, costs.min_task_ns
    if whole < 2 * least:
        return (
            f"it takes {whole / 1e3:.1f} us: two rTasks would be shorter than the "
            f"{least / 1e3:.1f} us that are worth placing"
        )
    return "no cut of its results is expected to make it faster"
