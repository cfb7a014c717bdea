"""Pooling."""

from __future__ import annotations

import math

import numpy as np

from fuzz.catalog import generator
from fuzz.maker import FLOATS, Maker, Reject, Value
from fuzz.ops.products import window


def image(g: Maker, op: str, extents: list[int] | None = None, **how: object) -> Value:
    """[n, c, spatial...]."""
    sizes = extents or list(g.shape(1, 3, empty=False))
    shape = (g.int(1, 2), g.int(1, 4), *sizes)
    return g.value(g.types(op), shape=shape, **how)  # type: ignore[arg-type]


@generator("MaxPool")
def max_pool(g: Maker, op: str) -> None:
    extents, kernel, found = window(g, g.pick([1, 2, 2, 3]))
    x = image(g, op, extents)
    indices = g.chance(0.3) and g.has("storage_order")
    order = g.pick([None, 0, 1]) if indices and len(extents) > 1 else None
    g.node(op, [x], 2 if indices else 1, kernel_shape=kernel, storage_order=order,
           ceil_mode=_ceil(g, found), **found)  # fmt: skip


@generator("AveragePool")
def average_pool(g: Maker, op: str) -> None:
    extents, kernel, found = window(g, g.pick([1, 2, 2, 3]))
    g.node(op, [image(g, op, extents)], kernel_shape=kernel, ceil_mode=_ceil(g, found),
           count_include_pad=g.pick([None, 0, 1]), **found)  # fmt: skip


@generator("LpPool")
def lp_pool(g: Maker, op: str) -> None:
    extents, kernel, found = window(g, g.pick([1, 2, 2]))
    g.node(op, [image(g, op, extents)], kernel_shape=kernel, p=g.pick([None, 1, 2, 3]),
           ceil_mode=_ceil(g, found), **found)  # fmt: skip


def _ceil(g: Maker, found: dict[str, object]) -> int | None:
    """What ceil_mode means beside auto_pad, implementations do not agree on."""
    return None if "auto_pad" in found else g.pick([None, 0, 1])


@generator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def whole(g: Maker, op: str) -> None:
    found = {"p": g.pick([None, 1, 2, 3])} if op == "GlobalLpPool" else {}
    g.node(op, [image(g, op)], **found)


@generator("MaxUnpool")
def unpool(g: Maker, op: str) -> None:
    """Places of a MaxPool: where two agree, which one wins is nobody's rule."""
    kernel = [g.int(1, 3) for _ in range(g.int(1, 2))]
    sizes = [g.int(1, 3) for _ in kernel]
    x = g.value(g.among(g.types(op, "T1"), FLOATS), shape=(1, g.int(1, 2), *sizes))
    full = [*x.shape[:2], *(s * k for s, k in zip(sizes, kernel, strict=True))]
    places = g.numbers.permutation(math.prod(full))[: x.array.size].reshape(x.shape)
    shape = g.fixed(np.array(full, np.int64)) if g.chance(0.4) else None
    constant = g.chance(0.3)
    pads = [0] * 2 * len(kernel) if g.chance(0.3) else None  # of what was pooled
    if pads and shape is None and min(kernel) > 1:
        pads = [1] * len(pads)
        small = [*x.shape[:2], *(n - 2 for n in full[2:])]
        if math.prod(small) < x.array.size:
            raise Reject
        places = g.numbers.permutation(math.prod(small))[: x.array.size].reshape(x.shape)
    at = g.fixed(places) if constant else g._input(places, "int64")
    g.node(op, [x, at, shape], kernel_shape=kernel, strides=kernel, pads=pads)
