"""Views, joining, cutting, repeating, padding; shapes as values."""

from __future__ import annotations

import math

import numpy as np
from onnx import numpy_helper

from fuzz.catalog import generator
from fuzz.maker import NUMBERS, Maker, Reject, Value
from rcompiler.frontend import dtypes

EVERY = (*NUMBERS, "bool")


def anything(g: Maker, op: str, parameter: str = "T", **how: object) -> Value:
    """A tensor of one of the types of models, rarely of any that the operator allows."""
    types = g.types(op, parameter)
    if not g.chance(0.08):
        types = tuple(g.among(types, EVERY))
    return g.value(types, **how)  # type: ignore[arg-type]


def factored(g: Maker, size: int, rank: int) -> list[int]:
    """A shape of that many elements."""
    shape = []
    for _ in range(rank - 1):
        divisors = [d for d in range(1, size + 1) if size % d == 0] if size else [1]
        shape.append(g.pick(divisors))
        size //= shape[-1]
    return [*shape, size]


@generator("Reshape")
def reshape(g: Maker, op: str) -> None:
    x = anything(g, op)
    shape = factored(g, x.array.size, g.int(1, 4)) if x.array.size != 1 or g.chance(0.7) else []
    wanted = list(shape)
    if wanted and 0 not in wanted and g.chance(0.3):
        wanted[g.int(0, len(wanted) - 1)] = -1
    elif wanted and g.chance(0.2) and wanted[0] and x.rank and wanted[0] == x.shape[0]:
        wanted[0] = 0
    g.node(op, [x, g.fixed(np.array(wanted, np.int64))], allowzero=1 if 0 in shape else None)


@generator("Flatten")
def flatten(g: Maker, op: str) -> None:
    x = anything(g, op)
    g.node(op, [x], axis=g.int(-x.rank, x.rank))


@generator("Squeeze")
def squeeze(g: Maker, op: str) -> None:
    x = anything(g, op, where=lambda v: 1 in v.shape or g.chance(0.1))
    ones = [i for i, d in enumerate(x.shape) if d == 1]
    axes = [a - x.rank if g.chance(0.3) else a for a in g.subset(ones)]
    g.node(op, [x, g.fixed(np.array(axes, np.int64)) if g.chance(0.7) else None])


@generator("Unsqueeze")
def unsqueeze(g: Maker, op: str) -> None:
    x = anything(g, op, rank=(0, 4))
    count = g.int(1, 2)
    axes = g.subset(range(x.rank + count), least=1)[:count]
    rank = x.rank + len(axes)
    axes = [a % rank for a in axes]
    if len(set(axes)) < len(axes):
        raise Reject
    g.node(op, [x, g.fixed(np.array([a - rank if g.chance(0.3) else a for a in axes]))])


@generator("Transpose")
def transpose(g: Maker, op: str) -> None:
    x = anything(g, op, rank=(0, 5))
    order = list(range(x.rank))
    g.random.shuffle(order)
    g.node(op, [x], perm=None if g.chance(0.2) or not order else order)


@generator("Concat")
def concat(g: Maker, op: str) -> None:
    x = anything(g, op, rank=(1, 4))
    axis, parts = g.int(0, x.rank - 1), [x]
    for _ in range(g.int(0, 3)):
        shape = list(x.shape)
        shape[axis] = g.pick([1, 2, 3, shape[axis]])
        parts.append(g.value([x.dtype], shape=shape))
    g.random.shuffle(parts)
    g.node(op, parts, axis=axis - x.rank if g.chance(0.3) else axis)


@generator("Split")
def split(g: Maker, op: str) -> None:
    x = anything(g, op, rank=(1, 4), empty=False)
    axis = g.int(-x.rank, x.rank - 1)
    size = x.shape[axis]
    count = g.int(1, min(4, size))
    if g.chance(0.5):
        if -(-size // count) * (count - 1) >= size:
            raise Reject  # the last part would be empty
        g.node(op, [x], count, axis=axis, num_outputs=count)
        return
    cuts = sorted(g.int(0, size) for _ in range(count - 1))
    sizes = np.diff([0, *cuts, size])
    wanted = [i == 0 or g.chance(0.9) for i in range(count)]
    g.node(op, [x, g.fixed(sizes.astype(np.int64))], wanted, axis=axis)


@generator("Slice")
def cut(g: Maker, op: str) -> None:
    x = anything(g, op, rank=(1, 4))
    axes = g.subset(range(x.rank), least=1)
    steps = [g.pick([1, 1, 1, 2, 3, -1, -2]) for _ in axes]
    old = g.known is not None and g.has("starts")  # of attributes, none of them steps
    steps = [1 for _ in axes] if old else steps
    starts, ends = [], []
    for axis, step in zip(axes, steps, strict=True):
        size = x.shape[axis]
        low, high = sorted([g.int(0, size), g.int(0, size)])
        if low == high and size and g.chance(0.95):
            low, high = 0, size
        first, last = (low, high) if step > 0 else (high - 1, low - 1)
        starts.append(first - size if g.chance(0.2) and 0 <= first < size else first)
        ends.append(2**31 if last == size and step > 0 and g.chance(0.3) else last)
        if step < 0:
            starts[-1] = max(first, 0)
            ends[-1] = -(2**31) if last < 0 else last
    kind = g.pick(["int64", "int32"]) if max(map(abs, ends)) < 2**31 else "int64"
    lists = [starts, ends, axes, steps]
    given = [g.fixed(np.array(v), kind) for v in lists]
    if axes == list(range(len(axes))) and set(steps) == {1} and g.chance(0.5):
        given = given[:2]
    g.node(op, [x, *(given[:3] if old else given)])


@generator("Expand")
def expand(g: Maker, op: str) -> None:
    x = anything(g, op)
    shape = [g.int(1, 4) if d == 1 else g.pick([1, d]) for d in x.shape]
    shape = [g.int(1, 3) for _ in range(g.pick([0, 0, 1, 2]))] + shape
    if len(shape) > x.rank or not shape or g.chance(0.7):
        g.node(op, [x, g.fixed(np.array(shape, np.int64))])
    else:
        g.node(op, [x, g.fixed(np.array(shape[1:] if x.rank > 1 else shape, np.int64))])


@generator("Tile")
def tile(g: Maker, op: str) -> None:
    x = anything(g, op)
    g.node(op, [x, g.fixed(np.array([g.pick([1, 1, 2, 3]) for _ in x.shape], np.int64))])


@generator("Pad")
def pad(g: Maker, op: str) -> None:
    x = anything(g, op, rank=(1, 4), empty=False)
    mode = g.pick([None, "constant", "reflect", "edge", "wrap"])
    axes = g.subset(range(x.rank), least=1) if g.chance(0.4) else None
    low, high = [], []
    for axis in range(x.rank) if axes is None else axes:
        most = x.shape[axis] - 1 if mode == "reflect" else min(3, x.shape[axis])
        least = -1 if mode in (None, "constant") and x.shape[axis] > 2 else 0
        low.append(g.int(least, max(most, 0)) if g.chance(0.6) else 0)
        high.append(g.int(least, max(most, 0)) if g.chance(0.6) else 0)
    number = g.value([x.dtype], shape=()) if mode in (None, "constant") and g.chance(0.5) else None
    where = None if axes is None else g.fixed(np.array(axes, np.int64))
    g.node(op, [x, g.fixed(np.array(low + high, np.int64)), number, where], mode=mode)


@generator("CenterCropPad")
def centre(g: Maker, op: str) -> None:
    x = anything(g, op, rank=(1, 3), empty=False)
    axes = g.subset(range(x.rank), least=1)
    shape = [g.int(1, x.shape[a] + 3) for a in axes]
    g.node(op, [x, g.fixed(np.array(shape, np.int64))], axes=axes)


@generator("DepthToSpace", "SpaceToDepth")
def blocks(g: Maker, op: str) -> None:
    size = g.int(1, 3)
    n, c, h, w = g.int(1, 2), g.int(1, 3), g.int(1, 3), g.int(1, 4)
    mode = g.pick([None, "DCR", "CRD"]) if op == "DepthToSpace" or g.opset >= 28 else None
    shape = (n, c * size * size, h, w) if op == "DepthToSpace" else (n, c, h * size, w * size)
    g.node(op, [anything(g, op, shape=shape)], blocksize=size, mode=mode)


@generator("Shape")
def shape_of(g: Maker, op: str) -> None:
    x = anything(g, op)
    start = g.int(-x.rank, x.rank) if g.chance(0.3) else None
    end = g.int(-x.rank, x.rank) if g.chance(0.3) else None
    g.node(op, [x], start=start, end=end)


@generator("Size")
def size_of(g: Maker, op: str) -> None:
    g.node(op, [anything(g, op)])


@generator("Identity")
def identity(g: Maker, op: str) -> None:
    g.node(op, [anything(g, op, "V")])


@generator("Constant")
def constant(g: Maker, op: str) -> None:
    kind = g.pick(["value", "value_float", "value_floats", "value_int", "value_ints"])
    if kind == "value":
        dtype = g.dtype(g.types(op))
        array = g.numbers_of(dtype, g.shape(0, 3)).astype(dtypes.numpy_dtype(dtype))
        g.node(op, [], value=numpy_helper.from_array(array))
    elif "float" in kind:
        numbers = [g.random.uniform(-2, 2) for _ in range(g.int(1, 4))]
        g.node(op, [], **{kind: numbers if kind[-1] == "s" else numbers[0]})
    else:
        whole = [g.int(-5, 5) for _ in range(g.int(1, 4))]
        g.node(op, [], **{kind: whole if kind[-1] == "s" else whole[0]})


@generator("ConstantOfShape")
def constant_of_shape(g: Maker, op: str) -> None:
    dtype = g.dtype(g.types(op, "T2"))
    one = g.numbers_of(dtype, (1,)).astype(dtypes.numpy_dtype(dtype))
    value = numpy_helper.from_array(one) if g.chance(0.7) else None
    g.node(op, [g.fixed(np.array(g.shape(0, 3), np.int64))], value=value)


@generator("EyeLike")
def eye(g: Maker, op: str) -> None:
    x = g.value(g.types(op, "T1"), rank=2)
    to = g.dtype(g.types(op, "T2")) if g.chance(0.5) else None
    g.node(op, [x], k=g.int(-2, 2), dtype=None if to is None else dtypes.to_onnx(to))


@generator("Range")
def span(g: Maker, op: str) -> None:
    usual = ("float32", "float64", "int64", "int32", "int16")
    types = g.among(g.types(op), usual)
    dtype = g.liked if g.liked in types else g.pick(types)
    step, start = g.pick([-3, -1, 1, 2]), g.int(-5, 5)
    ends = [start, start + step * g.int(0, 9), step]
    halves = dtype in ("float16", "bfloat16")
    g.node(op, [g.fixed(np.array(v), dtype) for v in ends],
           stash_type=g.pick([None, 1, 11]) if halves else None)  # fmt: skip


@generator("Trilu")
def triangle(g: Maker, op: str) -> None:
    x = anything(g, op, rank=(2, 4))
    k = g.value(["int64"], shape=(), low=-3, high=3) if g.chance(0.5) else None
    g.node(op, [x, k], upper=g.pick([None, 0, 1]))


@generator("ReverseSequence")
def reverse(g: Maker, op: str) -> None:
    x = anything(g, op, rank=(2, 4), empty=False)
    time = g.int(0, 1)
    lens = g.value(["int64"], shape=(x.shape[1 - time],), low=1, high=x.shape[time])
    g.node(op, [x, lens], time_axis=time, batch_axis=1 - time)


@generator("Col2Im")
def col2im(g: Maker, op: str) -> None:
    rank = g.int(1, 2)
    block = [g.int(1, 3) for _ in range(rank)]
    image = [b + g.int(0, 4) for b in block]
    strides = [g.int(1, 2) for _ in range(rank)]
    pads = [g.int(0, 1) for _ in range(2 * rank)]
    dilations = [g.int(1, 2) for _ in range(rank)]
    counts = [
        (image[i] + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        for i in range(rank)
    ]
    if min(counts) < 1:
        raise Reject
    shape = (g.int(1, 2), g.int(1, 3) * math.prod(block), math.prod(counts))
    x = g.value(g.among(g.types(op), NUMBERS), shape=shape)
    given = [g.fixed(np.array(v, np.int64)) for v in (image, block)]
    g.node(op, [x, *given], strides=strides, pads=pads, dilations=dilations)
