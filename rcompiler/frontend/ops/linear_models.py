"""LinearRegressor and LinearClassifier (ai.onnx.ml)."""

from __future__ import annotations

import numpy as np

from rcompiler.errors import Gap
from rcompiler.frontend.builder import Value
from rcompiler.frontend.ops.class_scores import (
    best_label,
    both_classes,
    class_labels,
    label_at,
    numbers,
    rows_of,
    transform_of,
    transformed,
    transformed_targets,
)
from rcompiler.frontend.registry import Context, lowering

DOMAIN = "ai.onnx.ml"


def _sums(ctx: Context, count: int) -> Value:
    """[rows, count]: a product with the coefficients [count, features], plus the intercepts."""
    b, x = ctx.b, ctx.b.cast(rows_of(ctx), "float32")
    coefficients, intercepts = numbers(ctx, "coefficients"), numbers(ctx, "intercepts")
    if coefficients.size != count * x.shape[1] or intercepts.size not in (0, count):
        raise ctx.shape_error(
            f"{coefficients.size} coefficients and {intercepts.size} intercepts for {count} sums "
            f"of {x.shape[1]} features"
        )
    weights = b.constant(np.ascontiguousarray(coefficients.reshape(count, -1).T))
    found = b.matmul(x, weights)
    if not intercepts.size:
        return found
    return b.elementwise(lambda s, a, c: a + c, found, b.constant(intercepts))


@lowering("LinearRegressor", domain=DOMAIN)
def _linear_regressor(ctx: Context) -> Value:
    """[rows, targets] f32."""
    return transformed_targets(ctx, _sums(ctx, ctx.attr("targets", 1)))


@lowering("LinearClassifier", domain=DOMAIN)
def _linear_classifier(ctx: Context) -> list[Value | Gap | None]:
    """Labels [rows] int64, and scores [rows, classes] f32; of two classes there may be one sum,
    that of the second one.
    """
    b, transform = ctx.b, transform_of(ctx)
    features = rows_of(ctx).shape[1]
    sums = numbers(ctx, "coefficients").size // max(features, 1)
    if sums == 1 and not ctx.attr("classlabels_ints") and not ctx.attr("classlabels_strings"):
        return _without_labels(ctx, transform)
    count, labels = class_labels(ctx, "classlabels_ints")
    if sums not in (count, 1) or (sums == 1 and count != 2):
        raise ctx.shape_error(
            f"coefficients for {sums} sums of {features} features, {count} classes"
        )
    totals = _sums(ctx, sums)
    if sums == count:
        return [best_label(ctx, totals, labels), transformed(b, totals, transform)]
    flat = b.reshape(totals, [totals.shape[0]])
    second = b.elementwise(lambda s, a: s.cast(a > 0.0, "int32"), flat, dtype="int32")
    return [label_at(ctx, second, labels), both_classes(ctx, totals, transform, positive=True)]


def _without_labels(ctx: Context, transform: str) -> list[Value | Gap | None]:
    """Whether the only sum, which is the score, is above 0."""
    if transform != "NONE":
        reason = f"post_transform {transform} of one sum without labels is not translated"
        raise ctx.refuse(reason, "Name both classes, or use NONE")
    totals = _sums(ctx, 1)
    flat = ctx.b.reshape(totals, [totals.shape[0]])
    above = ctx.b.elementwise(lambda s, a: s.cast(a > 0.0, "int64"), flat, dtype="int64")
    return [above, totals]
