"""Selecting and encoding features: Binarizer, ArrayFeatureExtractor, LabelEncoder (ai.onnx.ml)."""

from __future__ import annotations

import math

import numpy as np

from rcompiler.frontend import dtypes, load
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value, dims
from rcompiler.frontend.ops.gather import positions, take
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar

DOMAIN = "ai.onnx.ml"
_TABLES = (("int64s", "int64"), ("floats", "float32"))


@lowering("Binarizer", domain=DOMAIN)
def _binarizer(ctx: Context) -> Value:
    """1 above the threshold, 0 elsewhere."""
    x, threshold = ctx.input(0), ctx.attr("threshold", 0.0)
    if dtypes.is_integer(x.dtype):  # an integer is above a number if it is above its floor
        low, high = dtypes.limits(x.dtype)
        threshold = math.floor(threshold)
        if not low <= threshold < high:
            return ctx.b.splat(x.shape, x.dtype, int(threshold < low))
    return ctx.b.elementwise(lambda s, a: s.cast(a > s.const(threshold, a.dtype), a.dtype), x)


@lowering("ArrayFeatureExtractor", domain=DOMAIN)
def _array_feature_extractor(ctx: Context) -> Value:
    """The given positions of the last axis; a vector counts as a matrix with one row."""
    b, x = ctx.b, ctx.input(0)
    x = x if x.rank > 1 else b.reshape(x, [1, x.size])
    at = positions(ctx, 1, [x.shape[-1]])
    return take(ctx, x, b.reshape(at, [at.size]), x.rank - 1)


@lowering("LabelEncoder", domain=DOMAIN)
def _label_encoder(ctx: Context) -> Value:
    """Look up each element among the keys; NaN equals NaN, and the last of equal keys wins."""
    b, x = ctx.b, ctx.input(0)
    keys, values = _table(ctx, "keys"), _table(ctx, "values")
    if keys.dtype.name != x.dtype or keys.shape != values.shape or not keys.size:
        raise ctx.shape_error(
            f"{keys.size} keys of {keys.dtype} and {values.size} values for {x.dtype}"
        )
    default = _default(ctx, values.dtype)

    def last(s: Body, a: Scalar, key: Scalar, found: Scalar) -> Scalar:
        equal = a.eq(key)
        if dtypes.is_float(a.dtype):
            equal = equal | (s.is_nan(a) & s.is_nan(key))
        return s.maximum(found, s.select(equal, s.cast(s.index(x.rank), "int64"), -1))

    own, table = ", ".join(dims(x.rank)), b.constant(values)
    reads = [(x, own), (b.constant(keys), f"d{x.rank}")]
    at = b.fold(reads, x.shape, "int64", -1, "p" * x.rank + "r", last)

    def look_up(s: Body, at: Scalar) -> Scalar:
        value = s.extract(table, [s.cast(s.maximum(at, 0), "index")])
        return s.select(at >= 0, value, s.const(default, table.dtype))

    return b.elementwise(look_up, at, dtype=table.dtype)


def _table(ctx: Context, name: str) -> np.ndarray:
    """The keys or values, from the one attribute that holds them."""
    tensor = ctx.attr(f"{name}_tensor")
    if tensor is not None:
        return load.array_of(tensor).reshape(-1)
    for suffix, dtype in _TABLES:
        if ctx.attr(f"{name}_{suffix}") is not None:
            return np.array(ctx.attr(f"{name}_{suffix}"), dtype)
    reason, remedy, _ = load.untranslated("string")
    raise ctx.refuse(f"{name}: {reason}", remedy)


def _default(ctx: Context, dtype: np.dtype) -> int | float:
    """What elements without a key become."""
    tensor = ctx.attr("default_tensor")
    if tensor is not None:
        return load.array_of(tensor).reshape(-1)[0].item()
    if ctx.attr("values_tensor") is not None:
        return -1 if dtypes.is_integer(dtype.name) else -0.0
    return ctx.attr("default_int64", -1) if dtype == np.int64 else ctx.attr("default_float", -0.0)
