"""Whether a node keeps requests apart that it reads as an axis, without lengths.

Tensors of requests alone, such as `[batch, 8]`, are computed as in a model with a range of them, so
a node may be one that mixes them: it is told by shapes, and by the axes of operators that keep
shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rcompiler.frontend.frame import Call
from rcompiler.frontend.value import Value
from rcompiler.support.extent import Extent

from .packing import Packing
from .ragged import symbols_of

# Operators that mix along one axis and keep the shape: the one that they take where none is given.
_ALONG = {"CumProd": 0, "CumSum": 0, "GatherElements": 0, "Hardmax": -1, "LogSoftmax": -1,
          "LpNormalization": -1, "Softmax": -1}  # fmt: skip
# Before opset 13 they mix along all axes from one on.
_OLD = ("Hardmax", "LogSoftmax", "Softmax")


def mixed(call: Call, made: Iterable[Any], packing: Packing) -> str | None:
    """Why requests read each other in a node; None where they do not, as far as this can tell.

    Args:
        call: the node, none of whose inputs has rows.
        made: its results.
        packing: says which size the number of requests is.
    """
    if all(_axes(value, packing) == [] for value in call.inputs):
        return None
    for value in made:
        if isinstance(value, Value) and value.elements is None and not _keeps(value, packing):
            told = ", ".join(map(str, value.sizes))
            return f"requests read each other in a result of shape [{told}]"
    x = call.inputs[0]
    if set(_axes(x, packing)) & set(_mixed_axes(call, len(x.sizes))):
        return "requests read each other along their axis"
    return None


def _axes(value: Any, packing: Packing) -> list[int]:
    """Which depend on how many requests there are."""
    sizes = value.sizes if isinstance(value, Value) else ()
    return [axis for axis, size in enumerate(sizes) if packing.batch in symbols_of(size)]


def _keeps(value: Value, packing: Packing) -> bool:
    """Whether requests are one axis of a tensor, and nothing else of it."""
    batch, axes = Extent.of(packing.batch), _axes(value, packing)
    return len(axes) == 1 and value.sizes[axes[0]] == batch


def _mixed_axes(call: Call, rank: int) -> Sequence[int]:
    """Along which a node that keeps the shape of its first input mixes elements."""
    op = call.node.op_type
    if op in _OLD and call.version < 13:
        return range(call.axis(call.attr("axis", 1), rank), rank)
    if op not in _ALONG:
        return ()
    if op in ("CumSum", "CumProd"):
        axis = int(call.known(call.inputs[1], "input 1 ('axis')").reshape(-1)[0])
    else:
        axis = call.attr("axis", _ALONG[op])
    return [call.axis(axis, rank)]
