"""How well the cost model ranks tilings: its estimates beside measured times, on this machine.

    python tools/bench model_quality --json=roller-model-quality.json

For each operator of a hand-picked list, tilings are drawn evenly from the whole aligned space (all
register tiles, all task tiles) and the model's best are added. Every kernel is verified before it
is measured. Both times are those of all tasks, one after the other on one EU.

Spearman: rank correlation of estimate and measurement over the tilings drawn. top-k: the fastest
of the model's k best of all these tilings, compared with the fastest of them all. construct_ms: how
long construction takes to decide, without a device.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from measurements._operators import CASES, Case, profiler, sizes_of
from measurements._shared import chosen
from rcompiler.tools._command import Command
from rcompiler.tools._console import pattern, positive, table
from rcompiler.tools._record import keep

if TYPE_CHECKING:
    from rcompiler.device.model import Device
    from rcompiler.passes.roller_tile import Body
    from rcompiler.profiler.profile import Candidate, Profiler

_NEAR = 1.1  # as good as the best
_WIDE = 1.5  # spread from which the tile matters
_TOP = 10
_SECONDS = 4.0  # to time the tilings of one operator


@dataclass(frozen=True)
class Quality:
    """Of one operator: `loss1`, `loss3` are top-1 and top-3 relative to the fastest, at least 1.

    chosen: what construction decides, relative to the fastest. spread: the ninth tenth of the times
    of the tilings drawn over the first one; near 1, there is nothing to rank.
    """

    spearman: float
    loss1: float
    loss3: float
    chosen: float
    spread: float


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Rank correlation; equal values share the mean of their ranks. 0 where nothing differs."""
    x, y = (_ranks(np.asarray(v, np.float64)) for v in (a, b))
    if x.std() == 0 or y.std() == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def quality(
    estimated: Sequence[float], measured: Sequence[float], drawn: Sequence[bool]
) -> Quality:
    """Figures of one operator; the first tiling is what construction decides."""
    even = [k for k, d in enumerate(drawn) if d]
    best = min(measured)
    low, high = np.percentile([measured[k] for k in even], (10, 90))
    order = sorted(range(len(measured)), key=lambda k: estimated[k])
    return Quality(
        spearman([estimated[k] for k in even], [measured[k] for k in even]),
        measured[order[0]] / best,
        min(measured[k] for k in order[:3]) / best,
        measured[0] / best,
        float(high / low),
    )


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: failure or a wrong kernel."""
    from rcompiler.device.record import to_json
    from rcompiler.profiler.timing import interleaved

    cases = chosen(CASES, options.only, lambda c: f"{c.model} {c.kind} {c.why}")
    found: list[dict[str, Any]] = []
    wrong = 0
    device = _device()
    with profiler(device, options.jobs, partial(interleaved, seconds=_SECONDS)) as measuring:
        for case, body in bodies(cases, device):
            entry, errors = _measure(measuring, case, body, options.tilings)
            for error in errors:
                print(f"wrong: {error}", file=sys.stderr)
            wrong += len(errors)
            found.append(entry)
            print(_line(entry), file=sys.stderr, flush=True)
    _print(found)
    keep(options, record=json.loads(to_json(device)), summary=summary(found), operators=found)
    return 1 if wrong else 0


def bodies(cases: Sequence[Case], device: Device) -> Iterator[tuple[Case, Body]]:
    """The operators of the list; each lives until the next one is asked for."""
    from rcompiler.compile import operators_of
    from rcompiler.passes.roller_tile import distinct_bodies
    from rcompiler.tools import models

    for (model, options), group in groupby(cases, key=lambda c: (c.model, c.options)):
        wanted = {(case.kind, case.sizes, case.skip): case for case in group}
        seen: Counter[tuple[str, str]] = Counter()
        with operators_of(models.build(model, **dict(options)), device) as module:
            for body in distinct_bodies(module.operation):
                name = body.kind, sizes_of(body.expression())
                if (*name, seen[name]) in wanted:
                    yield wanted.pop((*name, seen[name])), body
                seen[name] += 1
        for case in wanted.values():  # which algorithms there are depends on the device
            text = f"left out: {model} has no {case.kind} of {case.sizes} here ({case.why})"
            print(text, file=sys.stderr)


def _device() -> Device:
    from rcompiler.driver.host import measured_device, target_device
    from rcompiler.options import default_cache

    return measured_device(target_device("cpu"), default_cache())


def _measure(
    measuring: Profiler, case: Case, body: Body, tilings: int
) -> tuple[dict[str, Any], tuple[Exception, ...]]:
    from rcompiler.roller.construct import construct, forget
    from rcompiler.roller.ranking import ranked, sampled

    expr = body.expression()
    forget()  # the passes before tiling may have met this expression
    start = time.perf_counter()
    construct(expr, measuring.device)
    construct_ms = 1e3 * (time.perf_counter() - start)
    best = ranked(expr, measuring.device, _TOP)
    drawn = sampled(expr, measuring.device, tilings)
    found = measuring.run(body, measuring.candidates(body, [*best, *drawn]))
    right = [c for c in found.candidates if c.ns is not None]
    of_draw = measuring.candidates(body, drawn)
    among = {c.tiling for c in of_draw}
    estimated = [c.decision.estimated_ns * c.decision.tasks for c in right]
    measured = [c.ns or 0.0 for c in right]
    result = quality(estimated, measured, [c.tiling in among for c in right])
    [times] = found.times.values()
    entry = {
        "model": case.model, "kind": case.kind, "sizes": case.sizes, "why": case.why,
        "drawn": len(of_draw), "rounds": times.rounds,
        "standard_error": round(times.spread, 4), "construct_ms": round(construct_ms, 2),
        **{name: round(value, 4) for name, value in vars(result).items()},
        "tilings": [_tiling(c, c.tiling in among) for c in right],
    }  # fmt: skip
    return entry, found.errors


def _tiling(candidate: Candidate, drawn: bool) -> dict[str, Any]:
    d = candidate.decision
    return {
        "tile": d.tile, "registers": d.register_tile, "parts": d.reduction_tile, "drawn": drawn,
        "bound": d.explanation.limit if d.explanation else "",
        "estimated_us": round(d.estimated_ns * d.tasks / 1e3, 3),
        "measured_us": round((candidate.ns or 0.0) / 1e3, 3),
    }  # fmt: skip


def summary(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Figures over all operators."""

    def share(test: Callable[[dict[str, Any]], bool]) -> float:
        return round(sum(map(test, found)) / len(found), 3)

    wide = [e["spearman"] for e in found if e["spread"] >= _WIDE]
    return {
        "operators": len(found),
        "tilings": sum(len(e["tilings"]) for e in found),
        "median_construct_ms": statistics.median(e["construct_ms"] for e in found),
        "median_spearman": round(statistics.median(e["spearman"] for e in found), 3),
        "least_spearman": min(e["spearman"] for e in found),
        "operators_of_spread_1.5": len(wide),
        "their_median_spearman": round(statistics.median(wide), 3) if wide else 0.0,
        "spearman_of_0.8": share(lambda e: e["spearman"] >= 0.8),
        "top1_within_10_percent": share(lambda e: e["loss1"] <= _NEAR),
        "top3_within_10_percent": share(lambda e: e["loss3"] <= _NEAR),
        "chosen_within_10_percent": share(lambda e: e["chosen"] <= _NEAR),
    }


def _line(entry: dict[str, Any]) -> str:
    return (
        f"{entry['model']}, {entry['why']}: Spearman {entry['spearman']:.2f}, "
        f"top-1 {entry['loss1']:.2f}, top-3 {entry['loss3']:.2f}"
    )


def _print(found: Sequence[dict[str, Any]]) -> None:
    header = (
        "operator",
        "kind",
        "tilings",
        "best us",
        "spread",
        "Spearman",
        "top-1",
        "top-3",
        "chosen",
    )
    rows = [
        (
            f"{e['model']} {e['why']}",
            e["kind"],
            str(len(e["tilings"])),
            f"{min(t['measured_us'] for t in e['tilings']):.1f}",
            *(f"{e[name]:.2f}" for name in ("spread", "spearman", "loss1", "loss3", "chosen")),
        )
        for e in found
    ]
    table(header, rows)
    for name, value in summary(found).items():
        print(f"{name}: {value}")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", help="write a record of everything measured")
    parser.add_argument(
        "--tilings", type=positive, default=36, metavar="N",
        help="to draw for each operator; default: 36",
    )  # fmt: skip
    parser.add_argument(
        "--only",
        type=pattern,
        default=pattern(""),
        metavar="REGEX",
        help="operators whose model, kind or name it occurs in; default: all",
    )
    parser.add_argument("--jobs", type=positive, metavar="N", help="processes that compile")


main = Command(__name__, __doc__, _options, _run)
