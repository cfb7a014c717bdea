"""Latencies of two versions of this package, or what compiling takes, in one run.

    git worktree add build/before COMMIT && python -m venv build/before/venv
    build/before/venv/bin/pip install build/before
    python tools/bench compare_versions build/before/venv/bin/python resnet50 model.onnx
    python tools/bench compare_versions build/before/venv/bin/python resnet50 --compile=5

Each version compiles each model and runs it in a process of its own; they take turns in short
rounds. The ratio is before / now, the median over the rounds of the ratio of medians: above 1 the
version that runs this command is faster. With --compile it is that of the least times in which each
version compiles a model, in as many processes, without a cache.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import onnx

from rcompiler.errors import CompilerError
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools._command import Command
from rcompiler.tools._console import (
    doing,
    positive,
    table,
    timing_options,
)
from rcompiler.tools._data import declared_inputs, save_outputs
from rcompiler.tools._record import commit, keep
from rcompiler.tools._sources import resolve

# Of the public interface only what versions have in common; -I: not the version of this folder.
_CHILD = """
import sys, time
import numpy as np
import rcompiler
path, inputs, eus = sys.argv[1], np.load(sys.argv[2]), int(sys.argv[3])
binding = rcompiler.compile_onnx(path, eus=eus).bind(dict(inputs))
binding()
np.savez(sys.argv[4], *[np.asarray(y) for y in binding.outputs])
print("ready", rcompiler.__file__, flush=True)
now = time.perf_counter_ns
for line in sys.stdin:
    found, end = [], now() + int(float(line) * 1e9)
    while not found or now() < end:
        start = now()
        binding()
        found.append(now() - start)
    print(int(np.median(found)), flush=True)
"""

# Compiling alone, as the first thing that a process does.
_COMPILE = """
import sys, time
import rcompiler
start = time.perf_counter()
rcompiler.compile_onnx(sys.argv[1], eus=int(sys.argv[2]), cache=False)
print(time.perf_counter() - start)
"""


class _Version:
    """A process of one version that has compiled one model."""

    def __init__(self, python: str, folder: Path, name: str, eus: int) -> None:
        self._name, self._outputs = name, folder / f"{name}.npz"
        files = [folder / "model.onnx", folder / "inputs.npz", eus, self._outputs]
        self._process = subprocess.Popen(
            [python, "-I", "-c", _CHILD, *map(str, files)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> _Version:
        file = self._answer().removeprefix("ready ")
        self.commit = commit(Path(file).parent)  # None: installed from no checkout
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def outputs(self) -> list[np.ndarray]:
        """Of one inference."""
        with np.load(self._outputs) as arrays:
            return [arrays[name] for name in arrays.files]

    def median(self, seconds: float) -> float:
        """Of the calls of this many seconds, in ms. Raises CompilerError."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return int(self._answer()) / 1e6

    def _answer(self) -> str:
        """The next line. Raises CompilerError where the process has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            self._process.kill()
            words = self._process.communicate()[1].strip().splitlines() or ["it says nothing"]
            raise CompilerError(f"the version '{self._name}' cannot run the model: {words[-1]}")
        return line


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a version failed."""
    unit, measure = ("s", _compiling) if options.compile else ("ms", _running)
    results = []
    for name in options.models:
        source = resolve(name)
        if source.proto is None:
            raise CompilerError(f"{source.path}: give the ONNX model; each version compiles it")
        doing(source.name)
        with tempfile.TemporaryDirectory() as place:
            onnx.save(source.proto, Path(place) / "model.onnx")
            results.append({"model": source.name, **measure(source.proto, Path(place), options)})
    rows = [
        (
            *(r["model"], f"{r[f'before_{unit}']:.3g}", f"{r[f'now_{unit}']:.3g}"),
            *(f"{r['ratio']:.3f}", r.get("bits", "")),
        )
        for r in results
    ]
    table(("model", f"before {unit}", f"now {unit}", "before / now", "results"), rows)
    mean = statistics.geometric_mean(r["ratio"] for r in results)
    print(f"{mean:.3f} times as fast as before (geometric mean of {len(results)})")
    keep(options, results=results, mean=mean)
    return 0


def _compiling(proto: onnx.ModelProto, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The least seconds that each version takes to compile the model of a folder."""
    least: dict[str, float] = {}
    order = [("before", options.python), ("now", sys.executable)]
    for _ in range(options.compile):
        for name, python in order:
            seconds = _compiled(name, python, folder, options.eus)
            least[name] = min(seconds, least.get(name, seconds))
        order.reverse()
    before, now = least["before"], least["now"]
    return {"before_s": before, "now_s": now, "ratio": before / now}


def _compiled(name: str, python: str, folder: Path, eus: int) -> float:
    """Seconds of one compilation. Raises CompilerError where the process fails."""
    command = [python, "-I", "-c", _COMPILE, str(folder / "model.onnx"), str(eus)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["it says nothing"]
        raise CompilerError(f"the version '{name}' cannot compile the model: {words[-1]}")
    return float(done.stdout.split()[-1])


def _running(proto: onnx.ModelProto, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The latencies of both versions for the model of a folder."""
    with ExitStack() as stack:
        save_outputs(folder / "inputs.npz", random_inputs(declared_inputs(proto)))
        before = stack.enter_context(_Version(options.python, folder, "before", options.eus))
        now = stack.enter_context(_Version(sys.executable, folder, "now", options.eus))
        same = all(
            a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
            for a, b in zip(before.outputs(), now.outputs(), strict=True)
        )
        pairs, order = [], [before, now]
        for _ in range(options.rounds):
            found = {version: version.median(options.seconds / options.rounds) for version in order}
            pairs.append((found[before], found[now]))
            order.reverse()
    return {
        "before": before.commit,
        "before_ms": statistics.median(b for b, _ in pairs),
        "now_ms": statistics.median(n for _, n in pairs),
        "ratio": statistics.median(b / n for b, n in pairs),
        "bits": "equal bits" if same else "other bits",
    }


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("python", help="the interpreter that the other version is installed for")
    parser.add_argument("models", nargs="+", metavar="MODEL", help="ONNX files or built-in models")
    parser.add_argument("--eus", type=positive, default=2, metavar="N", help="default: 2")
    parser.add_argument(
        "--compile", type=positive, metavar="N",
        help="measure compilations instead, so many by each version",
    )  # fmt: skip
    timing_options(parser, "version and model", 20, 4.0)


main = Command(__name__, __doc__, _options, _run)
