"""linalg.generic, and all other ops of linalg that are loops around a body.

The meaning is that of the loop nest: at each point of the iteration space, in the order of the
loops, the body takes the elements of inputs and results there, and yields new elements of the
results. Points that are independent, those of the parallel loops, are computed at once, as arrays;
the points of all other loops one after the other. What of the body does not depend on the results
so far is computed for many of these points at once, too, and so are sums, products and extremes
that it only adds to: pairs first, then pairs of these. (In f16 and bf16 they are not, as each sum
is rounded.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import linalg

from numpy_linalg.access import Access
from numpy_linalg.elements import SMALL
from numpy_linalg.region import Region, Step

_AT_ONCE = 1 << 20  # elements of an array of what does not depend on results
Outer = Callable[[ir.Value], np.ndarray]  # the value of what a body takes from outside


@dataclass(frozen=True)
class Accumulation:
    """What a result and the value of that number are combined by, in any order."""

    function: Callable[[np.ndarray, np.ndarray], np.ndarray]
    value: int

    def over(self, array: np.ndarray, shape: Sequence[int], dims: Sequence[int]) -> np.ndarray:
        """All elements along some loops as one; shape: of the points at hand."""
        for dim in dims:
            array = np.broadcast_to(
                array, [*array.shape[:dim], shape[dim], *array.shape[dim + 1 :]]
            )
            array = np.moveaxis(array, dim, 0)
            while len(array) > 1:
                half = len(array) // 2
                pairs = self.function(array[:half], array[half : 2 * half])
                array = np.concatenate([pairs, array[2 * half :]])
            array = np.moveaxis(array, 0, dim)
        return array


class Generic:
    """A linalg op, read once."""

    def __init__(self, op: ir.Operation) -> None:
        maps = [ir.AffineMapAttr(m).value for m in linalg.get_indexing_maps(op)]
        self.rank = maps[0].n_dims
        self.region = Region(op.regions[0].blocks[0])
        accesses = [Access(m) for m in maps]
        count = len(maps) - len(self.region.yielded)
        self.inputs, self.outs = accesses[:count], accesses[count:]
        self.parallel = self._parallel(op)
        self.others = [d for d in range(self.rank) if d not in self.parallel]
        late = self.region.dependent(range(count, len(maps)))
        self.early_steps = [step for step in self.region.steps if step.result not in late]
        self.late_steps = [step for step in self.region.steps if step.result in late]
        wanted = {k for step in self.late_steps for k in step.operands}
        outer = self.region.outer.values()  # the same at all points
        self.early_values = sorted(wanted.union(self.region.yielded) - late - set(outer))
        self.accumulations = self._accumulations(count)

    def run(self, operands: Sequence[np.ndarray], outer: Outer) -> list[np.ndarray]:
        """The results for the values of all operands."""
        return _Run(self, operands, outer).results()

    def _accumulations(self, first: int) -> list[Accumulation] | None:
        """How each result is accumulated, where nothing else becomes of them.

        first: the number of the first result so far.
        """
        found = []
        made = {step.result: step for step in self.late_steps}
        for own, number in enumerate(self.region.yielded, first):
            step = made.get(number)
            if step is None or not step.associative or step.operands.count(own) != 1:
                return None
            [other] = [k for k in step.operands if k != own]
            if other in made or first <= other < first + len(self.outs):
                return None
            found.append(Accumulation(step.function, other))
        return found if len(found) == len(self.late_steps) else None

    def _parallel(self, op: ir.Operation) -> list[int]:
        """The loops that the op says to be parallel: a named op by its results' coordinates."""
        if "iterator_types" in op.attributes:
            kinds = op.attributes["iterator_types"]
            return [d for d, kind in enumerate(kinds) if "parallel" in str(kind)]
        return [d for d in range(self.rank) if all(d in out.plain for out in self.outs)]


class _Run:
    """One execution of an op."""

    def __init__(self, op: Generic, operands: Sequence[np.ndarray], outer: Outer) -> None:
        count = len(op.inputs)
        self._op, self._inputs = op, operands[:count]
        self._outs = [np.array(out, copy=True) for out in operands[count:]]
        self._extents = _extents([*op.inputs, *op.outs], operands, op.rank)
        region = op.region
        self._fixed: list[np.ndarray | None] = [None] * region.size
        for value, number in region.outer.items():
            self._fixed[number] = np.asarray(outer(value))
        for number, constant in region.constants.items():
            self._fixed[number] = constant

    def results(self) -> list[np.ndarray]:
        """Raises IndexError for elements that are not there, ValueError for parallel loops that
        are none.
        """
        if 0 in self._extents:
            return self._outs
        self._check_independent()
        head, tail = self._split()
        with np.errstate(all="ignore"):
            for point in np.ndindex(*(self._extents[d] for d in head)):
                window = [range(n) for n in self._extents]
                for d, k in zip(head, point, strict=True):
                    window[d] = range(k, k + 1)
                self._block(window, tail)
        return self._outs

    def _split(self) -> tuple[list[int], list[int]]:
        """The loops that are not parallel: outer ones, and inner ones whose steps are computed at
        once as far as they do not depend on one another.
        """
        others, size = self._op.others, math.prod(self._extents[d] for d in self._op.parallel)
        first = len(others)
        while first and size * self._extents[others[first - 1]] <= _AT_ONCE:
            first -= 1
            size *= self._extents[others[first]]
        return others[:first], others[first:]

    def _check_independent(self) -> None:
        """Refuse parallel loops of which two points write the same element."""
        parallel = {d for d in self._op.parallel if self._extents[d] > 1}
        window = [range(n if d in parallel else 1) for d, n in enumerate(self._extents)]
        points = math.prod(map(len, window))
        for access, out in zip(self._op.outs, self._outs, strict=True):
            if parallel <= set(access.plain):
                continue
            places = np.ravel_multi_index(access.indices(out.shape, window), out.shape)
            if np.unique(places).size != points:
                raise ValueError("points of parallel loops write the same elements")

    # -- a block of points
    def _block(self, window: list[range], tail: list[int]) -> None:
        """All points of a window, one after the other along the loops of `tail`."""
        values = self._early(window)
        if not tail:
            self._step(values, window)
            return
        accumulations = self._op.accumulations
        if accumulations is not None and self._any_order(tail):
            self._accumulate(accumulations, values, window, tail)
            return
        for point in np.ndindex(*(self._extents[d] for d in tail)):
            at = dict(zip(tail, point, strict=True))
            inner = [range(at[d], at[d] + 1) if d in at else w for d, w in enumerate(window)]
            own = list(values)
            for k in self._op.early_values:
                own[k] = _at(values[k], at)
            self._step(own, inner)

    def _any_order(self, dims: Sequence[int]) -> bool:
        """Whether each result has one element for all steps of some loops, which is not rounded."""
        outs = zip(self._op.outs, self._outs, strict=True)
        return not any(o.dtype in SMALL or any(map(a.uses, dims)) for a, o in outs)

    def _accumulate(
        self, found: Sequence[Accumulation], values: list[np.ndarray], window: list[range],
        tail: list[int],
    ) -> None:  # fmt: skip
        """All points of a window at once."""
        shape = [len(steps) for steps in window]
        outs = [range(1) if d in tail else steps for d, steps in enumerate(window)]
        for each, access, out in zip(found, self._op.outs, self._outs, strict=True):
            array = values[each.value]
            array = array.reshape([1] * self._op.rank) if not array.ndim else array
            new = each.function(access.read(out, outs), each.over(array, shape, tail))
            access.write(out, outs, new)

    def _early(self, window: list[range]) -> list[np.ndarray]:
        """The values of the body in a window that do not depend on results."""
        values = list(self._fixed)
        for k, (access, tensor) in enumerate(zip(self._op.inputs, self._inputs, strict=True)):
            values[k] = access.read(tensor, window)
        for dim, numbers in self._op.region.indices.items():
            along = [-1 if d == dim else 1 for d in range(self._op.rank)]
            steps = np.arange(window[dim].start, window[dim].stop).reshape(along)
            for k in numbers:
                values[k] = steps
        _compute(self._op.early_steps, values)
        return values

    def _step(self, values: list[np.ndarray], window: list[range]) -> None:
        """Points that are independent of one another: new elements of the results."""
        first = len(self._inputs)
        for k, (access, out) in enumerate(zip(self._op.outs, self._outs, strict=True), first):
            values[k] = access.read(out, window)
        _compute(self._op.late_steps, values)
        made = [values[k] for k in self._op.region.yielded]
        if len(made) > 1:  # one may be what is written over first
            made = [np.array(each) for each in made]
        for access, out, new in zip(self._op.outs, self._outs, made, strict=True):
            access.write(out, window, new)


def _compute(steps: Sequence[Step], values: list[np.ndarray]) -> None:
    for step in steps:
        values[step.result] = step.function(*[values[k] for k in step.operands])


def _at(array: np.ndarray, at: dict[int, int]) -> np.ndarray:
    """A value at points of some loops; one that is no array of the loops is the same at all."""
    if not array.ndim:
        return array
    picked = [slice(None)] * array.ndim
    for dim, k in at.items():
        if array.shape[dim] > 1:
            picked[dim] = slice(k, k + 1)
    return array[tuple(picked)]


def _extents(accesses: Sequence[Access], operands: Sequence[np.ndarray], rank: int) -> list[int]:
    """The steps of each loop, which are those of all dims that it walks along."""
    found: list[int | None] = [None] * rank
    for access, operand in zip(accesses, operands, strict=True):
        for dim, size in zip(access.plain, operand.shape, strict=True):
            if dim is None:
                continue
            if found[dim] not in (None, size):
                raise IndexError(f"loop d{dim} is of {found[dim]} steps, and of {size}")
            found[dim] = size
    if None in found:
        raise IndexError(f"no operand says how many steps loop d{found.index(None)} has")
    return [n for n in found if n is not None]
