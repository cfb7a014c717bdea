"""Selecting, scaling and encoding features, and ZipMap (ai.onnx.ml)."""

from __future__ import annotations

import math

import numpy as np

from rcompiler.frontend import dtypes, load
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value, dims
from rcompiler.frontend.ops.class_scores import in_floats, numbers, rows_of
from rcompiler.frontend.ops.gather import expect_inside, positions, take
from rcompiler.frontend.ops.reduction import extreme_over, total, with_reduced
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
    at = positions(ctx, 1, [x.shape[-1]], x.rank - 1)
    return take(ctx, x, b.reshape(at, [at.size]), x.rank - 1)


@lowering("Scaler", domain=DOMAIN)
def _scaler(ctx: Context) -> Value:
    """(x - offset) * scale as f32, with one number each, or one for each feature."""
    x = in_floats(ctx.b, ctx.input(0))
    parts = [numbers(ctx, "offset"), numbers(ctx, "scale")]
    offset, scale = (_each_feature(ctx, x, part, x.dtype) for part in parts)
    out = ctx.b.elementwise(lambda s, a, o, c: (a - o) * c, x, offset, scale)
    return ctx.b.cast(out, "float32")


def _each_feature(ctx: Context, x: Value, numbers_: np.ndarray, dtype: str) -> Value:
    """A number, or one for each feature, to broadcast over ``x``."""
    if numbers_.size != 1 and (x.rank not in (1, 2) or numbers_.size != x.shape[-1]):
        raise ctx.shape_error(f"{numbers_.size} numbers for features of shape {list(x.shape)}")
    return ctx.b.constant(numbers_.reshape(-1) if numbers_.size > 1 else numbers_[0], dtype)


@lowering("Normalizer", domain=DOMAIN)
def _normalizer(ctx: Context) -> Value:
    """Each row divided by its largest number, the sum of its absolute values, or its length; as it
    is where that is 0. f32.
    """
    b, x, norm = ctx.b, in_floats(ctx.b, rows_of(ctx)), ctx.attr("norm", "MAX")
    if norm not in ("MAX", "L1", "L2"):
        raise ctx.shape_error(f"norm is {norm}, not MAX, L1 or L2")
    if not x.size:
        return b.empty(ctx.input(0).shape, "float32")
    if norm == "MAX":
        size = extreme_over(b, x, [1], True)
    elif norm == "L1":
        size = total(b, b.elementwise(lambda s, a: s.abs(a), x), [1])
    else:
        squares = total(b, b.elementwise(lambda s, a: a * a, x), [1])
        size = b.elementwise(lambda s, a: s.sqrt(a), squares)
    out = with_reduced(b, x, [size], [1], lambda s, a, n: s.select(n.eq(0.0), a, a / n))
    return b.cast(b.reshape(out, ctx.input(0).shape), "float32")


@lowering("Imputer", domain=DOMAIN)
def _imputer(ctx: Context) -> Value:
    """A number in place of a missing one: NaN, or another one that stands for it."""
    x = ctx.input(0)
    ctx.need_numbers(x)
    kind, dtype = ("float", "float32") if dtypes.is_float(x.dtype) else ("int64", "int64")
    missing = ctx.attr(f"replaced_value_{kind}", 0)
    given = _each_feature(ctx, x, numbers(ctx, f"imputed_value_{kind}s", dtype), x.dtype)

    def put(s: Body, a: Scalar, new: Scalar) -> Scalar:
        return s.select(s.is_nan(a) if math.isnan(missing) else a.eq(missing), new, a)

    return ctx.b.elementwise(put, x, given)


@lowering("FeatureVectorizer", domain=DOMAIN)
def _feature_vectorizer(ctx: Context) -> Value:
    """The inputs side by side as f32, each cut or filled up with zeros to its inputdimensions. All
    dimensions behind the first are one row; those of one dimension are one, too.
    """
    b = ctx.b
    widths = ctx.attr("inputdimensions", [])
    if len(widths) != len(ctx.inputs):
        raise ctx.shape_error(f"{len(widths)} inputdimensions for {len(ctx.inputs)} inputs")
    parts = []
    for k, width in enumerate(widths):
        x = ctx.input(k)
        rows = x.shape[0] if x.rank > 1 else 1
        x = x if x.rank == 2 else b.reshape(x, [rows, x.size // max(rows, 1)])
        parts.append(b.pad(b.cast(x, "float32"), [0, 0], [0, width - x.shape[1]]))
    if len({part.shape[0] for part in parts}) != 1:
        raise ctx.shape_error("the inputs differ in rows")
    return b.concat(parts, 1)


@lowering("OneHotEncoder", domain=DOMAIN)
def _one_hot_encoder(ctx: Context) -> Value:
    """A last axis of all categories, 1 at the one that the number, without its fraction, is."""
    b, x = ctx.b, ctx.input(0)
    ctx.need_numbers(x)
    if ctx.attr("cats_strings"):
        raise ctx.refuse(*load.untranslated("string")[:2])
    categories = numbers(ctx, "cats_int64s", "int64")
    if not categories.size or np.unique(categories).size != categories.size:
        raise ctx.shape_error("categories are missing, or there twice")
    x, table = b.cast(x, "int64"), b.constant(categories)
    shape = [*x.shape, categories.size]
    if ctx.attr("zeros", 1):
        own = ", ".join(dims(x.rank))

        def one(s: Body, a: Scalar, category: Scalar) -> Scalar:
            return s.cast(a.eq(category), "float32")

        return b.tabulate(shape, "float32", one, (x, own), (table, f"d{x.rank}"))
    at = _place_among(b, x, categories)
    expect_inside(ctx, at, categories.size - 1)

    def hot(s: Body, place: Scalar) -> Scalar:
        return s.cast(s.cast(place, "index").eq(s.index(x.rank)), "float32")

    return b.tabulate(shape, "float32", hot, (at, ", ".join(dims(x.rank))))


@lowering("ZipMap", domain=DOMAIN)
def _zip_map(ctx: Context) -> Value:
    """The scores as they are: maps from classes to them are no tensors. A session makes the maps of
    what its program returns (session/label_maps.py).
    """
    x = ctx.input(0)
    text, numbers_ = ctx.attr("classlabels_strings"), ctx.attr("classlabels_int64s")
    if bool(text) == bool(numbers_):
        raise ctx.shape_error("one of classlabels_strings and classlabels_int64s names the classes")
    classes = text or numbers_
    if x.rank not in (1, 2) or x.shape[-1] != len(classes):
        raise ctx.shape_error(f"scores of {len(classes)} classes are expected")
    ctx.b.notes.append(
        f"{ctx.op} '{ctx.name}' is left out: '{ctx.outputs[0]}' is the tensor of scores "
        f"[rows, {len(classes)}], in the order of its classlabels"
    )
    return x


@lowering("LabelEncoder", domain=DOMAIN)
def _label_encoder(ctx: Context) -> Value:
    """Look up each element among the keys; NaN equals NaN, and the last of equal keys wins."""
    b, x = ctx.b, ctx.input(0)
    keys, values = _table(ctx, "keys"), _table(ctx, "values")
    if keys.dtype.name != x.dtype or keys.shape != values.shape or not keys.size:
        raise ctx.shape_error(
            f"{keys.size} keys of {keys.dtype} and {values.size} values for {x.dtype}"
        )
    default, table = _default(ctx, values.dtype), b.constant(values)
    at = _place_among(b, x, keys)

    def look_up(s: Body, at: Scalar) -> Scalar:
        value = s.extract(table, [s.cast(s.maximum(at, 0), "index")])
        return s.select(at >= 0, value, s.const(default, table.dtype))

    return b.elementwise(look_up, at, dtype=table.dtype)


def _place_among(b: Builder, x: Value, keys: np.ndarray) -> Value:
    """The last place of each element among the keys, int64; -1: it is none of them."""

    def last(s: Body, a: Scalar, key: Scalar, found: Scalar) -> Scalar:
        equal = a.eq(key)
        if dtypes.is_float(a.dtype):
            equal = equal | (s.is_nan(a) & s.is_nan(key))
        return s.maximum(found, s.select(equal, s.cast(s.index(x.rank), "int64"), -1))

    reads = [(x, ", ".join(dims(x.rank))), (b.constant(keys), f"d{x.rank}")]
    return b.fold(reads, x.shape, "int64", -1, "p" * x.rank + "r", last)


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
