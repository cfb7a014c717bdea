"""The validator on schedules of a million rTasks: seconds and memory.

    python tools/bench validate_scale --json=validate-scale.json

A network of `--operators` operators of `--tasks` rTasks (two-dimensional windows, tiles, panels of
rows, bands; skip connections; in-place operators) is scheduled on `--eus` EUs with tile-level waits
and planned into one arena, so that values re-use bytes while EUs are apart. Variants: `ranges`, one
run per EU and operator as the policy writes it; `tasks`, each rTask a run of its own; `flags`, each
rTask also signals an event of its own, and each wait is for the one rTask that is needed last.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from math import isqrt
from multiprocessing import get_context

from rcompiler.device.model import Costs
from rcompiler.rammer.graph import Graph, Operator, Value
from rcompiler.rammer.kernel import Access, DimAccess, Kernel
from rcompiler.rammer.plan_memory import plan_memory
from rcompiler.rammer.policy.rammer import schedule_rammer
from rcompiler.rammer.program import Instruction, Program, Run, Signal, Wait
from rcompiler.rammer.validate import validate
from rcompiler.tools._command import Command
from rcompiler.tools._console import positive, table
from rcompiler.tools._record import keep

VARIANTS = ("ranges", "tasks", "flags")
# One launch: no cut is worth its price.
COSTS = Costs(launch_ns=1e9, barrier_ns=1e6)


@dataclass(frozen=True)
class VariantFigures:
    """Of one variant. seconds: processor time of the validator; peak_gib: of its process."""

    variant: str
    eus: int
    operators: int
    tasks: int
    runs: int
    waits: int
    instructions: int
    arena_bytes: int
    plain_bytes: int
    seconds: float
    peak_gib: float


def network(operators: int, tasks: int) -> Graph:
    """A chain with skip connections; each operator has the square next below `tasks` rTasks."""
    side = isqrt(tasks)
    shape, grid, flat = (side * 8, side * 4), (side, side), (side * side, 32)
    tile = Access(shape, 4, (DimAccess(0, 8, 0, 8), DimAccess(1, 4, 0, 4)))
    window = Access(shape, 4, (DimAccess(0, 8, -1, 10), DimAccess(1, 4, -1, 6)))
    panel = Access(shape, 4, (DimAccess(0, 8, 0, 8), DimAccess()))
    line = Access(flat, 4, (DimAccess(0, 1, 0, 1), DimAccess()))
    band = Access(flat, 4, (DimAccess(0, 1, -1, 3), DimAccess()))
    kernels = (
        Kernel("window", grid, (window, tile), (tile,), 2000.0, in_place=((1, 0),)),
        Kernel("panel", grid, (panel, tile), (tile,), 3000.0),
        Kernel("band", (side * side,), (band, line), (line,), 2500.0),
        Kernel("line", (side * side,), (line, line), (line,), 800.0, in_place=((0, 0),)),
    )
    cycle = ("window", "panel", "window", "band", "line", "window")
    names = ["x"]
    values = [Value("x", tile.bytes, "input", index=0)]
    made = []
    for i in range(operators):
        last = i == operators - 1
        skip = names[max(0, len(names) - (2 if i % 3 else 5))]
        made.append(Operator(f"o{i}", (cycle[i % 6],), (names[-1], skip), (f"v{i}",)))
        kind, index = ("output", 0) if last else ("temp", -1)
        values.append(Value(f"v{i}", tile.bytes, kind, index=index))
        names.append(f"v{i}")
    return Graph(tuple(made), tuple(values), kernels)


def variant_of(program: Program, variant: str) -> Program:
    """The same schedule in runs of single rTasks, and with an event for each."""
    if variant == "ranges":
        return program
    flags = variant == "flags"
    last: dict[str, tuple[str, int]] = {}  # event of a share -> its last rTask
    queues = [_single(queue, last, flags) for queue in program.queues]
    if flags:
        queues = [[_flag(step, last) for step in queue] for queue in queues]
    return replace(program, queues=tuple(map(tuple, queues)))


def _single(
    queue: Sequence[Instruction], last: dict[str, tuple[str, int]], flags: bool
) -> list[Instruction]:
    found: list[Instruction] = []
    run: Run | None = None
    for step in queue:
        if isinstance(step, Run):
            run = step
            for task in range(step.first, step.first + step.count):
                found.append(replace(step, first=task, count=1))
                if flags:
                    found.append(Signal(_event(step.operator, task)))
        elif isinstance(step, Signal) and run is not None:
            last[step.event] = run.operator, run.first + run.count - 1
            found.append(step)
        else:
            found.append(step)
    return found


def _flag(step: Instruction, last: dict[str, tuple[str, int]]) -> Instruction:
    """A wait for one share waits for the flag of its last rTask."""
    if isinstance(step, Wait) and step.count == 1 and step.event in last:
        return Wait(_event(*last[step.event]), 1)
    return step


def _event(operator: str, task: int) -> str:
    return f"{operator}:{task}"


def measure(variant: str, operators: int, tasks: int, eus: int) -> VariantFigures:
    """Build the schedule of a variant and validate it."""
    graph = network(operators, tasks)
    programs, memory = plan_memory(graph, schedule_rammer(graph, eus, COSTS))
    programs = tuple(variant_of(program, variant) for program in programs)
    started = time.process_time()
    certificate = validate(programs, graph, max_eus=eus)
    seconds = time.process_time() - started
    return VariantFigures(
        variant,
        eus,
        certificate.operators,
        certificate.tasks,
        certificate.runs,
        certificate.waits,
        sum(len(queue) for program in programs for queue in program.queues),
        memory.peak,
        memory.plain,
        round(seconds, 2),
        round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    )


def _run(options: argparse.Namespace) -> int:
    found = []
    for variant in options.variant or VARIANTS:
        # A fresh process for each: the peak of memory is that of a process.
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            args = (variant, options.operators, options.tasks, options.eus)
            found.append(pool.submit(measure, *args).result())
    header = ("variant", "EUs", "operators", "rTasks", "runs", "waits", "instructions", "seconds",
              "peak GiB")  # fmt: skip
    table(
        header,
        [
            (f.variant, f.eus, f.operators, f.tasks, f.runs, f.waits, f.instructions, f.seconds,
             f.peak_gib)
            for f in found
        ],
    )  # fmt: skip
    keep(
        options,
        variants=[asdict(figures) for figures in found],
    )
    return 0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--operators", type=positive, default=256, metavar="N", help="default: 256")
    parser.add_argument(
        "--tasks", type=positive, default=4096, metavar="N", help="of an operator; default: 4096"
    )
    parser.add_argument("--eus", type=positive, default=132, metavar="N", help="default: 132")
    parser.add_argument("--variant", action="append", choices=VARIANTS, help="default: all")
    parser.add_argument("--json", metavar="FILE", help="write a record")


main = Command(__name__, __doc__, _options, _run)
