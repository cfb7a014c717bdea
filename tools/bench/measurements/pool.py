"""Many callers of one model: calls in turns, a pool of instances, and calls that are joined.

    python tools/bench pool mobilenet_v3 --callers=8 --instances=2
    python tools/bench pool resnet50 --callers=4 --most=4 --json=pool.json

Callers ask for one row at a time, each as soon as it has the answer before. Engines serve in short
rounds by turns: one model on all EUs, which calls share in turns; a pool, whose instances share
these EUs; the same with calls joined, on one instance of all EUs and on all instances. Printed are
calls a second, in times of those of the one model of the same round, and what a call takes. Results
are compared before.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from statistics import median
from typing import Any

import numpy as np

from rcompiler.errors import CompilerError
from rcompiler.tools import models
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, positive, table
from rcompiler.tools._record import keep

_SYMBOL = "batch"
_ONE = "in turns"
# As those of models for one batch, see `batches`: sums that are cut in another way.
_NEAR = 1e-3

Feed = tuple[np.ndarray, ...]
Engine = Callable[..., Any]


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a model fails, or its results differ."""
    import rcompiler
    from rcompiler.support.random_inputs import random_inputs

    proto = models.build(options.model)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = _SYMBOL
    doing(f"{options.model}, up to {options.most} rows")
    sizes: dict[str, Any] = {
        "shapes": {_SYMBOL: range(1, options.most + 1)},
        "buckets": {_SYMBOL: tuple(sorted({1, options.most // 2 or 1, options.most}))},
    }
    with ExitStack() as held:
        model: Any = held.enter_context(rcompiler.compile_onnx(proto, **sizes, eus=options.eus))
        one = model.program(**{_SYMBOL: 1}).artifact
        ranges = {each.input: (each.first, each.last + 1) for each in one.ranges}
        feeds = [
            tuple(random_inputs(one.given, seed, ranges).values())
            for seed in range(options.callers)
        ]
        joined = rcompiler.Batching(options.most, options.latency)
        eus, count = model.eus, options.instances
        each = max(eus // count, 1)
        pools = {
            f"{count} of {each} EUs": rcompiler.Pool(model, count, eus=each),
            f"joined, 1 of {eus} EUs": rcompiler.Pool(model, 1, eus=eus, batching=joined),
            f"joined, {count} of {each} EUs": rcompiler.Pool(
                model, count, eus=each, batching=joined
            ),
        }
        engines: dict[str, Engine] = {_ONE: model}
        engines |= {name: held.enter_context(pool) for name, pool in pools.items()}
        _check(engines, feeds)
        figures = _measured(engines, feeds, options.rounds, options.seconds)
    rows = [
        [name, *(f"{each[key]:.2f}" for key in ("ratio", "a_second", "p50_ms", "p99_ms"))]
        for name, each in figures.items()
    ]
    table(["engine", "ratio", "calls a second", "p50 ms", "p99 ms"], rows)
    print(f"{options.callers} callers of {options.model}, of one row each")
    keep(options, engines=figures)
    return 0


def _check(engines: Mapping[str, Engine], feeds: list[Feed]) -> None:
    """Raises CompilerError where callers at the same time get other results than one alone."""
    for name, engine in engines.items():
        found = _asked(engine, feeds, lambda asked: asked >= 1)
        for (_, results), feed in zip(found, feeds, strict=True):
            for given, right in zip(results, engines[_ONE](*feed), strict=True):
                far = np.abs(np.subtract(given, right, dtype=np.float64)).max(initial=0.0)
                if far > _NEAR * np.abs(right).max(initial=0.0):
                    raise CompilerError(f"{name}: the results are not those of a call alone")


def _asked(
    engine: Engine, feeds: list[Feed], done: Callable[[int], bool]
) -> list[tuple[list[int], Any]]:
    """Of a caller for each feed: nanoseconds of each of its calls, and the last results. done: of
    how many calls it has made, whether it stops.
    """
    found: list[tuple[list[int], Any]] = [([], None)] * len(feeds)
    together = threading.Barrier(len(feeds))

    def call(number: int) -> None:
        took: list[int] = []
        results = None
        together.wait()
        while not done(len(took)):
            start = time.perf_counter_ns()
            results = engine(*feeds[number])
            took.append(time.perf_counter_ns() - start)
        found[number] = took, results

    callers = [threading.Thread(target=call, args=(number,)) for number in range(len(feeds))]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    return found


def _until(end: float) -> Callable[[int], bool]:
    """Whether a caller stops: after one call and more, when the time is over."""
    return lambda calls: calls > 0 and time.monotonic() > end


def _measured(
    engines: Mapping[str, Engine], feeds: list[Feed], rounds: int, seconds: float
) -> dict[str, dict[str, float]]:
    calls: dict[str, list[float]] = {name: [] for name in engines}
    times: dict[str, list[int]] = {name: [] for name in engines}
    order = [*engines]
    for number in range(rounds):
        doing(f"round {number + 1} of {rounds}")
        for name in order:
            start = time.monotonic()
            end = start + seconds / rounds
            found = _asked(engines[name], feeds, _until(end))
            took = [ns for each, _ in found for ns in each]
            calls[name].append(len(took) / (time.monotonic() - start))
            times[name] += took
        order.reverse()
    pairs = {name: zip(calls[name], calls[_ONE], strict=True) for name in engines}
    return {
        name: {
            "ratio": median(own / one for own, one in pairs[name]),
            "a_second": median(calls[name]),
            "p50_ms": float(np.percentile(times[name], 50)) / 1e6,
            "p99_ms": float(np.percentile(times[name], 99)) / 1e6,
        }
        for name in engines
    }


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a built-in network")
    parser.add_argument("--callers", type=positive, default=8, metavar="N", help="default: 8")
    parser.add_argument("--instances", type=positive, default=2, metavar="N", help="default: 2")
    parser.add_argument("--eus", type=positive, metavar="N", help="of all; default: all CPUs")
    parser.add_argument("--most", type=positive, default=4, metavar="N", help="rows; default: 4")
    parser.add_argument(
        "--latency", type=float, default=2000.0, metavar="US", help="microseconds; default: 2000"
    )
    parser.add_argument("--rounds", type=positive, default=10, metavar="N", help="default: 10")
    parser.add_argument(
        "--seconds", type=float, default=10.0, metavar="S", help="for each engine; default: 10"
    )
    parser.add_argument("--json", metavar="FILE", help="write figures and their circumstances")


main = Command(__name__, __doc__, _options, _run)
