"""rc-bench: latency of compiled models, with other engines beside them in the same run.

    rc-bench --models=resnet50,model.onnx --threads=1,2 --baseline=onnxruntime,openvino
    rc-bench --models=shufflenet --threads=2 --beside=0,1,2      on a machine that others use, too

All engines take turns in short rounds, with equal numbers of threads and with inputs and outputs
bound to memory, so none allocates. Results are compared before. Ratios say how many times faster
than a baseline we are (median over rounds of the ratio of medians): above 1 we are faster. The
fastest baseline of a model is the one with the smallest median.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from rcompiler.tools._command import Command
from rcompiler.tools._console import (
    CACHE_HELP,
    items,
    positive,
    report,
    table,
    timing_options,
)
from rcompiler.tools._progress import progress
from rcompiler.tools._record import keep, unpin_openblas

if TYPE_CHECKING:
    from rcompiler.tools._bench import Case

_DEFAULT = "mlp,lstm2,squeezenet1_1"
_COLUMNS = ("p50", "p90", "p99")


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a model failed or is wrong."""
    openblas = unpin_openblas()
    os.environ["RC_CACHE_MODELS"] = "0"  # the table says how long it takes to compile
    from rcompiler.tools._baselines import installed
    from rcompiler.tools._bench import means, run_case
    from rcompiler.tools._sources import check_eus

    options.baseline = installed(options.baseline)
    check_eus("rc-bench", max(options.threads), options, "--threads")
    if options.beside:
        return _run_beside(options, openblas)
    cases: list[Case] = []
    with progress("rc-bench") as told:
        for name in options.models:
            for threads in options.threads:
                told(f"{name}, {_count(threads, 'thread')}")
                cases.append(run_case(name, threads, options))
    _print(cases, options.baseline)
    mean_ratios = [vars(mean) for mean in means(cases)]
    _write(options, openblas, [case.record() for case in cases], geomeans=mean_ratios)
    failed = (case for case in cases if case.error)
    return report("rc-bench", (f"{c.model}, {c.threads} threads: {c.error}" for c in failed))


def _run_beside(options: argparse.Namespace, openblas: str) -> int:
    from rcompiler.tools._beside import print_cells, run_cells

    cells = run_cells(options)
    print_cells(cells, options.baseline)
    _write(options, openblas, [cell.record() for cell in cells])
    failed = (cell for cell in cells if cell.error)
    return report("rc-bench", (f"{c.model}, {c.busy} busy: {c.error}" for c in failed))


def _write(
    options: argparse.Namespace, openblas: str, results: list[dict[str, Any]], **more: Any
) -> None:
    """The record that --json asks for."""
    from rcompiler.tools._baselines import BASELINES

    baselines = {name: BASELINES[name].settings for name in options.baseline}
    keep(options, openblas_coretype=openblas, baselines=baselines, results=results, **more)


def _print(cases: list[Case], baselines: list[str]) -> None:
    from rcompiler.tools._baselines import BASELINES
    from rcompiler.tools._bench import FASTEST, means

    short = {name: BASELINES[name].short for name in baselines}
    over = baselines if len(baselines) < 2 else [*baselines, FASTEST]
    columns = ["model", "threads", "compile s", *_COLUMNS]
    columns += [f"{prefix} p50" for prefix in short.values()]
    columns += [f"/{short.get(name, name)}" for name in over]
    rows = []
    for case in cases:
        row = [case.model, str(case.threads)]
        row.append("-" if case.compile_s is None else f"{case.compile_s:.1f}")
        row += [_time(case, "rcompiler", p) for p in _COLUMNS]
        row += [_time(case, name, "p50") for name in baselines]
        ratios = [case.ratio(name) for name in over]
        rows.append([*row, *("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios)])
    table(columns, rows)
    _explain(cases, short)
    for mean in means(cases):
        if mean.baseline in over:
            print(
                f"{_count(mean.threads, 'thread')}: {mean.ratio:.2f} times as fast as "
                f"{_name(mean.baseline)} (geometric mean of {_count(mean.models, 'model')})"
            )


def _explain(cases: list[Case], short: dict[str, str]) -> None:
    """What the columns mean, how busy the machine was, and which engine could not take part."""
    parts = [f"{prefix}: {name}" for name, prefix in short.items()]
    if short:
        parts.append("/: ratio, how many times faster than it we are")
    loads = [case.load for case in cases if case.load is not None]
    if loads:
        parts.append(f"load of the machine: {max(loads):.1f}")
    print("; ".join(parts))
    for case in cases:
        for reason in case.unmeasured.values():
            line = " ".join(reason.split())
            print(f"{case.model}, {_count(case.threads, 'thread')}: not measured: {line}")


def _name(baseline: str) -> str:
    return "the fastest of them" if baseline == "fastest" else baseline


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _time(case: Case, engine: str, percentile: str) -> str:
    """Three digits or more, with the unit; - where there is none."""
    ms = case.latency_ms.get(engine, {}).get(percentile)
    if ms is None:
        return "-"
    return (
        f"{ms:.3g} ms" if 1 <= ms < 100 else f"{ms:.0f} ms" if ms >= 100 else f"{ms * 1e3:.3g} us"
    )


def _baselines(text: str) -> list[str]:
    from rcompiler.tools._baselines import BASELINES

    names = [] if text == "none" else items(text)
    for name in names:
        if name not in BASELINES:
            raise argparse.ArgumentTypeError(
                f"no baseline {name!r}; there are: {', '.join(BASELINES)}, or none alone"
            )
    return names


def _positives(text: str) -> list[int]:
    return [positive(item) for item in items(text)]


def _counts(text: str) -> list[int]:
    """An argparse type: a list of numbers of processes."""
    if not all(item.isdecimal() for item in items(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers of processes")
    return [int(item) for item in items(text)]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--models", type=items, default=items(_DEFAULT), metavar="LIST",
        help=f"built-in models, ONNX and .rcx files; default: {_DEFAULT}",
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=_positives, default=[1], metavar="LIST",
        help="execution units, and threads of the baselines; default: 1",
    )  # fmt: skip
    parser.add_argument(
        "--baseline", type=_baselines, metavar="LIST",
        help="what to measure beside: onnxruntime, openvino, or none; default: both, as installed",
    )  # fmt: skip
    parser.add_argument(
        "--beside", type=_counts, metavar="LIST",
        help="numbers of busy processes, such as 0,1,2: each engine alone in a process of its own, "
        "p50 and p90 beside as many programs that never wait",
    )  # fmt: skip
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall",
        help="cpu, for one thread: time that it has a processor, so that other programs disturb "
        "less; default: wall",
    )  # fmt: skip
    timing_options(parser, "engine, model and number of threads", 20, 2.0)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the input data")
    parser.add_argument("--tolerance", type=float, metavar="X", help="as for rc-run --verify")
    parser.add_argument("--target", metavar="NAME", help="cpu (default) or another device")
    parser.add_argument("--device", metavar="FILE", help="device record, as for rc-compile")
    parser.add_argument("--tune", metavar="WHAT", help="off or kernels, as for rc-compile")
    parser.add_argument("--roots", metavar="NAME", help="3x3 convolutions, as for rc-compile")
    parser.add_argument("--policy", metavar="NAME", help="scheduling policy")
    parser.add_argument("--kernels", metavar="NAME", help="which rKernels, as for rc-compile")
    parser.add_argument("--roller-policy", metavar="NAME", help="tiles, as for rc-compile")
    parser.add_argument(
        "--shapes", action="append", default=[], metavar="NAME=DIMS", help="as for rc-compile"
    )
    parser.add_argument("--denormals", metavar="WHAT", help="keep or zero, as for rc-compile")
    parser.set_defaults(precision=None)  # of GPUs, which are not measured here


main = Command("rc-bench", __doc__, _options, _run, epilog=CACHE_HELP)


if __name__ == "__main__":
    sys.exit(main())
