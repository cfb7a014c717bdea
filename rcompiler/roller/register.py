"""Register tiles: how many points one pass of the innermost loops keeps in registers.

A register tile holds its accumulators in vector registers through the whole reduction. With MR
broadcast operands and NV vectors per step it needs MR*NV + NV + 1 registers, does MR*NV multiply
-adds and MR+NV loads. The tile must hide the FMA latency (accumulators >= ports x latency)
and be bound by arithmetic, not by loads.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from rcompiler.device.model import Device
from rcompiler.roller.expr import Access, TensorExpr
from rcompiler.roller.rtile import near_equal
from rcompiler.roller.vectors import VectorAxis, load_slots

_LONG = 32  # reduction steps from which the FMA latency of one tile is no longer overlapped
_TILE_CYCLES = 10.0  # loop control and addresses of one register tile
_BODY = 128  # vector operations of one unrolled loop body; a window may take twice as many
_UNROLL = 4  # vectors of elementwise work in flight


@dataclass(frozen=True)
class RegisterTile:
    """`sizes` per parallel axis; `unroll` per reduction axis; `cycles` of one whole tile.

    `loads` and `macs` are vector instructions per reduction step.
    """

    sizes: tuple[int, ...]
    unroll: tuple[int, ...]
    accumulators: int
    registers: int
    loads: float
    macs: float
    cycles: float


class RegisterModel:
    """Register tiles of one expression on one device."""

    def __init__(self, expr: TensorExpr, device: Device, vector: VectorAxis) -> None:
        self.expr = expr
        self.device = device
        self.vector = vector
        self.sizes = tuple(expr.axes[p].size for p in expr.parallel)
        # many register tiles touch the same part of one operand: count every part once
        self._counted: dict[tuple[int, tuple[int, ...]], float] = {}
        self._slot_table: dict[int, float] = {}
        everything = range(len(expr.axes))
        self._named = {
            id(a): everything if a.data_dependent else sorted(a.axes()) for a in expr.accesses
        }

    @cached_property
    def streams(self) -> tuple[Access, ...]:
        """Inputs that move with a reduction step (all inputs when there is no reduction)."""
        reduction = set(self.expr.reduction)
        inputs = self.expr.inputs
        moving = tuple(a for a in inputs if any(map(a.moves_with, reduction)))
        return moving if reduction else inputs

    @cached_property
    def broadcasts(self) -> bool:
        """Whether one stream is loaded as vectors and another one broadcast to meet them."""
        return len({self.vector.axis in a.axes() for a in self.streams}) == 2

    def candidates(self) -> list[RegisterTile]:
        """All register tiles that fit, best first (cycles for the whole operator, then size)."""
        tiles = [self.tile(sizes) for sizes in self._sizes()]
        limit = self.device.vector_registers
        fitting = [t for t in tiles if t.registers <= limit] or [self.tile((1,) * len(self.sizes))]
        return sorted(fitting, key=lambda t: (self.total(t), t.accumulators, t.sizes))

    def total(self, tile: RegisterTile) -> float:
        """Cycles of the whole operator: tiles times cycles, with remainders charged by half."""
        count = 1.0
        for position, (size, step) in enumerate(zip(self.sizes, tile.sizes, strict=True)):
            covered = math.ceil(size / step)
            vector = self.expr.parallel[position] == self.vector.axis
            vectors = math.ceil(size / self.vector.lanes) * self.vector.lanes / step
            exact = vectors if vector else size / step
            count *= (covered + exact) / 2
        return round(count * tile.cycles, 6)

    def tile(self, sizes: Sequence[int]) -> RegisterTile:
        """The register tile of these sizes with its instruction counts."""
        lanes = self.vector.lanes
        horizontal = self._horizontal
        points = math.prod(sizes)
        accumulators = max(1, points if horizontal else math.ceil(points / lanes))
        unroll = self._unroll(accumulators, sizes)
        partial = max(1, unroll[horizontal[0]] // lanes) if horizontal else 1
        block = max(1, math.prod(unroll) // (lanes if horizontal else 1))
        whole = self._full(sizes, unroll)
        step = self._full(sizes, self._one_step())
        loads = sum(self._instructions(access, whole) for access in self.streams) / block
        held = sorted(self._instructions(access, step) for access in self.streams)
        registers = accumulators * partial + math.ceil(sum(held[:-1])) + self._temporaries
        macs = accumulators * max(1.0, self.expr.ops / 2)
        chains = accumulators * partial
        cycles = self._step_cycles(macs, loads, chains, self._streamed(whole, block)) * self._steps
        cycles += self._edge_cycles(accumulators)
        return RegisterTile(
            tuple(sizes), unroll, accumulators * partial, registers, loads, macs, cycles
        )

    # sizes to try -----------------------------------------------------------------------------

    def _sizes(self) -> Iterator[tuple[int, ...]]:
        choices: list[tuple[int, ...]] = [(1,)] * len(self.sizes)
        for position in self._unrolled_axes:
            choices[position] = self._steps_along(position)
        lanes = 1 if self._horizontal else self.vector.lanes
        if self.vector.axis in self.expr.parallel:
            position = self.expr.parallel.index(self.vector.axis)
            vectors = math.ceil(self.sizes[position] / lanes)
            counts = (1,) if self._transposing else near_equal(vectors, self._most_vectors)
            choices[position] = tuple(n * lanes for n in counts)
        most = self._most_accumulators * lanes
        for sizes in product(*choices):
            if math.prod(sizes) <= max(most, lanes) and self._strip(sizes):
                yield sizes

    def _steps_along(self, position: int) -> tuple[int, ...]:
        """Unroll factors of one axis besides the vector axis."""
        size = self.sizes[position]
        if self._transposing:
            return (min(size, self.vector.lanes),)
        if position not in self._pixels:
            return near_equal(size, self._most_vectors)
        # pixels whose taps share broadcasts hold them in registers: few pixels, several panels
        few = self.expr.windowed(self.expr.parallel[position]) and self._shared_window
        hiding = self.device.compute.accumulators
        return near_equal(size, hiding if few else self._most_accumulators)

    def _strip(self, sizes: Sequence[int]) -> bool:
        """Pixels of an outer axis only when the innermost one is whole: 2x7, not 2x3."""
        window = [p for p in self._pixels if self.expr.windowed(self.expr.parallel[p])]
        outer = [p for p in window[1:] if sizes[p] > 1]
        return not outer or sizes[window[0]] == self.sizes[window[0]]

    def _pixel(self, position: int) -> bool:
        """Axes that share every vector operand: the M of a matrix product, pixels, rows."""
        axis = self.expr.parallel[position]
        return all(axis not in a.axes() for a in self.streams if self.vector.axis in a.axes()) or (
            self.expr.windowed(axis)
        )

    @cached_property
    def _pixels(self) -> list[int]:
        return [p for p in self._unrolled_axes if self._pixel(p)]

    @cached_property
    def _most_accumulators(self) -> int:
        registers = self.device.vector_registers
        hiding = self.device.compute.accumulators
        if not self.expr.reduction:
            return self.vector.lanes if self._transposing else _UNROLL
        if not self.broadcasts:
            # nothing is broadcast: more than the latency needs only makes the code longer
            return registers if self._horizontal else hiding
        # neighbouring taps share their broadcasts, which then live in registers too
        return registers // 2 if self._shared_window else registers

    @cached_property
    def _most_vectors(self) -> int:
        """Vectors along the vector axis and the panels: each is one more stream from memory."""
        if not self.expr.reduction:
            return _UNROLL
        pixels = math.prod(self.sizes[p] for p in self._pixels)
        return max(4, math.ceil(self.device.compute.accumulators / max(1, pixels)))

    @cached_property
    def _transposing(self) -> bool:
        return not self.expr.reduction and any(
            self._transposed(self.expr.parallel[p]) for p in self._unrolled_axes
        )

    @cached_property
    def _shared_window(self) -> bool:
        """Whether the innermost reduction axis slides over an input: its taps are unrolled."""
        return bool(self.expr.reduction) and self.expr.windowed(self.expr.reduction[-1])

    @cached_property
    def _unrolled_axes(self) -> list[int]:
        """Parallel axes to unroll besides the vector axis: innermost of each kind first."""
        expr = self.expr
        rest = [
            i
            for i in sorted(range(len(self.sizes)), key=self._output_stride)
            if self.sizes[i] > 1 and expr.parallel[i] != self.vector.axis
        ]
        if not expr.reduction:
            strided = [i for i in rest if self._transposed(expr.parallel[i])]
            return strided[:1] or (rest[:1] if self._vector_is_short else [])
        reuse = [i for i in rest if self._reuses(expr.parallel[i])]
        if not reuse and self._vector_is_short and not self._horizontal:
            return rest[:1]
        if self._horizontal:
            return reuse[:2]
        pixels = [i for i in reuse if self._pixel(i)]
        panels = [i for i in reuse if not self._pixel(i)]
        return pixels[:2] + panels[:1]

    def _reuses(self, axis: int) -> bool:
        """Whether unrolling `axis` uses a loaded value more than once."""
        alone = any(axis not in access.axes() for access in self.streams)
        return (alone and len(self.streams) > 1) or (
            self.expr.windowed(axis) and any(map(self.expr.windowed, self.expr.reduction))
        )

    def _transposed(self, axis: int) -> bool:
        """Whether an input is contiguous along `axis` but not along the vector axis."""
        lanes = self.vector.lanes
        if self.vector.axis < 0:
            return False
        size = self.expr.axes[axis].size
        along = self.expr.axes[self.vector.axis].size
        return any(
            access.stride(axis, lanes, size) == 1
            and access.stride(self.vector.axis, lanes, along) not in (0, 1)
            for access in self.streams
        )

    @cached_property
    def _vector_is_short(self) -> bool:
        if self.vector.axis not in self.expr.parallel:
            return True
        wanted = self.device.compute.accumulators if self.expr.reduction else _UNROLL
        return self.expr.axes[self.vector.axis].size < wanted * self.vector.lanes

    def _output_stride(self, position: int) -> int:
        output = self.expr.outputs[0]
        axis = self.expr.parallel[position]
        stride = output.stride(axis, 2, self.sizes[position])
        return -position if stride is None else abs(stride)

    # instruction counts -----------------------------------------------------------------------

    @cached_property
    def _horizontal(self) -> tuple[int, ...]:
        """Position of the vector axis among the reduction axes, if it is one."""
        axis = self.vector.axis
        return (self.expr.reduction.index(axis),) if axis in self.expr.reduction else ()

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
        operations = accumulators * max(1.0, self.expr.ops / 2)
        for position in reversed(range(len(unroll))):
            axis = self.expr.reduction[position]
            steps = max(1, math.ceil(self.expr.axes[axis].size / unroll[position]))
            budget = _BODY * (2 if self.expr.windowed(axis) else 1) / operations
            if self._horizontal == (position,):
                target = self.device.compute.accumulators / max(1, math.prod(sizes))
                chains = 1 << max(0, math.ceil(math.log2(max(1.0, target))))
                unroll[position] *= min(chains, 1 << (steps.bit_length() - 1))
                break
            if steps <= budget and (self.expr.windowed(axis) or steps <= _UNROLL):
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

    def _count(self, access: Access, sizes: Sequence[int]) -> float:
        elements = access.elements(sizes)
        axis, lanes = self.vector.axis, self.vector.lanes
        if axis < 0 or access.dims is None or axis not in access.axes():
            return float(elements)
        per_vector = min(lanes, sizes[axis])
        return elements / per_vector * min(self._slots(access), per_vector)

    def _streamed(self, sizes: Sequence[int], block: int) -> float:
        """Bytes per reduction step out of the second level: operands too long for the first."""
        if not self.expr.reduction or len(self.streams) < 2:
            return 0.0
        step = 0.0
        for access in self.streams:
            lanes = self.vector.lanes if self.vector.axis in access.axes() else 1
            step += self._instructions(access, sizes) * access.itemsize * lanes / block
        return step if step * self._steps > 0.75 * self.device.memory[0].capacity else 0.0

    def _step_cycles(self, macs: float, loads: float, chains: int, streamed: float) -> float:
        unit = self.device.compute
        outer = self.device.memory[min(1, len(self.device.memory) - 1)]
        times = [macs / unit.fma_ports, loads / unit.load_ports]
        times.append(streamed * unit.ghz / outer.bandwidth)
        # the slowest hides the others, but not perfectly
        cycles = 0.85 * max(times) + 0.15 * sum(times)
        if self.expr.reduction and self._steps >= _LONG:
            cycles = max(cycles, unit.fma_latency * macs / max(chains, 1))
        return cycles

    def _edge_cycles(self, accumulators: int) -> float:
        """Once per tile: loads of what does not move, the epilogue, the stores, loop control."""
        unit = self.device.compute
        vectors = accumulators * (self._steps if self._row_output else 1)
        stores = vectors * sum(self._slots(output) for output in self.expr.outputs)
        loads = sum(
            accumulators * self._slots(access) if self.vector.axis in access.axes() else 1.0
            for access in self.expr.inputs
            if access not in self.streams
        )
        work = accumulators * self.expr.epilogue_ops / 2 / unit.fma_ports
        if self._horizontal:
            work += accumulators * 2 * math.log2(max(2, self.vector.lanes))
        return stores + loads / unit.load_ports + work + _TILE_CYCLES

    @property
    def _temporaries(self) -> int:
        """Registers for the operand of the running step, and for the product without an FMA.

        A broadcast operand needs more than the one of the step: LLVM loads the next ones ahead, and
        with none to spare it spills one accumulator and then rotates all others through each other
        (measured: 28 accumulators of 32 registers run at 85 % of the speed of 24 or 21).
        """
        fused = self.device.kind != "cpu" or "fma" in self.device.features
        ahead = 2 if self.broadcasts and self.device.vector_registers > 16 else 0
        return (1 if fused else 2) + ahead

    @cached_property
    def _row_output(self) -> bool:
        """Whether an output runs along the reduction too (softmax): whole rows are stored."""
        axis = self.vector.axis
        return bool(self._horizontal) and any(axis in a.axes() for a in self.expr.outputs)

    def _slots(self, access: Access) -> float:
        """Load or store slots per vector."""
        axis, lanes = self.vector.axis, self.vector.lanes
        if axis < 0 or axis not in access.axes():
            return 1.0
        if id(access) not in self._slot_table:
            size = self.expr.axes[axis].size
            self._slot_table[id(access)] = load_slots(access, axis, lanes, size)
        return self._slot_table[id(access)]
