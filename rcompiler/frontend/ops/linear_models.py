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
    count, labels = class_labels(ctx, "classlabels_ints")
    features = rows_of(ctx).shape[1]
    sums = numbers(ctx, "coefficients").size // max(features, 1)
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
