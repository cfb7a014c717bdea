"""Dequantised tensors that are only moved: the same movement of their integers is noted.

    Quantise(MaxPool(Dequantise(q))) = MaxPool(q)        by the same scale and zero point

Whoever wants integers, a product or QuantizeLinear, then finds them behind a reshape or a pool;
what nobody reads is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rcompiler.errors import Gap

from .registry import Context, Lowering
from .value import Quantised, Value

# Of the first input; MaxPool, since a dequantised number is the larger where its integer is.
_MOVING = frozenset("Flatten MaxPool Reshape Slice Squeeze Transpose Unsqueeze".split())
_BYTES_IN_POOLS = 12  # opset from which on MaxPool takes bytes


def results_of(made: Value | Sequence[Value | Gap | None]) -> list[Value | Gap | None]:
    """All results of a lowering; None or a reason for one that is not made."""
    return [made] if isinstance(made, Value) else list(made)


def note_moved_bytes(
    lower: Lowering, context: Context, results: Sequence[Value | Gap | None]
) -> None:
    """Note which integers the result of a node was dequantised from, if it moves such a tensor."""
    first = context.inputs[0] if context.inputs else None
    if context.op not in _MOVING or context.domain or first is None or first.quantised is None:
        return
    if context.op == "MaxPool" and context.opset < _BYTES_IN_POOLS:
        return
    made, *others = results
    source = first.quantised
    if not isinstance(made, Value) or source.axis is not None or any(v is not None for v in others):
        return
    if made.const is not None or made.quantised is not None:
        return
    moved = results_of(lower(replace(context, inputs=[source.value, *context.inputs[1:]])))[0]
    if isinstance(moved, Value):
        made.quantised = Quantised(moved, source.scale, source.zero, None)
