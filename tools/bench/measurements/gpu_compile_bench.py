"""Models compiled for GPUs: seconds, spilled registers, instructions; no GPU is needed.

    python tools/bench gpu_compile_bench --json=gpu.json
    python tools/bench gpu_compile_bench --models=resnet50 --targets=cuda:h200

Each is compiled in a process of its own and without a cache, so that nothing is known before.
Needs ptxas and nvdisasm. spilled: bytes of a thread in contractions, and in all other rKernels; the
opcodes are those of machine code for matrix units and for asynchronous copies.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

from measurements._shared import print_goals, reached
from rcompiler.options import GpuPrecision
from rcompiler.tools._command import Command
from rcompiler.tools._console import (
    complain,
    doing,
    items,
    number,
    table,
)
from rcompiler.tools._record import keep

if TYPE_CHECKING:
    from measurements._gpu_compile_bench import Case, CompilationFigure

_TARGETS = "cuda:h200,cuda:sm_80"
_PRECISIONS = "f32,tf32,f16"


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a goal is missed."""
    from measurements._gpu_compile_bench import GOALS, faults, measured

    figures = []
    for case in _cases(options):
        doing(f"{case.model} for {case.target}, {case.precision}")
        figures.append(measured(case))
    _print(figures)
    goals = reached(GOALS, figures)
    print_goals(goals)
    keep(options, models=[vars(f) for f in figures], goals=goals)
    for fault in faults(figures):
        complain("gpu_compile_bench", fault)
    return int(any(goal["met"] is False for goal in goals))


def _cases(options: argparse.Namespace) -> list[Case]:
    from measurements._gpu_compile_bench import NETWORKS, PAPER, Case, light_models
    from rcompiler.device.target import find_device

    light = light_models()
    models = options.models or [*light, *NETWORKS, *PAPER]
    for target in options.targets:
        find_device(target)  # refuse a wrong one here, not in every case
    return [
        Case(model, target, precision, light.get(model, ""))
        for model in models
        for target in options.targets
        for precision in options.precisions
    ]


def _print(figures: Sequence[CompilationFigure]) -> None:
    from measurements._gpu_compile_bench import OPCODES

    columns = ["model", "target", "precision", "s", "slowest step", "s", "rKernels", "registers"]
    columns += ["spilled", "elsewhere", *OPCODES]
    rows: list[list[object]] = []
    for f in figures:
        step = max(f.steps, key=lambda name: f.steps[name], default="-")
        row: list[object] = [f.model, f.target, f.precision, number(f.seconds, ".1f"), step]
        row += [number(f.steps.get(step), ".1f"), f.kernels or "-", f.registers or "-"]
        done = not f.error
        row += [sum(where.values()) if done else "-" for where in (f.spilled, f.spilled_elsewhere)]
        rows.append([*row, *(f.sass.get(opcode, "-") for opcode in OPCODES)])
    table(columns, rows)
    loads = [f.load for f in figures if f.load is not None]
    if loads:
        print(f"load of the machine: {max(loads):.1f}")


def _precisions(text: str) -> list[str]:
    names = items(text)
    for name in names:
        if name not in get_args(GpuPrecision):
            raise argparse.ArgumentTypeError(
                f"{name!r} is none of {', '.join(get_args(GpuPrecision))}"
            )
    return list(dict.fromkeys(names))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--models", type=items, metavar="LIST",
        help="built-in models, those of onnx's own tests (light_squeezenet) and ONNX files; "
        "default: these nine, two networks and the six of Rammer's evaluation",
    )  # fmt: skip
    parser.add_argument(
        "--targets", type=items, default=items(_TARGETS), metavar="LIST",
        help=f"default: {_TARGETS}",
    )  # fmt: skip
    parser.add_argument(
        "--precisions", type=_precisions, default=items(_PRECISIONS), metavar="LIST",
        help=f"of {', '.join(get_args(GpuPrecision))}; default: {_PRECISIONS}",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write figures and their circumstances")


main = Command(__name__, __doc__, _options, _run)
