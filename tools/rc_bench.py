"""rc-bench: latency of compiled models, with onnxruntime beside them in the same run.

    rc-bench --models=resnet50,model.onnx --threads=1,2 --json=result.json

Both engines take turns in short rounds, with equal numbers of threads and with inputs and outputs
bound to memory, so neither allocates. Results are compared before. ratio: how many times faster
than onnxruntime (median over rounds of the ratio of medians); above 1 we are faster.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rcompiler.tools._console import Parser, complain, guard, positive, seconds, table

if TYPE_CHECKING:
    from rcompiler.tools._bench import Case

_DEFAULT = "mlp,lstm2,squeezenet1_1"
_COLUMNS = ("p50", "p90", "p99")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 success, 1 a model failed or is wrong, 2 wrong arguments, 130 interrupted."""
    # Before numpy loads OpenBLAS: the variable pins its kernels to those of another CPU.
    coretype = os.environ.pop("OPENBLAS_CORETYPE", None)
    options = _options(argv)
    return guard("rc-bench", lambda: _run(options, coretype))


def _run(options: argparse.Namespace, coretype: str | None) -> int:
    from rcompiler.tools._bench import run_case
    from rcompiler.tools._record import provenance

    if options.json:
        Path(options.json).open("a").close()  # refuse before measuring, not after
    cases: list[Case] = []
    for name in options.models:
        for threads in options.threads:
            if sys.stderr.isatty():
                print(f"{name}, {threads} threads ...", end="\r", file=sys.stderr)
            cases.append(run_case(name, threads, options))
    _print(cases)
    if options.json:
        record: dict[str, Any] = provenance()
        record["openblas_coretype"] = "unset" if coretype is None else f"unset, was {coretype}"
        record["options"] = {k: v for k, v in vars(options).items() if v not in (None, [])}
        record["results"] = [case.record() for case in cases]
        Path(options.json).write_text(json.dumps(record, indent=1) + "\n")
    for case in cases:
        if case.error:
            complain("rc-bench", f"{case.model}, {case.threads} threads: {case.error}")
    return 1 if any(case.error for case in cases) else 0


def _print(cases: list[Case]) -> None:
    engines = {"rcompiler": "", "onnxruntime": "ort "}
    if not any("onnxruntime" in case.latency_ms for case in cases):
        del engines["onnxruntime"]
    columns = ["model", "threads", "compile s"]
    columns += [f"{prefix}{p}" for prefix in engines.values() for p in _COLUMNS]
    rows = []
    for case in cases:
        row = [case.model, str(case.threads)]
        row.append("-" if case.compile_s is None else f"{case.compile_s:.1f}")
        for engine in engines:
            times = case.latency_ms.get(engine, {})
            row += [_time(times[p]) if p in times else "-" for p in _COLUMNS]
        rows.append([*row, "-" if case.ratio is None else f"{case.ratio:.2f}"])
    table([*columns, "ratio"], rows)
    loads = [case.load for case in cases if case.load is not None]
    busy = f"; load of the machine: {max(loads):.1f}" if loads else ""
    print(f"ort: onnxruntime; ratio: how many times faster than onnxruntime{busy}")


def _time(ms: float) -> str:
    """Three digits or more, with the unit."""
    return (
        f"{ms:.3g} ms" if 1 <= ms < 100 else f"{ms:.0f} ms" if ms >= 100 else f"{ms * 1e3:.3g} us"
    )


def _list(text: str) -> list[str]:
    items = [item for item in text.split(",") if item]
    if not items:
        raise argparse.ArgumentTypeError("the list is empty")
    return items


def _positives(text: str) -> list[int]:
    return [positive(item) for item in _list(text)]


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser("rc-bench", "Latency of models, with onnxruntime beside them in the same run.")
    parser.add_argument(
        "--models", type=_list, default=_list(_DEFAULT), metavar="LIST",
        help=f"built-in models, ONNX and .rcx files; default: {_DEFAULT}",
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=_positives, default=[1], metavar="LIST",
        help="execution units, and threads of onnxruntime; default: 1",
    )  # fmt: skip
    parser.add_argument(
        "--baseline", choices=("onnxruntime", "none"), default="onnxruntime",
        help="what to measure beside (default: onnxruntime, where it is installed)",
    )  # fmt: skip
    parser.add_argument("--rounds", type=positive, default=20, metavar="N", help="default: 20")
    parser.add_argument(
        "--seconds", type=seconds, default=2.0, metavar="S",
        help="timed seconds per engine, model and number of threads; default: 2",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the input data")
    parser.add_argument("--json", metavar="FILE", help="write figures and their circumstances")
    parser.add_argument("--target", metavar="NAME", help="cpu (default) or another device")
    parser.add_argument("--device", metavar="FILE", help="device record, as for rc-compile")
    parser.add_argument("--tune", metavar="WHAT", help="off or kernels, as for rc-compile")
    parser.add_argument("--roots", metavar="NAME", help="3x3 convolutions, as for rc-compile")
    parser.add_argument("--policy", metavar="NAME", help="scheduling policy")
    parser.add_argument(
        "--shapes", action="append", default=[], metavar="NAME=DIMS", help="as for rc-compile"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
