"""Scheduling policies on whole models and any device record, by estimate: no kernel runs.

    python tools/bench simulate_models --device=v100,h200 resnext29 lstm2

Every policy schedules the same rKernels. Times: with the record's prices of launches, barriers and
hand-offs, and with the bandwidth of the level that all EUs share.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import TYPE_CHECKING

from rcompiler.errors import CompilerError
from rcompiler.rammer.policy.kernels import MODES
from rcompiler.tools._command import Command
from rcompiler.tools._console import items, positive, table
from rcompiler.tools._record import keep

if TYPE_CHECKING:
    from rcompiler.device.model import Device
    from rcompiler.rammer.graph import Graph

_MODELS = ("resnext29", "lstm2", "squeezenet1_1", "inception_v3")


@dataclass(frozen=True)
class SimulatedFigures:
    """One model on one device. us: per policy; busy: share of the EUs' time in rTasks; programs,
    waits: of its schedule; bound_us: none of them can be shorter with the rKernels it chose.
    """

    model: str
    device: str
    eus: int
    operators: int
    us: dict[str, float]
    busy: dict[str, float]
    programs: dict[str, int]
    waits: dict[str, int]
    bound_us: float


def _run(options: argparse.Namespace) -> int:
    from rcompiler.device.target import find_device

    found = []
    for device in [find_device(name) for name in options.device]:
        for model in options.models or _MODELS:
            found.append(figures(model, device, options.eus, options.kernels))
    _print(found)
    keep(options, models=[vars(f) for f in found])
    return 0


def figures(
    model: str, device: Device, eus: int | None = None, kernels: str = "auto"
) -> SimulatedFigures:
    """All policies on one model; eus: None for all of the device. kernels: see `schedule`."""
    from rcompiler.rammer.schedule import policies, schedule
    from rcompiler.rammer.simulate import simulate

    graph = graph_of(model, device)
    eus = eus or device.eus
    us, busy, programs, waits, bounds = {}, {}, {}, {}, []
    for policy in policies(device.costs):
        found = schedule(graph, eus, device.costs, policy=policy, kernels=kernels)
        line = simulate(found.programs, graph, device.costs, device.shared_bandwidth)
        us[policy] = line.makespan_ns / 1e3
        busy[policy] = float(line.busy_ns.mean() / line.makespan_ns) if line.makespan_ns else 0.0
        programs[policy] = len(found.programs)
        waits[policy] = found.certificate.waits
        bounds.append(max(line.work_bound_ns, line.path_bound_ns, line.bandwidth_bound_ns) / 1e3)
    size = len(graph.operators)
    return SimulatedFigures(model, device.name, eus, size, us, busy, programs, waits, min(bounds))


def graph_of(model: str, device: Device) -> Graph:
    """The operators of a model with the rKernels that Roller constructs for a device."""
    from rcompiler.compile import operators_of
    from rcompiler.passes.roller_tile import tile_operators
    from rcompiler.passes.schedule.schedule_graph import GraphBuilder
    from rcompiler.tools._sources import resolve

    source = resolve(model)
    if source.proto is None:
        raise CompilerError(f"{source.path}: is compiled already; give an ONNX model")
    with operators_of(source.proto, device) as module:
        tile_operators(module.operation, lambda body: body.construct(device))
        return GraphBuilder(module.operation).build().graph


def _print(found: Sequence[SimulatedFigures]) -> None:
    policies = list(dict.fromkeys(policy for f in found for policy in f.us))
    rows = [
        (
            f.model,
            f"{f.device} ({f.eus})",
            str(f.operators),
            *(f"{f.us[p]:.1f}" if p in f.us else "-" for p in policies),
            f"{f.bound_us:.1f}",
            f"{100 * max(f.busy.values()):.0f}",
        )
        for f in found
    ]
    table(("model", "device (EUs)", "operators", *policies, "bound", "busy %"), rows)
    for policy in policies[1:]:
        gain = geometric_mean(f.us["base"] / f.us[policy] for f in found if policy in f.us)
        print(f"{policy}: {gain:.2f} times as fast as base (geometric mean, estimated)")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="*", help="ONNX files or built-in models")
    parser.add_argument(
        "--device",
        type=items,
        default=["v100", "h200"],
        metavar="LIST",
        help="records; default: v100,h200",
    )
    parser.add_argument("--eus", type=positive, metavar="N", help="default: all of a device")
    parser.add_argument(
        "--kernels", choices=MODES, default="auto", help="which rKernels; default: auto"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures")


main = Command(__name__, __doc__, _options, _run)
