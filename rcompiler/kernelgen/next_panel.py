"""Requests for a panel of weights while the panel before it is multiplied.

A panel that several register tiles read one after the other is in the caches from the second one
on; then the next panel begins, and the processor waits for memory again. So every body of the
loops over a panel also asks for its share of the next one, into the largest cache that a core has
for itself, and waiting and multiplying go on at the same time. The shares are even: requests that
are made faster than memory answers hold up the loads behind them.

Measured on a Sapphire Rapids, one thread, with weights of 768x768 that come from memory: products
of 40, 64, 128 and 512 rows run at 1.22, 1.2, 1.1 and 1.1 times the speed; with `python tools/bench
compare_versions`: bert_base at 1.1 or more, gpt2_small 1.13, vit_b16 1.1, convolutional networks
as before. With fewer than four register tiles to a panel memory is what they wait for all the time,
and requests only hold it up (16 and 32 rows: 0.9).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rcompiler.kernelgen.scopes import Loop
from rcompiler.linalg.affine import Linear

PASSES = 4  # over a panel, from which on the next one is asked for; measured


@dataclass(frozen=True)
class Nest:
    """Where a reduction reads: the open loops, outermost first; depth of those around the
    reduction; from which depth on a symbol is known.
    """

    loops: Sequence[Loop]
    outside: int
    depth_of: Callable[[str], int]


@dataclass(frozen=True)
class Panel:
    """Elements that lie next to each other and are read in several passes. following: offset of the
    next panel; passes: loops over them, outermost first; steps: the loop over its elements.
    """

    elements: int
    following: Linear
    passes: Sequence[Loop]
    steps: Loop

    def shares(self, line: int) -> list[Linear]:
        """What one body asks for, by the variables of the loops: together all lines of the next
        panel. line: elements of one.
        """
        nest = [*self.passes, self.steps]
        bodies = math.prod(loop.trips or 1 for loop in nest)
        count = -(-self.elements // (line * bodies))
        apart = -(-self.elements // (bodies * count))
        place, weight = self.following, apart * count
        for loop in reversed(nest):
            place = place + Linear.of(loop.variable, weight)
            weight *= loop.trips or 1
        return [place + apart * number for number in range(count)]


def panel_of(offset: Linear, nest: Nest, vectors: int) -> Panel | None:
    """The panel that a reduction reads; None if it has gaps, or few or uncounted passes.

    Args:
        offset: in elements, of the first vector of a body.
        nest: where it is read.
        vectors: how many of them a step reads, each from a stream of its own.
    """
    fixed = [(s, n) for s, n in offset.terms if nest.depth_of(s) <= nest.outside]
    inside = [loop for loop in nest.loops if loop.depth > nest.outside]
    if len(inside) != 1 or not fixed:
        return None
    (steps,) = inside
    # Where the number of a task is split, several symbols are of one depth: the last one moves at
    # each task, by the least.
    depth = max(nest.depth_of(s) for s, _ in fixed)
    elements = min(n for s, n in fixed if nest.depth_of(s) == depth)
    around = [loop for loop in nest.loops if depth < loop.depth <= nest.outside]
    passes = [loop for loop in around if not offset.coefficient(loop.variable)]
    counted = math.prod(loop.trips or 0 for loop in passes)
    # unrolling may leave the last steps to another body
    read = offset.coefficient(steps.variable) * (steps.trips or 0) * vectors
    if counted < PASSES or not elements < 2 * read <= 2 * elements:
        return None
    return Panel(elements, Linear(offset.constant + elements, tuple(fixed)), passes, steps)
