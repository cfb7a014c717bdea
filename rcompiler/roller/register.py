"""Register tiles: how many points one pass of the innermost loops keeps in registers.

A register tile holds its accumulators in vector registers through the whole reduction. With MR
broadcast operands and NV vectors per step it needs MR*NV + NV + 1 registers, does MR*NV multiply
-adds and MR+NV loads. The tile must hide the FMA latency (accumulators >= ports x latency)
and be bound by arithmetic, not by loads.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any

from rcompiler.device.model import Device
from rcompiler.roller.cycles import InstructionCounts, blend, bounds
from rcompiler.roller.expr import TensorAccess, TensorExpr
from rcompiler.roller.register_space import RegisterSpace
from rcompiler.roller.rtile import set_conflicts
from rcompiler.roller.tile_cover import TileCover
from rcompiler.roller.vectors import VectorAxis, load_slots

_LONG = 32  # reduction steps of a part, at least
_PART = 0.75  # of the first level is for the part of the vector operand that register tiles share
_PART_CYCLES = 40.0  # of one register tile per part, besides loading and storing its sums
_THRASH = 2.0  # times a line that its neighbours evict before its end: they are fetched again too
_BODY = 128  # vector operations of one unrolled loop body; a window may take twice as many
_SHORT = 4  # steps of a reduction axis that are unrolled whole
_TILE_LATENCY = (
    52  # cycles from one product of tile registers to one that adds to it (Sapphire Rapids)
)

# Cycles from the last product of a register tile until vectors have its sums, while the next one
# has not begun: 883 are taken where the epilogue alone takes 784 (Sapphire Rapids).
_TILE_WAIT = 100.0


@dataclass(frozen=True)
class RegisterTile:
    """`sizes` per parallel axis; `unroll` per reduction axis; `cycles` of one whole tile.

    `loads` and `macs` are vector instructions per reduction step. `fill`: of the cycles, those of
    panels that the first level does not keep. `part`: steps of the outermost reduction axis whose
    operands fit that level together; 0: no need for parts. `part_cycles`: `cycles`, part by part.
    `spills`: values beyond the `registers` there are, which wait in the first level.
    """

    sizes: tuple[int, ...]
    unroll: tuple[int, ...]
    accumulators: int
    registers: int
    loads: float
    macs: float
    cycles: float
    fill: float = 0.0
    part: int = 0
    part_cycles: float = 0.0
    spills: int = 0


class RegisterModel:
    """Register tiles of one expression on one device."""

    def __init__(self, expr: TensorExpr, device: Device, vector: VectorAxis) -> None:
        self.expr = expr
        self.device = device
        self.vector = vector
        self.space = RegisterSpace(expr, device, vector)
        # many register tiles touch the same part of one operand: count every part once
        self._counted: dict[tuple[int, Any], float] = {}
        self._panels: dict[tuple[Any, ...], int] = {}
        self._slot_table: dict[int, float] = {}
        self._tiles: dict[tuple[int, ...], RegisterTile] = {}
        everything = range(len(expr.axes))
        named = {id(a): everything if a.data_dependent else a.axes() for a in expr.accesses}
        # of the sizes of a tile those that an access depends on
        self._own = {key: itemgetter(*axes) if axes else len for key, axes in named.items()}

    def candidates(self) -> list[RegisterTile]:
        """All register tiles that fit, best first (cycles for the whole operator, then size)."""
        return [tile for _, tile in self.ranked]

    @cached_property
    def ranked(self) -> list[tuple[float, RegisterTile]]:
        """The candidates, each behind its cycles for the whole operator."""
        tiles = [self.tile(sizes) for sizes in self.space.sizes()]
        fitting = [t for t in tiles if not t.spills] or [self.tile(self.space.smallest())]
        found = [(self.total(tile), tile) for tile in fitting]
        return sorted(found, key=lambda pair: (pair[0], pair[1].accumulators, pair[1].sizes))

    def total(self, tile: RegisterTile) -> float:
        """Cycles of the whole operator; what is cut off counts for what it is."""
        count = 1.0
        for position, (size, step) in enumerate(zip(self.space.extents, tile.sizes, strict=True)):
            count *= size // step + self.share(tile, position, size % step)
        cycles = min(tile.cycles, tile.part_cycles) if tile.part else tile.cycles
        return round(count * cycles, 6)

    def count(self, tile: RegisterTile) -> int:
        """Register tiles of the whole operator, without its reduction."""
        pairs = zip(self.space.extents, tile.sizes, strict=True)
        return math.prod(math.ceil(size / step) for size, step in pairs)

    def tile(self, sizes: Sequence[int]) -> RegisterTile:
        """The register tile of these sizes with its instruction counts."""
        key = tuple(sizes)
        if key not in self._tiles:
            self._tiles[key] = self._tile(key)
        return self._tiles[key]

    def share(self, tile: RegisterTile, position: int, steps: int) -> float:
        """Cycles of so many steps along a parallel axis, relative to those of the whole tile.

        Lanes that are cut off take ever narrower vectors, each in a tile of its own: 14 lanes take
        three, of 8, 4 and 2 lanes, each as long as one of 16.
        """
        if not steps:
            return 0.0
        vector = self.expr.parallel[position] == self.vector.axis
        lanes = self.vector.lanes if vector else 1
        whole, rest = divmod(steps, lanes)
        cycles = self._cycles(tile.sizes, position, whole * lanes) if whole else 0.0
        if rest:
            one = self._cycles(tile.sizes, position, lanes)
            for _ in range(rest.bit_count()):
                cycles += one
        return cycles / tile.cycles

    def _cycles(self, sizes: tuple[int, ...], position: int, steps: int) -> float:
        """Of the tile with so many steps along one axis."""
        return self.tile(_with(sizes, position, steps)).cycles

    def _tile(self, sizes: tuple[int, ...]) -> RegisterTile:
        cover = self.space.cover(sizes)
        return self._of_vectors(sizes) if cover is None else self._of_tiles(sizes, cover)

    def _of_tiles(self, sizes: tuple[int, ...], cover: TileCover) -> RegisterTile:
        """On tile registers: a step multiplies all pairs of tiles. The sums then go through memory
        into vectors, and only there the epilogue begins.
        """
        compute, unit, words = self.device.compute, self.space.unit, self.space.step_words
        assert unit is not None
        row = 2.0 * unit.columns * unit.depth * compute.ghz / compute.matrix_rate(unit)  # cycles
        steps, vectors = self._steps / words, cover.rows * cover.down * cover.across
        groups = len(cover.groups)
        loads = groups * cover.rows * cover.down + words * cover.across
        products = InstructionCounts(
            arithmetic=steps * cover.down * cover.across * cover.rows * row * compute.fma_ports,
            loads=steps * loads,
            stores=vectors,
            chain=steps * _TILE_LATENCY / compute.fma_latency,
            chains=groups,
        )
        after = replace(
            self._work(vectors, 0.0, 0.0, 1), chain=0.0, loads=vectors + self._loads_once(vectors)
        )
        one = self._full(sizes, self._one_step())
        far = self._streamed(one, 1) / self.device.first_level.line
        fill = self._line_cycles(far) if self._passes(sizes) > 1 else 0.0
        rest = blend(*bounds(after, compute)) + _TILE_WAIT
        part, part_cycles = (
            self._in_parts(sizes, blend(*bounds(products, compute)) + rest) if fill else (0, 0.0)
        )
        return RegisterTile(
            sizes=sizes,
            unroll=tuple(words if r == self.space.step_axis else 1 for r in self.expr.reduction),
            accumulators=vectors,
            registers=cover.registers,
            loads=loads / words,
            macs=cover.down * cover.across * cover.rows * row / words,
            cycles=blend(*bounds(products, compute), fill) + rest,
            fill=fill,
            part=part,
            part_cycles=part_cycles,
        )

    def _of_vectors(self, sizes: tuple[int, ...]) -> RegisterTile:
        lanes = self.vector.lanes
        horizontal = self.space.horizontal
        points = math.prod(sizes)
        accumulators = max(1, points if horizontal else math.ceil(points / lanes))
        unroll = self._unroll(accumulators, sizes)
        partial = max(1, unroll[horizontal[0]] // lanes) if horizontal else 1
        block = max(1, math.prod(unroll) // (lanes if horizontal else 1))
        whole = self._full(sizes, unroll)
        one = self._full(sizes, self._one_step())
        loads = sum(self._instructions(access, whole) for access in self.space.streams) / block
        macs = accumulators * self._operations
        needed = accumulators * partial + self._held(one)
        spills = max(0, needed - self.device.vector_registers)
        work = self._work(accumulators, macs + self._shuffles(one), loads + spills, partial)
        times = [*bounds(work, self.device.compute)]
        times.append(_THRASH * self._line_cycles(self._evicted(sizes, one) / block))
        far = self._streamed(whole, block) / self.device.first_level.line
        fill = self._line_cycles(far) if self._passes(sizes) > 1 else 0.0
        tail = self._tail(partial)
        part, part_cycles = self._in_parts(sizes, blend(*times) + tail) if fill else (0, 0.0)
        return RegisterTile(
            sizes=sizes,
            unroll=unroll,
            accumulators=accumulators * partial,
            registers=needed - spills,
            loads=loads,
            macs=macs,
            cycles=blend(*times, fill) + tail,
            fill=fill,
            part=part,
            part_cycles=part_cycles,
            spills=spills,
        )

    def _work(
        self, accumulators: int, arithmetic: float, loads: float, partial: int
    ) -> InstructionCounts:
        """All instructions of a tile, from those of a reduction step and those once per tile: loads
        of what does not move, the epilogue, the stores. Rows along the vectors are summed up one
        after the other, each in `partial` sums.
        """
        steps, horizontal = self._steps, self.space.horizontal
        vectors = accumulators * (steps if self._row_output else 1)
        once = self._loads_once(accumulators)
        epilogue = accumulators * self.expr.epilogue_ops / 2
        if horizontal:
            epilogue += accumulators * 2 * math.log2(max(2, self.vector.lanes))
        # of a step that is no multiply-add, half lies on the way from sum to sum
        link = 1.0 if horizontal else max(1.0, self._operations / 2)
        return InstructionCounts(
            arithmetic=arithmetic * steps + epilogue,
            loads=loads * steps + once,
            stores=vectors * sum(self._slots(output) for output in self.expr.outputs),
            chain=link * steps / partial,
            chains=accumulators if horizontal else 1,
        )

    def _loads_once(self, accumulators: int) -> float:
        """Loads of a tile, once for all steps."""
        return sum(
            accumulators * self._slots(access) if self.vector.axis in access.axes() else 1.0
            for access in self._read_once
        )

    @cached_property
    def _read_once(self) -> list[TensorAccess]:
        """What a reduction step reads nothing of."""
        streams = set(self.space.streams)  # of a concatenation of many parts a long list
        return [access for access in self.expr.inputs if access not in streams]

    @cached_property
    def _vector_streams(self) -> list[TensorAccess]:
        """The streams that are loaded as vectors."""
        return [a for a in self.space.streams if self.vector.axis in a.axes()]

    @cached_property
    def _scalar_streams(self) -> list[TensorAccess]:
        """The others, of which elements are broadcast."""
        return [a for a in self.space.streams if self.vector.axis not in a.axes()]

    def _tail(self, partial: int) -> float:
        """Cycles until a row is combined across its lanes, where all that is left waits for that;
        a row of which nothing else is computed overlaps with the next.
        """
        if not self._row_output:
            return 0.0
        return self.device.compute.fma_latency * math.log2(self.vector.lanes * partial)

    def _held(self, one: Sequence[int]) -> int:
        """Registers besides the accumulators, for operands of a tile of one step."""
        held = {id(a): self._vectors(a, one) for a in self.space.streams}
        if self.expr.dot in ("i8", "bf16") and self.expr.dot not in self.device.dots:
            # both halves of the words of the vector operands and of one broadcast, and a mask
            vectors = (held[id(a)] for a in self._vector_streams)
            return 2 * math.ceil(sum(vectors)) + 3
        products = 2 if self.expr.dot == "i16" else 0  # before they are added
        return math.ceil(sum(sorted(held.values())[:-1])) + self._temporaries + products

    # instruction counts -----------------------------------------------------------------------

    @cached_property
    def _operations(self) -> float:
        """Vector operations of one point, in times of a multiply-add."""
        dot, halves = self.expr.dot, 2 if self.space.halved else 1
        return max(1.0, halves * self.expr.ops / 2 / (self.device.dot_speed(dot) if dot else 1.0))

    @cached_property
    def _steps(self) -> int:
        """Reduction steps of one tile; a vector step where vectors run along the reduction."""
        steps = 1
        for axis in self.expr.reduction:
            lanes = self.vector.lanes if axis == self.vector.axis else 1
            steps *= math.ceil(self.expr.axes[axis].size / lanes)
        return steps

    def _one_step(self) -> tuple[int, ...]:
        return tuple(
            self.vector.lanes if axis == self.vector.axis else 1 for axis in self.expr.reduction
        )

    def _unroll(self, accumulators: int, sizes: Sequence[int]) -> tuple[int, ...]:
        """Steps per reduction axis in one loop body, filled from the innermost axis outwards."""
        unroll = list(self._one_step())
        operations = accumulators * self._operations
        for position in reversed(range(len(unroll))):
            axis = self.expr.reduction[position]
            steps = max(1, math.ceil(self.expr.axes[axis].size / unroll[position]))
            budget = _BODY * (2 if self.expr.windowed(axis) else 1) / operations
            if self.space.horizontal == (position,):
                target = self.device.compute.accumulators / max(1, math.prod(sizes))
                chains = 1 << max(0, math.ceil(math.log2(max(1.0, target))))
                unroll[position] *= min(chains, 1 << (steps.bit_length() - 1))
                break
            if steps <= budget and (self.expr.windowed(axis) or steps <= _SHORT):
                unroll[position] = steps
                operations *= steps
                continue
            divisors = (n for n in (4, 3, 2) if steps % n == 0 and n <= budget)
            unroll[position] = next(divisors, 1)
            break
        return tuple(unroll)

    def _full(self, sizes: Sequence[int], steps: Sequence[int]) -> list[int]:
        whole = list(self.expr.sizes)
        for position, size in zip(self.expr.parallel, sizes, strict=True):
            whole[position] = min(size, whole[position])
        for position, size in zip(self.expr.reduction, steps, strict=True):
            whole[position] = min(size, whole[position])
        return whole

    def _instructions(self, access: TensorAccess, sizes: Sequence[int]) -> float:
        """Load instructions for everything `access` touches in a tile of `sizes`."""
        key = id(access), self._own[id(access)](sizes)
        if key not in self._counted:
            self._counted[key] = self._count(access, sizes)
        return self._counted[key]

    def _vectors(self, access: TensorAccess, sizes: Sequence[int]) -> float:
        """Registers for everything `access` touches in a tile of `sizes`."""
        loads = self._instructions(access, sizes)
        if access.data_dependent:  # what is gathered lane by lane goes into one register
            return loads / self.vector.lanes
        vectors = self.vector.axis in access.axes()
        return loads / min(self._slots(access), self._per_vector(sizes)) if vectors else loads

    def _per_vector(self, sizes: Sequence[int]) -> int:
        """Lanes of a vector that a tile of `sizes` fills."""
        return min(self.vector.lanes, sizes[self.vector.axis])

    def _count(self, access: TensorAccess, sizes: Sequence[int]) -> float:
        elements = access.elements(sizes)
        if self.expr.kind == "sequential":  # its loops count what they move themselves
            return 0.0 if access.data_dependent else elements * self._slots(access)
        axis = self.vector.axis
        if axis < 0 or access.dims is None or axis not in access.axes():
            return float(elements)
        per_vector = self._per_vector(sizes)
        return elements / per_vector * min(self._slots(access), per_vector)

    def _streamed(self, sizes: Sequence[int], block: int) -> float:
        """Bytes per reduction step of vector operands that the first level does not keep.

        Read over and over, the share of a panel that exceeds the level is loaded again.
        """
        if not self.expr.reduction or len(self.space.streams) < 2:
            return 0.0
        step = sum(
            self._instructions(access, sizes) * access.itemsize * self.vector.lanes / block
            for access in self._vector_streams
        )
        panel = step * self._steps
        return step * max(0.0, 1 - _PART * self.device.first_level.capacity / max(panel, 1.0))

    def _line_cycles(self, lines: float) -> float:
        """Cycles to bring so many lines per reduction step from the second level."""
        outer = self.device.second_level
        line = self.device.first_level.line
        return lines * self._steps * line * self.device.compute.ghz / outer.fed

    def _evicted(self, sizes: Sequence[int], one: Sequence[int]) -> float:
        """Lines that every loop body loads again: rows of a broadcast operand that are more in one
        set of the first level than it has ways.
        """
        ways = self.device.first_level.ways
        if not self.space.broadcasts:
            return 0.0
        return sum(
            self._instructions(access, one)
            for access in self._scalar_streams
            if self.rows_per_set(access, sizes) > ways
        )

    def rows_per_set(self, access: TensorAccess, sizes: Sequence[int]) -> int:
        """Rows of an input that a register tile reads side by side, in the fullest set of the first
        level.
        """
        most, level = 1, self.device.first_level
        for axis, count in zip(self.expr.parallel, sizes, strict=True):
            if axis == self.vector.axis or axis not in access.axes():
                continue
            rows = min(count, self.expr.axes[axis].size)
            stride = access.stride(axis, 2, self.expr.axes[axis].size) if rows > 1 else None
            if stride:
                most = max(most, set_conflicts(abs(stride) * access.itemsize, rows, level))
        return most

    def _in_parts(self, sizes: Sequence[int], cycles: float) -> tuple[int, float]:
        """Steps of a part of the reduction, and cycles of all parts of one tile; no parts: 0, 0.0.

        cycles: without parts, if the first level held the panel. Each part loads and stores the
        sums.
        """
        part = self._part(sizes)
        if not part:
            return 0, 0.0
        parts = math.ceil(self.expr.axes[self.expr.reduction[0]].size / part)
        vectors = math.ceil(math.prod(sizes) / self.vector.lanes)
        moved = vectors * (1 + 1 / self.device.compute.load_ports)
        return part, cycles + parts * (_PART_CYCLES + moved)

    def _passes(self, sizes: Sequence[int]) -> int:
        """How many register tiles read the same vector operands."""
        return math.prod(math.ceil(self.space.extents[p] / sizes[p]) for p in self.space.pixels)

    def _part(self, sizes: Sequence[int]) -> int:
        """Steps of the outermost reduction axis that a part of the reduction takes; 0: no parts.

        A part of the vector operand stays in the first level while all register tiles of the task
        that share it pass by.
        """
        if not self.expr.in_parts or self.space.horizontal:
            return 0
        outermost, *inner = (self.expr.axes[r].size for r in self.expr.reduction)
        step = self._full(sizes, (1, *inner))
        # whole vectors are loaded, with the padding behind the last element
        lanes = self.vector.lanes
        step[self.vector.axis] = math.ceil(step[self.vector.axis] / lanes) * lanes
        panel = self._panel(step)
        room = _PART * self.device.first_level.capacity
        least = math.ceil(_LONG / math.prod(inner))
        part = min(max(int(room / panel), least), outermost)
        if part * panel > room or part == outermost:
            return 0
        parts = math.ceil(outermost / part)
        return self.space.in_steps(math.ceil(outermost / parts))

    def _panel(self, sizes: Sequence[int]) -> int:
        """Bytes of the vector operands that a tile of `sizes` touches."""
        key = tuple(self._own[id(access)](sizes) for access in self._vector_streams)
        if key not in self._panels:
            self._panels[key] = sum(a.elements(sizes) * a.itemsize for a in self._vector_streams)
        return self._panels[key]

    def _shuffles(self, step: Sequence[int]) -> float:
        """Shuffles per reduction step: without AVX, no load fills a vector with one element."""
        if not self.space.broadcasts or self.device.broadcasts_loads:
            return 0.0
        return sum(self._vectors(access, step) for access in self._scalar_streams)

    @cached_property
    def _temporaries(self) -> int:
        """Registers for the operand of the running step, and for two products without an FMA.

        A broadcast operand needs more than the one of the step: LLVM loads the next ones ahead, and
        with none to spare it spills one accumulator and then rotates all others through each other
        (measured: 28 accumulators of 32 registers run at 85 % of the speed of 24 or 21).
        """
        ahead = 3 if self.space.broadcasts and self.device.vector_registers > 16 else 0
        return (1 if self.device.has_fma else 3) + ahead

    @cached_property
    def _row_output(self) -> bool:
        """Whether an output runs along the reduction too (softmax): whole rows are stored."""
        axis = self.vector.axis
        return bool(self.space.horizontal) and any(axis in a.axes() for a in self.expr.outputs)

    def _slots(self, access: TensorAccess) -> float:
        """Load or store slots per vector."""
        axis, lanes = self.vector.axis, self.vector.lanes
        if self.expr.kind == "sequential":  # scalar code, but what it updates is copied by vectors
            return 1.0 / self.device.lanes(access.itemsize)
        if axis < 0 or axis not in access.axes():
            return 1.0
        if id(access) not in self._slot_table:
            self._slot_table[id(access)] = load_slots(self.expr, access, axis, lanes, self.device)
        return self._slot_table[id(access)]


def _with(sizes: Sequence[int], position: int, size: int) -> tuple[int, ...]:
    """`sizes` with another one at `position`."""
    return (*sizes[:position], size, *sizes[position + 1 :])
