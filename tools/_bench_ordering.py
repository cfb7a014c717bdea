"""Operators to measure that reduce, order, add up in turn, or write at computed positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from rcompiler.tools._data import Range
from rcompiler.tools.models.graph import Graph

Shape = tuple[int, ...]
Build = Callable[[Graph, str], str]
# (kind, name, shapes of the operand and the result, what it does, indices: shape and range)
Case = tuple[str, str, Shape, Shape, Build, Mapping[str, tuple[Shape, Range]]]


def cases() -> Iterator[Case]:
    """All of them, kind by kind."""
    for op in ("ReduceMean", "ReduceMax"):
        yield _case("reduction", f"{op} 4096x1024", (4096, 1024), (), _reduced(op, [0, 1]))
    yield _case(
        "reduction", "ReduceSum 65536x64 over rows", (65536, 64), (64,), _reduced("ReduceSum", [0])
    )
    for shape, axis in (((1 << 22,), 0), ((64, 4096), 1)):
        yield _case("argmax", _by(shape), shape, _without(shape, axis), _argmax(axis))
    for shape, k in (((64, 4096), 5), ((64, 4096), 100), ((1, 50257), 50)):
        yield _case("top k", f"{_by(shape)}, {k}", shape, (shape[0], k), _top_k(k))
    for n in (8192, 65536):
        yield _case("sort", str(n), (1, n), (1, n), _top_k(n))
    for shape, axis in (((64, 4096), 1), ((4096, 64), 0)):
        yield _case("cumsum", f"{_by(shape)} along {axis}", shape, shape, _cumsum(axis))
    for shape, at, axis, reduction in (
        ((64, 4096), (64, 256), 1, "none"), ((4096, 64), (4096, 64), 0, "add"),
        ((1 << 20,), (65536,), 0, "add"),
    ):  # fmt: skip
        name = f"elements {_by(shape)}, {_by(at)}, {reduction}"
        indices = {"at": (at, (0, shape[axis]))}
        yield _case("scatter", name, shape, shape, _elements(at, axis, reduction), indices)
    for shape, at, reduction in (
        ((4096, 256), (64, 1), "none"), ((1024, 1024), (65536, 2), "add"),
    ):  # fmt: skip
        name = f"slices {_by(shape)}, {_by(at)}, {reduction}"
        build = _slices((*at[:-1], *shape[at[-1] :]), reduction)
        yield _case("scatter", name, shape, shape, build, {"at": (at, (0, shape[0]))})
    for batch, n in ((64, 8), (16, 32), (1, 64)):
        yield _case(
            "determinant", f"{batch}x{n}x{n}", (batch, n, n), (batch,), lambda g, x: g.op("Det", x)
        )


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


def _determinants(g: Graph, x: str) -> str:
    return g.op("Det", x)


def _top_k(k: int) -> Build:
    return lambda g, x: g.ops("TopK", x, np.array([k], np.int64), outputs=2)[0]


def _cumsum(axis: int) -> Build:
    return lambda g, x: g.op("CumSum", x, np.array(axis, np.int64))


def _elements(shape: Shape, axis: int, reduction: str) -> Build:
    def build(g: Graph, x: str) -> str:
        updates = g.input("updates", shape)
        return g.op("ScatterElements", x, "at", updates, axis=axis, reduction=reduction)

    return build


def _slices(shape: Shape, reduction: str) -> Build:
    def build(g: Graph, x: str) -> str:
        return g.op("ScatterND", x, "at", g.input("updates", shape), reduction=reduction)

    return build
