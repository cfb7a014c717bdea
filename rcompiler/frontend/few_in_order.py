"""The few smallest of each of many short rows, in order: rows side by side, element by element.

    held  3 5 8 9   new element 6:   6 <= 8, 9   ->   3 5 6 8

Every row holds the k smallest so far. A new element is compared with all of them, and from the
first one on that is not smaller, each place takes what was before it. The steps are the same
whatever the elements are, so that kernels are written in vectors across rows.

Elements come last one first, so that of equal ones the first one is before the others; and before
those that stand for what is not held yet.
"""

from __future__ import annotations

from collections.abc import Sequence

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.scalar import Scalar


def few_in_order(b: Builder, keys: Value, k: int) -> Value:
    """Positions [rows, k] of the ``k`` smallest of each row of integers ``keys`` [rows, n], the
    smallest first, of equal ones the first one first; int32.
    """
    rows, n = keys.shape
    lines = b.transpose(keys, [1, 0])
    _, highest = dtypes.limits(keys.dtype)

    def row(s: Body, number: Scalar, out: Value) -> list[Value]:
        def element(step: Scalar, *held: Scalar) -> list[Scalar]:
            i = n - 1 - step
            new = s.extract(lines, [i, number]), s.cast(i, "int32")
            return _entered(s, held[:k], held[k:], *new)

        nothing = [s.const(highest, keys.dtype)] * k + [s.const(0, "int32")] * k
        for place, at in enumerate(s.for_(0, n, nothing, element)[k:]):
            out = s.insert(at, out, [place, number])
        return [out]

    return b.transpose(b.loop(rows, [b.empty([k, rows], "int32")], row)[0], [1, 0])


def _entered(
    s: Body, keys: Sequence[Scalar], at: Sequence[Scalar], key: Scalar, position: Scalar
) -> list[Scalar]:
    """The keys and the positions that are held after one more element."""
    moves = [key <= own for own in keys]
    # A key that does not move is not above the new one, and what was before it even less so.
    kept = [s.minimum(keys[0], key)]
    kept += [s.maximum(keys[j - 1], s.minimum(keys[j], key)) for j in range(1, len(keys))]
    places = [s.select(moves[0], position, at[0])]
    for j in range(1, len(at)):
        before = s.select(moves[j - 1], at[j - 1], position)
        places.append(s.select(moves[j], before, at[j]))
    return [*kept, *places]
