"""Register tiles worth trying: which axes to unroll, and by how much.

The axes are those whose unrolling uses a loaded value again: pixels, which share the vector operand
(the M of a matrix product, rows and columns of an image), and panels, which share the broadcasts.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product

from rcompiler.device.matrix_unit import AMX_HALVES, MatrixUnit
from rcompiler.device.model import DOT_STEPS, Device
from rcompiler.roller.expr import TensorAccess, TensorExpr
from rcompiler.roller.rtile import near_equal
from rcompiler.roller.tile_cover import GROUPS, MOST, TileCover, tile_cover, words_of_step
from rcompiler.roller.vectors import VectorAxis, turns

_UNROLL = 4  # vectors of elementwise work in flight


class RegisterSpace:
    """The axes of one expression as a register tile sees them, and the sizes to try."""

    def __init__(self, expr: TensorExpr, device: Device, vector: VectorAxis) -> None:
        self.expr = expr
        self.device = device
        self.vector = vector
        self.extents = tuple(expr.axes[p].size for p in expr.parallel)

    @cached_property
    def streams(self) -> tuple[TensorAccess, ...]:
        """Inputs that move with a reduction step (all inputs when there is no reduction)."""
        reduction = set(self.expr.reduction)
        inputs = self.expr.inputs
        moving = tuple(a for a in inputs if any(map(a.moves_with, reduction)))
        return moving if reduction else inputs

    @cached_property
    def broadcasts(self) -> bool:
        """Whether one stream is loaded as vectors and another one broadcast to meet them."""
        return len({self.vector.axis in a.axes() for a in self.streams}) == 2

    @cached_property
    def horizontal(self) -> tuple[int, ...]:
        """Position of the vector axis among the reduction axes, if it is one."""
        axis = self.vector.axis
        return (self.expr.reduction.index(axis),) if axis in self.expr.reduction else ()

    def smallest(self) -> list[int]:
        """One vector, or one element without a vector axis among the results; whole periods."""
        vector, periods = self.vector, dict(self.expr.periods)
        return [
            vector.lanes if axis == vector.axis else min(periods.get(axis, 1), extent)
            for axis, extent in zip(self.expr.parallel, self.extents, strict=True)
        ]

    def sizes(self) -> Iterator[tuple[int, ...]]:
        """Sizes per parallel axis, register limits aside."""
        if self.expr.periods:
            yield tuple(self.smallest())  # a period has enough independent work
            return
        choices: list[tuple[int, ...]] = [(1,)] * len(self.extents)
        for position in self._unrolled_axes:
            choices[position] = self._steps_along(position)
        lanes = 1 if self.horizontal else self.vector.lanes
        if self.vector.axis in self.expr.parallel:
            position = self.expr.parallel.index(self.vector.axis)
            vectors = math.ceil(self.extents[position] / lanes)
            counts = (1,) if self._transposing else near_equal(vectors, self._most_vectors)
            choices[position] = tuple(n * lanes for n in counts)
        most = self._most_accumulators * lanes
        for sizes in product(*choices):
            if math.prod(sizes) <= max(most, lanes) and self._strip(sizes):
                yield sizes
        if self.unit is not None:
            yield from self._on_tiles()

    # tile registers ---------------------------------------------------------------------------
    @cached_property
    def unit(self) -> MatrixUnit | None:
        """The tile registers of a core, where they can multiply what the expression does."""
        unit, lanes = self.device.compute.matrix_unit("amx", self.expr.dot), self.vector.lanes
        if unit is None or not self.device.is_cpu or lanes != unit.columns or not self.step_words:
            return None
        return unit if self.broadcasts and self.pixels and not self.horizontal else None

    @cached_property
    def halved(self) -> bool:
        """Whether vectors take words of bf16 in two halves: they add up in the order of the tile
        registers of the core.
        """
        return self.expr.dot == AMX_HALVES.element and self.step_words > 0

    def in_steps(self, part: int) -> int:
        """A part of the outermost reduction axis without a rest of steps of tile registers, where
        those decide the order of the sum; 0: there is none.
        """
        if not self.halved or self.step_axis != self.expr.reduction[0]:
            return part
        whole = AMX_HALVES.depth // DOT_STEPS[AMX_HALVES.element]
        return part // whole * whole if self.step_words == whole else 0

    @property
    def step_axis(self) -> int:
        """The innermost reduction axis of more than one step; -1: there is none."""
        long = (r for r in reversed(self.expr.reduction) if self.expr.axes[r].size > 1)
        return next(long, -1)

    @cached_property
    def step_words(self) -> int:
        """Words of that axis that one step on tile registers takes; 0 where
        their words do not lie side by side in the rows, or at no equal distances in the columns.
        """
        axis = self.step_axis
        if not self.expr.dot or axis < 0 or len(self.streams) != 2:
            return 0
        size = self.expr.axes[axis].size
        for access in self.streams:
            stride = access.stride(axis, size, size)
            along = self.vector.axis in access.axes()
            if stride is None or (not along and stride != 1) or (along and not stride):
                return 0
        unit = self.device.compute.matrix_unit("amx", self.expr.dot)
        return words_of_step(size, unit.depth // DOT_STEPS[self.expr.dot]) if unit else 0

    def cover(self, sizes: Sequence[int]) -> TileCover | None:
        """The tile registers that a register tile of these sizes takes; None: vectors do."""
        if self.unit is None:
            return None
        first, *others = self.pixels
        axis = self.expr.parallel.index(self.vector.axis)
        columns, rest = divmod(sizes[axis], self.vector.lanes)
        runs = math.prod(sizes[p] for p in others)
        panels = math.prod(n for p, n in enumerate(sizes) if p not in (first, axis, *others))
        if rest or not self._in_a_run(first, sizes[first]):
            return None
        return tile_cover(sizes[first], runs, columns * panels, self.unit)

    def _in_a_run(self, position: int, count: int) -> bool:
        """Whether neighbours along an axis lie at equal distances in the rows' factor."""
        axis = self.expr.parallel[position]
        rows = next(a for a in self.streams if self.vector.axis not in a.axes())
        return rows.stride(axis, count, self.expr.axes[axis].size) is not None

    def _on_tiles(self) -> Iterator[tuple[int, ...]]:
        """Sizes that tile registers cover."""
        assert self.unit is not None
        axis = self.expr.parallel.index(self.vector.axis)
        choices: list[tuple[int, ...]] = [(1,)] * len(self.extents)
        for position in self._unrolled_axes:
            choices[position] = near_equal(self.extents[position], MOST)
        first = self.pixels[0]
        rows = near_equal(self.extents[first], self.unit.rows)
        twice = (2 * n for n in rows if 2 * n <= self.extents[first])
        choices[first] = tuple(sorted({*rows, *twice}))
        vectors = math.ceil(self.extents[axis] / self.vector.lanes)
        choices[axis] = tuple(n * self.vector.lanes for n in near_equal(vectors, GROUPS * MOST))
        for sizes in product(*choices):
            if self._strip(sizes) and self.cover(sizes) is not None:
                yield sizes

    def _steps_along(self, position: int) -> tuple[int, ...]:
        """Unroll factors of one axis besides the vector axis."""
        size = self.extents[position]
        if self._transposing:
            return (min(size, self.vector.lanes),)
        if position not in self.pixels:
            return near_equal(size, self._most_vectors)
        # pixels whose taps share broadcasts hold them in registers: few pixels, several panels
        few = self.expr.windowed(self.expr.parallel[position]) and self._shared_window
        hiding = self.device.compute.accumulators
        return near_equal(size, hiding if few else self._most_accumulators)

    def _strip(self, sizes: Sequence[int]) -> bool:
        """Pixels of an outer axis only when the innermost one is whole: 2x7, not 2x3."""
        window = [p for p in self.pixels if self.expr.windowed(self.expr.parallel[p])]
        outer = [p for p in window[1:] if sizes[p] > 1]
        return not outer or sizes[window[0]] == self.extents[window[0]]

    def _pixel(self, position: int) -> bool:
        """Axes that share every vector operand: the M of a matrix product, pixels, rows."""
        axis = self.expr.parallel[position]
        return all(axis not in a.axes() for a in self.streams if self.vector.axis in a.axes()) or (
            self.expr.windowed(axis)
        )

    @cached_property
    def pixels(self) -> list[int]:
        """Positions of the unrolled axes that share every vector operand."""
        return [p for p in self._unrolled_axes if self._pixel(p)]

    @cached_property
    def _most_accumulators(self) -> int:
        registers = self.device.vector_registers
        hiding = self.device.compute.accumulators
        if not self.expr.reduction:
            return self.vector.lanes if self._transposing else _UNROLL
        if not self.broadcasts:
            # nothing is broadcast: more than the latency needs only makes the code longer
            return registers if self.horizontal else hiding
        # neighbouring taps share their broadcasts, which then live in registers too
        return registers // 2 if self._shared_window else registers

    @cached_property
    def _most_vectors(self) -> int:
        """Vectors along the vector axis and the panels: each is one more stream from memory."""
        if not self.expr.reduction:
            return _UNROLL
        pixels = math.prod(self.extents[p] for p in self.pixels)
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
            for i in sorted(range(len(self.extents)), key=self._output_stride)
            if self.extents[i] > 1 and expr.parallel[i] != self.vector.axis
        ]
        if not expr.reduction:
            strided = [i for i in rest if self._transposed(expr.parallel[i])]
            return strided[:1] or (rest[:1] if self._vector_is_short else [])
        reuse = [i for i in rest if self._reuses(expr.parallel[i])]
        if not reuse and self._vector_is_short and not self.horizontal:
            return rest[:1]
        if self.horizontal:
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
        vector = self.vector
        return vector.axis >= 0 and any(
            turns(self.expr, access, axis, vector.axis, vector.lanes) for access in self.streams
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
        stride = output.stride(axis, 2, self.extents[position])
        return -position if stride is None else abs(stride)
