"""Ensembles of decision trees beside onnxruntime, each on one thread, by turns.

    python tools/bench trees                       # balanced and boosted trees of random numbers
    python tools/bench trees model.onnx --rows=1,64

A file has one input [rows, features], as of skl2onnx and onnxmltools. Balanced: 100 trees, all of
depth 8. Boosted: 500 trees of 31 leaves, each of which came of splitting a leaf at random. Printed
are microseconds of the fastest call.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper

import rcompiler
from rcompiler.frontend import load
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, positive, table
from rcompiler.tools._record import keep

_FEATURES = 30


@dataclass(frozen=True)
class Figure:
    """us of the fastest call; difference: the largest of the results, of any that are floats."""

    model: str
    rows: int
    us: float
    onnxruntime_us: float
    difference: float


def forest(trees: int, leaves: int, balanced: bool) -> ModelProto:
    """TreeEnsembleRegressor of random splits; leaves: of each tree, of a balanced one 2^depth."""
    rng = np.random.default_rng(0)
    nodes: dict[str, list[Any]] = {
        name: []
        for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids",
                     "falsenodeids")
    }  # fmt: skip
    ends: list[tuple[int, int]] = []
    for tree in range(trees):
        after: dict[int, tuple[int, int]] = {}
        open_ = [0]
        while len(open_) < leaves:
            node = open_.pop(0 if balanced else int(rng.integers(len(open_))))
            after[node] = 2 * len(after) + 1, 2 * len(after) + 2
            open_ += after[node]
        for node in range(2 * leaves - 1):
            yes, no = after.get(node, (0, 0))
            row = (tree, node, int(rng.integers(_FEATURES)), float(rng.normal()),
                   "BRANCH_LEQ" if node in after else "LEAF", yes, no)  # fmt: skip
            for values, value in zip(nodes.values(), row, strict=True):
                values.append(value)
        ends += [(tree, node) for node in open_]
    made = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1,
        target_treeids=[tree for tree, _ in ends], target_nodeids=[node for _, node in ends],
        target_ids=[0] * len(ends), target_weights=rng.normal(size=len(ends)).tolist(),
        **{f"nodes_{name}": values for name, values in nodes.items()},
    )  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", _FEATURES])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 1])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([made], "trees", [x], [y])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


FORESTS: dict[str, Callable[[], ModelProto]] = {
    "balanced": lambda: forest(100, 256, balanced=True),
    "boosted": lambda: forest(500, 31, balanced=False),
}


def _run(options: argparse.Namespace) -> int:
    figures = []
    for name in options.models:
        model = FORESTS[name]() if name in FORESTS else load.load(name)
        for rows in map(int, options.rows.split(",")):
            doing(f"{name}, {rows} rows")
            figures.append(measured(name, model, rows, options))
    cells = [
        [f.model, str(f.rows), f"{f.us:.1f}", f"{f.onnxruntime_us:.1f}", f"{f.difference:.1e}"]
        for f in figures
    ]
    table(["model", "rows", "us", "onnxruntime", "difference"], cells)
    keep(options, figures=[vars(figure) for figure in figures])
    return 0


def measured(name: str, model: ModelProto, rows: int, options: argparse.Namespace) -> Figure:
    """Both, a call of each by turns."""
    given = model.graph.input[0]
    columns = given.type.tensor_type.shape.dim[1].dim_value
    x = np.random.default_rng(1).normal(size=(rows, columns)).astype(np.float32)
    compiled = rcompiler.compile_onnx(
        model, target=options.target, shapes={given.name: x.shape}, eus=1
    )
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings)
    calls = [lambda: compiled(x), lambda: session.run(None, {given.name: x})]
    pairs = zip(*(call() for call in calls), strict=True)
    differences = [np.abs(a - b).max() for a, b in pairs if a.dtype.kind == "f"]
    fastest = [float("inf")] * 2
    for _ in range(options.rounds):
        for k, call in enumerate(calls):
            start = time.perf_counter_ns()
            call()
            fastest[k] = min(fastest[k], (time.perf_counter_ns() - start) / 1e3)
    ours, theirs = fastest
    return Figure(name, rows, ours, theirs, float(max(differences, default=0.0)))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models", nargs="*", default=list(FORESTS), metavar="MODEL",
        help=f"a file, or one of {', '.join(FORESTS)}; default: these",
    )  # fmt: skip
    parser.add_argument("--rows", default="1,1000", metavar="LIST", help="default: 1,1000")
    parser.add_argument("--target", default="cpu", metavar="NAME", help="as for rc-compile")
    parser.add_argument("--rounds", type=positive, default=200, metavar="N", help="default: 200")
    parser.add_argument("--json", metavar="FILE", help="write figures and their circumstances")


main = Command("trees", __doc__, _options, _run)
