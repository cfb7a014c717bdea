"""The alignments of OSDI'22 §3.2 as the artifact has them: candidate sizes, rows, banks, threads.

| alignment          | here                                                                     |
|--------------------|--------------------------------------------------------------------------|
| execution unit     | `whole_warps`: threads of an rTask; fragments start from 16x16x16        |
| memory transaction | `AlignedSizes`: innermost spatial axis, reduction steps; `aligned_rows`  |
| memory bank        | `bank_padding`: off unless asked for, as in every published run          |
| tensor shape       | `within`: padding of at most eps                                         |

The next aligned size of an axis is the next one of its candidates, which grow.
"""

import math
from collections.abc import Sequence

from rcompiler.roller.osdi22.expression import Expression, Tile
from rcompiler.roller.osdi22.hal import Hal
from rcompiler.roller.osdi22.rules import SearchRules

Sizes = tuple[tuple[int, ...], ...]  # candidates per axis, growing

_MATRIX_STEP = 64  # reduction step of matrix fragments


class AlignedSizes:
    """Candidates per axis at padding `eps`; an axis may have none."""

    def __init__(self, expr: Expression, hal: Hal, rules: SearchRules, eps: float) -> None:
        self.expr, self.rules, self.eps = expr, rules, eps
        self.transaction = transaction_elements(expr, hal)
        self._known: dict[tuple[int, int], tuple[int, ...]] = {}

    def register(self) -> Sizes:
        """Of the register tile: powers of two of the unit; reductions stay at the unit."""
        spatial, unit = self.expr.spatial, self.expr.unit
        sizes = zip(self.expr.sizes[:spatial], unit, strict=False)
        powers = (1, 2, 4, 8, 16, 32)
        return (
            *(within(size, [base * power for power in powers], self.eps) for size, base in sizes),
            *((base,) for base in unit[spatial:]),
        )

    def shared(self, register: Tile) -> Sizes:
        """Of the shared tile: multiples of `register`, the innermost also of transactions."""
        spatial = self.expr.spatial
        bases = list(register[:spatial])
        # quirk (parity): the innermost spatial axis stands for the rows of every operand
        bases[-1] = math.lcm(bases[-1], self.transaction)
        sizes = zip(self.expr.sizes[:spatial], bases, strict=True)
        reduced = zip(self.expr.sizes[spatial:], register[spatial:], strict=True)
        return (
            *(self._multiples(size, base) for size, base in sizes),
            *(self._steps(size, base) for size, base in reduced),
        )

    def _multiples(self, size: int, base: int) -> tuple[int, ...]:
        if (size, base) not in self._known:
            multiples = range(base, base * self.rules.multiples + 1, base)
            self._known[size, base] = within(size, multiples, self.eps)
        return self._known[size, base]

    def _steps(self, size: int, base: int) -> tuple[int, ...]:
        """Reduction steps: geometric, from transactions up to the cap, not bound by eps."""
        start, cap = self.rules.reduction_start * self.transaction, self.rules.reduction_cap
        cap = min(size, cap)
        if self.expr.tensor_core:
            start, cap = _MATRIX_STEP, self.rules.matrix_cap
        step = math.lcm(base, start)
        found = [min(step, cap)]
        while step < cap:
            step *= self.rules.reduction_growth
            found.append(min(step, cap))
        return tuple(found)


def within(size: int, candidates: Sequence[int], eps: float) -> tuple[int, ...]:
    """The growing `candidates` that pad an axis of `size` by at most the fraction `eps`."""
    limit = size * (1 + eps)
    found = []
    for candidate in candidates:
        if candidate > limit:
            break
        if math.ceil(size / candidate) * candidate <= limit:
            found.append(candidate)
    return tuple(found)


def transaction_elements(expr: Expression, hal: Hal) -> int:
    """Elements of the first input in one DRAM transaction, at least 1."""
    return max(1, hal.transaction_bytes // expr.itemsize)


def whole_warps(expr: Expression, hal: Hal, rules: SearchRules, threads: int) -> bool:
    """Whether `threads` (warps, for fragments) fill whole warps, on every partition if scored."""
    lanes = threads * 32 if expr.tensor_core else threads
    return lanes % (hal.warp * (hal.partitions if rules.scored else 1)) == 0


def aligned_rows(expr: Expression, hal: Hal, tile: Sequence[int]) -> bool:
    """Whether a row of every operand's tile is the whole row or whole transactions."""
    transaction = transaction_elements(expr, hal)
    for operand in (*expr.inputs, *expr.outputs):
        row = operand.extents(tile)[-1]
        if row < operand.row and row % transaction:
            return False
    return True


def bank_padding(expr: Expression, hal: Hal, register: Tile, shared: Tile) -> Tile:
    """Elements to add to every row of each input's shared tile, so that rows change banks.

    A row of N elements that is read n at a time gets a stride of n, modulo all banks. Inputs that a
    thread reads one row of need none.
    """
    found = []
    for operand in expr.inputs:
        word = max(1, hal.bank_bytes // operand.itemsize)
        factor = hal.banks * word
        *outer, inner = operand.extents(register)
        offset = math.ceil(inner / word) * word
        row = operand.extents(shared)[-1]
        conflicts = bool(outer) and math.prod(outer) > 1
        found.append((factor + offset - row % factor) % factor if conflicts else 0)
    return tuple(found)
