"""Operators one by one beside onnxruntime, on one thread: time, ratio, share of the FMA peak.

    python tools/bench operator_bench --only='gemm|softmax' --json=operators.json

Each operator is an ONNX model of its own, see _bench_operators.py. Results are compared before;
then both engines, inputs and outputs bound to memory, and a loop of nothing but multiply-adds take
turns in short rounds. ratio: how many times faster than onnxruntime we are, the median over rounds.
The figure of a convolution is what it adds to a network whose tensors are blocked by channels,
measured alike of both engines; "alone" is the ratio with NCHW on both sides.
Arithmetic is that of the definition: where fewer multiplications do, its rate is above the peak.
"us copy" is what a plain copy takes that reads and writes as many bytes as the operator must.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from measurements._shared import chosen, operator_options, print_goals, reached
from rcompiler.tools._command import Command
from rcompiler.tools._console import (
    doing,
    number,
    report,
    table,
    timing_options,
)
from rcompiler.tools._record import keep, unpin_openblas

if TYPE_CHECKING:
    from measurements._operator_figures import OperatorFigure


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: an operator failed or is wrong. A goal that is missed is no failure."""
    openblas = unpin_openblas()
    from measurements._bench_operators import operators
    from measurements._operator_bench import Bench
    from measurements._operator_figures import GOALS

    cases = chosen(operators(), options.only, lambda o: f"{o.kind} {o.name}")
    figures = []
    with Bench(options.target, options.clock, options.rounds, options.seconds) as bench:
        for operator in cases:
            doing(f"{operator.kind} {operator.name}")
            figures.append(bench.measure(operator))
        level, peak = bench.device.level_name, bench.peak_gflops
    print(f"FMA peak of {level}: {peak:.0f} GFLOP/s; clock: {options.clock}")
    _print(figures, level)
    keep(
        options,
        openblas_coretype=openblas,
        feature_level=level,
        peak_gflops=peak,
        operators=[vars(f) for f in figures],
        goals=reached(GOALS[level], figures),
    )
    return report("operator_bench", (f"{f.kind} {f.name}: {f.error}" for f in figures if f.error))


def _print(figures: Sequence[OperatorFigure], level: str) -> None:
    from measurements._bench_operators import ALONE
    from measurements._operator_figures import GOALS, OURS, THEIRS, geomean

    columns = ["kind", "operator", "us ours", "us ort", "ratio", "alone"]
    columns += ["GFLOP/s", "% peak", "us copy"]
    rows = []
    for f in figures:
        row = [f.kind, f.name, *(number(f.us.get(e), ".4g") for e in (OURS, THEIRS))]
        ours, theirs = (f.parts.get(e, {}) for e in (OURS, THEIRS))
        alone = theirs[ALONE] / ours[ALONE] if len(ours) > 1 else None
        row += [number(f.ratio, ".2f"), number(alone, ".2f")]
        share = None if f.peak_share is None else 100 * f.peak_share
        row += [number(f.gflops, ".0f"), number(share, ".0f")]
        rows.append([*row, number(f.copy_us, ".4g")])
    table(columns, rows)
    for kind in dict.fromkeys(f.kind for f in figures):
        ratios = [f.ratio for f in figures if f.kind == kind and f.ratio]
        if ratios:
            print(f"{kind}: {geomean(ratios):.2f} times as fast as onnxruntime (geometric mean)")
    print_goals(reached(GOALS[level], figures))


def _options(parser: argparse.ArgumentParser) -> None:
    operator_options(parser)
    timing_options(parser, "model of an operator and engine", 15, 0.3)


main = Command(__name__, __doc__, _options, _run)
