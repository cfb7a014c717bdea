"""Operators to measure that reduce, order, add up in turn, write at computed positions, or divide
with a remainder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from rcompiler.support.random_inputs import Range
from rcompiler.tools.models.graph import ModelGraph

Shape = tuple[int, ...]
Build = Callable[[ModelGraph, str], str]
# (kind, name, shapes of the operand and the result, what it does, indices: shape and range)
Case = tuple[str, str, Shape, Shape, Build, Mapping[str, tuple[Shape, Range]]]


def cases() -> Iterator[Case]:
    """All of them, kind by kind."""
    shape: Shape  # of any rank
    yield from _reductions()
    for shape, axis in (
        ((1, 1000), 1), ((1 << 22,), 0), ((2048, 2048), 0), ((2048, 2048), 1), ((64, 4096), 1),
        ((65536, 64), 1),
    ):  # fmt: skip
        name = f"{_by(shape)} along {axis}"
        yield _case("argmax", name, shape, _without(shape, axis), _argmax(axis))
    for shape, k in (
        ((1, 1000), 5), ((64, 4096), 1), ((64, 4096), 5), ((64, 4096), 65), ((64, 4096), 100),
        ((64, 4096), 1000), ((1000, 100), 1), ((1000, 100), 5), ((1000, 100), 32),
        ((10_000, 32), 3), ((1000, 1000), 5), ((1, 8400), 300), ((1, 50257), 50), ((1, 50257), 256),
        ((1, 1_000_000), 10), ((1, 1_000_000), 100), ((1, 1_000_000), 1000),
    ):  # fmt: skip
        yield _case("top k", f"{_by(shape)}, {k}", shape, (shape[0], k), _top_k(k))
    for n in (256, 1000, 8192, 65536, 1 << 20):
        yield _case("sort", str(n), (1, n), (1, n), _top_k(n))
    for shape, axis, exclusive, reverse in (
        ((1, 1000), 1, 0, 0), ((1 << 20,), 0, 0, 0), ((64, 4096), 1, 0, 0), ((64, 4096), 1, 1, 0),
        ((64, 4096), 1, 0, 1), ((1000, 1000), 1, 0, 0), ((4096, 64), 0, 0, 0),
        ((4096, 64), 0, 1, 1), ((64, 64, 64), 1, 0, 0), ((1000, 1000), 0, 0, 0),
    ):  # fmt: skip
        kinds = ", exclusive" * exclusive + ", reverse" * reverse
        build = _cumsum(axis, exclusive, reverse)
        yield _case("cumsum", f"{_by(shape)} along {axis}{kinds}", shape, shape, build)
    yield from _scatters()
    for shape in ((64, 64), (1000, 1000)):
        yield _case("remainder", _by(shape), shape, shape, _remainder(shape))
    for batch, n in (
        (1, 3), (1000, 3), (1000, 4), (64, 8), (100, 16), (16, 32), (1000, 32), (1, 64), (100, 64),
        (1, 256),
    ):  # fmt: skip
        shape = (batch, n, n)
        yield _case("determinant", _by(shape), shape, (batch,), lambda g, x: g.op("Det", x))


def _reductions() -> Iterator[Case]:
    """Of four million elements; sums over all axes, rows, columns, and dims that lie apart."""
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2"):
        yield _case("reduction", f"{op} 4096x1024", (4096, 1024), (), _reduced(op, [0, 1]))
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceLogSumExp"):
        for axis, along in ((0, "over rows"), (1, "over columns")):
            build = _reduced(op, [axis])
            result = _without((65536, 64), axis)
            yield _case("reduction", f"{op} 65536x64 {along}", (65536, 64), result, build)
    for op in ("ReduceSum", "ReduceMean", "ReduceMax"):
        build = _reduced(op, [0, 2])
        name = f"{op} 128x32x1024 over 0 and 2"
        yield _case("reduction", name, (128, 32, 1024), (32,), build)
    pooled = _reduced("ReduceMean", [2, 3])
    yield _case("reduction", "ReduceMean 2048 @7", (1, 2048, 7, 7), (1, 2048), pooled)


def _scatters() -> Iterator[Case]:
    """Elements, and slices at run-time positions."""
    for shape, at, axis, reduction in (
        ((64, 4096), (64, 256), 1, "none"), ((1000, 64), (1000, 64), 0, "none"),
        ((1000, 64), (1000, 64), 1, "add"), ((64, 64, 64), (64, 64, 64), 1, "max"),
        ((4096, 64), (4096, 64), 0, "add"), ((1 << 20,), (1000,), 0, "max"),
        ((1 << 20,), (65536,), 0, "add"), ((1 << 20,), (1 << 20,), 0, "none"),
        ((64, 64, 64), (1, 64, 64), 0, "add"), ((32_000, 128), (512, 128), 0, "none"),
    ):  # fmt: skip
        name = f"elements {_by(shape)}, {_by(at)}, {reduction}"
        indices = {"at": (at, (0, shape[axis]))}
        yield _case("scatter", name, shape, shape, _elements(at, axis, reduction), indices)
    for shape, at, reduction in (
        ((4096, 256), (64, 1), "none"), ((1024, 1024), (65536, 2), "add"),
        ((10_000, 64), (10_000, 1), "add"), ((10_000, 64), (1000, 1), "none"),
        ((32_000, 128), (512, 1), "max"), ((32_000, 128), (512, 1), "none"),
        ((32_000, 128), (32_000, 1), "none"), ((4096, 1024), (16, 1), "none"),
        ((4096, 1024), (1, 1), "add"), ((64, 64, 64), (4096, 3), "mul"),
        ((1 << 20,), (65536, 1), "none"),
    ):  # fmt: skip
        name = f"slices {_by(shape)}, {_by(at)}, {reduction}"
        build = _slices((*at[:-1], *shape[at[-1] :]), reduction)
        yield _case("scatter", name, shape, shape, build, {"at": (at, (0, min(shape[: at[-1]])))})


def _case(
    kind: str,
    name: str,
    shape: Shape,
    result: Shape,
    build: Build,
    indices: Mapping[str, tuple[Shape, Range]] | None = None,
) -> Case:
    return kind, name, shape, result, build, indices or {}


def elements_of(case: Case) -> int:
    """Elements that are read and written, at least."""
    _, _, shape, result, _, indices = case
    return math.prod(shape) + math.prod(result) + sum(2 * math.prod(s) for s, _ in indices.values())


def _by(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _reduced(op: str, axes: Sequence[int]) -> Build:
    return lambda g, x: g.op(op, x, np.array(axes, np.int64), keepdims=0)


def _argmax(axis: int) -> Build:
    return lambda g, x: g.op("Cast", g.op("ArgMax", x, axis=axis, keepdims=0), to=1)


def _top_k(k: int) -> Build:
    return lambda g, x: g.ops("TopK", x, np.array([k], np.int64), outputs=2)[0]


def _cumsum(axis: int, exclusive: int, reverse: int) -> Build:
    at = np.array(axis, np.int64)
    return lambda g, x: g.op("CumSum", x, at, exclusive=exclusive, reverse=reverse)


def _remainder(shape: Shape) -> Build:
    return lambda g, x: g.op("Mod", x, g.input("by", shape), fmod=1)


def _elements(shape: Shape, axis: int, reduction: str) -> Build:
    def build(g: ModelGraph, x: str) -> str:
        updates = g.input("updates", shape)
        return g.op("ScatterElements", x, "at", updates, axis=axis, reduction=reduction)

    return build


def _slices(shape: Shape, reduction: str) -> Build:
    def build(g: ModelGraph, x: str) -> str:
        return g.op("ScatterND", x, "at", g.input("updates", shape), reduction=reduction)

    return build
