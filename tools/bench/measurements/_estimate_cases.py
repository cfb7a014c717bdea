"""The operators whose estimates are looked at: those of operator_bench, and others of networks.

Long enough to time, and each bound by something else: arithmetic, a division or an exponential per
element, a level of memory, rows that are read across, tiles that are a few elements wide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from onnx import ModelProto

from measurements._bench_operators import ALONE, operators
from rcompiler.support.random_inputs import Range
from rcompiler.tools.models.graph import ModelGraph, Operand

Shape = tuple[int, ...]


@dataclass(frozen=True)
class EstimateCase:
    """A model of one operator. build: with weights by a fixed seed. ranges: of integer inputs."""

    kind: str
    name: str
    build: Callable[[], ModelProto]
    ranges: Mapping[str, Range] = field(default_factory=dict)


def estimate_cases() -> Iterator[EstimateCase]:
    """All of them, kind by kind."""
    for each in operators():
        yield EstimateCase(each.kind, each.name, partial(_alone, each.models), each.ranges)
    image: Shape = (1, 64, 56, 56)
    shape: Shape
    result: Shape
    for op in ("Exp", "Erf", "Tanh", "Sigmoid", "Sqrt", "Sin", "Log", "Relu", "HardSwish", "Mish"):
        yield _case("element-wise", op, image, image, (), {})
    for op in ("Add", "Mul", "Div", "Pow"):
        yield _case("element-wise", op, image, image, (np.full((64, 1, 1), 1.5, np.float32),), {})
    for shape in ((1, 2048, 7, 7), (1, 960, 14, 14), (1, 256, 56, 56)):
        result = (*shape[:2], 1, 1)
        yield _case("pool", "GlobalAveragePool", shape, result, (), {})
        axes = np.array([2, 3], np.int64)
        yield _case("reduction", "ReduceMean", shape, result, (axes,), {"keepdims": 1})
        yield _case("reduction", "ReduceMax", shape, result, (axes,), {"keepdims": 1})
    over = np.array([1], np.int64)
    for shape in ((49, 512, 49), (1, 49, 4096), (64, 1024, 8)):
        result = (shape[0], 1, shape[2])
        yield _case("reduction", "ReduceMean", shape, result, (over,), {"keepdims": 1})
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    for op in ("MaxPool", "AveragePool"):
        yield _case("pool", op, (1, 64, 112, 112), image, (), window)
    for rows, width in ((3072, 49), (12544, 49), (49152, 8), (64, 16384)):
        shape = (rows, width)
        yield _case("softmax", "Softmax", shape, shape, (), {"axis": -1})
        yield _case("softmax", "LogSoftmax", shape, shape, (), {"axis": -1})
    yield _case("softmax", "Softmax", (64, 49, 256), (64, 49, 256), (), {"axis": 1})
    moves = {"perm": [0, 2, 3, 1]}
    yield _case("layout", "Transpose", image, (1, 56, 56, 64), (), moves)
    yield _case("layout", "Transpose", (1024, 1024), (1024, 1024), (), {"perm": [1, 0]})
    yield _case("layout", "DepthToSpace", image, (1, 16, 112, 112), (), {"blocksize": 2})
    twice = (np.array([1, 1, 2, 2], np.int64),)
    yield _case("layout", "Tile", image, (1, 64, 112, 112), twice, {})
    wider = (np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),)
    yield _case("layout", "Pad", image, (1, 64, 58, 58), wider, {})
    double = ("", np.array([1, 1, 2, 2], np.float32))
    for mode in ("nearest", "linear", "cubic"):
        yield _case("resize", "Resize", image, (1, 64, 112, 112), double, {"mode": mode})
    scale = tuple(np.ones(64, np.float32) for _ in range(2))
    yield _case("normalise", "InstanceNormalization", image, image, scale, {})
    yield _case("normalise", "GroupNormalization", image, image, scale, {"num_groups": 8})
    yield _case("normalise", "LRN", image, image, (), {"size": 5})
    yield _case("normalise", "LpNormalization", (4096, 64), (4096, 64), (), {"axis": 0})
    yield EstimateCase("recurrent", "LSTM 64 steps, 256", partial(_recurrent, "LSTM", 4))
    yield EstimateCase("recurrent", "GRU 64 steps, 256", partial(_recurrent, "GRU", 3))
    yield EstimateCase("gather", "Gather 8192x64, 4096", _gather, {"at": (0, 8192)})


def _case(
    kind: str,
    op: str,
    shape: Shape,
    result: Shape,
    operands: Sequence[Operand],
    attributes: Mapping[str, Any],
) -> EstimateCase:
    def build() -> ModelProto:
        g = ModelGraph("estimate", 0)
        x = (
            g.op("Abs", g.input("x", shape))
            if op in ("Log", "Sqrt", "Pow")
            else g.input("x", shape)
        )
        return g.model(y=(g.op(op, x, *operands, **attributes), result))

    sizes = "x".join(map(str, shape))
    said = " ".join(f"{k}={_short(v)}" for k, v in attributes.items() if k != "keepdims")
    return EstimateCase(kind, " ".join(filter(None, [op, sizes, said])), build)


def _short(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _alone(models: Callable[[], Mapping[str, ModelProto]]) -> ModelProto:
    return models()[ALONE]


def _recurrent(op: str, gates: int) -> ModelProto:
    steps, width = 64, 256
    g = ModelGraph("estimate", 0)
    weights = g.normal((1, gates * width, width), width**-0.5)
    y = g.op(op, g.input("x", (steps, 1, width)), weights, weights, hidden_size=width)
    return g.model(y=(y, (steps, 1, 1, width)))


def _gather() -> ModelProto:
    g = ModelGraph("estimate", 0)
    g.input("at", (4096,), "int64")
    return g.model(y=(g.op("Gather", g.input("x", (8192, 64)), "at", axis=0), (4096, 64)))
