"""Scheduling policies on random cells of operators, by estimate: no kernel runs.

    python tools/bench schedule_cells --cells=18 --eus=16 --optimum=20
    python tools/bench schedule_cells --cells=5000 --device=h200

Times relative to the shortest schedule found, with the same rKernels. --optimum: CP-SAT searches
too, for so many seconds a cell. --device: EUs and prices of a device record.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean, mean
from typing import TYPE_CHECKING

from rcompiler.tools._command import Command
from rcompiler.tools._console import positive, seconds, table
from rcompiler.tools._record import keep

if TYPE_CHECKING:
    from rcompiler.device.model import Costs
    from rcompiler.rammer.graph import Graph

_EUS = 16
_OPTIMUM = "CP-SAT"


@dataclass(frozen=True)
class CellFigures:
    """One cell. ns: per policy, the first launch not counted; bound_ns: of CP-SAT, or of work and
    path; proved: whether the shortest is known to be the optimum.
    """

    operators: int
    tasks: int
    ns: dict[str, float]
    bound_ns: float
    proved: bool

    @property
    def best(self) -> float:
        return min(self.ns.values())

    def losses(self) -> dict[str, float]:
        """Times relative to the best."""
        return {name: ns / self.best for name, ns in self.ns.items()}


def _run(options: argparse.Namespace) -> int:
    from measurements._cells import cell

    options.eus, costs = _device(options)
    found = []
    for seed in range(options.cells):
        graph = cell(seed, whole=not options.tiles)
        found.append(figures(graph, options.eus, costs, options.optimum))
        if options.optimum:
            _print_cell(seed, found[-1])
    _print_summary(found)
    each = {"cells": [vars(f) for f in found]} if options.optimum else {}
    keep(options, costs=vars(costs), policies=_summary(found), waits=_gains(found), **each)
    return 0


def figures(graph: Graph, eus: int, costs: Costs, seconds: float | None = None) -> CellFigures:
    """Every policy on one graph, and CP-SAT for some seconds."""
    from measurements._cp_sat import optimum
    from rcompiler.rammer.schedule import POLICIES, policies
    from rcompiler.rammer.simulate import simulate

    ns, bound = {}, 0.0
    for name in policies(costs):
        timeline = simulate(POLICIES[name](graph, eus, costs), graph, costs)
        ns[name] = timeline.makespan_ns - costs.launch_ns
        bound = max(timeline.work_bound_ns, timeline.path_bound_ns)
    proved = False
    if seconds:
        best = optimum(graph, eus, costs, seconds, min(ns.values()))
        ns[_OPTIMUM], bound, proved = best.ns, max(bound, best.bound_ns), best.proved
    tasks = sum(graph.kernel[op.kernels[0]].tasks for op in graph.operators)
    return CellFigures(len(graph.operators), tasks, ns, bound, proved)


def _device(options: argparse.Namespace) -> tuple[int, Costs]:
    """EUs and prices: of a record, or those that the published simulations assume."""
    from rcompiler.device.model import Costs
    from rcompiler.device.target import find_device

    if options.device is None:
        prices = Costs(task_ns=1.0, hand_off_ns=800.0, barrier_ns=1300.0, launch_ns=1300.0)
        return options.eus or _EUS, prices
    device = find_device(options.device)
    return options.eus or device.eus, device.costs


def _print_cell(seed: int, found: CellFigures) -> None:
    losses = "  ".join(f"{name} {loss:.3f}" for name, loss in found.losses().items())
    gap = "proved" if found.proved else f"bound {found.bound_ns / found.best:.3f}"
    print(f"cell {seed}: {found.operators} operators, {found.tasks} rTasks, ", end="")
    print(f"best {found.best / 1e3:.1f} us ({gap}): {losses}", flush=True)


def _summary(found: Sequence[CellFigures]) -> dict[str, dict[str, float]]:
    """Per policy: mean, geometric mean and largest loss over all cells."""
    losses = [f.losses() for f in found]
    columns = {name: [loss[name] for loss in losses] for name in losses[0]}
    return {
        name: {"mean": mean(c), "geomean": geometric_mean(c), "most": max(c)}
        for name, c in columns.items()
    }


def _gains(found: Sequence[CellFigures]) -> dict[str, float]:
    """Of waits tile by tile over a barrier after every wave, in one launch; {} without signals."""
    if "rammer" not in found[0].ns:
        return {}
    gains = [f.ns["bsp"] / f.ns["rammer"] for f in found]
    return {"mean": mean(gains), "most": max(gains)}


def _print_summary(found: Sequence[CellFigures]) -> None:
    rows = [
        (name, *(f"{value:.3f}" for value in figures.values()))
        for name, figures in _summary(found).items()
    ]
    table(("policy", "mean", "geomean", "most"), rows)
    proved = f", {sum(f.proved for f in found)} proved optimal" if _OPTIMUM in found[0].ns else ""
    print(f"{len(found)} cells{proved}")
    if gains := _gains(found):
        print(f"waits over global barriers: {gains['mean']:.3f} in the mean, ", end="")
        print(f"{gains['most']:.3f} at most")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cells", type=positive, default=18, metavar="N", help="default: 18")
    parser.add_argument("--eus", type=positive, metavar="N", help="default: the device's, or 16")
    parser.add_argument("--device", metavar="NAME", help="a device record, such as v100 or h200")
    parser.add_argument(
        "--tiles", action="store_true", help="rTasks need their own part of an operand, not all"
    )
    parser.add_argument(
        "--optimum", type=seconds, metavar="S", help="search with CP-SAT for S seconds a cell"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures")


main = Command(__name__, __doc__, _options, _run)
