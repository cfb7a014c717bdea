"""Dequantised tensors that are only moved: the same movement of their integers is noted.

    Quantise(MaxPool(Dequantise(q))) = MaxPool(q)        by the same scale and zero point

Whoever wants integers, a product or QuantizeLinear, then finds them behind a reshape or a pool;
what nobody reads is dropped.
"""

from __future__ import annotations

from dataclasses import replace

from .registry import Context, Lowering
from .value import Quantised, Value

# Of the first input; MaxPool, since a dequantised number is the larger where its integer is.
_MOVING = frozenset("Flatten MaxPool Reshape Slice Squeeze Transpose Unsqueeze".split())
_BYTES_IN_POOLS = 12  # opset from which on MaxPool takes bytes


def note_moved_bytes(lower: Lowering, context: Context, made: Value) -> None:
    """Note which integers the result of a node was dequantised from, if it moves such a tensor."""
    first = context.inputs[0] if context.inputs else None
    if context.op not in _MOVING or context.domain or first is None or first.quantised is None:
        return
    if context.op == "MaxPool" and context.opset < _BYTES_IN_POOLS:
        return
    source = first.quantised
    if source.axis is not None or made.const is not None or made.quantised is not None:
        return
    moved = lower(replace(context, inputs=[source.value, *context.inputs[1:]]))
    if isinstance(moved, Value):
        made.quantised = Quantised(moved, source.scale, source.zero, None)
