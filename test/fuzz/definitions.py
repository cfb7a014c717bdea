"""Operators that onnx.reference lacks, or knows in part only, by the letter of the standard."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, helper
from onnx.reference.ops._quant_utils import reshape_input

Attributes = Mapping[str, Any]
Definition = Callable[..., Sequence[Any]]
TABLE: dict[str, Definition] = {}


def define(*ops: str) -> Callable[[Definition], Definition]:
    """Register ``fn(attributes, *inputs)``, which returns the results."""

    def register(fn: Definition) -> Definition:
        TABLE.update(dict.fromkeys(ops, fn))
        return fn

    return register


def find(node: NodeProto) -> Definition | None:
    return TABLE.get(node.op_type) if node.domain in ("", "ai.onnx.ml") else None


def attributes_of(node: NodeProto) -> dict[str, Any]:
    found = {}
    for item in node.attribute:
        value = item.g if item.HasField("g") else helper.get_attribute_value(item)
        found[item.name] = value.decode() if isinstance(value, bytes) else value
    return found


def _axes(rank: int) -> tuple[int, ...]:
    return tuple(range(2, rank))


def _channels(v: np.ndarray, rank: int) -> np.ndarray:
    return v.reshape(-1, *[1] * (rank - 2))


@define("GlobalLpPool")
def _global_lp(a: Attributes, x: np.ndarray) -> Sequence[Any]:
    p = a.get("p", 2)
    return [(abs(x) ** p).sum(axis=_axes(x.ndim), keepdims=True) ** (1 / p)]


@define("Upsample")
def _upsample(a: Attributes, x: np.ndarray, scales: np.ndarray) -> Sequence[Any]:
    """Places of the result over the factor: the element before one, or what is between it and the
    next."""
    for axis, scale in enumerate(scales):
        places = np.arange(int(x.shape[axis] * scale)) / np.float64(scale)
        before = places.astype(np.int64)
        low = np.take(x, before, axis=axis)
        if a.get("mode", "nearest") == "nearest":
            x = low
            continue
        high = np.take(x, np.minimum(before + 1, x.shape[axis] - 1), axis=axis)
        share = (places - before).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        x = low * (1 - share) + high * share
    return [x]


def _over(a: Attributes, x: np.ndarray, axes: np.ndarray | None, log: bool) -> np.ndarray:
    """The logarithm of a sum, of elements or of their exponentials; of integers without what
    follows the point."""
    given = a.get("axes") if axes is None else axes.reshape(-1).tolist()
    if axes is not None and not given and a.get("noop_with_empty_axes"):
        every: tuple[int, ...] = ()
    else:
        every = tuple(given or range(x.ndim))
    wide, keep = x.astype(np.float64), bool(a.get("keepdims", 1))
    if log:
        top = wide.max(axis=every, keepdims=True)
        found = np.log(np.exp(wide - top).sum(axis=every, keepdims=True)) + top
        found = found if keep else found.squeeze(every)
    else:
        found = np.log(wide.sum(axis=every, keepdims=keep))
    return np.asarray(found).astype(x.dtype)


@define("ReduceLogSum")
def _log_sum(a: Attributes, x: np.ndarray, axes: np.ndarray | None = None) -> Sequence[Any]:
    return [_over(a, x, axes, log=False)]


@define("ReduceLogSumExp")
def _log_sum_exp(a: Attributes, x: np.ndarray, axes: np.ndarray | None = None) -> Sequence[Any]:
    return [_over(a, x, axes, log=True)]


@define("GlobalMaxPool")
def _global_max(a: Attributes, x: np.ndarray) -> Sequence[Any]:
    return [x.max(axis=_axes(x.ndim), keepdims=True)]


@define("LpNormalization")
def _lp_normalization(a: Attributes, x: np.ndarray) -> Sequence[Any]:
    p, axis = a.get("p", 2), a.get("axis", -1)
    norm = (abs(x) ** p).sum(axis=axis, keepdims=True) ** (1 / p)
    return [np.divide(x, norm, out=np.zeros_like(x), where=norm != 0)]


@define("Erf")
def _erf(a: Attributes, x: np.ndarray) -> Sequence[Any]:
    """In f64: the reference rounds to f32."""
    return [np.array([math.erf(v) for v in x.reshape(-1)]).reshape(x.shape)]


@define("Gelu")
def _gelu(a: Attributes, x: np.ndarray) -> Sequence[Any]:
    """Of 1 + erf and 1 + tanh, which the reference computes, nothing is left far below 0."""
    if a.get("approximate", "none") == "tanh":
        return [x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))]
    tails = [math.erfc(-v / math.sqrt(2)) / 2 for v in x.reshape(-1)]
    return [x * np.array(tails).reshape(x.shape)]


@define("LRN")
def _lrn(a: Attributes, x: np.ndarray) -> Sequence[Any]:
    size, squares = a["size"], np.zeros_like(x)
    for c in range(x.shape[1]):
        low, high = max(0, c - (size - 1) // 2), min(x.shape[1], c + math.ceil((size - 1) / 2) + 1)
        squares[:, c] = (x[:, low:high] ** 2).sum(axis=1)
    base = a.get("bias", 1.0) + a.get("alpha", 1e-4) / size * squares
    return [x / base ** a.get("beta", 0.75)]


@define("GroupNormalization")
def _group(a: Attributes, x: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> Sequence[Any]:
    parts = x.reshape(x.shape[0], a["num_groups"], -1)
    mean, variance = parts.mean(axis=2, keepdims=True), parts.var(axis=2, keepdims=True)
    y = ((parts - mean) / np.sqrt(variance + a.get("epsilon", 1e-5))).reshape(x.shape)
    return [y * _channels(scale, x.ndim) + _channels(bias, x.ndim)]


@define("MeanVarianceNormalization")
def _mean_variance(a: Attributes, x: np.ndarray) -> Sequence[Any]:
    axes = tuple(a.get("axes", (0, 2, 3)))
    deviation = np.sqrt(x.var(axis=axes, keepdims=True))
    return [(x - x.mean(axis=axes, keepdims=True)) / (deviation + 1e-9)]


@define("GatherElements")
def _gather_elements(a: Attributes, x: np.ndarray, at: np.ndarray) -> Sequence[Any]:
    axis = a.get("axis", 0) % x.ndim
    if (at < -x.shape[axis]).any():
        raise IndexError("an index is below that of the first element")
    rest = tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(at.shape))
    return [np.take_along_axis(x[rest], np.where(at < 0, at + x.shape[axis], at), axis)]


@define("OneHot")
def _one_hot(
    a: Attributes, indices: np.ndarray, depth: np.ndarray, values: np.ndarray
) -> Sequence[Any]:
    """Of the values as they are: the reference adds their difference, which may be no number."""
    places = np.where(indices < 0, indices + depth.reshape(()), indices)
    made = np.stack([places == place for place in range(int(depth.reshape(())))])
    return [values[np.moveaxis(made, 0, a.get("axis", -1)).astype(np.intp)]]


def saturated(a: Attributes, x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """What QuantizeLinear makes the same of as of x, whose quotients may be beyond the 32 bits in
    which the reference (1.23) wraps around.
    """
    largest = 2.0**30 * abs(reshape_input(scale, x.shape, a.get("axis", 1), a.get("block_size")))
    return np.clip(x, -largest, largest)


@define("DynamicQuantizeLinear")
def _dynamic_quantize(a: Attributes, x: np.ndarray) -> Sequence[Any]:
    """With a scale of 1 for zeros, as onnxruntime: the letter says 0, the reference 1/255."""
    low, high = np.float32(min(x.min(), 0)), np.float32(max(x.max(), 0))
    scale = (high - low) / np.float32(255) or np.float32(1)
    zero = np.rint(np.clip(-low / scale, 0, 255))
    y = np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8)
    return [y, np.array(scale, x.dtype), np.array(zero, np.uint8)]


_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def coupled(count: int, of_pairs: np.ndarray) -> np.ndarray:
    """The probabilities of classes from those of pairs of them, as libsvm iterates (Wu, Lin and
    Weng 2004, their second way); onnx.reference (1.23) multiplies sums in the place of each pair.
    """
    matrix = -of_pairs.T * of_pairs
    np.fill_diagonal(matrix, 0)
    squares = of_pairs**2
    np.fill_diagonal(matrix, squares.sum(0) - np.diag(squares))
    p = np.full(count, 1 / count)
    for _ in range(max(100, count)):
        slope = matrix @ p
        worth = p @ slope
        if np.abs(slope - worth).max() < 0.005 / count:
            break
        for k in range(count):
            step = (worth - slope[k]) / matrix[k, k]
            p[k] += step
            worth = (worth + step * (step * matrix[k, k] + 2 * slope[k])) / (1 + step) ** 2
            slope = (slope + step * matrix[k]) / (1 + step)
            p /= 1 + step
    return p


def after_sums(scores: np.ndarray, transform: int | str) -> np.ndarray:
    """What a post_transform, or its number, makes of the sums of targets."""
    name = _TRANSFORMS[transform] if isinstance(transform, int) else transform
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    match name:
        case "NONE":
            return scores
        case "LOGISTIC":
            return 1 / (1 + np.exp(-scores))
        case "SOFTMAX":
            return powers / powers.sum(axis=1, keepdims=True)
    raise NotImplementedError(f"post_transform {name}")


@define("FeatureVectorizer")
def _feature_vectorizer(a: Attributes, *parts: np.ndarray) -> Sequence[Any]:
    """The reference leaves integers as they are, and a tree behind them computes in integers."""
    rows = [
        np.reshape(each, (len(each), -1))[:, :n]
        for each, n in zip(parts, a["inputdimensions"], strict=True)
    ]
    return [np.concatenate(rows, axis=1).astype(np.float64)]


@define("TensorScatter")
def _tensor_scatter(
    a: Attributes, past: np.ndarray, update: np.ndarray, at: np.ndarray | None = None
) -> Sequence[Any]:
    """An index below 0 leads out: the reference counts it from the end, as numpy does."""
    axis = a.get("axis", -2) % past.ndim
    room, steps = past.shape[axis], update.shape[axis]
    first = np.zeros(len(past), np.int64) if at is None else at
    circular = a.get("mode", "linear") == "circular"
    if update.size and not circular and ((first < 0) | (first > room - steps)).any():
        raise IndexError("a part leads out of the cache")
    out = past.copy()
    for old, new, start in zip(out, update, first, strict=True):
        where = (start + np.arange(steps)) % room
        np.moveaxis(old, axis - 1, 0)[where] = np.moveaxis(new, axis - 1, 0)
    return [out]


@define("ReverseSequence")
def _reverse_sequence(a: Attributes, x: np.ndarray, lens: np.ndarray) -> Sequence[Any]:
    """Lengths that no sequence has lead out: the reference cuts what is there, as numpy does."""
    time, batch = a.get("time_axis", 0), a.get("batch_axis", 1)
    check_lengths(lens, x.shape[time])
    out = x.copy()
    for n, length in enumerate(lens):
        steps = np.moveaxis(out, (batch, time), (0, 1))[n]
        steps[:length] = steps[:length][::-1].copy()
    return [out]


def check_lengths(lens: np.ndarray, steps: int) -> None:
    """Raises IndexError for a length that no sequence of so many steps has."""
    if ((lens < 0) | (lens > steps)).any():
        raise IndexError(f"a length is not between 0 and {steps}")


@define("SplitToSequence")
def _split_to_sequence(
    a: Attributes, x: np.ndarray, split: np.ndarray | None = None
) -> Sequence[Any]:
    """Parts of one element lose their axis beside a scalar, too, as exporters and onnxruntime have
    it: the letter, and the reference, ignore keepdims there."""
    axis, step = a.get("axis", 0) % x.ndim, np.array(1) if split is None else split
    sizes = step if step.ndim else np.diff([*range(0, x.shape[axis], int(step)), x.shape[axis]])
    parts = np.split(x, np.cumsum(sizes)[:-1], axis)
    alone = not step.ndim and not a.get("keepdims", 1) and max(sizes, default=1) == 1
    return [[part.squeeze(axis) if alone else part for part in parts]]


@define("Scatter")
def _scatter(a: Attributes, x: np.ndarray, at: np.ndarray, new: np.ndarray) -> Sequence[Any]:
    axis, out = a.get("axis", 0) % x.ndim, x.copy()
    for where in np.ndindex(*at.shape):
        place = list(where)
        place[axis] = at[where]
        out[tuple(place)] = new[where]
    return [out]


@define("MaxRoiPool")
def _max_roi(a: Attributes, x: np.ndarray, rois: np.ndarray) -> Sequence[Any]:
    (height, width), scale = a["pooled_shape"], a.get("spatial_scale", 1.0)
    out = np.zeros((rois.shape[0], x.shape[1], height, width))
    for r, (batch, *corners) in enumerate(rois):
        x1, y1, x2, y2 = (int(np.floor(c * scale + 0.5)) for c in corners)
        step = max(y2 - y1 + 1, 1) / height, max(x2 - x1 + 1, 1) / width
        for i, j in np.ndindex(height, width):
            rows = _bin(i, step[0], y1, x.shape[2])
            columns = _bin(j, step[1], x1, x.shape[3])
            part = x[int(batch), :, rows, columns]
            out[r, :, i, j] = part.max(axis=(1, 2)) if part.size else 0
    return [out]


def _bin(i: int, step: float, start: int, size: int) -> slice:
    low, high = math.floor(i * step) + start, math.ceil((i + 1) * step) + start
    return slice(min(max(low, 0), size), min(max(high, 0), size))


@define("ConvTranspose")
def _conv_transpose(
    a: Attributes, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None
) -> Sequence[Any]:
    rank, groups = x.ndim - 2, a.get("group", 1)
    strides, dilations = a.get("strides", [1] * rank), a.get("dilations", [1] * rank)
    extra, kernel = a.get("output_padding", [0] * rank), w.shape[2:]
    full = [(d - 1) * s + (k - 1) * g + 1 for d, s, k, g in
            zip(x.shape[2:], strides, kernel, dilations, strict=True)]  # fmt: skip
    pads, auto = list(a.get("pads", [0] * 2 * rank)), a.get("auto_pad", "NOTSET")
    sizes = a.get("output_shape")
    if auto.startswith("SAME") or sizes:
        sizes = sizes or [d * s for d, s in zip(x.shape[2:], strides, strict=True)]
        cut = [f + e - n for f, e, n in zip(full, extra, sizes, strict=True)]
        small, large = [c // 2 for c in cut], [c - c // 2 for c in cut]
        pads = small + large if auto == "SAME_UPPER" else large + small
    wide = [f + e + max(0, -pads[i]) + max(0, -pads[rank + i])
            for i, (f, e) in enumerate(zip(full, extra, strict=True))]  # fmt: skip
    each, out = w.shape[1], np.zeros((x.shape[0], groups * w.shape[1], *wide))
    parts = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    weights = w.reshape(groups, -1, *w.shape[1:])
    for tap in itertools.product(*(range(k) for k in kernel)):
        product = np.einsum("ngc...,gco->ngo...", parts, weights[(..., *tap)])
        where = tuple(
            slice(t * g + max(0, -p), t * g + max(0, -p) + (d - 1) * s + 1, s)
            for t, g, p, d, s in zip(tap, dilations, pads[:rank], x.shape[2:], strides, strict=True)
        )
        out[(slice(None), slice(None), *where)] += product.reshape(
            x.shape[0], groups * each, *x.shape[2:]
        )
    kept = tuple(
        slice(max(p, 0), n - max(q, 0))
        for p, q, n in zip(pads[:rank], pads[rank:], wide, strict=True)
    )
    out = out[(slice(None), slice(None), *kept)]
    return [out if bias is None else out + _channels(bias, x.ndim)]


Body = Callable[[GraphProto, Mapping[str, Any]], list[Any]]


def scan(attributes: Attributes, inputs: Sequence[np.ndarray], run: Body) -> list[Any]:
    """Scan over any axes. run: evaluates the body for values of its inputs."""
    body, count = attributes["body"], attributes["num_scan_inputs"]
    states, xs = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    outs = len(body.output) - len(states)
    axes = attributes.get("scan_input_axes", [0] * count)
    backward = attributes.get("scan_input_directions", [0] * count)
    shown: list[list[Any]] = [[] for _ in range(outs)]
    steps = xs[0].shape[axes[0]]
    for step in range(steps):
        items = [np.take(x, steps - 1 - step if b else step, axis=axis)
                 for x, axis, b in zip(xs, axes, backward, strict=True)]  # fmt: skip
        names = [v.name for v in body.input]
        results = run(body, dict(zip(names, [*states, *items], strict=True)))
        states = results[: len(states)]
        for column, item in zip(shown, results[len(states) :], strict=True):
            column.append(item)
    order = attributes.get("scan_output_directions", [0] * outs)
    places = attributes.get("scan_output_axes", [0] * outs)
    return states + [
        np.stack(column[::-1] if b else column, axis=axis)
        for column, axis, b in zip(shown, places, order, strict=True)
    ]


@define("Optional", "OptionalGetElement")
def _optional(a: Attributes, x: Any) -> Sequence[Any]:
    return [x]


def loop(attributes: Attributes, inputs: Sequence[Any], run: Body) -> list[Any]:
    """Loop. run: evaluates the body for values of its inputs."""
    body, (count, going, *states) = attributes["body"], inputs
    names = [v.name for v in body.input]
    shown: list[list[Any]] = [[] for _ in body.output[1 + len(states) :]]
    going, step = going is None or bool(going), 0
    while going and (count is None or step < count):
        bound = dict(zip(names, [np.array(step), np.array(True), *states], strict=True))
        going, *results = run(body, bound)
        states, step = results[: len(states)], step + 1
        for column, item in zip(shown, results[len(states) :], strict=True):
            column.append(item)
    return states + [np.stack(column) for column in shown]


@define("Unique")
def _unique(a: Attributes, x: np.ndarray) -> Sequence[Any]:
    """The reference takes the unsorted ones along the first axis, whatever the attribute says."""
    axis = a.get("axis")
    y, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    order = np.arange(first.size) if a.get("sorted", 1) else np.argsort(first)
    y = np.take(y, order, axis=0 if axis is None else axis)
    inverse = np.argsort(order)[inverse.reshape(-1)]
    return [y, *(n.astype(np.int64) for n in (first[order], inverse, counts[order]))]


def _windows(a: Attributes, extents: Sequence[int]) -> tuple[list[int], list[int]]:
    """(pads, windows per dimension) of a pooling."""
    rank, kernel = len(extents), a["kernel_shape"]
    strides, dilations = a.get("strides", [1] * rank), a.get("dilations", [1] * rank)
    pads, auto = list(a.get("pads", [0] * 2 * rank)), a.get("auto_pad", "NOTSET")
    sizes = []
    for i, (size, k) in enumerate(zip(extents, kernel, strict=True)):
        reach = (k - 1) * dilations[i] + 1
        if auto.startswith("SAME"):
            count = -(-size // strides[i])
            total = max((count - 1) * strides[i] + reach - size, 0)
            low = total // 2 if auto == "SAME_UPPER" else total - total // 2
            pads[i], pads[rank + i] = low, total - low
        room = size + pads[i] + pads[rank + i] - reach
        count = (-(-room // strides[i]) if a.get("ceil_mode") else room // strides[i]) + 1
        if a.get("ceil_mode") and (count - 1) * strides[i] >= size + pads[i]:
            count -= 1
        sizes.append(count)
    return pads, sizes


def _taps(a: Attributes, x: np.ndarray, fill: Any) -> np.ndarray:
    """[taps, n, c, windows...]: what each window holds at each of its places, the last dimension
    varying fastest; `fill` outside, where windows reach over the end with ceil_mode as well."""
    rank, kernel = x.ndim - 2, a["kernel_shape"]
    strides, dilations = a.get("strides", [1] * rank), a.get("dilations", [1] * rank)
    pads, sizes = _windows(a, x.shape[2:])
    wide = [(0, 0), (0, 0), *((pads[i], pads[rank + i] + 2 * kernel[i] * dilations[i])
                              for i in range(rank))]  # fmt: skip
    padded, found = np.pad(x, wide, constant_values=fill), []
    for tap in itertools.product(*(range(k) for k in kernel)):
        where = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilations, sizes, strides, strict=True)
        )
        found.append(padded[(slice(None), slice(None), *where)])
    return np.stack(found)


@define("LpPool")
def _lp_pool(a: Attributes, x: np.ndarray) -> Sequence[Any]:
    """Windows that reach over the end with ceil_mode see zeros there."""
    p = a.get("p", 2)
    return [_taps(a, abs(x) ** p, 0).sum(axis=0) ** (1 / p)]


@define("MaxPool")
def _max_pool(a: Attributes, x: np.ndarray) -> Sequence[Any]:
    """Of equal elements the first. Where nothing is strided or dilated, the reference reads the
    pads as (begin, end) of each dimension in turn and takes places in the result for places in
    the input."""
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    y = _taps(a, x, least).max(axis=0)
    order = range(2, x.ndim) if not a.get("storage_order", 0) else range(x.ndim - 1, 1, -1)
    places, step = np.zeros(x.shape, np.int64), 1
    for axis in (*reversed(order), 1, 0):
        sizes = [-1 if i == axis else 1 for i in range(x.ndim)]
        places = places + step * np.arange(x.shape[axis]).reshape(sizes)
        step *= x.shape[axis]
    # Padding is at -1, and never the largest: every window has an element.
    at = _taps(a, places, -1)
    largest = np.where(at < 0, False, _taps(a, x, least) == y)
    return [y, np.take_along_axis(at, largest.argmax(axis=0)[None], axis=0)[0]]
