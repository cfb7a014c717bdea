"""Scheduling policies beside one another, measured on this machine: times and gains.

    python -m rcompiler.tools.schedule_bench --models=lstm_tc,seq2seq --eus=2 --json=schedules.json

A model is tiled once, and every policy schedules these rKernels; their results have to be equal to
the bit. Then the schedules take turns in short rounds. /base: how many times as fast as base, the
median over rounds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rcompiler.tools._console import (
    Parser,
    check_writable,
    doing,
    guard,
    items,
    number,
    positive,
    report,
    table,
    timing_options,
)
from rcompiler.tools._goals import print_goals, reached
from rcompiler.tools._record import asked, unpin_openblas, write_record

if TYPE_CHECKING:
    from rcompiler.tools._schedule_bench import Figure

_POLICIES = "base,wave,rammer,list,dynamic"
# Built-in models of which nothing but the price of an operator or of a hand-off is to be seen.
_PROBES = ("nas_cells", "tiny_chain", "tiny_matmul_chain", "two_branch")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 success, 1 a model failed or is wrong, 2 wrong arguments, 130 interrupted.

    A goal that is missed is no failure.
    """
    openblas = unpin_openblas()
    options = _options(argv)
    return guard("schedule_bench", lambda: _run(options, openblas))


def _run(options: argparse.Namespace, openblas: str) -> int:
    from rcompiler.tools import models
    from rcompiler.tools._schedule_bench import GOALS, measure

    check_writable(options.json)
    options.models = options.models or [n for n in models.names() if n not in _PROBES]
    figures = []
    for name in options.models:
        doing(name)
        figures.append(
            measure(
                name, options.policies, options.eus, options.rounds, options.seconds, options.seed
            )
        )
    _print(figures, options.policies)
    goals = reached(GOALS, figures)
    print_goals(goals)
    if options.json:
        record = {
            "openblas_coretype": openblas,
            "options": asked(options),
            "models": [vars(f) for f in figures],
            "goals": goals,
        }
        write_record(options.json, record)
    return report("schedule_bench", (f"{f.model}: {f.error}" for f in figures if f.error))


def _print(figures: Sequence[Figure], policies: Sequence[str]) -> None:
    from rcompiler.tools._schedule_bench import BASE

    over = [p for p in policies if p != BASE] if BASE in policies else []
    columns = ["model", "operators", *(f"{p} ms" for p in policies)]
    columns += [f"{p}/base" for p in over]
    rows = []
    for f in figures:
        row = [f.model, str(f.operators or "-"), *(number(f.ms.get(p), ".4g") for p in policies)]
        row += [number(f.gain.get(p), ".2f") for p in over]
        rows.append(row)
    table(columns, rows)
    loads = [f.load for f in figures if f.load is not None]
    if loads:
        print(f"load of the machine: {max(loads):.1f}")


def _policies(text: str) -> list[str]:
    from rcompiler.rammer.schedule import POLICIES

    names = items(text)
    for name in names:
        if name not in POLICIES:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(POLICIES)}")
    return list(dict.fromkeys(names))


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser("schedule_bench", "Scheduling policies beside one another, measured.")
    parser.add_argument(
        "--models", type=items, metavar="LIST",
        help="built-in models and ONNX files; default: all built-in networks",
    )  # fmt: skip
    parser.add_argument(
        "--policies", type=_policies, default=items(_POLICIES), metavar="LIST",
        help=f"default: {_POLICIES}",
    )  # fmt: skip
    parser.add_argument(
        "--eus", type=positive, default=2, metavar="N", help="execution units; default: 2"
    )
    timing_options(parser, "model and policy", 20, 2.0)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the input data")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
