"""Batches of requests of different lengths: packed, beside padding, and beside one call for each.

    python tools/bench packed --threads=1
    python tools/bench packed --layers=2 --batches=20 --json=packed.json

The model is BERT-base, the lengths are those of `lengths`. "padded" is the program of the same
batch in which every request is filled up to the longest one, with a mask; "alone" calls a program
of one request for each. All of them have buckets of the same fineness, of which those are compiled
that the requests need. Of each batch all are asked one after the other, in an order that
alternates, and the least time of several rounds counts; what comes is compared before.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto

from rcompiler.errors import CompilerError
from rcompiler.tools._baselines import Feeds
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, positive, table
from rcompiler.tools._record import keep

from .lengths import feeds_of, lengths, model

PACKED, PADDED, ALONE = "packed", "padded", "alone"
_TOLERANCE = 1e-3  # of last_hidden_state, whose numbers are near 1

Batch = Sequence[Feeds]  # of one request each
Answers = list[list[np.ndarray]]  # of each request


def _tops(sizes: Sequence[int], most: int) -> tuple[int, ...]:
    """Of the tops of four buckets for each doubling, up to `most`, those that sizes need."""
    from rcompiler.frontend.size_sets import series

    each = series(1, most)
    return tuple(sorted({most, *(min(top for top in each if top >= size) for size in sizes)}))


def _length(request: Feeds) -> int:
    return int(request["input_ids"].shape[1])


def _engines(
    proto: ModelProto, batches: Sequence[Batch], options: argparse.Namespace
) -> dict[str, Callable[[Batch], Answers]]:
    import rcompiler

    count, most = options.size, options.most
    longest = [max(map(_length, batch)) for batch in batches]
    each = [_length(request) for batch in batches for request in batch]
    rows = _tops([sum(map(_length, batch)) for batch in batches], count * most)
    shapes: dict[str, Any] = {"batch": count, "sequence": range(1, most + 1)}
    common: dict[str, Any] = {"eus": options.threads}
    doing(f"packed, up to {', '.join(map(str, rows))} rows")
    together = rcompiler.compile_onnx(
        proto, shapes=shapes, packed=("batch", "sequence"), buckets={"rows": rows}, **common
    )
    doing("padded")
    buckets = {"sequence": _tops(longest, most)}
    whole = rcompiler.compile_onnx(proto, shapes=shapes, buckets=buckets, **common)
    doing("alone")
    buckets = {"sequence": _tops(each, most)}
    shapes = {**shapes, "batch": 1}
    single = rcompiler.compile_onnx(proto, shapes=shapes, buckets=buckets, **common)

    def packed(batch: Batch) -> Answers:
        given = {name: [request[name][0] for request in batch] for name in batch[0]}
        return [list(pair) for pair in zip(*together(given), strict=True)]

    def padded(batch: Batch) -> Answers:
        room = max(map(_length, batch))
        filled = {
            name: np.concatenate(
                [np.pad(each[name], ((0, 0), (0, room - _length(each)))) for each in batch]
            )
            for name in batch[0]
        }
        hidden, pooled = whole(filled)
        return [[hidden[n, : _length(request)], pooled[n]] for n, request in enumerate(batch)]

    def alone(batch: Batch) -> Answers:
        return [[array[0] for array in single(request)] for request in batch]

    return {PACKED: packed, PADDED: padded, ALONE: alone}


def _batches(options: argparse.Namespace) -> list[Batch]:
    rng = np.random.default_rng(options.seed)
    drawn = lengths(options.batches * options.size, options.most, options.seed)
    each = [feeds_of(length, options.vocabulary, rng) for length in drawn]
    return [each[n : n + options.size] for n in range(0, len(each), options.size)]


def _check(engines: Mapping[str, Callable[[Batch], Answers]], batch: Batch) -> None:
    """Raises CompilerError where an engine has another answer than packing."""
    ours = engines[PACKED](batch)
    for name, call in engines.items():
        for number, (own, others) in enumerate(zip(ours, call(batch), strict=True)):
            for a, b in zip(own, others, strict=True):
                if a.shape != b.shape or not np.abs(a - b).max() <= _TOLERANCE:
                    raise CompilerError(
                        f"{name} has other results for request {number}, of "
                        f"{_length(batch[number])} tokens"
                    )


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: results differ."""
    proto = model(options.most, options.vocabulary, options.layers)
    batches = _batches(options)
    engines = _engines(proto, batches, options)
    doing("comparing")
    for batch in batches:  # which also warms all of them up
        _check(engines, batch)
    least = {name: [float("inf")] * len(batches) for name in engines}
    order = list(engines)
    doing("measuring")
    for number, batch in enumerate(batches):
        for _ in range(options.rounds):
            for name in order:
                begin = time.perf_counter()
                engines[name](batch)
                took = (time.perf_counter() - begin) * 1e3
                least[name][number] = min(least[name][number], took)
            order.reverse()
    rows = [sum(map(_length, batch)) for batch in batches]
    ours = np.array(least[PACKED])
    figures = {
        name: {
            "mean_ms": float(np.mean(each)),
            "tokens_per_s": 1e3 * sum(rows) / float(np.sum(each)),
            "over_packed": float(np.sum(each) / ours.sum()),
            "least_over_packed": float((np.array(each) / ours).min()),
        }
        for name, each in least.items()
    }
    lines = [
        [name, f"{f['mean_ms']:.1f}", f"{f['tokens_per_s']:.0f}", f"{f['over_packed']:.2f}",
         f"{f['least_over_packed']:.2f}"]
        for name, f in figures.items()
    ]  # fmt: skip
    table(["engine", "mean ms", "tokens/s", "time over packed", "least of a batch"], lines)
    share = sum(options.size * max(map(_length, batch)) for batch in batches) / sum(rows)
    print(
        f"{len(batches)} batches of {options.size} requests, {min(rows)} to {max(rows)} tokens in "
        f"all; padding makes them {share:.2f} times as many"
    )
    keep(options, engines=figures, rows=rows, ms=least)
    return 0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=positive, default=1, metavar="N", help="default: 1")
    parser.add_argument("--size", type=positive, default=8, metavar="N", help="default: 8 a batch")
    parser.add_argument("--most", type=positive, default=512, metavar="N", help="default: 512")
    parser.add_argument("--batches", type=positive, default=12, metavar="N", help="default: 12")
    parser.add_argument("--rounds", type=positive, default=3, metavar="N", help="default: 3")
    parser.add_argument("--layers", type=positive, metavar="N", help="default: all")
    parser.add_argument("--vocabulary", type=positive, default=30522, help="default: 30522")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--json", metavar="FILE", help="write figures and their circumstances")


main = Command(__name__, __doc__, _options, _run)
