"""Reading and writing at computed positions; order."""

from __future__ import annotations

import numpy as np

from fuzz.catalog import generator
from fuzz.maker import FLOATS, INTS, NUMBERS, Maker, Value
from fuzz.ops.movement import EVERY, anything


def positions(g: Maker, shape: tuple[int, ...], size: int, kinds: tuple[str, ...] = ()) -> Value:
    """Positions in an axis of ``size``; negative ones count from its end."""
    low = -size if g.chance(0.4) else 0
    return computed(g, g.value(kinds or ("int64", "int32"), shape=shape, low=low, high=size - 1))


def computed(g: Maker, at: Value) -> Value:
    """The same positions, often of the model's own making."""
    if g.chance(0.6):
        return at
    far = g.fixed(np.array(g.int(1, 9)), at.dtype)
    [there] = g.node("Add", [at, far])
    [back] = g.node("Sub", [there, far])
    return back


def distinct(g: Maker, shape: tuple[int, ...], size: int, axis: int) -> Value:
    """Positions that differ along an axis: no two writes meet."""
    rest = [d for i, d in enumerate(shape) if i != axis]
    rows = [g.numbers.permutation(size)[: shape[axis]] for _ in range(int(np.prod(rest)))]
    array = np.moveaxis(np.array(rows).reshape(*rest, shape[axis]), -1, axis)
    return given(g, array)


def given(g: Maker, array: np.ndarray) -> Value:
    """These positions: a constant, an input, or computed from one."""
    return g.fixed(array) if g.chance(0.4) else computed(g, g._input(array, "int64"))


@generator("Gather")
def gather(g: Maker, op: str) -> None:
    x = anything(g, op, rank=(1, 4), empty=False)
    axis = g.int(-x.rank, x.rank - 1)
    at = positions(g, g.shape(0, 2), x.shape[axis])
    g.node(op, [x, at], axis=axis)


@generator("GatherElements")
def gather_elements(g: Maker, op: str) -> None:
    x = anything(g, op, rank=(1, 3), empty=False)
    axis = g.int(0, x.rank - 1)
    shape = [g.int(1, d) for d in x.shape]
    shape[axis] = g.int(1, 6)
    at = positions(g, tuple(shape), x.shape[axis])
    g.node(op, [x, at], axis=axis - x.rank if g.chance(0.3) else axis)


def _coordinates(g: Maker, extents: tuple[int, ...], lead: tuple[int, ...]) -> np.ndarray:
    return np.stack([g.numbers.integers(0, e, lead) for e in extents], -1)


@generator("GatherND")
def gather_nd(g: Maker, op: str) -> None:
    x = anything(g, op, rank=(1, 4), empty=False)
    batch = g.int(0, min(x.rank - 1, 2)) if g.chance(0.4) else 0
    count = g.int(1, x.rank - batch)
    lead = (*x.shape[:batch], *g.shape(0, 2, empty=False)) if batch else g.shape(0, 2, empty=False)
    array = _coordinates(g, x.shape[batch : batch + count], lead)
    at = given(g, array)
    g.node(op, [x, at], batch_dims=batch or None)


_REDUCTIONS = (None, "none", "add", "mul", "max", "min")


def data(g: Maker, array: np.ndarray, dtype: str) -> Value:
    """These numbers: a constant, or an input, so that the model counts what it makes of them."""
    return g.fixed(array, dtype) if g.chance(0.4) else g._input(array, dtype)


@generator("ScatterElements")
def scatter_elements(g: Maker, op: str) -> None:
    reduction = g.pick(_REDUCTIONS) if g.has("reduction") else None
    plain = reduction in (None, "none")
    types = g.among(g.types(op), EVERY if plain else (*FLOATS, *INTS))
    x = g.value(types, rank=(1, 3), empty=False)
    axis = g.int(0, x.rank - 1)
    shape = tuple(g.int(1, d) for d in x.shape)
    at = distinct(g, shape, x.shape[axis], axis) if plain else positions(g, shape, x.shape[axis])
    updates = g.value([x.dtype], shape=shape)
    g.node(op, [x, at, updates], axis=axis - x.rank if g.chance(0.3) else axis,
           reduction=reduction)  # fmt: skip


@generator("Scatter", opsets=range(9, 11))
def scatter(g: Maker, op: str) -> None:
    x = g.value(g.among(g.types(op), ("float32", "int64")), rank=(1, 3), empty=False)
    axis = g.int(0, x.rank - 1)
    shape = tuple(g.int(1, d) for d in x.shape)
    updates = g.value([x.dtype], shape=shape)
    g.node(op, [x, distinct(g, shape, x.shape[axis], axis), updates], axis=axis)


@generator("ScatterND")
def scatter_nd(g: Maker, op: str) -> None:
    reduction = g.pick(_REDUCTIONS) if g.has("reduction") else None
    plain = reduction in (None, "none")
    types = g.among(g.types(op), EVERY if plain else (*FLOATS, *INTS))
    x = g.value(types, rank=(1, 3), empty=False)
    count = g.int(1, x.rank)
    room = int(np.prod(x.shape[:count]))
    rows = g.int(1, min(room, 6))
    flat = g.numbers.permutation(room)[:rows] if plain else g.numbers.integers(0, room, rows)
    array = np.stack(np.unravel_index(flat, x.shape[:count]), -1)
    at = given(g, array)
    updates = g.value([x.dtype], shape=(rows, *x.shape[count:]))
    g.node(op, [x, at, updates], reduction=reduction)


@generator("TensorScatter", opsets=range(24, 29))
def tensor_scatter(g: Maker, op: str) -> None:
    x = anything(g, op, rank=(2, 4), empty=False)
    axis = g.int(1, x.rank - 1)
    shape = list(x.shape)
    shape[axis] = g.int(1, x.shape[axis])
    update = g.value([x.dtype], shape=shape)
    mode = g.pick([None, "linear", "circular"])
    last = x.shape[axis] - (1 if mode == "circular" else shape[axis])
    at = None
    if g.chance(0.8):
        at = computed(g, g.value(["int64"], shape=(x.shape[0],), low=0, high=last))
    g.node(op, [x, update, at], axis=axis - x.rank if g.chance(0.5) else axis, mode=mode)


@generator("OneHot")
def one_hot(g: Maker, op: str) -> None:
    depth = g.int(1, 6)
    kinds = [t for t in g.types(op, "T1") if t in ("int64", "int32", "float32")]
    # ONNX's inference refuses indices of rank 0
    at = g.value([k for k in kinds if k != "float32"], (1, 3), low=-depth, high=depth - 1)
    values = g.value(g.among(g.types(op, "T3"), EVERY), shape=(2,))
    axis = g.int(-at.rank - 1, at.rank) if g.chance(0.6) else None
    g.node(op, [at, g.fixed(np.array(depth)), values], axis=axis)


@generator("Compress")
def compress(g: Maker, op: str) -> None:
    x = anything(g, op, rank=(1, 3), empty=False)
    axis = g.int(-x.rank, x.rank - 1) if g.chance(0.7) else None
    size = x.array.size if axis is None else x.shape[axis]
    kept = g.numbers.random(g.int(1, min(size, 9))) < 0.6
    [rows] = g.node(op, [x, data(g, kept, "bool")], axis=axis)
    if g.chance(0.3):
        g.node("Concat", [rows, x, rows] if axis is not None else [rows, rows], axis=axis or 0)


@generator("NonZero")
def non_zero(g: Maker, op: str) -> None:
    x = g.value(g.among(g.types(op), EVERY), (1, 3), empty=False)
    [where] = g.node(op, [x])
    if g.chance(0.5):
        [rows] = g.node("Transpose", [where])
        g.node("GatherND", [x, rows])


@generator("Unique")
def unique(g: Maker, op: str) -> None:
    dtype = g.dtype(g.among(g.types(op), [t for t in NUMBERS if t != "bfloat16"]))
    most = 1 if dtype == "bool" else 3
    x = data(g, g.numbers.integers(0, most + 1, g.shape(1, 2, empty=False)), dtype)
    axis = g.int(0, x.rank - 1) if g.chance(0.4) else None
    g.node(op, [x], g.int(1, 4), axis=axis, sorted=g.pick([None, 0, 1]))


@generator("TopK")
def top_k(g: Maker, op: str) -> None:
    x = g.value(g.among(g.types(op, "T"), NUMBERS), rank=(1, 4), empty=False)
    axis = g.int(-x.rank, x.rank - 1)
    count = g.int(1, x.shape[axis])
    k = data(g, np.array([count], np.int64), "int64")
    g.node(op, [x, k], 2, axis=axis, largest=g.pick([None, 0, 1]),
           sorted=g.pick([None, 0]) if count == 1 else None)  # fmt: skip


@generator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def feature(g: Maker, op: str) -> None:
    types = g.among(g.types(op, "T", "ai.onnx.ml"), NUMBERS)
    x = g.value(types, rank=(2, 3), empty=False)
    at = computed(g, g.value(["int64"], shape=(g.int(1, 4),), low=0, high=x.shape[-1] - 1))
    g.node(op, [x, at], domain="ai.onnx.ml")
