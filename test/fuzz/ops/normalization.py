"""Normalizations."""

from __future__ import annotations

import math

from fuzz.catalog import generator
from fuzz.maker import Maker, Reject, Value
from fuzz.ops.pooling import image


def vectors(g: Maker, x: Value, count: int, size: int) -> list[Value]:
    """Scales, shifts and the like; all are constants or none."""
    fixed = g.chance(0.5)
    return [g.leaf(x.dtype, (size,), 0.2, 2, constant=fixed) for _ in range(count)]


def _stash(g: Maker) -> int | None:
    """The type that statistics are computed in: as usual, or another one."""
    return g.pick([None, None, None, None, None, 1, 10, 11, 16])


@generator("BatchNormalization")
def batch(g: Maker, op: str) -> None:
    if g.chance(0.5):
        x = g.value(g.types(op), rank=(2, 4), empty=False)
    else:
        x = image(g, op)
    training = g.chance(0.2) and math.prod(x.shape) > x.shape[1]
    g.node(op, [x, *vectors(g, x, 4, x.shape[1])], 3 if training else 1,
           training_mode=1 if training else None, epsilon=g.pick([None, 1e-3]),
           momentum=g.pick([None, 0.5]))  # fmt: skip


@generator("LayerNormalization")
def layer(g: Maker, op: str) -> None:
    x = g.value(g.types(op, "T"), rank=(1, 4), empty=False)
    axis = g.int(0, x.rank - 1)
    scale = g.value([x.dtype], shape=x.shape[axis:])
    shift = g.value([x.dtype], shape=x.shape[axis:]) if g.chance(0.6) else None
    g.node(op, [x, scale, shift], g.pick([1, 1, 3]), epsilon=g.pick([None, 1e-3]),
           axis=axis - x.rank if g.chance(0.5) else axis, stash_type=_stash(g))  # fmt: skip


@generator("RMSNormalization", opsets=range(23, 29))
def root(g: Maker, op: str) -> None:
    x = g.value(g.types(op), rank=(1, 4), empty=False)
    axis = g.int(0, x.rank - 1)
    scale = g.value([x.dtype], shape=x.shape[axis:])
    g.node(op, [x, scale], axis=axis - x.rank if g.chance(0.5) else axis,
           epsilon=g.pick([None, 1e-3]), stash_type=_stash(g))  # fmt: skip


@generator("InstanceNormalization")
def instance(g: Maker, op: str) -> None:
    x = image(g, op)
    g.node(op, [x, *vectors(g, x, 2, x.shape[1])], epsilon=g.pick([None, 1e-3]))


@generator("GroupNormalization")
def group(g: Maker, op: str) -> None:
    groups = g.int(1, 3)
    shape = (g.int(1, 2), groups * g.int(1, 3), *g.shape(1, 2, empty=False))
    x = g.value(g.types(op), shape=shape)
    g.node(op, [x, *vectors(g, x, 2, x.shape[1])], num_groups=groups,
           epsilon=g.pick([None, 1e-3]), stash_type=_stash(g))  # fmt: skip


@generator("MeanVarianceNormalization")
def mean_variance(g: Maker, op: str) -> None:
    x = g.value(g.types(op), rank=4, empty=False)
    axes = g.subset(range(4), least=1) if g.chance(0.6) else None
    varied = [0, 2, 3] if axes is None else axes
    if math.prod(x.shape[a] for a in varied) < 2:
        raise Reject  # nothing but the error of a mean is divided by nothing
    g.node(op, [x], axes=axes)


@generator("LpNormalization")
def lp(g: Maker, op: str) -> None:
    x = g.value(g.types(op), rank=(1, 4), empty=False)
    g.node(op, [x], axis=g.int(-x.rank, x.rank - 1), p=g.pick([None, 1, 2]))


@generator("LRN")
def response(g: Maker, op: str) -> None:
    x = image(g, op)
    g.node(op, [x], size=g.int(1, 5), alpha=g.pick([None, 0.1]), beta=g.pick([None, 0.5]),
           bias=g.pick([None, 2.0]))  # fmt: skip
