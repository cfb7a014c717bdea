"""What classifiers and regressors of ai.onnx.ml make of their sums: post_transform and labels."""

from __future__ import annotations

import math

import numpy as np

from rcompiler.errors import Gap
from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.ops.extreme_places import place_of
from rcompiler.frontend.ops.reduction import extreme_over, softmax, total, with_reduced
from rcompiler.frontend.ops.unary import sigmoid
from rcompiler.frontend.registry import Context
from rcompiler.frontend.scalar import Scalar

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_ZERO = 1e-7  # what is nearer to zero is no score for SOFTMAX_ZERO
_PROBIT = 0.147  # of Winitzki's inverse of the error function


def transform_of(ctx: Context) -> str:
    """The attribute post_transform; TreeEnsemble has its number among `TRANSFORMS`."""
    given = ctx.attr("post_transform", "NONE")
    found = TRANSFORMS[given] if given in range(len(TRANSFORMS)) else given
    if found not in TRANSFORMS:
        raise ctx.shape_error(f"post_transform is {given}, not one of {', '.join(TRANSFORMS)}")
    return str(found)


def rows_of(ctx: Context) -> Value:
    """The first input as a matrix of features; a vector is one row of them."""
    x = ctx.input(0)
    if x.rank not in (1, 2):
        raise ctx.shape_error("the input is [rows, features] or [features]")
    return x if x.rank == 2 else ctx.b.reshape(x, [1, x.size])


def in_floats(b: Builder, x: Value) -> Value:
    """Features as floats: integers as f32."""
    return x if dtypes.is_float(x.dtype) else b.cast(x, "float32")


def numbers(ctx: Context, name: str, dtype: str = "float32") -> np.ndarray:
    """An attribute that is a list of numbers; empty if it is not given."""
    return np.array(ctx.attr(name, []), dtype).reshape(-1)


def transformed(b: Builder, scores: Value, transform: str) -> Value:
    """Scores [rows, classes] after a post_transform."""
    if transform == "LOGISTIC":
        return b.elementwise(sigmoid, scores)
    if transform == "PROBIT":
        return b.elementwise(_probit, scores)
    if transform == "SOFTMAX":
        return softmax(b, scores, [1])
    return _softmax_of_others(b, scores) if transform == "SOFTMAX_ZERO" else scores


def transformed_targets(ctx: Context, targets: Value) -> Value:
    """What a regressor makes of its sums [rows, targets]."""
    transform = transform_of(ctx)
    if targets.shape[1] == 1 and transform not in ("NONE", "PROBIT"):
        raise ctx.refuse(
            f"runtimes disagree about post_transform {transform} of one target",
            "Use NONE, and put Sigmoid or what else is meant behind the node",
        )
    return transformed(ctx.b, targets, transform)


def _probit(s: Body, a: Scalar) -> Scalar:
    """The inverse of the normal distribution's function, as onnxruntime approximates it."""
    x = a * 2.0 - 1.0
    log = s.log((1.0 - x) * (1.0 + x))
    v = log * 0.5 + 2.0 / (3.14159 * _PROBIT)
    root = s.sqrt(s.sqrt(v * v - log * (1.0 / _PROBIT)) - v)
    return s.select(x < 0.0, -root, root) * math.sqrt(2.0)


def _softmax_of_others(b: Builder, scores: Value) -> Value:
    """A softmax that zeros have no part in."""
    top = extreme_over(b, scores, [1], True)

    def power(s: Body, a: Scalar, m: Scalar) -> Scalar:
        return s.select(s.abs(a) > _ZERO, s.exp(a - m), a * s.exp(-m))

    powers = with_reduced(b, scores, [top], [1], power)
    counted = b.elementwise(lambda s, p, a: s.select(s.abs(a) > _ZERO, p, 0.0), powers, scores)
    return with_reduced(b, powers, [total(b, counted, [1])], [1], lambda s, p, t: p / t)


def both_classes(ctx: Context, score: Value, transform: str, positive: bool) -> Value:
    """Scores [rows, 2] where a model has one [rows, 1], that of the second class.

    positive: whether it is a probability, as no weight is negative.
    """
    b = ctx.b
    if transform == "PROBIT":
        raise ctx.refuse(
            "post_transform PROBIT leaves the first of two classes without a score",
            "Give both classes weights, or use post_transform NONE",
        )
    if transform == "LOGISTIC":
        first, second = (
            b.elementwise(lambda s, a: sigmoid(s, -a), score),
            b.elementwise(sigmoid, score),
        )
    else:
        first = b.elementwise(lambda s, a: 1.0 - a if positive else -a, score)
        second = score
    return b.concat([first, second], 1)


def class_labels(ctx: Context, name: str) -> tuple[int, np.ndarray | None]:
    """How many classes the attributes name, and their integers; None if they have text.

    name: of the attribute of integers.
    """
    text, numbers_ = ctx.attr("classlabels_strings"), ctx.attr(name)
    if bool(text) == bool(numbers_):
        raise ctx.shape_error(f"one of classlabels_strings and {name} names the classes")
    return (len(text), None) if text else (len(numbers_), np.array(numbers_, np.int64))


def best_label(ctx: Context, scores: Value, labels: np.ndarray | None) -> Value | Gap:
    """The label [rows] of the largest score of each row, the first of equal ones."""
    b = ctx.b
    where = place_of(b, scores, extreme_over(b, scores, [1], True), 1, False)
    return label_at(ctx, where, labels)


def label_at(ctx: Context, where: Value, labels: np.ndarray | None) -> Value | Gap:
    """Labels by their numbers, or why there are none: they are text."""
    b = ctx.b
    if labels is None:
        return ctx.gap(
            f"the labels ('{ctx.outputs[0]}') are text, which is not translated",
            "Read the scores only, which are in the order of classlabels_strings, and remove that "
            "output (and ZipMap: option zipmap=False of skl2onnx); or train on integer labels",
        )
    if np.array_equal(labels, np.arange(labels.size)):
        return b.cast(where, "int64")
    table, last = b.constant(labels), labels.size - 1
    return b.elementwise(
        lambda s, at: s.extract(table, [s.clamp(s.cast(at, "index"), 0, last)]),
        where,
        dtype="int64",
    )
