"""Register tiles: how many points one pass of the innermost loops keeps in registers.

A register tile holds its accumulators in vector registers through the whole reduction. With MR
broadcast operands and NV vectors per step it needs MR*NV + NV + 1 registers, does MR*NV multiply
-adds and MR+NV loads. The tile must hide the FMA latency (accumulators >= ports x latency)
and be bound by arithmetic, not by loads.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rcompiler.device.model import Device
from rcompiler.roller.expr import Access, TensorExpr
from rcompiler.roller.register_space import RegisterSpace
from rcompiler.roller.vectors import VectorAxis, load_slots

_LONG = 32  # reduction steps from which the FMA latency of one tile is no longer overlapped
_LINE_CYCLES = 5.0  # per line out of the second level beside arithmetic (measured: 13 B a cycle)
_PART = 0.75  # of the first level is for the part of the vector operand that register tiles share
_PART_CYCLES = 40.0  # of one register tile per part, besides loading and storing its sums
_TILE_CYCLES = 10.0  # loop control and addresses of one register tile
_BLEND = 5  # norm of arithmetic, loads and latency (measured: half the tiles within 2 to 3 %)
_BODY = 128  # vector operations of one unrolled loop body; a window may take twice as many
_SHORT = 4  # steps of a reduction axis that are unrolled whole


@dataclass(frozen=True)
class RegisterTile:
    """`sizes` per parallel axis; `unroll` per reduction axis; `cycles` of one whole tile.

    `loads` and `macs` are vector instructions per reduction step. `part`: steps of the outermost
    reduction axis whose operands fit the first level together; 0: no need for parts.
    """

    sizes: tuple[int, ...]
    unroll: tuple[int, ...]
    accumulators: int
    registers: int
    loads: float
    macs: float
    cycles: float
    part: int = 0


class RegisterModel:
    """Register tiles of one expression on one device."""

    def __init__(self, expr: TensorExpr, device: Device, vector: VectorAxis) -> None:
        self.expr = expr
        self.device = device
        self.vector = vector
        self.space = RegisterSpace(expr, device, vector)
        # many register tiles touch the same part of one operand: count every part once
        self._counted: dict[tuple[int, tuple[int, ...]], float] = {}
        self._slot_table: dict[int, float] = {}
        everything = range(len(expr.axes))
        self._named = {
            id(a): everything if a.data_dependent else sorted(a.axes()) for a in expr.accesses
        }

    def candidates(self) -> list[RegisterTile]:
        """All register tiles that fit, best first (cycles for the whole operator, then size)."""
        tiles = [self.tile(sizes) for sizes in self.space.sizes()]
        limit = self.device.vector_registers
        fitting = [t for t in tiles if t.registers <= limit] or [self.tile(self.space.smallest())]
        return sorted(fitting, key=lambda t: (self.total(t), t.accumulators, t.sizes))

    def total(self, tile: RegisterTile) -> float:
        """Cycles of the whole operator: tiles times cycles, with remainders charged by half."""
        count = 1.0
        for position, (size, step) in enumerate(zip(self.space.extents, tile.sizes, strict=True)):
            covered = math.ceil(size / step)
            vector = self.expr.parallel[position] == self.vector.axis
            vectors = math.ceil(size / self.vector.lanes) * self.vector.lanes / step
            exact = vectors if vector else size / step
            count *= (covered + exact) / 2
        return round(count * tile.cycles, 6)

    def _stretch(self, sizes: Sequence[int]) -> float:
        """Passes over the vector axis, in those of whole register tiles.

        A remainder of 14 lanes takes three passes, of 8, 4 and 2 lanes, each as long as one of 16.
        """
        if self.vector.axis not in self.expr.parallel or self.device.kind != "cpu":
            return 1.0
        position = self.expr.parallel.index(self.vector.axis)
        size, step = self.space.extents[position], sizes[position]
        narrow = (size % self.vector.lanes).bit_count()
        more = max(0, narrow - 1) * min(self.vector.lanes / step, 1.0)
        return 1 + more / max(1, math.ceil(size / step))

    def count(self, tile: RegisterTile) -> int:
        """Register tiles of the whole operator, without its reduction."""
        pairs = zip(self.space.extents, tile.sizes, strict=True)
        return math.prod(math.ceil(size / step) for size, step in pairs)

    def tile(self, sizes: Sequence[int]) -> RegisterTile:
        """The register tile of these sizes with its instruction counts."""
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
        registers = accumulators * partial + self._held(one)
        macs = accumulators * self._operations
        step = self._step_cycles(macs, loads, self._shuffles(one), accumulators * partial)
        cycles, part = self._reduction_cycles(sizes, step, self._streamed(whole, block))
        cycles = (cycles + self._edge_cycles(accumulators)) * self._stretch(sizes)
        return RegisterTile(
            tuple(sizes), unroll, accumulators * partial, registers, loads, macs, cycles, part
        )

    def _held(self, one: Sequence[int]) -> int:
        """Registers besides the accumulators, for operands of a tile of one step."""
        held = {id(a): self._vectors(a, one) for a in self.space.streams}
        if self.expr.dot and self.expr.dot not in self.device.dots:
            # both halves of the words of the vector operands and of one broadcast, and a mask
            vectors = (held[id(a)] for a in self.space.streams if self.vector.axis in a.axes())
            return 2 * math.ceil(sum(vectors)) + 3
        return math.ceil(sum(sorted(held.values())[:-1])) + self._temporaries

    # instruction counts -----------------------------------------------------------------------

    @cached_property
    def _operations(self) -> float:
        """Vector operations of one point, in times of a multiply-add."""
        dot = self.expr.dot
        return max(1.0, self.expr.ops / 2 / (self.device.dot_speed(dot) if dot else 1.0))

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

    def _instructions(self, access: Access, sizes: Sequence[int]) -> float:
        """Load instructions for everything `access` touches in a tile of `sizes`."""
        named = self._named[id(access)]
        key = (id(access), tuple(sizes[axis] for axis in named))
        if key not in self._counted:
            self._counted[key] = self._count(access, sizes)
        return self._counted[key]

    def _vectors(self, access: Access, sizes: Sequence[int]) -> float:
        """Registers for everything `access` touches in a tile of `sizes`."""
        loads = self._instructions(access, sizes)
        # gathered lane by lane into one register
        return loads / self.vector.lanes if access.data_dependent else loads

    def _count(self, access: Access, sizes: Sequence[int]) -> float:
        elements = access.elements(sizes)
        axis, lanes = self.vector.axis, self.vector.lanes
        if axis < 0 or access.dims is None or axis not in access.axes():
            return float(elements)
        per_vector = min(lanes, sizes[axis])
        return elements / per_vector * min(self._slots(access), per_vector)

    def _streamed(self, sizes: Sequence[int], block: int) -> float:
        """Bytes per reduction step of vector operands that the first level does not keep.

        Read over and over, the share of a panel that exceeds the level is loaded again.
        """
        if not self.expr.reduction or len(self.space.streams) < 2:
            return 0.0
        vectors = [a for a in self.space.streams if self.vector.axis in a.axes()]
        step = sum(
            self._instructions(access, sizes) * access.itemsize * self.vector.lanes / block
            for access in vectors
        )
        panel = step * self._steps
        return step * max(0.0, 1 - _PART * self.device.memory[0].capacity / max(panel, 1.0))

    def _reduction_cycles(
        self, sizes: Sequence[int], step: float, streamed: float
    ) -> tuple[float, int]:
        """Cycles of all reduction steps of one tile, and the steps of a part if parts are faster.

        In one part the tile waits for the second level; in several it pays for every part.
        """
        outer = self.device.memory[min(1, len(self.device.memory) - 1)]
        byte = max(self.device.compute.ghz / outer.bandwidth, _LINE_CYCLES / outer.line)
        wait = streamed * byte if self._passes(sizes) > 1 else 0.0
        whole = max(step, wait) * self._steps
        part = self._part(sizes) if wait > step else 0
        if not part:
            return whole, 0
        parts = math.ceil(self.expr.axes[self.expr.reduction[0]].size / part)
        vectors = math.ceil(math.prod(sizes) / self.vector.lanes)
        in_parts = step * self._steps + parts * (_PART_CYCLES + 4 * vectors)
        return (in_parts, part) if in_parts < whole else (whole, 0)

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
        panel = sum(
            access.elements(step) * access.itemsize
            for access in self.space.streams
            if self.vector.axis in access.axes()
        )
        room = _PART * self.device.memory[0].capacity
        least = math.ceil(_LONG / math.prod(inner))
        part = min(max(int(room / panel), least), outermost)
        if part * panel > room or part == outermost:
            return 0
        parts = math.ceil(outermost / part)
        return math.ceil(outermost / parts)

    def _shuffles(self, step: Sequence[int]) -> float:
        """Shuffles per reduction step: without AVX, no load fills a vector with one element."""
        if not self.space.broadcasts or self.device.kind != "cpu" or "avx" in self.device.features:
            return 0.0
        scalars = (a for a in self.space.streams if self.vector.axis not in a.axes())
        return sum(self._vectors(access, step) for access in scalars)

    def _step_cycles(self, macs: float, loads: float, shuffles: float, chains: int) -> float:
        unit = self.device.compute
        # measured: a shuffle costs the same units as much as a multiplication and an addition
        times = [(macs + shuffles) / unit.fma_ports, loads / unit.load_ports]
        if self.expr.reduction and self._steps >= _LONG:
            times.append(unit.fma_latency * macs / max(chains, 1))
        # the slowest hides the others, but not perfectly where they are close
        return sum(time**_BLEND for time in times) ** (1 / _BLEND)

    def _edge_cycles(self, accumulators: int) -> float:
        """Once per tile: loads of what does not move, the epilogue, the stores, loop control."""
        unit = self.device.compute
        vectors = accumulators * (self._steps if self._row_output else 1)
        stores = vectors * sum(self._slots(output) for output in self.expr.outputs)
        loads = sum(
            accumulators * self._slots(access) if self.vector.axis in access.axes() else 1.0
            for access in self.expr.inputs
            if access not in self.space.streams
        )
        work = accumulators * self.expr.epilogue_ops / 2 / unit.fma_ports
        if self.space.horizontal:
            work += accumulators * 2 * math.log2(max(2, self.vector.lanes))
        return stores + loads / unit.load_ports + work + _TILE_CYCLES

    @property
    def _temporaries(self) -> int:
        """Registers for the operand of the running step, and for two products without an FMA.

        A broadcast operand needs more than the one of the step: LLVM loads the next ones ahead, and
        with none to spare it spills one accumulator and then rotates all others through each other
        (measured: 28 accumulators of 32 registers run at 85 % of the speed of 24 or 21).
        """
        fused = self.device.kind != "cpu" or "fma" in self.device.features
        ahead = 3 if self.space.broadcasts and self.device.vector_registers > 16 else 0
        return (1 if fused else 3) + ahead

    @cached_property
    def _row_output(self) -> bool:
        """Whether an output runs along the reduction too (softmax): whole rows are stored."""
        axis = self.vector.axis
        return bool(self.space.horizontal) and any(axis in a.axes() for a in self.expr.outputs)

    def _slots(self, access: Access) -> float:
        """Load or store slots per vector."""
        axis, lanes = self.vector.axis, self.vector.lanes
        if axis < 0 or axis not in access.axes():
            return 1.0
        if id(access) not in self._slot_table:
            self._slot_table[id(access)] = load_slots(self.expr, access, axis, lanes)
        return self._slot_table[id(access)]
