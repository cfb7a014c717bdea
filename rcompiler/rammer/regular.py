"""Memory plans that keep loops: what a loop computes lies at bytes that move as the loop does.

Where values lie is free, but for conflicts. The smallest arena scatters the values of equal steps
of a network, and no two of them are an instruction of one loop. So the values that one line of a
loop writes are placed together: all at the same bytes where no two of them are in use at once, else
in turns at two or four places, else one behind the other. What the lines in front of a loop hand on
to it lies, where it can, as what the loop hands on to itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rcompiler.rammer.encode import program_lines
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.loops import Line, places, roll, size_of
from rcompiler.rammer.occupied import Occupied
from rcompiler.rammer.packing import Packing, Plan
from rcompiler.rammer.program import Program, Run
from rcompiler.rammer.regions import Ints

TURNS = (1, 2, 4)  # places of one line's values: a loop takes as many iterations in one
SLACK = 16  # the arena may become larger by one part in so many
SHORT = 1 << 12  # programs of so many words are left alone: they stay in the nearest cache
WORTH = 4  # and those that loops make less than so many times shorter
SOME = 32  # EUs, of whose programs the size is computed to choose a plan
_FAR = np.iinfo(np.int64).max  # no block starts here

_Key = tuple[int, int, int]  # queue, line, operand: what writes a value in each iteration
_Index = tuple[int, ...]  # iteration of each loop around a line, outermost first


@dataclass(frozen=True)
class _Family:
    """Blocks (m,) to be placed at once, and how far each lies behind the first (m,), in bytes.

    turns: of how many families the values of a line are in turns; 0: one behind the other.
    """

    key: _Key
    around: _Index
    turn: int
    turns: int
    blocks: Ints
    shift: Ints


class Regular:
    """The loops of some programs, and plans for the values that they write.

    block: root value -> number of its block in `packing`.
    """

    def __init__(
        self, graph: Graph, programs: Sequence[Program], packing: Packing, block: dict[str, int]
    ) -> None:
        self._graph = graph
        self._programs = [program for program in programs if not program.dynamic]  # with loops
        self._packing, self._block = packing, block
        # what each line writes in each innermost loop: block by iteration of that loop
        self._written: dict[tuple[_Key, _Index], dict[int, int]] = {}
        self._read: dict[tuple[_Key, _Index], dict[int, int]] = {}
        self._seen: set[int] = set()
        self._flat = self._rolled = 0
        queue = 0
        for program in self._programs:
            for steps, lines in zip(
                program.queues, self._lines(program, [0] * packing.n), strict=True
            ):
                rolled = roll(lines)
                self._flat += size_of(lines)
                self._rolled += size_of(rolled)
                for step, (line, index) in zip(steps, places(rolled), strict=True):
                    if isinstance(step, Run) and index:
                        self._note((queue, line), index, step)
                queue += 1

    @property
    def has_loops(self) -> bool:
        """Whether the programs are long, and loops make them much shorter."""
        return self._flat >= SHORT and self._rolled * WORTH <= self._flat

    def best(self, found: Plan) -> Plan:
        """The plan that makes programs with loops shortest; `found`, of a small arena, if none
        does.
        """
        limit = found[1] + found[1] // SLACK
        shortest, tried = (self._size(found), found[1]), [found]
        for order in self._packing.orders():
            plan = self._plan(order, limit)
            if plan is None or plan in tried:
                continue
            tried.append(plan)
            size = self._size(plan), plan[1]
            if size < shortest:
                found, shortest = plan, size
        return found

    def _note(self, where: tuple[int, int], index: _Index, step: Run) -> None:
        operator = self._graph.operator[step.operator]
        for operand, name in enumerate((*operator.inputs, *operator.outputs)):
            block = self._block.get(self._graph.root(name)[0])
            if block is None:
                continue
            key = (*where, operand), index[:-1]
            if operand < len(operator.inputs):
                self._read.setdefault(key, {})[index[-1]] = block
            elif block not in self._seen:
                self._seen.add(block)
                self._written.setdefault(key, {})[index[-1]] = block

    @cached_property
    def _families(self) -> dict[int, _Family]:
        """The family of each block that is written in a loop."""
        found: dict[int, _Family] = {}
        for (key, around), by_iteration in self._written.items():
            blocks = np.array(list(by_iteration.values()))
            turns = next((t for t in TURNS if self._take_turns(blocks, t)), None)
            for turn in range(turns or 1):
                mine = blocks[turn :: turns or 1]
                step = int(self._packing.size[mine].max(initial=0)) if turns is None else 0
                family = _Family(key, around, turn, turns or 0, mine, np.arange(len(mine)) * step)
                found.update(dict.fromkeys(mine.tolist(), family))
        return found

    @cached_property
    def _links(self) -> dict[int, set[int]]:
        """For blocks that an operand of a loop takes turns with, but not of one family: those."""
        found: dict[int, set[int]] = {}
        families = self._families
        for by_iteration in self._read.values():
            for iteration, block in by_iteration.items():
                for turns in TURNS:
                    other = by_iteration.get(iteration + turns, block)
                    family, others = families.get(block), families.get(other)
                    if family is not others and turns in {f.turns for f in (family, others) if f}:
                        found.setdefault(block, set()).add(other)
                        found.setdefault(other, set()).add(block)
        return found

    def _take_turns(self, blocks: Ints, turns: int) -> bool:
        """Whether every so many-th of the blocks may lie at the same bytes."""
        conflicts = self._packing.conflicts
        return all(conflicts.are_in_turn(blocks[turn::turns]) for turn in range(turns))

    def _plan(self, order: list[int], limit: int) -> Plan | None:
        """First fit, families at once where they stay below the limit; None where blocks do not."""
        size = self._packing.size
        occupied = Occupied(self._packing.conflicts, size)
        offset = occupied.offset
        first: dict[tuple[_Key, _Index, int], int] = {}
        alone = np.zeros(1, np.int64)
        for i in order:
            if offset[i] >= 0:
                continue
            family = self._families.get(i)
            if family is not None and (offset[family.blocks] < 0).all():
                wanted = _follows(family, first) + self._linked(family.blocks, offset)
                place = self._first_fit(family.blocks, family.shift, occupied, wanted)
                ends = place + family.shift + size[family.blocks]
                if int(ends.max()) <= limit:
                    for block, shift in zip(
                        family.blocks.tolist(), family.shift.tolist(), strict=True
                    ):
                        occupied.put(block, place + shift)
                    first[family.key, family.around, family.turn] = place
                    continue
            block = np.array([i])
            place = self._first_fit(block, alone, occupied, self._linked(block, offset))
            if place + int(size[i]) > limit:
                return None
            occupied.put(i, place)
        return offset.tolist(), int((offset + size).max(initial=0))

    def _linked(self, blocks: Ints, offset: Ints) -> list[int]:
        """Where blocks that are linked to these lie."""
        linked = [other for block in blocks.tolist() for other in self._links.get(block, ())]
        return sorted(set(offset[linked].tolist()) - {-1})

    def _first_fit(
        self, blocks: Ints, shift: Ints, occupied: Occupied, wanted: Sequence[int]
    ) -> int:
        """One of the wanted places if it is free, else the lowest that is."""
        size = self._packing.size
        forbidden = [np.zeros((0, 2), np.int64)]
        for block, behind in zip(blocks.tolist(), shift.tolist(), strict=True):
            # no place strictly between these two
            forbidden.append(occupied.around(block) - [behind + size[block], behind])
        lows, highs = np.concatenate(forbidden).T
        for place in wanted:
            if place >= 0 and not ((lows < place) & (place < highs)).any():
                return place
        sort = np.argsort(lows, kind="stable")
        free = np.maximum.accumulate(np.concatenate([[0], highs[sort]]))
        until = np.concatenate([lows[sort], [_FAR]])
        return int(free[np.flatnonzero(until >= free)[0]])

    def _lines(self, program: Program, offsets: Sequence[int]) -> list[list[Line]]:
        """Lines of each EU with the blocks of temporaries at these offsets."""
        kernels = {kernel.name: kernel.name for kernel in self._graph.kernels}
        place = {}
        for buffer in program.buffers:
            offset = buffer.offset
            if buffer.kind == "temp":
                root, inside = self._graph.root(buffer.name)
                offset = inside + (offsets[self._block[root]] if root in self._block else 0)
            place[buffer.name] = (buffer.space, offset)
        return program_lines(program, kernels, place)

    def _size(self, plan: Plan) -> int:
        """Of all programs with their loops rolled; of many EUs, which do much the same, some."""
        size = 0
        for program in self._programs:
            lines = self._lines(program, plan[0])
            size += sum(size_of(roll(own)) for own in lines[:: max(1, program.eus // SOME)])
        return size


def _follows(family: _Family, first: dict[tuple[_Key, _Index, int], int]) -> list[int]:
    """Places that go on with those of the loops around: as far on as last time, or the same."""
    wanted = []
    for level in reversed(range(len(family.around))):
        one, two = (
            first.get((family.key, _back(family.around, level, n), family.turn)) for n in (1, 2)
        )
        if one is not None:
            wanted += [one] if two is None else [2 * one - two, one]
    return wanted


def _back(index: _Index, level: int, by: int) -> _Index:
    return (*index[:level], index[level] - by, *index[level + 1 :])
