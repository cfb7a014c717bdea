"""Scheduling policies beside one another, measured on this machine: times and gains.

    python tools/bench schedule_bench --models=lstm_tc,seq2seq --eus=2 --json=schedules.json
    python tools/bench schedule_bench --policies=base,rammer --kernels=fast,select

A model is tiled once, and every policy schedules these rKernels; their results have to be equal to
the bit. Then the schedules take turns in short rounds. /base: how many times as fast as base, the
median over rounds; with --kernels, as base-fast: a base that does not run its operators as fast as
it can is no measure.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, get_args

from measurements._shared import print_goals, reached
from rcompiler.options import Kernels, Policy, Scheduler
from rcompiler.tools._command import Command
from rcompiler.tools._console import (
    doing,
    items,
    number,
    positive,
    report,
    table,
    timing_options,
)
from rcompiler.tools._record import keep, unpin_openblas

if TYPE_CHECKING:
    from measurements._schedule_bench import ModelFigure

_POLICIES = "base,wave,rammer,list,dynamic"
# Built-in models of which nothing but the price of an operator or of a hand-off is to be seen.
_PROBES = ("nas_cells", "tiny_chain", "tiny_matmul_chain", "two_branch")
_TRAINING = ("convnet_training",)  # the others are for inference


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a model failed or is wrong. A goal that is missed is no failure."""
    openblas = unpin_openblas()
    from measurements._schedule_bench import GOALS, measure
    from rcompiler.tools import models

    options.models = options.models or [
        name for name in models.names() if name not in (*_PROBES, *_TRAINING)
    ]
    schedulers = [Scheduler(policy, k) for policy in options.policies for k in options.kernels]
    figures = []
    for name in options.models:
        doing(name)
        figures.append(
            measure(
                name,
                schedulers,
                options.eus,
                options.rounds,
                options.seconds,
                options.seed,
                as_written=options.as_written,
            )
        )
    _print(figures, schedulers)
    goals = reached(GOALS, figures)
    print_goals(goals)
    keep(
        options,
        openblas_coretype=openblas,
        models=[vars(f) for f in figures],
        goals=goals,
    )
    return report("schedule_bench", (f"{f.model}: {f.error}" for f in figures if f.error))


def _print(figures: Sequence[ModelFigure], schedulers: Sequence[Scheduler]) -> None:
    from measurements._schedule_bench import base_of

    base = base_of(schedulers)
    names = [str(by) for by in schedulers]
    over = [str(by) for by in schedulers if by != base] if base else []
    columns = ["model", "operators", *(f"{name} ms" for name in names)]
    columns += [f"{name}/{base}" for name in over]
    rows = []
    for f in figures:
        row = [f.model, str(f.operators or "-"), *(number(f.ms.get(n), ".4g") for n in names)]
        row += [number(f.gain.get(name), ".2f") for name in over]
        rows.append(row)
    table(columns, rows)
    loads = [f.load for f in figures if f.load is not None]
    if loads:
        print(f"load of the machine: {max(loads):.1f}")


def _some_of(known: Sequence[str], text: str) -> list[str]:
    names = items(text)
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
    return list(dict.fromkeys(names))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--models", type=items, metavar="LIST",
        help="built-in models and ONNX files; default: all built-in networks",
    )  # fmt: skip
    parser.add_argument(
        "--policies", type=partial(_some_of, get_args(Policy)), default=items(_POLICIES),
        metavar="LIST", help=f"of {', '.join(get_args(Policy))}; default: {_POLICIES}",
    )  # fmt: skip
    parser.add_argument(
        "--kernels", type=partial(_some_of, get_args(Kernels)), default=["auto"],
        metavar="LIST", help="which rKernels each policy takes, of "
        f"{', '.join(get_args(Kernels))}; default: auto, what suits the policy",
    )  # fmt: skip
    parser.add_argument(
        "--eus", type=positive, default=2, metavar="N", help="execution units; default: 2"
    )
    parser.add_argument(
        "--as-written", action="store_true",
        help="an rOperator for each operator of the graph: none are grouped, joined or batched",
    )  # fmt: skip
    timing_options(parser, "model and schedule", 20, 2.0)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the input data")


main = Command(__name__, __doc__, _options, _run)
