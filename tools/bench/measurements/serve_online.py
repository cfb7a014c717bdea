"""What exploring in traffic costs and gains: tune="online" beside tune="off".

    python tools/bench serve_online lstm2 resnet50 --requests=10000

Two models of one network serve requests by turns, in blocks: one explores. Every answer of it is
compared with the other's, bit by bit. Printed are the time of all requests and their 95th
percentile, in times of those without exploration, how far it came, and what its trials added by its
own account.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import Any

import numpy as np

import rcompiler
from rcompiler.astra.explorer import FROZEN
from rcompiler.errors import CompilerError
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, positive, table
from rcompiler.tools._record import keep
from rcompiler.tools._sources import resolve

_BLOCKS = 40
_REST_S = 0.02  # until the threads of the other model sleep


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: an answer was another one."""
    rows = [_measured(name, options) for name in options.models]
    columns = ["model", "off ms", "wrong", "total", "p95", "trials", "served at the end", "added"]
    table(
        columns,
        [
            [
                *(row["model"], f"{row['off_ms']:.3f}", row["wrong"]),
                *(f"{row['total']:.4f}", f"{row['p95']:.3f}", row["pairs"]),
                *(row["serves"], f"{row['added']:.4f}"),
            ]
            for row in rows
        ],
    )
    print("total, p95: online in times of off; trials: pairs of launches; added: share of all time")
    keep(options, models=rows)
    return int(any(row["wrong"] for row in rows))


def _measured(name: str, options: argparse.Namespace) -> dict[str, Any]:
    doing(f"{name}: compile")
    proto = resolve(name).proto
    if proto is None:
        raise CompilerError(f"{name}: is compiled already; give an ONNX model")
    with tempfile.TemporaryDirectory() as folder:
        chosen: dict[str, Any] = {"eus": options.eus, "cache": folder}
        off: Any = rcompiler.compile_onnx(proto, **chosen)
        on: Any = rcompiler.compile_onnx(proto, **chosen, tune="online")
        with off, on:
            return {"model": name, **_served(name, off, on, options.requests)}


def _served(name: str, off: Any, on: Any, requests: int) -> dict[str, Any]:
    ranges = {each.input: (each.first, each.last + 1) for each in off.artifact.ranges}
    feeds = random_inputs(off.inputs, 0, ranges)
    bound = {"off": off.bind(feeds), "online": on.bind(feeds)}
    bound["off"]()
    right = [y.tobytes() for y in bound["off"].outputs]
    times: dict[str, list[np.ndarray]] = {"off": [], "online": []}
    order, wrong, size = ["off", "online"], 0, max(requests // _BLOCKS, 1)
    for block in range(_BLOCKS):
        doing(f"{name}: block {block + 1} of {_BLOCKS}")
        for engine in order:
            time.sleep(_REST_S)
            bound[engine]()
            found, answers = np.empty(size), 0
            for request in range(size):
                start = time.perf_counter_ns()
                bound[engine]()
                found[request] = time.perf_counter_ns() - start
                answers += [y.tobytes() for y in bound[engine].outputs] != right
            times[engine].append(found)
            wrong += answers
        order.reverse()
    one, other = (np.concatenate(times[engine]) for engine in ("off", "online"))
    figures = {
        "off_ms": float(np.median(one)) / 1e6,
        "wrong": wrong,
        "requests": int(other.size),
        "total": float(other.sum() / one.sum()),
        "p95": float(np.percentile(other, 95) / np.percentile(one, 95)),
    }
    return figures | _explored(on)


def _explored(on: Any) -> dict[str, Any]:
    if on.plans is None:
        return {"pairs": 0, "serves": "the only plan", "added": 0.0}
    chooser = on.plans.chooser
    explorer, budget = chooser.explorer, chooser.explorer.budget
    name = next(iter(explorer.incumbent.values()))
    serves = name if explorer.phase == FROZEN else f"{name} ({explorer.phase})"
    return {"pairs": explorer.tried, "serves": serves, "added": budget.extra_ns / budget.served_ns}


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a built-in model or a file")
    parser.add_argument(
        "--requests", type=positive, default=10_000, metavar="N", help="of each; default: 10000"
    )
    parser.add_argument("--eus", type=positive, metavar="N", help="as for rc-compile")
    parser.add_argument("--json", metavar="FILE", help="write figures and their circumstances")


main = Command("serve_online", __doc__, _options, _run)
