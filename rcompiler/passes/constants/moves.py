"""Constants that are made of one other: by steps that a compiled file can repeat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rcompiler.runtime.deferred import Constant, whole
from rcompiler.runtime.recipes import Broadcast, Derived, Form, Permute, Reshape, Step


def is_splat(array: np.ndarray) -> bool:
    """Whether an array is one element seen many times."""
    return array.size == 1 or not any(array.strides)


def derive(array: Constant, *steps: Step) -> Constant:
    """What steps make of an array; of a splat that they move a splat."""
    if isinstance(array, np.ndarray) and is_splat(array):
        for step in steps:
            if not isinstance(step, Reshape | Permute | Broadcast):
                return Derived(array, *steps)
            shape, _ = step.result(Form(array.shape, array.dtype))
            array = np.broadcast_to(array.reshape(-1)[:1].reshape(()), shape)
        return array
    return Derived(array, *steps)


def over_loops(
    array: Constant,
    loops: Sequence[int],
    order: Sequence[int],
    sizes: Sequence[int],
    *steps: Step,
) -> Constant:
    """An operand of a loop nest as its result.

    Args:
        loops: for each dim of the array the loop that it is, -1 for index 0.
        order: the loops that the dims of the result are.
        sizes: of all loops.
        steps: what is done with the elements; they leave the dims where they are.
    """
    if any(loop < 0 and extent > 1 for loop, extent in zip(loops, array.shape, strict=True)):
        array = whole(array)[tuple(slice(0, 1) if loop < 0 else slice(None) for loop in loops)]
    used = [loop for loop in loops if loop >= 0]
    there = [loop for loop in order if loop in used]
    extents = [extent for extent, loop in zip(array.shape, loops, strict=True) if loop >= 0]
    moves: list[Step] = [Reshape(tuple(extents))] * (len(used) < len(loops))
    moves += steps
    if there != used:
        moves.append(Permute(tuple(used.index(loop) for loop in there)))
    if there != list(order):
        moves.append(Reshape(tuple(sizes[loop] if loop in used else 1 for loop in order)))
    shape = tuple(sizes[loop] for loop in order)
    if any(loop not in used and sizes[loop] > 1 for loop in order):
        moves.append(Broadcast(shape))
    return derive(array, *moves)
