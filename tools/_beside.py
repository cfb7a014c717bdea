"""rc-bench --beside: latencies beside busy processes, each engine alone in its own process.

Engines take turns: while one runs, the threads of the others sleep, which is waited for. A busy
process is a loop that never waits. All of them compete under the system's own scheduler, at equal
priority. Of a model on several EUs there is also the one for a single EU, which never waits for
another thread: a plan for several should not be slower than that.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from rcompiler.bucketed import BucketedModel
from rcompiler.errors import CompilerError
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools._beside_engine import ONE_EU, OURS, Engine, Loaded
from rcompiler.tools._console import doing, table
from rcompiler.tools._data import save_outputs
from rcompiler.tools._judge import Judge
from rcompiler.tools._sources import Source, resolve

MEASURED = ("p50", "p90")
_PERCENTILES = {"p50": 50, "p90": 90, "p99": 99}
_STEADY = 2.0  # p90 over p50: more is no latency to rely on
_NOT_SLOWER = 1.05  # than the model on one EU


@dataclass
class Cell:
    """A model at a number of threads beside a number of busy processes.

    latency_ms: per engine p50, p90, p99 and the number of calls. unmeasured: why there are no
    figures of a baseline. error: why there are none at all.
    """

    model: str
    threads: int
    busy: int
    latency_ms: dict[str, dict[str, float]] = field(default_factory=dict)
    unmeasured: dict[str, str] = field(default_factory=dict)
    error: str = ""

    def ratio(self, figure: str) -> float | None:
        """Our p50 or p90 over that of the faster baseline: below 1 we are faster."""
        others = [f[figure] for name, f in self.latency_ms.items() if name not in (OURS, ONE_EU)]
        if OURS not in self.latency_ms or not others:
            return None
        return self.latency_ms[OURS][figure] / min(others)

    def over_one_eu(self, figure: str) -> float | None:
        """Our p50 or p90 over that of the model on one EU."""
        if OURS not in self.latency_ms or ONE_EU not in self.latency_ms:
            return None
        return self.latency_ms[OURS][figure] / self.latency_ms[ONE_EU][figure]

    def spread(self) -> float | None:
        """Our p90 over our p50."""
        ours = self.latency_ms.get(OURS)
        return ours["p90"] / ours["p50"] if ours else None

    def record(self) -> dict[str, Any]:
        """The fields and all ratios."""
        ratios = {f"ratio_{figure}": self.ratio(figure) for figure in MEASURED}
        own = {f"over_one_eu_{figure}": self.over_one_eu(figure) for figure in MEASURED}
        return asdict(self) | ratios | own | {"spread": self.spread()}


def run_cells(options: argparse.Namespace) -> list[Cell]:
    """Each model at each number of threads beside each number of busy processes.

    options: as of rc-bench; baseline: names, beside: numbers of processes.
    """
    cells = []
    for name in options.models:
        for threads in options.threads:
            own = [Cell(name, threads, busy) for busy in options.beside]
            try:
                _measure(own, resolve(name), options)
            except CompilerError as error:
                for cell in own:
                    cell.error = str(error)
            cells += own
    return cells


def _measure(cells: Sequence[Cell], source: Source, options: argparse.Namespace) -> None:
    if source.proto is None:
        raise CompilerError(f"{source.path}: other engines need the ONNX model")
    threads = cells[0].threads
    doing(f"{source.name}, {threads} threads")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        judge = _prepare(Path(folder), source, threads, options)
        engines = {}
        for name in _ours(threads) + options.baseline:
            engines[name] = Engine(Loaded(name, folder, 1 if name == ONE_EU else threads))
            stack.callback(engines[name].close)
        unmeasured = _checked(engines, judge, [v.name for v in source.proto.graph.output])
        for cell in cells:
            cell.model, cell.unmeasured = source.name, unmeasured
            doing(f"{source.name}, {threads} threads, {cell.busy} busy")
            cell.latency_ms = _figures(engines, cell.busy, options.rounds, options.seconds)


def _prepare(folder: Path, source: Source, threads: int, options: argparse.Namespace) -> Judge:
    """Write what the engines load."""
    assert source.proto is not None
    for name in _ours(threads):
        eus = 1 if name == ONE_EU else threads
        model = source.executable(argparse.Namespace(**{**vars(options), "eus": eus}))
        model = model.largest if isinstance(model, BucketedModel) else model
        feeds = random_inputs(model.inputs, options.seed)
        model.save(folder / f"{name}.rcx")
        model.close()
    onnx.save(source.proto, folder / "model.onnx")
    save_outputs(folder / "inputs.npz", feeds)
    return Judge(source.proto, feeds, options.tolerance)


def _ours(threads: int) -> list[str]:
    return [OURS, ONE_EU] if threads > 1 else [OURS]


def _checked(engines: dict[str, Engine], judge: Judge, names: Sequence[str]) -> dict[str, str]:
    """Why baselines are left out: they cannot run the model, or their results are not ours.

    Raises CompilerError where the first one, the reference, has other results than we have.
    """
    ours, unmeasured = engines[OURS].outputs(), {}
    trusted = False
    for engine in [name for name in engines if name not in (OURS, ONE_EU)]:
        try:
            theirs = engines[engine].outputs()
        except CompilerError as error:
            unmeasured[engine] = str(error)
            continue
        wrong = [
            name
            for name, a, b in zip(names, ours, theirs, strict=True)
            if not judge(name, a, b).right
        ]
        if wrong and not trusted:
            raise CompilerError(f"output '{wrong[0]}' differs from {engine}")
        if wrong:
            unmeasured[engine] = f"{engine}: output '{wrong[0]}' differs"
        trusted = True
    for engine in unmeasured:
        engines.pop(engine).close()
    return unmeasured


def _figures(
    engines: Mapping[str, Engine], busy: int, rounds: int, seconds: float
) -> dict[str, dict[str, float]]:
    """Per engine p50, p90 and p99 in ms and the number of calls, over all rounds."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in engines}
    order = list(engines)
    with _busy(busy):
        for engine in engines.values():
            engine.times(0.0)  # one call that does not count
        for _ in range(rounds):
            for name in order:
                found[name].append(engines[name].times(seconds / rounds))
            order.reverse()
    return {name: _percentiles(np.concatenate(times)) for name, times in found.items()}


def _percentiles(times: np.ndarray) -> dict[str, float]:
    found = np.percentile(times / 1e6, [*_PERCENTILES.values()]).tolist()
    return dict(zip(_PERCENTILES, found, strict=True)) | {"calls": times.size}


@contextmanager
def _busy(count: int) -> Iterator[None]:
    """As many processes that never wait."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            processes.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def print_cells(cells: Sequence[Cell], baselines: Sequence[str]) -> None:
    """A row for each cell, and what of it is not as it should be."""
    several = any(ONE_EU in cell.latency_ms for cell in cells)
    short = {OURS: "ours", ONE_EU: "1 EU"} if several else {OURS: "ours"}
    engines = [*short, *baselines]
    columns = ["model", "threads", "busy"]
    columns += [f"{short.get(name, name)} {figure}" for name in engines for figure in MEASURED]
    rows = []
    for cell in cells:
        row = [cell.model, str(cell.threads), str(cell.busy)]
        for name in engines:
            figures = cell.latency_ms.get(name)
            row += [f"{figures[f]:.3g}" if figures else "-" for f in MEASURED]
        ratios = [cell.ratio(figure) for figure in MEASURED]
        rows.append([*row, *("-" if r is None else f"{r:.2f}" for r in ratios)])
    table([*columns, *(f"{figure} of faster" for figure in MEASURED)], rows)
    print("ms; the last columns: ours as a share of the faster baseline's, below 1 we are faster")
    both = [(cell, figure) for cell in cells for figure in MEASURED]
    _tell("slower than the faster baseline", [(c, f, c.ratio(f)) for c, f in both], 1.0)
    _tell("p90 above twice p50", [(c, "p90", c.spread()) for c in cells], _STEADY)
    own = [(c, f, c.over_one_eu(f)) for c, f in both]
    _tell("more than 5 % slower than on 1 EU", own, _NOT_SLOWER)
    for cell in cells:
        for engine, reason in cell.unmeasured.items():
            why = " ".join(reason.split())
            print(f"{cell.model}, {cell.busy} busy: {engine} is not measured: {why}")


def _tell(what: str, ratios: Sequence[tuple[Cell, str, float | None]], most: float) -> None:
    """How many ratios are above `most`, and which."""
    known = [(cell, figure, ratio) for cell, figure, ratio in ratios if ratio is not None]
    if not known:
        return
    above = [f"{c.model} {c.busy} busy {f} {r:.2f}" for c, f, r in known if r > most]
    named = f": {', '.join(above)}" if above else ""
    print(f"{what}: {len(above)} of {len(known)}{named}")
