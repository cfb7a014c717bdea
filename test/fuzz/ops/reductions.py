"""Reductions, positions of extremes, softmax, running sums, losses."""

from __future__ import annotations

import math

import numpy as np

from fuzz.catalog import generator
from fuzz.maker import FLOATS, NUMBERS, Maker, Reject

_POSITIVE = {"ReduceLogSum": (0.1, 4)}


@generator("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
           "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare")  # fmt: skip
def reduce(g: Maker, op: str) -> None:
    usual = (*NUMBERS, "bool")
    if op in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean"):
        usual = FLOATS  # rounding of integers' results is nobody's rule
    types = g.among(g.types(op), usual)
    low, high = _POSITIVE.get(op, (None, None))
    neutral = op in ("ReduceSum", "ReduceProd", "ReduceL1", "ReduceSumSquare")
    x = g.value(types, low=low, high=high, empty=neutral)
    axes, given = None, g.random.random()
    chosen = [a - x.rank if g.chance(0.3) else a for a in g.subset(range(x.rank))]
    none = None
    if given < 0.7:
        axes = g.fixed(np.array(chosen, np.int64))
        none = g.int(0, 1) if not chosen else None
    reduced = range(x.rank) if axes is None or not chosen else chosen
    if op == "ReduceProd" and math.prod(x.shape[a] for a in reduced) > 24:
        raise Reject
    g.node(op, [x, axes], keepdims=g.pick([None, 0, 1]), noop_with_empty_axes=none)


@generator("ArgMax", "ArgMin")
def extreme(g: Maker, op: str) -> None:
    x = g.value(g.among(g.types(op), NUMBERS), rank=(1, 4), empty=False)
    g.node(op, [x], axis=g.int(-x.rank, x.rank - 1), keepdims=g.pick([None, 0, 1]),
           select_last_index=g.pick([None, 0, 1]))  # fmt: skip


@generator("Softmax", "LogSoftmax", "Hardmax")
def softmax(g: Maker, op: str) -> None:
    x = g.value(g.types(op), rank=(1, 4), low=-30, high=30)
    g.node(op, [x], axis=g.int(-x.rank, x.rank - 1) if g.chance(0.7) else None)


@generator("CumSum")
def cumulative(g: Maker, op: str) -> None:
    x = g.value(g.types(op, "T"), rank=(1, 4))
    axis = g.fixed(np.array(g.int(-x.rank, x.rank - 1)), g.pick(["int64", "int32"]))
    g.node(op, [x, axis], exclusive=g.pick([None, 0, 1]), reverse=g.pick([None, 0, 1]))


@generator("CumProd", opsets=range(26, 29))
def product(g: Maker, op: str) -> None:
    cumulative(g, op)


@generator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(g: Maker, op: str) -> None:
    classes = g.int(1, 6)
    rest = g.shape(0, 2, empty=False)
    x = g.value(g.types(op), shape=(g.int(1, 4), classes, *rest), low=-20, high=20)
    kind = g.pick(["int64", "int32"])
    labels = g.value([kind], shape=(x.shape[0], *rest), low=0, high=classes - 1)
    weights = g.value([x.dtype], shape=(classes,), low=0.2, high=2) if g.chance(0.5) else None
    ignored = g.int(0, classes - 1) if g.chance(0.3) else None
    if ignored is not None and (labels.array == ignored).all():
        raise Reject
    count = 1
    if op == "SoftmaxCrossEntropyLoss" and g.chance(0.4):
        count = 2
    reduction = g.pick([None, "none", "sum", "mean"])
    g.node(op, [x, labels, weights], count, ignore_index=ignored, reduction=reduction)
