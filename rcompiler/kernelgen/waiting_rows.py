"""Register tiles whose sums wait in memory: what follows them is a loop over the rows.

    tile registers -> memory of 26 x 64 sums
    for row in 0 .. 26:
      4 vectors of 16 sums -> scale, activation, quantise -> store

Sums of tile registers (AMX) wait in memory, a register tile of 26 x 64 in 104 vectors. What becomes
of one vector need not be written 104 times: LLVM takes longer for that than for all the rest of a
network in 8 bits. Sums that wait in vector registers have names, and no loop can go over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch_mlir import ir

from rcompiler.kernelgen.elements import Elements, Source
from rcompiler.kernelgen.reader import NeedsScalars
from rcompiler.kernelgen.reduction import Reducer
from rcompiler.kernelgen.tile_registers import Waiting
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.generic import Generic

_Place = tuple[Generic, tuple[Linear, ...]]  # an element of a reduction


@dataclass(frozen=True)
class WaitingRows:
    """Sums below the positions of each row of a register tile.

    first: those of the first row; step: elements from one row to the next of each.
    """

    first: list[tuple[Generic, list[Waiting]]]
    step: list[int]

    @staticmethod
    def of(
        elements: Elements,
        reducer: Reducer,
        sources: Sequence[Source],
        rows: Sequence[Sequence[list[Linear]]],
        lanes: int,
    ) -> WaitingRows | None:
        """rows: the positions of each. None where the rows do not lie at equal distances."""
        found = []
        for positions in rows:
            places = _places(elements, sources, positions, lanes)
            if places is None:
                return None
            found.append([(g, reducer.waiting(g, list(at), lanes)) for g, at in places])
        first, second = found[0], found[1]
        if any(len(row) != len(first) for row in found):
            return None
        steps = []
        for k, (generic, sums) in enumerate(first):
            step = second[k][1][0].offset + sums[0].offset * -1
            for number, row in enumerate(found):
                moved = [replace(s, offset=s.offset + step * number) for s in sums]
                if row[k][0] is not generic or row[k][1] != moved:
                    return None
            steps.append(step.constant)
        return WaitingRows(first, steps)

    def begin(
        self,
        elements: Elements,
        reducer: Reducer,
        sources: Sequence[Source],
        positions: Sequence[list[Linear]],
        lanes: int,
        row: Linear,
    ) -> None:
        """Make the sums known at the positions of a row whose number is known when the code runs.

        Raises NeedsScalars where that is not the same sums.
        """
        places = _places(elements, sources, positions, lanes)
        if places is None or [g.op for g, _ in places] != [g.op for g, _ in self.first]:
            raise NeedsScalars
        for (generic, at), (_, sums), step in zip(places, self.first, self.step, strict=True):
            moved = [replace(s, offset=s.offset + row * step) for s in sums]
            reducer.wait(generic, list(at), lanes, moved)


def _places(
    elements: Elements,
    sources: Sequence[Source],
    positions: Sequence[list[Linear]],
    lanes: int,
) -> list[_Place] | None:
    """The elements of reductions below some positions, each once."""
    found: dict[tuple[ir.Operation, tuple[Linear, ...]], _Place] = {}

    def visit(generic: Generic, at: list[list[Linear]]) -> None:
        for place in map(tuple, at):
            found.setdefault((generic.op, place), (generic, place))

    try:
        elements.visit_sums(sources, positions, lanes, visit)
    except NeedsScalars:
        return None
    return list(found.values())
