"""What is decided while compiling: control flow, sequences, optionals, constants.

Bodies are run once per iteration. Sequences and optionals exist only as Python objects and leave no
trace in the IR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from . import bounds, dtypes, load
from .builder import Value
from .frame import Call, Runner

Handler = Callable[[Call], list[Any]]
MAX_TRIPS = 4096  # of a body that is written out
# Of one that is a function: some milliseconds and kB of a compilation for each iteration.
MAX_STEPS = 1 << 17

_TABLE: dict[str, Handler] = {}


def handles(*ops: str) -> Callable[[Handler], Handler]:
    """Register ``fn(call)``, which returns the results of a node, for one or more operators."""

    def register(fn: Handler) -> Handler:
        _TABLE.update(dict.fromkeys(ops, fn))
        return fn

    return register


def names() -> list[str]:
    """All operators that have a handler."""
    return sorted(_TABLE)


def find(node: NodeProto) -> Handler | None:
    """The handler of a node that is not an op on tensors."""
    return _TABLE.get(node.op_type) if node.domain in ("", "ai.onnx") else None


# -- constants and identity -----------------------------------------------------------------
@handles("Constant")
def _constant(call: Call) -> list[Any]:
    if len(call.node.attribute) != 1:
        raise call.refuse("a constant needs one value attribute")
    item = call.node.attribute[0]
    value = helper.get_attribute_value(item)
    if item.name in ("value", "sparse_value"):
        array = load.array_of(value)
    elif item.name in ("value_float", "value_floats"):
        array = np.array(value, np.float32)
    elif item.name in ("value_int", "value_ints"):
        array = np.array(value, np.int64)
    else:
        raise call.refuse(*load.untranslated("string")[:2])
    return [call.b.constant_view(array, dtypes.name_of(array))]


@handles("Identity")
def _identity(call: Call) -> list[Any]:
    return call.inputs[:1]


# -- control flow: `conditional`, `loop`, `scan` -------------------------------------------------
def stack(it: Runner, values: Sequence[Value], axis: int) -> Value:
    """Concatenate along a new axis."""
    rank = values[0].rank + 1
    axis = axis % rank
    parts = []
    for v in values:
        extents = [*v.extents[:axis], None, *v.extents[axis:]]
        shape = [*v.shape[:axis], 1, *v.shape[axis:]]
        parts.append(it.b.reshape(v, shape, extents if any(extents) else None))
    out = it.b.concat(parts, axis)
    if out.known is None:
        out.known = bounds.union(*(v.bounds for v in values))
    return out
