"""TreeEnsembleRegressor, TreeEnsembleClassifier and TreeEnsemble (ai.onnx.ml).

    ends [trees, rows]  =  a walk of each row through each tree, all of them independent
    sums [rows, targets]  =  over trees, in their order

The trees are tables (decision_trees.py), so code does not grow with them. Where each tree counts
for one target only, a walk ends at a weight; else at the number of a leaf, which has a row of
weights. Sums are in f32, or in f64 if features, splits or weights are.
"""

from __future__ import annotations

import numpy as np

from rcompiler.errors import Gap, UnsupportedOp
from rcompiler.frontend import decision_trees
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value
from rcompiler.frontend.decision_trees import Trees
from rcompiler.frontend.ops.class_scores import (
    best_label,
    both_classes,
    class_labels,
    in_floats,
    label_at,
    rows_of,
    transform_of,
    transformed,
    transformed_targets,
)
from rcompiler.frontend.ops.tree_attributes import (
    Ensemble,
    floats,
    keyed_ensemble,
    numbered_ensemble,
)
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.tree_walks import ABREAST, Walks

DOMAIN = "ai.onnx.ml"
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")  # by their numbers in TreeEnsemble
MOST_PLACES = 1 << 25  # in the tables of all trees: two for each node and each tree


class _Totals:
    """What the trees of an ensemble come to for each row and target."""

    def __init__(self, ctx: Context, ensemble: Ensemble, aggregate: str) -> None:
        if aggregate not in AGGREGATES:
            raise ctx.shape_error(f"aggregate_function is none of {', '.join(AGGREGATES)}")
        self._b, self._ensemble, self._aggregate = ctx.b, ensemble, aggregate
        self._trees = decision_trees.tables(ensemble.nodes, ctx.shape_error)
        if self._trees.leaf.size > MOST_PLACES:
            raise ctx.refuse(
                f"the trees have more than {MOST_PLACES // 2} nodes", "Use smaller trees, or fewer"
            )
        self._neutral = {"MIN": np.inf, "MAX": -np.inf}.get(aggregate, 0.0)
        x = in_floats(ctx.b, rows_of(ctx))
        kinds = [ensemble.weight.dtype, self._trees.split.dtype, np.dtype(x.dtype)]
        self._dtype = "float64" if np.dtype("float64") in kinds else "float32"
        self._x = x

    def of_rows(self) -> Value:
        """[rows, targets]; of a target that no leaf counts for 0."""
        e, trees = self._ensemble, self._trees
        shape = [self._x.shape[0], e.count]
        if 0 in shape or not trees.roots.size:
            return self._b.splat(shape, self._dtype, 0)
        weights = self._weights()
        one = self._one_target()
        found = self._of_leaves(weights) if one is None else self._of_targets(weights, one)
        if self._aggregate == "AVERAGE":
            count = float(trees.roots.size)
            return self._b.elementwise(lambda s, a: a / count, found)
        if self._aggregate == "SUM":
            return found
        nothing = self._neutral
        return self._b.elementwise(lambda s, a: s.select(a.eq(nothing), 0.0, a), found)

    def _weights(self) -> np.ndarray:
        """[leaves, targets]."""
        e = self._ensemble
        combine = {"MIN": np.minimum, "MAX": np.maximum}.get(self._aggregate, np.add)
        shape = int(e.nodes.leaf.max()) + 1, e.count
        found = np.full(shape, self._neutral, self._dtype)
        combine.at(found, (e.leaf, e.target), e.weight)
        return found

    def _one_target(self) -> np.ndarray | None:
        """The target of each tree, if each counts for one only, as boosted trees do."""
        e, trees = self._ensemble, self._trees
        if e.count == 1:
            return np.zeros(trees.roots.size, np.int64)
        ends = np.flatnonzero(trees.leaf >= 0)
        owner = np.zeros(int(e.nodes.leaf.max()) + 1, np.int64)
        owner[trees.leaf[ends]] = np.searchsorted(trees.roots, ends, "right") - 1
        pairs = np.unique(np.stack([owner[e.leaf], e.target]), axis=1)
        if (np.diff(pairs[0]) == 0).any():
            return None
        found = np.zeros(trees.roots.size, np.int64)
        found[pairs[0]] = pairs[1]
        return found

    def _of_targets(self, weights: np.ndarray, target: np.ndarray) -> Value:
        """Where each tree has one target: the trees of each target, side by side."""
        b, trees, count = self._b, self._trees, self._ensemble.count
        owner = np.searchsorted(trees.roots, np.arange(trees.leaf.size), "right") - 1
        values = np.where(trees.leaf < 0, 0, weights[trees.leaf, target[owner]])
        each = np.bincount(target, minlength=count)
        most = self._whole(int(each.max()))
        order = np.argsort(target, kind="stable")
        column = np.arange(target.size) - np.repeat(np.cumsum(each) - each, each)
        wide = _with_more(trees, count * most, target[order] * most + column, order)
        walks = Walks(b, self._x, wide, np.append(values, weights.dtype.type(self._neutral)))
        ends = walks.ends()
        parts = b.reshape(ends, [count, most, ends.shape[1]])
        totals = b.reduce(parts, [1], self._neutral, self._combine)
        return b.transpose(walks.of_rows(totals), [1, 0])

    def _of_leaves(self, weights: np.ndarray) -> Value:
        """Where trees have several targets: over the rows of weights of the leaves, and one of
        weights of nothing.
        """
        b, trees, (leaves, count) = self._b, self._trees, weights.shape
        own = np.arange(trees.roots.size)
        wide = _with_more(trees, self._whole(own.size), own, own)
        walks = Walks(b, self._x, wide, np.append(trees.leaf, np.int32(leaves)))
        leaf = walks.of_rows(walks.ends())
        nothing = np.full((1, count), self._neutral, weights.dtype)
        table = b.constant(np.concatenate([weights, nothing]))

        def add(s: Body, at: Scalar, acc: Scalar) -> Scalar:
            return self._combine(s, s.extract(table, [s.cast(at, "index"), s.index(1)]), acc)

        shape = [self._x.shape[0], count]
        return b.fold([(leaf, "d2, d0")], shape, self._dtype, self._neutral, "ppr", add)

    def _whole(self, trees: int) -> int:
        """So many trees, or a few more, that walks through several abreast are all of trees."""
        return trees if self._x.shape[0] >= ABREAST else -(-trees // ABREAST) * ABREAST

    def _combine(self, s: Body, a: Scalar, acc: Scalar) -> Scalar:
        if self._aggregate == "MIN":
            return s.minimum(acc, a)
        return s.maximum(acc, a) if self._aggregate == "MAX" else acc + a


def _with_more(trees: Trees, count: int, at: np.ndarray, order: np.ndarray) -> Trees:
    """``count`` trees: those of ``order`` at ``at``, the others of one place behind all, a leaf."""
    place = trees.leaf.size
    roots, depths = np.full(count, place, np.int32), np.zeros(count, np.int32)
    roots[at], depths[at] = trees.roots[order], trees.depths[order]
    return Trees(
        np.append(trees.feature, np.int32(0)),
        np.append(trees.missing, np.int32(0)),
        np.append(trees.split, trees.split.dtype.type(np.nan)),
        np.append(trees.child, np.int32(place - 1)),
        np.append(trees.leaf, np.int32(-1)),
        roots,
        depths,
    )


# -- operators -------------------------------------------------------------------------------------


def _with_base(ctx: Context, totals: Value) -> Value:
    """Plus base_values, of which there is one for each target."""
    base = floats(ctx, "base_values")
    if not base.size:
        return totals
    if base.size != totals.shape[1]:
        raise ctx.shape_error(f"{base.size} base_values for {totals.shape[1]} targets")
    return ctx.b.elementwise(lambda s, a, c: a + c, totals, ctx.b.constant(base, totals.dtype))


@lowering("TreeEnsembleRegressor", domain=DOMAIN)
def _tree_ensemble_regressor(ctx: Context) -> Value:
    """[rows, n_targets] f32."""
    ensemble = keyed_ensemble(ctx, "target", ctx.attr("n_targets", 1))
    totals = _Totals(ctx, ensemble, ctx.attr("aggregate_function", "SUM")).of_rows()
    return ctx.b.cast(transformed_targets(ctx, _with_base(ctx, totals)), "float32")


@lowering("TreeEnsemble", domain=DOMAIN)
def _tree_ensemble(ctx: Context) -> Value:
    """[rows, n_targets] in the type of the features."""
    number = ctx.attr("aggregate_function", 1)
    aggregate = AGGREGATES[number] if number in range(len(AGGREGATES)) else str(number)
    totals = _Totals(ctx, numbered_ensemble(ctx), aggregate).of_rows()
    return ctx.b.cast(transformed_targets(ctx, totals), ctx.input(0).dtype)


@lowering("TreeEnsembleClassifier", domain=DOMAIN)
def _tree_ensemble_classifier(ctx: Context) -> list[Value | Gap | None]:
    """Labels [rows] int64, and scores [rows, classes] f32."""
    b, transform = ctx.b, transform_of(ctx)
    count, labels = class_labels(ctx, "classlabels_int64s")
    ensemble = keyed_ensemble(ctx, "class", count)
    totals = _Totals(ctx, ensemble, "SUM").of_rows()
    weighted = np.unique(ensemble.target)
    if count == 2 and weighted.size == 1:
        label, scores = _of_two(ctx, totals, int(weighted[0]), bool((ensemble.weight >= 0).all()))
        return [label_at(ctx, label, labels), b.cast(scores, "float32")]
    if count == 1:
        label, scores = _of_one(ctx, _with_base(ctx, totals))
        return [
            label_at(ctx, label, None if labels is None else np.arange(2)),
            b.cast(scores, "float32"),
        ]
    if count == 2 and floats(ctx, "base_values").size:
        raise _base_of_two(ctx)
    totals = _with_base(ctx, totals)
    return [
        best_label(ctx, totals, labels),
        b.cast(transformed(b, totals, transform), "float32"),
    ]


def _of_one(ctx: Context, totals: Value) -> tuple[Value, Value]:
    """The label, 1 where the sum is above 0 and else 0, and the scores, where a model names one
    class. As in onnxruntime the name of that class has no part in it, weights that are all positive
    move no bound, and no transform but PROBIT changes one column.
    """
    b, transform = ctx.b, transform_of(ctx)
    flat = b.reshape(totals, [totals.shape[0]])
    label = b.elementwise(lambda s, a: s.cast(a > 0.0, "int32"), flat, dtype="int32")
    return label, transformed(b, totals, transform) if transform == "PROBIT" else totals


def _of_two(ctx: Context, totals: Value, weighted: int, positive: bool) -> tuple[Value, Value]:
    """The place of the label, and the scores, where only one of two classes has weights: they are
    those of the second class. positive: no weight is negative, so that they are probabilities.
    """
    b, base, transform = ctx.b, floats(ctx, "base_values"), transform_of(ctx)
    if base.size > (1 if weighted == 0 else 0):
        raise _base_of_two(ctx)
    score = b.slice(totals, [0, weighted], [totals.shape[0], 1])
    if base.size:
        start = float(base[0])
        score = b.elementwise(lambda s, a: a + start, score)
    bound = 0.5 if positive else 0.0
    flat = b.reshape(score, [score.shape[0]])
    label = b.elementwise(lambda s, a: s.cast(a > bound, "int32"), flat, dtype="int32")
    if weighted == 0:
        return label, both_classes(ctx, score, transform, positive)
    pair = [b.splat(score.shape, score.dtype, 0.0), score]
    return label, transformed(b, b.concat(pair, 1), transform)


def _base_of_two(ctx: Context) -> UnsupportedOp:
    return ctx.refuse(
        "runtimes disagree about base_values of two classes, but for one of class 0 alone",
        "Give the weights and one base value to class 0, as converters do, or add it to the leaves",
    )
