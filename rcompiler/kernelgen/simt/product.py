"""Matrix products and convolutions by all threads of a block, their operands in shared memory.

    for each part of the reduction:                       (double-buffered: one barrier per part)
        every thread stores the elements that it has fetched to shared memory
        barrier
        every thread fetches its elements of the next part
        every thread multiplies what its register tile needs

An operand's elements in shared memory are (reduction step, position): a position is one combination
of the result coordinates that the operand depends on, so a convolution is an implicit matrix
product (its windows are written out as they are stored), and whatever the operator computes its
operands from is computed once per element and block. Sums add in the order of the reduction, as
those of a thread alone do: no tile changes a bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from torch_mlir import ir

from rcompiler.kernelgen.affine import Linear
from rcompiler.kernelgen.dot_group import dot_group
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.region import Generic, dims_of, element_of, shape_of
from rcompiler.kernelgen.running_sums import reduction_root
from rcompiler.kernelgen.simt.emitter import SHARED, SimtEmitter
from rcompiler.kernelgen.stages import ALIGNMENT
from rcompiler.kernelgen.tiling import Tiling
from rcompiler.kernelgen.value import Val, item_bytes

_STEPS = (32, 16, 8, 4)  # of the reduction in one part, the most first
_LEAST_STEPS = 8  # of the whole reduction: with fewer the barriers cost more than they save
_LEAST_REUSE = 4  # of each element in shared memory
MOST_SUMS = 64  # of a thread: with what it fetches ahead they stay in 255 registers
_MOST_VALUES = 80  # sums of a thread, and what it fetches for the part that comes next
_UNROLLED = 256  # updates in the body of the loop over the steps of a part
_PAD = 4  # elements between the rows of an operand: steps that are stored together share few banks

Coordinates = list[Linear]


@dataclass(frozen=True)
class Operand:
    """One factor in shared memory.

    number: of the root's operands; dims: result dims that it depends on, the one that changes
    fastest last; extents: of the tile along them; by_steps: whether neighbours in global memory are
    steps of the reduction; offset: of the first buffer in the workspace, in bytes.
    """

    number: int
    element: str
    dims: tuple[int, ...]
    extents: tuple[int, ...]
    by_steps: bool
    offset: int

    @property
    def positions(self) -> int:
        """Positions in the tile."""
        return math.prod(self.extents)

    @property
    def row(self) -> int:
        """Elements from one step to the next."""
        return self.positions + _PAD

    def bytes(self, steps: int) -> int:
        """Of both buffers."""
        size = steps * self.row * item_bytes(self.element)
        return 2 * (-(-size // ALIGNMENT) * ALIGNMENT)

    def position(self, relative: Sequence[Linear]) -> Linear:
        """Number of the position of the result element at `relative` coordinates in the tile."""
        strides = [math.prod(self.extents[k + 1 :]) for k in range(len(self.extents))]
        return Linear.weighted([relative[d] for d in self.dims], strides)


@dataclass(frozen=True)
class Product:
    """How a block computes a tile of a product.

    loops: the root's loop coordinates, each (result dim, distance), result dim -1: of size 1, or
    None for those of the reduction. steps: of the reduction in one part; total: of all parts.
    registers: register tile of a group of threads along the result dims; end: of what it needs of
    the workspace, in bytes.
    """

    root: Generic
    loops: tuple[tuple[int, int] | None, ...]
    operands: tuple[Operand, Operand]
    steps: int
    total: int
    registers: tuple[int, ...]
    end: int


def product_root(value: ir.Value) -> ir.Operation | None:
    """The product that each element of `value` needs one element of; an elementwise epilogue may
    follow. None if there is no such one.
    """
    return reduction_root(value, is_product, frozenset({"tensor.extract_slice"}))


def is_product(root: Generic) -> bool:
    """Whether a reduction is a sum of products of two operands of the kind that tiles reuse: each
    result element needs other elements of both, and neither needs all result dims.

    That depends on the operator alone, as the order of the sum does.
    """
    if root.outputs != 1 or root.factors is None or dot_group(root) is not None:
        return False
    if element_of(root.inits[0]) not in ("f16", "bf16", "f32", "f64"):
        return False
    long = {d for d, n in enumerate(root.sizes) if n > 1} - set(root.reduction_dims)
    first, second = (long & set(root.operand_dims[k]) for k in root.factors)
    steps = math.prod(root.sizes[d] for d in root.reduction_dims)
    return bool(first - second) and bool(second - first) and steps >= _LEAST_STEPS


class Products:
    """Plans and writes the products of one kernel."""

    def __init__(self, evaluator: Evaluator, emitter: SimtEmitter, start: int, room: int) -> None:
        """start: first byte of the workspace behind the stages; room: bytes of all of it."""
        self._evaluator, self._e = evaluator, emitter
        self._start, self._room = start, room

    def plan(
        self,
        root: Generic,
        at: Coordinates,
        symbols: Sequence[str],
        extents: Sequence[int],
        tiling: Tiling,
    ) -> Product | None:
        """None if the threads of a block had better compute a tile one by one.

        at: coordinates of the root's result for the result coordinates `symbols`; extents: of the
        tile.
        """
        loops = _loops(root, at, symbols)
        if loops is None or root.factors is None:
            return None
        used = []
        for number in root.factors:
            found = {loops[j] for j in root.operand_dims[number]} - {None}
            used.append(sorted({d for d, _ in filter(None, found) if d >= 0}))
        together = math.prod(extents[d] for d in {*used[0], *used[1]})
        reuse = [together // max(math.prod(extents[d] for d in dims), 1) for dims in used]
        registers = self._registers(extents, tiling)
        sums = self.rounds(extents, registers) * math.prod(registers) // tiling.lanes
        if min(reuse) < _LEAST_REUSE or sums > MOST_SUMS * 3 // 2:
            return None
        total = math.prod(root.sizes[d] for d in root.reduction_dims)
        for steps in (s for s in _STEPS if s <= total):
            operands, end = [], self._start
            for number, dims in zip(root.factors, used, strict=True):
                dims = sorted(dims, key=lambda d: (d == tiling.vector_dim, d))
                operands.append(_operand(root, number, dims, extents, end))
                end += operands[-1].bytes(steps)
            fetched = sum(-(-o.positions * steps // self._e.threads) for o in operands)
            if end <= self._room and (sums + fetched <= _MOST_VALUES or steps == _STEPS[-1]):
                first, second = operands
                self._e.shared = max(self._e.shared, end)
                return Product(root, loops, (first, second), steps, total, registers, end)
        return None

    def _registers(self, extents: Sequence[int], tiling: Tiling) -> tuple[int, ...]:
        """The register tile of the tiling, smaller where groups would have none."""
        units = [tiling.lanes if d == tiling.vector_dim else 1 for d in range(len(extents))]
        counts = [
            max(min(tiling.register_tile[d], extents[d]) // unit, 1) for d, unit in enumerate(units)
        ]
        while max(counts) > 1:
            sizes = tuple(c * u for c, u in zip(counts, units, strict=True))
            if math.prod(self.counts(extents, sizes)) >= self._e.groups:
                break
            largest = counts.index(max(counts))
            counts[largest] //= 2
        return tuple(c * u for c, u in zip(counts, units, strict=True))

    @staticmethod
    def counts(extents: Sequence[int], registers: Sequence[int]) -> list[int]:
        """Register tiles along each dim; the last ones may hang over."""
        return [-(-n // r) for n, r in zip(extents, registers, strict=True)]

    def rounds(self, extents: Sequence[int], registers: Sequence[int]) -> int:
        """Register tiles of each group."""
        return -(-math.prod(self.counts(extents, registers)) // self._e.groups)

    # -- code
    def sums(
        self,
        product: Product,
        starts: Sequence[Linear],
        positions: Sequence[Coordinates],
        relative: Sequence[Coordinates],
    ) -> list[Val]:
        """The sums at `positions` of the root's result, `relative` being their result coordinates
        in the tile; starts: of the tile.
        """
        e, root = self._e, product.root
        sums = self._evaluator.reducer.begin(root, list(positions), 0)
        parts, rest = divmod(product.total, product.steps)
        e.barrier()  # who still reads what was in the workspace before

        def fetch(part: Linear, steps: int) -> list[Val]:
            return [
                value
                for operand in product.operands
                for value in self._fetch(product, operand, starts, part * product.steps, steps)
            ]

        def body(part: Linear, carried: list[Val]) -> list[Val]:
            now, fetched = carried[: len(sums)], carried[len(sums) :]
            half = self._half(part)
            self._keep(product, fetched, product.steps, half)
            e.barrier()
            ahead = fetch(self._next(part, parts), product.steps)
            return [*self._multiply(product, now, relative, product.steps, half), *ahead]

        if parts:
            first = fetch(Linear(), product.steps)
            sums = e.loop(Linear(0), Linear(parts), 1, [*sums, *first], body)[: len(sums)]
        if rest:
            half = self._half(Linear(parts))
            self._keep(product, fetch(Linear(parts), rest), rest, half)
            e.barrier()
            sums = self._multiply(product, sums, relative, rest, half)
        return sums

    def _half(self, part: Linear) -> Linear:
        """Which of the two buffers a part lies in."""
        if part.is_constant:
            return Linear(part.constant % 2)
        number, two = self._e.index(part), self._e.index(Linear(2))
        name = self._e.pure(f"arith.remui {number}, {two} : i64", [number, two])
        self._e.ranges[name] = 2
        return Linear.of(name)

    def _next(self, part: Linear, parts: int) -> Linear:
        """The part behind, of the last one itself."""
        if part.is_constant:
            return Linear(min(part.constant + 1, parts - 1))
        number, last = self._e.index(part + 1), self._e.index(Linear(parts - 1))
        name = self._e.pure(f"arith.minsi {number}, {last} : i64", [number, last])
        self._e.ranges[name] = parts
        return Linear.of(name)

    def _slots(self, operand: Operand, steps: int) -> list[tuple[Linear, Linear, str | None]]:
        """Of each element that this thread moves: step, position, and where it has one at all."""
        e, split = self._e, self._evaluator.split
        size, found = operand.positions * steps, []
        for first in range(0, size, e.threads):
            number, active = e.thread_below(size - first)
            number = number + first
            if operand.by_steps:
                position, step = split(number, steps)
            else:
                step, position = split(number, operand.positions)
            found.append((step, position, active))
        return found

    def _fetch(
        self,
        product: Product,
        operand: Operand,
        starts: Sequence[Linear],
        before: Linear,
        steps: int,
    ) -> list[Val]:
        """The elements that this thread moves for the part that begins at step `before`."""
        evaluator, root = self._evaluator, product.root
        values = []
        for step, position, _ in self._slots(operand, steps):
            result: dict[int, Linear] = {}
            for d, extent in zip(reversed(operand.dims), reversed(operand.extents), strict=True):
                if d == operand.dims[0]:
                    result[d] = starts[d] + position
                else:
                    position, inner = evaluator.split(position, extent)
                    result[d] = starts[d] + inner
            at = self._reduction(root, before + step)
            for j, place in enumerate(product.loops):
                if place is not None:
                    d, distance = place
                    at[j] = result.get(d, Linear()) + distance
            loops = [at[j] for j in range(len(product.loops))]
            values.append(evaluator.operand(root, operand.number, loops, 0))
        return values

    def _reduction(self, root: Generic, step: Linear) -> dict[int, Linear]:
        """The coordinates of a step of the reduction."""
        at: dict[int, Linear] = {}
        for d in reversed(root.reduction_dims[1:]):
            step, at[d] = self._evaluator.split(step, root.sizes[d])
        at[root.reduction_dims[0]] = step
        return at

    def _keep(self, product: Product, fetched: list[Val], steps: int, half: Linear) -> None:
        """Store fetched elements to shared memory."""
        e, values = self._e, iter(fetched)
        for operand in product.operands:
            pointer = self._pointer(operand)
            start = half * (operand.bytes(product.steps) // 2 // item_bytes(operand.element))
            for step, position, active in self._slots(operand, steps):
                value, place = next(values), start + step * operand.row + position
                e.only(active, partial(e.store, value, pointer, place))

    def _pointer(self, operand: Operand) -> str:
        e = self._e
        text = f"llvm.getelementptr %workspace[{operand.offset}] : ({SHARED}) -> {SHARED}, i8"
        return e.pointer(e.pure(text, [], "p"), SHARED)

    def _multiply(
        self,
        product: Product,
        sums: Sequence[Val],
        relative: Sequence[Coordinates],
        steps: int,
        half: Linear,
    ) -> list[Val]:
        """The sums after the steps of one part."""
        e, body = self._e, self._evaluator.body
        places = [[operand.position(at) for at in relative] for operand in product.operands]
        unroll = max(min(_UNROLLED // max(len(sums), 1), steps), 1)
        while steps % unroll:
            unroll -= 1

        def several(i: Linear, carried: list[Val]) -> list[Val]:
            for k in range(unroll):
                factors = []
                for operand, where in zip(product.operands, places, strict=True):
                    half_size = operand.bytes(product.steps) // 2 // item_bytes(operand.element)
                    row = half * half_size + (i * unroll + k) * operand.row
                    pointer = self._pointer(operand)
                    loaded = {
                        place: body._widen(
                            e.load(pointer, operand.element, row + place, 0, readonly=False)
                        )
                        for place in dict.fromkeys(where)
                    }
                    factors.append([loaded[place] for place in where])
                carried = [
                    e.fma(a, b, total) for a, b, total in zip(*factors, carried, strict=True)
                ]
            return carried

        return e.loop(Linear(0), Linear(steps // unroll), 1, list(sums), several)


def _loops(
    root: Generic, at: Coordinates, symbols: Sequence[str]
) -> tuple[tuple[int, int] | None, ...] | None:
    """See `Product.loops`; None if a loop coordinate is no result coordinate plus a distance."""
    found: list[tuple[int, int] | None] = []
    for j, coordinate in enumerate(root.loop_dims(at)):
        if j in root.reduction_dims:
            found.append(None)
        elif coordinate.is_constant:
            found.append((-1, coordinate.constant))
        elif len(coordinate.terms) == 1 and coordinate.terms[0][1] == 1:
            found.append((symbols.index(coordinate.terms[0][0]), coordinate.constant))
        else:
            return None
    return tuple(found)


def _operand(
    root: Generic, number: int, dims: Sequence[int], extents: Sequence[int], offset: int
) -> Operand:
    reduced = set(root.reduction_dims)
    last: set[int] = set()
    for size, expression in zip(
        shape_of(root.operands[number]), root.maps[number].results, strict=True
    ):
        if size > 1:
            last = dims_of(expression)
    return Operand(
        number,
        element_of(root.operands[number]),
        tuple(dims),
        tuple(extents[d] for d in dims),
        bool(last) and last <= reduced,
        offset,
    )
