"""Arithmetic on shapes, with sizes in the place of numbers.

    Shape(x) = [batch, seq, 64];  Gather(.., 1) = seq;  Concat([batch], [seq * 12]) = ...

Floats that are sizes (``Cast(seq)``) are looked at, too, as long as all of them are whole and
exact. What is not decided for all sizes, such as whether one is below another, is left to the usual
translation: then the numbers are computed at run time, and decide no shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import zip_longest
from typing import Any

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.nodes import MISFITS, attribute_value
from rcompiler.frontend.value import Numbers
from rcompiler.support.extent import (
    InexactDivision,
    Size,
    Symbol,
    at_most,
    highest,
    lowest,
    product,
)

from .numbers import leaves_in, may_be_numbers, numbers_of, of_one_leaf
from .rules import concerns

MOST_ELEMENTS = 1024

Arrays = Sequence[np.ndarray]
Function = Callable[[dict[str, Any], Arrays], "np.ndarray | Sequence[np.ndarray]"]
Quotient = Callable[[Size, int], Size]  # of a size that is never negative
_TABLE: dict[str, Function] = {}
_MOVING = ("Expand", "Gather", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")
_MOST_EXACT = 1 << 53
# Types of numbers that sizes are written as, and how large those are that all of it can hold.
_EXACT = {
    "int32": None,
    "int64": None,
    "float16": 1 << 11,
    "float32": 1 << 24,
    "float64": _MOST_EXACT,
}
_DECIDING = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Min", "Max")


class Undecided(Exception):
    """What a node computes is not known for all sizes."""


def evaluated(b: Builder, node: Any, inputs: Sequence[Any]) -> list[Value] | None:
    """The results of a node on sizes; None where nothing can be said."""
    if node.domain not in ("", "ai.onnx") or not any(map(concerns, inputs)):
        return None
    first = inputs[0]
    attributes = {a.name: attribute_value(a) for a in node.attribute}
    if node.op_type == "Shape":
        shape = first.sizes[attributes.get("start", 0) : attributes.get("end")]
        return [b.numbers(_array(list(shape)), "int64")]
    if node.op_type == "Size":
        return [b.numbers(_array(product(first.sizes)), "int64")]
    function = _TABLE.get(node.op_type)
    if node.op_type == "Div" and dtypes.is_float(first.dtype):
        function = _elementwise(_divided_without_rest)
    elif node.op_type in _QUOTIENTS:  # what is no polynomial is a size of its own
        of_two = partial(_QUOTIENTS[node.op_type], partial(b.quotient, node.output[0]))
        function = _elementwise(partial(of_two, attributes))
    if function is None:
        return None
    given = [_sizes(value) for value in inputs if value is not None]
    arrays = [array for array in given if array is not None]
    if len(arrays) < len(given) or None in inputs[:-1]:
        return None
    kind = dtypes.from_onnx(attributes["to"]) if node.op_type == "Cast" else inputs[-1].dtype
    if node.op_type in _MOVING:
        kind = first.dtype
    if kind not in _EXACT:
        return None
    try:
        results = _applied(function, node, arrays)
    except Undecided:
        return None
    if results[0].dtype == bool:
        return [b.constant(each, "bool") for each in results]
    if not all(_is_exact(each, kind) for array in results for each in array.flat):
        return None
    return [b.numbers(each, kind) for each in results]


def _is_exact(size: Size, dtype: str) -> bool:
    """Whether floats of a type are as large as a size, in each call."""
    most = _EXACT[dtype]
    return most is None or -most <= lowest(size) and highest(size) <= most


def note(b: Builder, node: Any, inputs: list[Value | None], results: list[Any]) -> None:
    """Note what the results of a node are, where they are made of a few integers."""
    function = None if node.domain not in ("", "ai.onnx") else _TABLE.get(node.op_type)
    if function is None or not results or not all(map(may_be_numbers, results)):
        return
    given = [numbers_of(b, value) for value in inputs if value is not None]
    known = [each for each in given if each is not None]
    if len(known) < len(given) or None in inputs[:-1]:
        return
    try:
        made = _applied(function, node, [each.elements for each in known])
    except Undecided:
        return
    trusted = frozenset[Symbol]().union(*(each.trusted for each in known))
    if node.op_type in _DECIDING:
        trusted = trusted.union(*(leaves_in(b, each.elements) for each in known))
    for result, elements in zip(results, made, strict=True):
        if elements.shape == result.shape:
            result.numbers = of_one_leaf(b, result, Numbers(elements, trusted))


def of_each(function: Callable[..., Any], arrays: Arrays) -> list[np.ndarray]:
    """What a function of elements makes of arrays that are broadcast: one array."""
    return [np.asarray(_elementwise(function)({}, arrays), object)]


def moved(node: Any, arrays: Arrays) -> list[np.ndarray]:
    """The results of a node that only moves elements, whatever these are.

    Raises Undecided where it does more, or where they go is not known.
    """
    if node.op_type not in (*_MOVING, "Concat", "Identity") or node.op_type not in _TABLE:
        raise Undecided
    return _applied(_TABLE[node.op_type], node, arrays)


def _applied(function: Function, node: Any, arrays: Arrays) -> list[np.ndarray]:
    attributes = {a.name: attribute_value(a) for a in node.attribute}
    try:
        made = function({**attributes, "outputs": len(node.output)}, arrays)
    except (InexactDivision, *MISFITS):  # a node that does not fit is the lowering's to refuse
        raise Undecided from None
    return [made] if isinstance(made, np.ndarray) else list(made)


def _array(content: Any) -> np.ndarray:
    if isinstance(content, list):
        array = np.empty(len(content), object)
        array[:] = content
        return array
    array = np.empty((), object)
    array[()] = content
    return array


def _sizes(value: Value) -> np.ndarray | None:
    """The elements as sizes, of conditions as booleans; None where they are not known."""
    if value.elements is not None:
        return value.elements
    if value.const is None or value.size > MOST_ELEMENTS:
        return None
    if value.dtype == "bool":
        return value.const.astype(bool)
    if dtypes.is_float(value.dtype):
        numbers = value.const.astype(np.float64)
        if not (np.abs(numbers) <= _MOST_EXACT).all() or (np.trunc(numbers) != numbers).any():
            return None
        return numbers.astype(np.int64).astype(object)
    return value.const.astype(object) if value.dtype in ("int32", "int64") else None


def _on(*ops: str) -> Callable[[Function], Function]:
    def register(fn: Function) -> Function:
        _TABLE.update(dict.fromkeys(ops, fn))
        return fn

    return register


def _elementwise(fn: Callable[..., Any], kind: type = object) -> Function:
    def apply(_: dict[str, Any], arrays: Arrays) -> np.ndarray:
        spread = np.broadcast_arrays(*arrays)
        out: np.ndarray = np.empty(spread[0].shape, kind)
        for at in np.ndindex(out.shape):
            out[at] = fn(*(each[at] for each in spread))
        return out

    return apply


def _divided(quotient: Quotient, attributes: dict[str, Any], a: Size, b: Size) -> Size:
    """Truncated."""
    if lowest(b) < 1:
        raise Undecided
    sign = 1 if lowest(a) >= 0 else -1
    positive = sign * a
    if lowest(positive) < 0:
        raise Undecided
    return sign * (quotient(positive, b) if isinstance(b, int) else positive // b)


def _divided_without_rest(a: Size, b: Size) -> Size:
    """Of floats."""
    if lowest(b) <= 0 <= highest(b):
        raise Undecided
    found = a // b
    if found * b != a:
        raise Undecided
    return found


def _remainder(quotient: Quotient, attributes: dict[str, Any], a: Size, b: Size) -> Size:
    """Of the sign of the divisor, as of quotients that are rounded down."""
    if lowest(a) >= 0 and at_most(a + 1, b):
        return a
    if highest(a) < 0 and at_most(-a, b) and not attributes.get("fmod", 0):
        return a + b
    if not isinstance(b, int) or b < 1 or attributes.get("fmod", 0) and lowest(a) < 0:
        raise Undecided
    positive = a + max(-(lowest(a) // b), 0) * b  # the same remainder
    return positive - quotient(positive, b) * b


_QUOTIENTS = {"Div": _divided, "Mod": _remainder}


def _less(a: Size, b: Size) -> bool:
    if at_most(a + 1, b):
        return True
    if at_most(b, a):
        return False
    raise Undecided


def _equal(a: Size, b: Size) -> bool:
    if a == b:
        return True
    difference = a - b
    if lowest(difference) > 0 or highest(difference) < 0:
        return False
    raise Undecided


def _least(*sizes: Size) -> Size:
    return reduce(lambda a, b: a if a == b or _less(a, b) else b, sizes)


def _greatest(*sizes: Size) -> Size:
    return reduce(lambda a, b: b if a == b or _less(a, b) else a, sizes)


_TABLE.update(
    Add=_elementwise(lambda a, b: a + b),
    Sub=_elementwise(lambda a, b: a - b),
    Mul=_elementwise(lambda a, b: a * b),
    Neg=_elementwise(lambda a: -a),
    Min=_elementwise(_least),
    Max=_elementwise(_greatest),
    Equal=_elementwise(_equal, bool),
    Less=_elementwise(_less, bool),
    Greater=_elementwise(lambda a, b: _less(b, a), bool),
    LessOrEqual=_elementwise(lambda a, b: not _less(b, a), bool),
    GreaterOrEqual=_elementwise(lambda a, b: not _less(a, b), bool),
    Where=_elementwise(lambda c, a, b: a if c else b),
    Cast=lambda _, arrays: arrays[0],
    Floor=lambda _, arrays: arrays[0],
    Ceil=lambda _, arrays: arrays[0],
    Round=lambda _, arrays: arrays[0],
)


def _known(array: np.ndarray) -> np.ndarray:
    """Sizes that have to be numbers."""
    if not all(isinstance(each, int) for each in array.reshape(-1)):
        raise Undecided
    return array.astype(np.int64)


@_on("Gather")
def _gather(attributes: dict[str, Any], arrays: Arrays) -> np.ndarray:
    data, at = arrays[0], _known(arrays[1])
    axis = attributes.get("axis", 0)
    if not data.ndim or (at < -data.shape[axis]).any() or (at >= data.shape[axis]).any():
        raise Undecided
    return np.asarray(np.take(data, at, axis), object)


@_on("Slice")
def _slice(_: dict[str, Any], arrays: Arrays) -> np.ndarray:
    if len(arrays) < 3:
        raise Undecided
    data, (starts, ends, *rest) = arrays[0], (_known(a).tolist() for a in arrays[1:])
    axes = rest[0] if rest else range(len(starts))
    steps = rest[1] if len(rest) > 1 else [1] * len(starts)
    box = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        box[axis] = slice(start, end if end > -(1 << 60) else None, step)
    return data[tuple(box)]


@_on("Concat")
def _concat(attributes: dict[str, Any], arrays: Arrays) -> np.ndarray:
    return np.concatenate(list(arrays), attributes["axis"])


@_on("Split")
def _split(attributes: dict[str, Any], arrays: Arrays) -> list[np.ndarray]:
    data, axis = arrays[0], attributes.get("axis", 0)
    sizes = _known(arrays[1]) if len(arrays) > 1 else np.array(attributes.get("split", [1]))
    if int(sizes.sum()) != data.shape[axis]:
        raise Undecided
    return np.split(data, np.cumsum(sizes)[:-1].tolist(), axis)


@_on("Transpose")
def _transpose(attributes: dict[str, Any], arrays: Arrays) -> np.ndarray:
    return np.transpose(arrays[0], attributes.get("perm"))


@_on("Unsqueeze")
def _unsqueeze(attributes: dict[str, Any], arrays: Arrays) -> np.ndarray:
    axes = _known(arrays[1]).tolist() if len(arrays) > 1 else attributes["axes"]
    return np.expand_dims(arrays[0], tuple(axes))


@_on("Squeeze")
def _squeeze(attributes: dict[str, Any], arrays: Arrays) -> np.ndarray:
    axes = _known(arrays[1]).tolist() if len(arrays) > 1 else attributes.get("axes") or None
    return np.squeeze(arrays[0], None if axes is None else tuple(axes))


@_on("Reshape")
def _reshape(attributes: dict[str, Any], arrays: Arrays) -> np.ndarray:
    if len(arrays) < 2:
        raise Undecided
    shape = _known(arrays[1]).tolist()
    if not attributes.get("allowzero"):  # 0: as many as there are
        shape = [n or m for n, m in zip_longest(shape, arrays[0].shape[: len(shape)], fillvalue=0)]
    return arrays[0].reshape(shape)


def _reduction(fn: Callable[[Any], Size]) -> Function:
    def apply(attributes: dict[str, Any], arrays: Arrays) -> np.ndarray:
        data = arrays[0]
        axes = _known(arrays[1]).tolist() if len(arrays) > 1 else attributes.get("axes", [0])
        if data.ndim != 1 or len(axes) != 1:
            raise Undecided
        found = _array(fn(list(data)))
        return found.reshape(1) if attributes.get("keepdims", 1) else found

    return apply


_TABLE["ReduceProd"] = _reduction(product)
_TABLE["ReduceSum"] = _reduction(lambda sizes: sum(sizes, 0))
