"""What passes from a file to its first answer: compiled cold, from a warm cache, loaded.

    python tools/bench first_answer resnet50 bert_base --json=first-answer.json
    python tools/bench first_answer build/networks/*.onnx --cold           # compile times alone

Each figure is that of a process of its own, from its start to its first answer, imports and all:
cold with an empty cache folder; warm, the next process with that folder; rcx, one that loads the
compiled file; onnxruntime, a session of the same ONNX file. "read" is what reading the compiled
file takes. Seconds of wall time, the median of the rounds, in turns; "CPU" are CPU seconds of the
cold process and of those that it started, "MiB" is its largest memory.

A device record is given (--device), so that no figure depends on what is measured of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rcompiler.errors import CompilerError
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, positive, report, table
from rcompiler.tools._record import keep
from rcompiler.tools._sources import resolve

_STEP = Path(__file__).with_name("_first_answer_step.py")
_LIMIT_S = 900


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a model cannot be compiled or run; the others are measured all the same."""
    rows, failed = [], []
    with tempfile.TemporaryDirectory(prefix="rc-first-answer-") as folder:
        for name in options.models:
            try:
                rows.append(_measured(name, Path(folder), options))
            except CompilerError as error:
                failed.append(str(error))
    table(
        ["model", "cold", "CPU", "MiB", "warm", "rcx", "read", "onnxruntime", "warm / rcx"],
        [
            [
                row["model"],
                *(_shown(row, "cold", figure) for figure in ("answer_s", "cpu_s", "peak_mib")),
                *(_shown(row, engine, "answer_s") for engine in ("warm", "rcx")),
                f"{row['read_s']:.3f}" if "read_s" in row else "-",
                _shown(row, "onnxruntime", "answer_s"),
                f"{row['warm_over_rcx']:.2f}" if "warm_over_rcx" in row else "-",
            ]
            for row in rows
        ],
    )
    cold = [row["cold"]["answer_s"] for row in rows]
    if cold:
        print(f"cold: mean {statistics.mean(cold):.2f} s, greatest {max(cold):.2f} s")
    keep(options, models=rows, failed=failed)
    return report("first_answer", failed)


def _shown(row: dict[str, Any], engine: str, figure: str) -> str:
    return f"{row[engine][figure]:.4g}" if engine in row else "-"


def _measured(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All figures of one network."""
    path = Path(name)
    if not path.suffix:
        proto = resolve(name).proto
        assert proto is not None  # a built-in network
        path = folder / f"{name}.onnx"
        path.write_bytes(proto.SerializeToString())
    compiled = folder / f"{path.stem}.rcx"
    rounds: dict[str, list[dict[str, float]]] = {}
    reads = []
    for number in range(options.rounds):
        doing(f"{path.stem}: round {number + 1} of {options.rounds}")
        cache = folder / f"cache-{path.stem}-{number}"
        rounds.setdefault("cold", []).append(_step("cold", path, cache, options))
        if options.cold:
            continue
        rounds.setdefault("warm", []).append(_step("warm", path, cache, options))
        if not compiled.exists():
            _compile(path, compiled, cache, options)
        start = time.perf_counter()
        compiled.read_bytes()
        reads.append(time.perf_counter() - start)
        rounds.setdefault("rcx", []).append(_step("rcx", compiled, cache, options))
        rounds.setdefault("onnxruntime", []).append(_step("onnxruntime", path, cache, options))
    row: dict[str, Any] = {"model": path.stem}
    for engine, found in rounds.items():
        row[engine] = {key: statistics.median(each[key] for each in found) for key in found[0]}
    if reads:
        row["read_s"] = statistics.median(reads)
        row["warm_over_rcx"] = row["warm"]["answer_s"] / row["rcx"]["answer_s"]
    return row


def _environment(cache: Path, options: argparse.Namespace) -> dict[str, str]:
    return {
        **os.environ,
        "RC_CACHE_DIR": str(cache),
        "RC_CACHE_MODELS": "1",  # also where the caller's other measurements compile
        "RC_DEVICE": options.device,
    }


def _step(engine: str, path: Path, cache: Path, options: argparse.Namespace) -> dict[str, float]:
    """Figures of one process. Raises CompilerError where it fails or is late."""
    command = [sys.executable, str(_STEP), engine, str(path), str(options.threads)]
    out = _output([*command, repr(time.monotonic())], _environment(cache, options), path)
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    return found


def _compile(path: Path, compiled: Path, cache: Path, options: argparse.Namespace) -> None:
    tool = [sys.executable, "-m", "rcompiler.tools.rc_compile", str(path), "-o", str(compiled)]
    _output([*tool, f"--eus={options.threads}"], _environment(cache, options), path)


def _output(command: Sequence[str], environment: dict[str, str], path: Path) -> str:
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise CompilerError(f"{path}: no answer in {_LIMIT_S} s") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise CompilerError(f"{path}: {last}")
    return done.stdout


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="MODEL", help="ONNX files, built-in names")
    parser.add_argument("--threads", type=positive, default=2, metavar="N", help="default: 2")
    parser.add_argument("--rounds", type=positive, default=3, metavar="N", help="default: 3")
    parser.add_argument("--device", default="default", help="device record; default: 'default'")
    parser.add_argument("--cold", action="store_true", help="compile cold, and nothing else")
    parser.add_argument("--json", metavar="FILE", help="write all figures")


main = Command(__name__, __doc__, _options, _run)
