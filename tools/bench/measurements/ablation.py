"""What each dimension of Astra's exploration gains over the static plan: F, FK, FKS, all.

    python tools/bench ablation sublstm,batch=8 lstm_tc,steps=10,layers=2 resnet50 --budget=120

A model is a built-in one with options, or a file. For each set of dimensions the plans are explored
(rc-tune --budget=S --dims=...; what one set has measured the next one finds in the index), for as
long as the estimate said or the budget lasts. Then the static plan, the plans that were found and
the graph as it is written (no fusion, no joined products) take turns in short rounds. The ratio is
static / plan: above 1 the plan is faster. It is the median of the ratios of the rounds' medians,
with the interval that holds 95 % of the medians of as many rounds drawn again and again.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import rcompiler
from rcompiler.codegen import emit
from rcompiler.driver.host import given_device, measured_device, target_device
from rcompiler.driver.imported_model import ImportedModel
from rcompiler.errors import CompilerError, InvalidModel
from rcompiler.frontend import import_onnx
from rcompiler.model import model_of
from rcompiler.options import CompileOptions
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import models
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, items, positive, seconds, table, timing_options
from rcompiler.tools._measure import Timing, interleaved, medians
from rcompiler.tools._record import keep
from rcompiler.tools._sources import resolve
from rcompiler.tuning.branch import Subject
from rcompiler.tuning.warmup import Tuning

_WRITTEN, _STATIC, _TIMED = "as written", "static", "timed"
_DRAWS = 2000
_WORTH = 1.10  # what counts as a gain in the summary


@dataclass
class Found:
    """A set of dimensions on one model. estimate_s, took_s: of the exploration, before and after.

    plan: variables that are not as in the static plan. ratio, low, high: static / plan.
    """

    dims: str
    trials: int
    estimate_s: float
    took_s: float
    done: bool
    plan: dict[str, str]
    ratio: float = 1.0
    low: float = 1.0
    high: float = 1.0


@dataclass
class Row:
    """A model. written: static / as written. timed: with the times of all runs noted / without."""

    model: str
    static_ms: float = 0.0
    written: float = 1.0
    timed: float = 1.0
    sets: list[Found] = field(default_factory=list)
    error: str = ""


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a model failed."""
    emit.prepare()
    rows = [_measured(text, options) for text in options.models]
    columns = ["model", "static ms", _TIMED, _WRITTEN]
    for dims in options.dims:
        columns += [dims.upper(), "95 %", "estimate s", "took s"]
    cells = []
    for row in rows:
        cell = [row.model, f"{row.static_ms:.3f}", f"{row.timed:.3f}", f"{row.written:.2f}"]
        for found in row.sets:
            interval = f"{found.low:.3f}-{found.high:.3f}"
            cell += [f"{found.ratio:.3f}", interval, f"{found.estimate_s:.0f}"]
            cell += [f"{found.took_s:.0f}{'' if found.done else ' (budget)'}"]
        cells.append(cell + ["-"] * (len(columns) - len(cell)))
    table(columns, cells)
    best = {row.model: max((f.ratio for f in row.sets), default=1.0) for row in rows}
    gained = sorted(name for name, ratio in best.items() if ratio >= _WORTH)
    slower = [f"{r.model} {f.dims}" for r in rows for f in r.sets if f.high < 1.0]
    print(f"at least {_WORTH:.2f} times as fast: {len(gained)}: {', '.join(gained) or 'none'}")
    print(f"slower beyond noise: {', '.join(slower) or 'none'}")
    keep(options, models=[asdict(row) for row in rows])
    for row in rows:
        if row.error:
            print(f"{row.model}: {row.error}")
    return int(any(row.error for row in rows))


def _measured(text: str, options: argparse.Namespace) -> Row:
    row = Row(text)
    try:
        with tempfile.TemporaryDirectory() as folder:
            _measure(row, _model(text), options, Path(folder))
    except CompilerError as error:
        row.error = str(error)
    return row


def _measure(row: Row, proto: Any, options: argparse.Namespace, folder: Path) -> None:
    base = target_device("cpu")
    device = given_device("cpu", base, None) or measured_device(base, folder)
    chosen = CompileOptions("cpu", eus=options.eus or 0, cache=folder, tune="warmup")
    artifacts = {}
    for dims in options.dims:
        doing(f"{row.model}: explore {dims}")
        imported = ImportedModel.of(import_onnx(proto, None), chosen, base)
        tuning = Tuning(Subject(imported, chosen, base, device, dims))
        try:
            estimate = tuning.estimate.seconds
            found = tuning.run(options.budget)
        finally:
            tuning.close()
        plan = (found.trials, estimate, found.seconds, found.done, dict(found.plan))
        row.sets.append(Found(dims, *plan))
        if found.plan:
            artifacts[dims] = found.artifact
    doing(f"{row.model}: measure")
    as_chosen: dict[str, Any] = {"device": device, "eus": options.eus, "cache": folder}
    with ExitStack() as stack:
        engines: dict[str, Any] = {
            _STATIC: rcompiler.compile_onnx(proto, **as_chosen),
            _WRITTEN: rcompiler.compile_onnx(proto, **as_chosen, fusion=False, normalise=False),
        }
        engines[_TIMED] = model_of(engines[_STATIC].artifact, timed=True)
        engines |= {dims: model_of(artifact) for dims, artifact in artifacts.items()}
        for model in engines.values():
            stack.callback(model.close)
        ranges = {r.input: (r.first, r.last + 1) for r in engines[_STATIC].artifact.ranges}
        feeds = random_inputs(engines[_STATIC].inputs, options.seed, ranges)
        bound = {name: model.bind(feeds) for name, model in engines.items()}
        times = interleaved(bound, options.rounds, options.seconds / options.rounds)
    row.static_ms = float(np.median(medians(times[_STATIC]))) / 1e6
    row.written = _ratio(times[_STATIC], times[_WRITTEN])[0]
    row.timed = _ratio(times[_TIMED], times[_STATIC])[0]
    for found_set in row.sets:
        if found_set.dims in times:
            ratios = _ratio(times[_STATIC], times[found_set.dims])
            found_set.ratio, found_set.low, found_set.high = ratios


def _ratio(static: Timing, plan: Timing) -> tuple[float, float, float]:
    """The median of static / plan over the rounds, and its interval."""
    ratios = medians(static) / medians(plan)
    drawn = np.random.default_rng(0).choice(ratios, (_DRAWS, len(ratios)))
    low, high = np.percentile(np.median(drawn, axis=1), (2.5, 97.5))
    return float(np.median(ratios)), float(low), float(high)


def _model(text: str) -> Any:
    """Of "resnet50", "sublstm,batch=8" or a file. Raises InvalidModel."""
    name, *chosen = text.split(",")
    if not chosen:
        return resolve(name).proto
    values = {}
    for item in chosen:
        option, equals, value = item.partition("=")
        if not equals or not value.isdigit():
            raise InvalidModel(f"model {text!r}: {item!r} is no option=number")
        values[option] = int(value)
    return models.build(name, **values)


def _dims(text: str) -> list[str]:
    found = items(text)
    if not all(each and {*each} <= {*"fksm"} for each in found):
        raise argparse.ArgumentTypeError(f"{text!r}: sets of the letters f, k, s and m")
    return found


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="MODEL", help="NAME[,OPTION=N] or a file")
    parser.add_argument(
        "--dims",
        type=_dims,
        default=["f", "fk", "fks", "fksm"],
        metavar="LIST",
        help="sets of dimensions; default: f,fk,fks,fksm",
    )
    parser.add_argument(
        "--budget", type=seconds, default=600.0, metavar="S", help="of each exploration; 600"
    )
    parser.add_argument("--eus", type=positive, metavar="N", help="as for rc-compile")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the inputs; 0")
    timing_options(parser, "plan", 30, 3.0)


main = Command("ablation", __doc__, _options, _run)
