"""Binary heaps in rows of a tensor: the least of many integers again and again, one row a task.

The element at place i is not above those at 2 * i + 1 and 2 * i + 2. All is sequential code, for
bodies of `Builder.loop`; steps that a smaller heap does not need do nothing.
"""

from __future__ import annotations

from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value
from rcompiler.frontend.scalar import Operand, Scalar


def heapify(s: Body, heap: Value, row: Scalar, size: Scalar) -> Value:
    """The first ``size`` elements of a row of ``heap`` [rows, n] as a heap; Floyd's way, from the
    last parents up.
    """
    levels = heap.shape[1].bit_length()

    def level(height: Scalar, heap: Value) -> list[Value]:
        def parent(at: Scalar, heap: Value) -> list[Value]:
            return [_sift(s, heap, row, at, s.extract(heap, [row, at]), size, height)]

        # those below which the tree is this high
        first, behind = s.shift_right(size, height + 1), s.shift_right(size, height)
        nodes = heap.shape[1] / 4
        return s.for_(first, behind, [heap], parent, expected=nodes / levels)

    made: Value = s.for_(1, levels, [heap], level)[0]
    return made


def pop(s: Body, heap: Value, row: Scalar, size: Scalar) -> tuple[Scalar, Value]:
    """The least of ``size`` > 0 elements, and a heap of the others."""
    rest = size - 1
    least, last = s.extract(heap, [row, 0]), s.extract(heap, [row, rest])
    levels = heap.shape[1].bit_length() - 1
    return least, _sift(s, heap, row, s.const(0, "index"), last, rest, levels)


def _sift(
    s: Body, heap: Value, row: Scalar, at: Scalar, value: Scalar, size: Scalar, steps: Operand
) -> Value:
    """The heap with ``value`` at a place, or below it, where smaller ones move up instead."""
    final = s.maximum(size - 1, 0)

    def step(_: Scalar, heap: Value, at: Scalar) -> list[Value | Scalar]:
        left = at * 2 + 1
        right = left + 1
        lower = s.extract(heap, [row, s.minimum(left, final)])
        other = s.extract(heap, [row, s.minimum(right, final)])
        turns = (right < size) & (other < lower)
        child, lower = s.select(turns, right, left), s.select(turns, other, lower)
        moves = (left < size) & (lower < value)
        heap = s.insert(s.select(moves, lower, value), heap, [row, at])
        return [heap, s.select(moves, child, at)]

    heap, at = s.for_(0, steps, [heap, at], step)
    return s.insert(value, heap, [row, at])
