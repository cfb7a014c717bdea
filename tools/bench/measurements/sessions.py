"""Sessions that are called with sizes that nobody has told before, beside onnxruntime's.

    python tools/bench sessions                    # decoders of 2 and 6 layers, ten batch sizes
    python tools/bench sessions --tokens=16 --cases=exported-2x64 --json=sessions.json

Cases are LAYOUT-LAYERSxHIDDEN: decoders as exporters write them ("exported": past and present are
joined, a mask is as long as both), and as builders for a runtime do ("built": GroupQueryAttention
on a buffer of a fixed length, lengths from a mask); and "batches", a network of two products with
ten batch sizes in turn. A decoder generates from an empty cache, then --rounds times again. Both
engines take turns, call by call, and have to give the same; times are medians of a round, without
the first three calls of it, which compile in the first round. "later" counts what was compiled in
the way of other calls.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from rcompiler.driver import isolate
from rcompiler.errors import CompilerError
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, positive, table
from rcompiler.tools._record import keep
from rcompiler.tools._reference import session as onnxruntime_session

_CASES = "exported-2x64,exported-6x256,built-2x64,built-6x256,batches"
_FIRST = 3  # calls that may compile
_PROMPT, _WIDTH, _BATCHES = 5, 64, 10
_COLUMNS = ("case", "compiled", "later", "round", "us", "greatest us", "onnxruntime us", "ratio")

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True)
class Figure:
    """Of one round of a case. compiled, later: in all calls, and behind the first three."""

    case: str
    round: int
    compiled: int
    later: int
    us: float
    greatest_us: float
    onnxruntime_us: float


class _Graph:
    """A graph that is being written."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._rng = np.random.default_rng(0)

    def op(self, kind: str, *inputs: str, outputs: Sequence[str] = (), **attributes: Any) -> str:
        made = [*outputs] or [f"t{len(self.nodes)}"]
        self.nodes.append(helper.make_node(kind, inputs, made, **attributes))
        return made[0]

    def constant(self, array: Any) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def weight(self, rows: int, columns: int) -> str:
        array = self._rng.standard_normal((rows, columns)) * rows**-0.5
        return self.constant(array.astype(np.float32))

    def tensor(self, side: list[Any], name: str, kind: int, *shape: int | str) -> None:
        side.append(helper.make_tensor_value_info(name, kind, shape))

    def model(self) -> ModelProto:
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.weights)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def decoder(layout: str, layers: int, hidden: int, room: int) -> ModelProto:
    """A decoder from embeddings x [1, new, hidden] to y of the same shape.

    Args:
        layout: "exported" or "built".
        layers, hidden: of the network.
        room: of the buffers of "built".
    """
    g, heads = _Graph(), max(2, hidden // 64)
    size, built = hidden // heads, layout == "built"
    g.tensor(g.inputs, "x", TensorProto.FLOAT, 1, "new", hidden)
    g.tensor(g.inputs, "mask", TensorProto.INT64, 1, "all")
    past = room if built else "past"
    one, total = g.constant(np.int64(1)), ""
    if built:
        last = g.op("Sub", g.op("ReduceSum", "mask", g.constant([1]), keepdims=0), one)
        lengths = g.op("Cast", last, to=TensorProto.INT32)
        total = g.op("Gather", g.op("Shape", "mask"), one, axis=0)
        total = g.op("Cast", total, to=TensorProto.INT32)
    else:
        hidden_ones = g.op("Sub", g.constant(np.float32(1)), g.op("Cast", "mask", to=1))
        bias = g.op("Mul", hidden_ones, g.constant(np.float32(-1e4)))
        bias = g.op("Unsqueeze", bias, g.constant([1, 2]))
    heads_of = g.constant([0, 0, heads, size])
    x, flat, scale = "x", g.constant([0, 0, hidden]), g.constant(np.float32(size**-0.5))
    ones, zeros = (g.constant(np.full(hidden, n, np.float32)) for n in (1, 0))
    for layer in range(layers):
        caches = []
        for part in ("key", "value"):
            name = f"{layer}.{part}"
            g.tensor(g.inputs, f"past.{name}", TensorProto.FLOAT, 1, heads, past, size)
            end = room if built else "all"
            g.tensor(g.outputs, f"present.{name}", TensorProto.FLOAT, 1, heads, end, size)
            caches.append((f"past.{name}", f"present.{name}"))
        normal = g.op("LayerNormalization", x, ones, zeros)
        q, k, v = (g.op("MatMul", normal, g.weight(hidden, hidden)) for _ in range(3))
        if built:
            mixed = g.op(
                "GroupQueryAttention", q, k, v, *[name for name, _ in caches], lengths, total,
                outputs=[f"y{layer}", *[name for _, name in caches]], domain="com.microsoft",
                num_heads=heads, kv_num_heads=heads,
            )  # fmt: skip
        else:
            q, k, v = (
                g.op("Transpose", g.op("Reshape", each, heads_of), perm=[0, 2, 1, 3])
                for each in (q, k, v)
            )
            keys, values = (
                g.op("Concat", before, new, outputs=[after], axis=2)
                for (before, after), new in zip(caches, (k, v), strict=True)
            )
            scores = g.op("MatMul", q, g.op("Transpose", keys, perm=[0, 1, 3, 2]))
            scores = g.op("Add", g.op("Mul", scores, scale), bias)
            mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), values)
            mixed = g.op("Reshape", g.op("Transpose", mixed, perm=[0, 2, 1, 3]), flat)
        x = g.op("Add", x, g.op("MatMul", mixed, g.weight(hidden, hidden)))
        wide = g.op(
            "MatMul", g.op("LayerNormalization", x, ones, zeros), g.weight(hidden, 4 * hidden)
        )
        x = g.op("Add", x, g.op("MatMul", g.op("Relu", wide), g.weight(4 * hidden, hidden)))
    g.op("Identity", x, outputs=["y"])
    g.tensor(g.outputs, "y", TensorProto.FLOAT, 1, "new", hidden)
    return g.model()


def _batches() -> ModelProto:
    g = _Graph()
    g.tensor(g.inputs, "x", TensorProto.FLOAT, "batch", _WIDTH)
    g.tensor(g.outputs, "y", TensorProto.FLOAT, "batch", _WIDTH)
    a = g.op("Relu", g.op("MatMul", "x", g.weight(_WIDTH, _WIDTH)))
    g.op("MatMul", a, g.weight(_WIDTH, _WIDTH), outputs=["y"])
    return g.model()


def _tokens(model: ModelProto, count: int) -> Iterator[tuple[Feeds, dict[str, str]]]:
    """Of each call what is fed, without caches, and of caches the outputs that they are next."""
    rng, length = np.random.default_rng(1), 0
    hidden = model.graph.input[0].type.tensor_type.shape.dim[2].dim_value
    caches = {
        value.name: value.name.replace("past.", "present.")
        for value in model.graph.input
        if value.name.startswith("past.")
    }
    for step in range(count):
        new = _PROMPT if step == 0 else 1
        length += new
        x = rng.standard_normal((1, new, hidden)).astype(np.float32)
        yield {"x": x, "mask": np.ones((1, length), np.int64)}, caches


def _calls(case: str, model: ModelProto, count: int) -> Iterator[tuple[Feeds, dict[str, str]]]:
    if case != "batches":
        yield from _tokens(model, count)
        return
    rng = np.random.default_rng(1)
    for batch in range(1, _BATCHES + 1):
        yield {"x": rng.standard_normal((batch, _WIDTH)).astype(np.float32)}, {}


class _Engine:
    """A session, and the caches of its sequence."""

    def __init__(self, made: Any, model: ModelProto) -> None:
        self._made, self._names = made, [value.name for value in model.graph.output]
        self._empty = {
            value.name: np.zeros(
                [d.dim_value for d in value.type.tensor_type.shape.dim], np.float32
            )
            for value in model.graph.input
            if value.name.startswith("past.")
        }
        self.caches: Feeds = {}

    def begin(self) -> None:
        self.caches = dict(self._empty)

    def __call__(self, fed: Feeds, caches: dict[str, str]) -> tuple[np.ndarray, int]:
        """The result y, and ns."""
        feeds = fed | self.caches
        start = time.perf_counter_ns()
        made = self._made.run(None, feeds)
        taken = time.perf_counter_ns() - start
        results = dict(zip(self._names, made, strict=True))
        self.caches = {name: results[output] for name, output in caches.items()}
        return results["y"], taken


class _Counted:
    """How many programs are compiled in the way of calls, while it is entered."""

    def __enter__(self) -> _Counted:
        self.count, self._compiler = 0, isolate.compiler

        def counted() -> Any:
            def compile_onnx(*args: Any, **options: Any) -> Any:
                self.count += 1
                return self._compiler()(*args, **options)

            return compile_onnx

        isolate.compiler = counted
        return self

    def __exit__(self, *raised: object) -> None:
        isolate.compiler = self._compiler


def measured(case: str, options: argparse.Namespace) -> Iterator[Figure]:
    """The rounds of a case. Raises CompilerError where results differ."""
    import rcompiler

    layout, _, sizes = case.partition("-")
    if layout not in ("exported", "built", "batches"):
        raise CompilerError(f"--cases: {case!r} is none of {_CASES}")
    if sizes:
        layers, hidden = map(int, sizes.split("x"))
        model = decoder(layout, layers, hidden, options.tokens + _PROMPT)
    else:
        model = _batches()
    own = rcompiler.InferenceSession(model, eus=options.threads, target=options.target)
    engines = [_Engine(own, model), _Engine(onnxruntime_session(model, options.threads), model)]
    doing(case)
    with own, _Counted() as counted:
        for number in range(1 + options.rounds):
            times: list[list[int]] = []
            before, later = counted.count, counted.count
            for each in engines:
                each.begin()
            for place, (fed, caches) in enumerate(_calls(case, model, options.tokens)):
                if place == _FIRST:
                    later = counted.count
                (y, ns), (wanted, others) = (each(fed, caches) for each in engines)
                if y.shape != wanted.shape or not np.allclose(y, wanted, 1e-3, 1e-3):
                    raise CompilerError(f"{case}: call {place} has other results than onnxruntime")
                times.append([ns, others])
            rest = np.array(times[_FIRST:]) / 1e3
            ours, others_us = np.median(rest, axis=0)
            yield Figure(
                *(case, number, counted.count - before, counted.count - later),
                *(float(ours), float(rest[:, 0].max()), float(others_us)),
            )


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: an engine cannot run a model, or results differ."""
    figures = [f for case in options.cases.split(",") for f in measured(case, options)]
    rows = [
        [
            *(f.case, str(f.compiled), str(f.later), str(f.round), f"{f.us:.1f}"),
            *(f"{f.greatest_us:.0f}", f"{f.onnxruntime_us:.1f}", f"{f.us / f.onnxruntime_us:.2f}"),
        ]
        for f in figures
    ]
    table(_COLUMNS, rows)
    keep(options, figures=[vars(f) for f in figures])
    return 0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cases", default=_CASES, metavar="LIST", help=f"default: {_CASES}")
    parser.add_argument("--tokens", type=positive, default=64, metavar="N", help="default: 64")
    parser.add_argument("--rounds", type=positive, default=2, metavar="N", help="more; default: 2")
    parser.add_argument("--threads", type=positive, default=1, metavar="N", help="default: 1")
    parser.add_argument("--target", default="cpu", metavar="NAME", help="as for rc-compile")
    parser.add_argument("--json", metavar="FILE", help="write figures and their circumstances")


main = Command("sessions", __doc__, _options, _run)
