"""Normalisations of rows and of groups of channels, with the sums that onnxruntime fuses in."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .activations import silu
from .node import Node, Result, operator


@operator("LayerNormalization", "X:T Scale:U B:U?", 3, axis=-1, epsilon=1e-5, stash_type=1)
def _layer(n: Node) -> Result:
    """As the standard's, which has had it since opset 17; the result is of Scale's type."""
    kind, wide = n.dtype("Scale"), n.dtype("X")
    results = len(n.node.output)
    inputs = [name for name in ("X", "Scale", "B") if n.has(name)]
    if kind != wide:  # in the wider of the two
        wide = "float64" if "float64" in (kind, wide) else "float32"
        inputs = [n.cast(name, wide) for name in inputs]
    made = n.ops("LayerNormalization", *inputs, results=results, **n.attributes_given())
    return [n.cast(made[0], kind) if kind != wide else made[0], *made[1:]]


@operator("SimplifiedLayerNormalization", "X:T scale:U", 2, axis=-1, epsilon=1e-5, stash_type=1)
def _simplified(n: Node) -> Result:
    """Of rows, by the root of their mean square."""
    return [n.op("RMSNormalization", "X", "scale", **n.attributes_given()), _inverse_root(n, "X")]


def _inverse_root(n: Node, x: str) -> str | None:
    """1 / the root of the mean square of the last axis, where it is asked for as result 1 or 2."""
    if not (n.wants(1) or n.operator.outputs > 2 and n.wants(2)):
        return None
    wide = n.cast(x, "float32")
    squares = n.op("ReduceMean", n.op("Mul", wide, wide), n.ints(-1))
    shifted = n.op("Add", squares, n.constant(n.attr("epsilon"), "float32"))
    return n.op("Reciprocal", n.op("Sqrt", shifted))


def _sum(n: Node) -> str:
    """Of the input, what is skipped to it, and the bias."""
    shape = n.shape("input")
    if len(shape) not in (2, 3):
        raise n.shape_error(f"'input' has {len(shape)} dimensions; 2 or 3 are expected")
    n.need_broadcast("skip", shape)
    for name in ("gamma", "beta", "bias"):
        n.need_shape(name, shape[-1:])
    return n.add("input", "bias", "skip") if n.has("bias") else n.add("input", "skip")


@operator(
    "SkipLayerNormalization", "input:T skip:T gamma:T beta:T? bias:T?", outputs=4, epsilon=1e-12
)
def _skip_layer(n: Node) -> Result:
    """LayerNormalization of the sum of input, skip and bias; result 3 is that sum."""
    total = _sum(n)
    inputs = [total, "gamma", *(["beta"] if n.has("beta") else [])]
    made = n.ops("LayerNormalization", *inputs, results=3, epsilon=n.attr("epsilon"))
    return [*made, total]


@operator("SkipSimplifiedLayerNormalization", "input:T skip:T gamma:T bias:T?", 4, epsilon=1e-12)
def _skip_simplified(n: Node) -> Result:
    """RMSNormalization of the sum of input, skip and bias; result 3 is that sum."""
    total = _sum(n)
    made = n.op("RMSNormalization", total, "gamma", epsilon=n.attr("epsilon"))
    return [made, None, _inverse_root(n, total), total]


@operator(
    "EmbedLayerNormalization",
    "input_ids:I segment_ids:I? word_embedding:T position_embedding:T segment_embedding:T? "
    "gamma:T beta:T mask:I? position_ids:I?",
    outputs=3,
    epsilon=1e-12,
    mask_index_type=0,
)
def _embed(n: Node) -> Result:
    """Of the sum of a word's, its position's and its segment's row; result 1 counts the words that
    the mask leaves, result 2 is the sum."""
    return embedded(n)


def embedded(n: Node, real: Mapping[str, str] | None = None) -> list[str]:
    """The three results of EmbedLayerNormalization. real: what tables, gamma and beta are where
    they are not numbers themselves, by the names of those inputs.
    """
    real = real or {}

    def table(name: str) -> str:
        return real.get(name, name)

    batch, steps = n.shape("input_ids", 2)
    positions, columns = n.shape("position_embedding", 2)
    n.need_shape("segment_ids", (batch, steps))
    n.need_shape("mask", (batch, steps))
    n.need_shape("position_ids", (batch, steps), (1, steps))
    n.need_shape("gamma", (columns,))
    n.need_shape("beta", (columns,))
    total = n.op("Gather", table("word_embedding"), "input_ids")
    if n.has("position_ids"):
        places = n.op("Gather", table("position_embedding"), "position_ids")
    elif positions < steps:
        raise n.shape_error(f"{positions} positions are embedded, of {steps}")
    else:
        places = n.sliced(table("position_embedding"), 0, 0, steps)
    total = n.op("Add", total, places)
    if n.has("segment_ids") != n.has("segment_embedding"):
        raise n.shape_error("segments have both numbers and rows, or neither")
    if n.has("segment_ids"):
        rows = n.op("Gather", table("segment_embedding"), "segment_ids")
        total = n.op("Add", total, rows)
    scale, shift = table("gamma"), table("beta")
    normal = n.op("LayerNormalization", total, scale, shift, epsilon=n.attr("epsilon"))
    if n.has("mask"):
        kept = n.op("ReduceSum", "mask", n.ints(1), keepdims=0)
        counts = n.cast(kept, "int32")
    else:
        counts = n.constant(np.zeros(batch, np.int32))
    return [normal, counts, total]


def _groups(n: Node, x: str) -> str:
    """`x`, of the shape of X, normalised in groups of its channels, and activated."""
    shape, groups, last = n.shape("X"), n.attr("groups"), n.attr("channels_last")
    if len(shape) < 3:
        raise n.shape_error(f"'X' has {len(shape)} dimensions; 4 are expected")
    channels, dtype = shape[-1 if last else 1], n.dtype("X")
    for name in ("gamma", "beta"):
        n.need_shape(name, (channels,))
    if groups < 1 or channels % groups:
        raise n.shape_error(f"{channels} channels do not divide into {groups} groups")
    if n.attr("activation") not in (0, 1):
        raise n.shape_error(f"activation {n.attr('activation')} is neither 0 nor 1")
    rank = len(shape)
    x = n.transposed(x, 0, rank - 1, *range(1, rank - 1)) if last else x
    gamma, beta = (n.cast(name, dtype) for name in ("gamma", "beta"))
    x = n.op("GroupNormalization", x, gamma, beta, num_groups=groups, epsilon=n.attr("epsilon"))
    x = n.transposed(x, 0, *range(2, rank), 1) if last else x
    return silu(n, x) if n.attr("activation") else x


@operator(
    "GroupNorm", "X:T gamma:U beta:U", activation=int, channels_last=1, epsilon=1e-5, groups=int
)
def _group(n: Node) -> Result:
    """Of channels that come last or second, with SiLU behind it where `activation` is 1."""
    return _groups(n, "X")


@operator(
    "SkipGroupNorm", "X:T gamma:U beta:U skip:T bias:T?", 2,
    activation=int, channels_last=1, epsilon=1e-5, groups=int,
)  # fmt: skip
def _skip_group(n: Node) -> Result:
    """GroupNorm of the sum of X, skip and bias; result 1 is that sum."""
    shape, last = n.shape("X"), n.attr("channels_last")
    channels = shape[-1 if last else 1] if len(shape) > 2 else 0
    ones = [1] * (len(shape) - 2)
    small = (shape[0], *ones, channels) if last else (shape[0], channels, *ones)
    n.need_shape("skip", shape, small, (shape[0], channels))
    n.need_shape("bias", (channels,))
    skip, bias = "skip", "bias"
    if len(n.shape("skip")) == 2:
        skip = n.reshaped("skip", *small)
    total = n.op("Add", "X", skip)
    if n.has("bias"):
        total = n.op("Add", total, n.reshaped(bias, channels, *([] if last else ones)))
    return [_groups(n, total), total]
