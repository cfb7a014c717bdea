"""Which constants a compiled file has, and which of them a load makes.

A source that is smaller than all that is made of it lies in the file in their place: filters
instead of their Winograd form. So does one that lies there anyway: a table of embeddings that a
product has in another layout. What is rounded on the way to a wide type is a source as it was
rounded, and before it was moved.

Of a model for several CPUs each level has its weights in the order in which its vectors read them,
and all have the same sources: those lie in the file, and what was made of them does not.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rcompiler.runtime.deferred import Constant, Deferred
from rcompiler.runtime.memory import ALIGNMENT, address
from rcompiler.runtime.recipes import (
    MOST_GROWTH,
    MOST_STEPS,
    Cast,
    Derived,
    Form,
    FromBf16,
    Permute,
    Recipe,
    Reshape,
    Step,
    forms,
    plain,
)
from rcompiler.runtime.storage import Storage, layout
from rcompiler.runtime.stored import Stored

# What a source has to save, or all lies in the file as it is: bytes, and a part of what is made.
_LEAST = 16 << 10
_LEAST_PART = 4

# where an array is, its bytes, and the steps that made a source of it
_Root = tuple[int | tuple[int, int], int, tuple[Step, ...]]


@dataclass(frozen=True)
class _Made:
    """A constant as what steps make of a source, of none if it is the source itself.

    before, origin: the steps that made the source, and of what; none where it is an array.
    """

    source: Constant
    steps: tuple[Step, ...]
    before: tuple[Step, ...] = ()
    origin: Constant | None = None

    @staticmethod
    def of(array: Constant) -> _Made:
        """The source lies in memory as it does in a file, in the narrowest type on the way."""
        made = _Made._from_array(array)
        widths = [made.source.dtype.itemsize]
        for step in made.steps:
            widths.append(np.dtype(step.dtype).itemsize if isinstance(step, Cast) else widths[-1])
        narrowest = widths.index(min(widths))
        if narrowest:
            moves = made.steps[: narrowest - 1]  # in front of the cast, or behind it: as others do
            ahead = moves if all(isinstance(step, Permute | Reshape) for step in moves) else ()
            before = made.steps[len(ahead) : narrowest]
            steps = (*ahead, *made.steps[narrowest:])
            made = _Made(Derived(made.source, *before), steps, before, made.source)
        return made._of_bits() if made.source.dtype.name == "bfloat16" else made

    def _of_bits(self) -> _Made:
        """With a source of bf16 as the 16 bits that numpy knows it by."""
        place = next((k for k, step in enumerate(self.steps) if isinstance(step, Cast)), None)
        if place is None or self.steps[place] != Cast("float32"):
            return self
        return replace(self, steps=(*self.steps[:place], FromBf16(), *self.steps[place + 1 :]))

    @staticmethod
    def _from_array(array: Constant) -> _Made:
        source, steps = (array.source, array.steps) if isinstance(array, Derived) else (array, ())
        if isinstance(source, Deferred) or source.flags.c_contiguous:
            return _Made(source, steps)
        order = np.argsort([-stride for stride in source.strides], kind="stable")
        if not source.transpose(order).flags.c_contiguous:
            return _Made(np.ascontiguousarray(source), steps)
        turned = Derived(source.transpose(order), Permute(tuple(np.argsort(order).tolist())))
        made = Derived(turned, *steps)
        return _Made(made.source, made.steps)

    @property
    def root(self) -> _Root:
        """Equal where the bytes of the source are the same ones."""
        source = self.source if self.origin is None else self.origin
        if isinstance(source, Stored):
            return source.place, source.nbytes, self.before
        if isinstance(source, Deferred):
            return id(source), 0, self.before
        return address(source), source.nbytes, self.before

    @property
    def form(self) -> Form | None:
        """That of the source, by the types of a file, if a file may have the steps."""
        dtype = plain(self.source.dtype)
        form = None if dtype is None else Form(self.source.shape, dtype)
        try:
            return form if form is None or forms(form, self.steps) else None
        except ValueError:
            return None


def storage_of(
    placed: Mapping[int, Constant], weights: np.ndarray, *, sources: bool = False
) -> Storage:
    """How a file keeps weights: uint8[bytes], with the constants at these offsets.

    sources: keep the source of each that is not small, also where that saves nothing, and apart
    from what is not made: other levels may have the same one.
    """
    there, groups = _all_groups(placed) if sources else _groups(placed)
    ends = {offset: offset + placed[offset].nbytes for group in groups for offset in group}
    laid = layout(weights.size, sorted(ends.items()))
    aside: list[Constant] = []  # sources, one behind the other
    end, recipes = laid.aside, []
    for group in groups:
        [first, *_] = group.values()
        if first.root in there:
            place = laid.place(there[first.root])
        else:
            place, source = end, first.source
            aside.append(source)
            end += _aligned(source.nbytes)
        for offset, made in group.items():
            form = made.form
            assert form is not None
            crc32 = zlib.crc32(weights[offset : ends[offset]].data)
            recipes.append(Recipe(offset, place, form, made.steps, crc32))
    recipes.sort(key=lambda recipe: recipe.offset)
    return Storage(tuple(recipes), _Sources(aside)) if aside else Storage(tuple(recipes))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class _Sources:
    """Sources as uint8[bytes], each from an aligned place on: written where a file is, as they may
    be most of a model.
    """

    def __init__(self, sources: Sequence[Constant]) -> None:
        self._sources = tuple(sources)
        self.size = sum(_aligned(source.nbytes) for source in sources)

    def __getitem__(self, wanted: slice) -> np.ndarray:
        """The wanted bytes: only sources that have some of them are read, or made."""
        begin, end, _ = wanted.indices(self.size)
        out, place = np.zeros(max(end - begin, 0), np.uint8), 0
        for source in self._sources:
            first, last = max(begin - place, 0), min(end - place, source.nbytes)
            if first < last:
                out[place + first - begin : place + last - begin] = _part(source, first, last)
            place += _aligned(source.nbytes)
        return out

    def is_there(self) -> bool:
        """Whether all sources can be read still."""
        roots = [each.source if isinstance(each, Derived) else each for each in self._sources]
        return all(each.is_there() for each in roots if isinstance(each, Stored))

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process: what is computed on demand has functions of this one."""
        return np.asarray, (self[:],)


def _part(source: Constant, begin: int, end: int) -> np.ndarray:
    """Some of the bytes of a source, in C order."""
    if isinstance(source, Stored):
        return source.part(begin, end)
    if isinstance(source, Deferred):  # of which nothing is to stay
        made = np.empty(source.shape, source.dtype)
        source.write(made)
        source = made
    return np.ascontiguousarray(source).reshape(-1).view(np.uint8)[begin:end]


def _groups(
    placed: Mapping[int, Constant],
) -> tuple[dict[_Root, int], list[dict[int, _Made]]]:
    """The offsets of sources that are constants themselves, and the constants that need not be in
    the file, by offset, those of each source together.
    """
    found = {offset: _Made.of(array) for offset, array in placed.items()}
    there = {made.root: offset for offset, made in found.items() if not made.steps}
    groups: dict[_Root, dict[int, _Made]] = {}
    for offset, made in found.items():
        if made.steps and made.form is not None:
            groups.setdefault(made.root, {})[offset] = made
    worthwhile = []
    for root, group in groups.items():
        [first, *_] = group.values()
        cost = 0 if root in there else first.source.nbytes
        size = sum(placed[offset].nbytes for offset in group)
        saves = size - cost >= max(_LEAST, size // _LEAST_PART)
        if saves and _allowed(group, size):
            worthwhile.append(group)
    return there, worthwhile


def _all_groups(
    placed: Mapping[int, Constant],
) -> tuple[dict[_Root, int], list[dict[int, _Made]]]:
    """The same with every constant that is not small among those of its source, also the source."""
    groups: dict[_Root, dict[int, _Made]] = {}
    for offset, array in placed.items():
        made = _Made.of(array)
        if array.nbytes >= _LEAST and made.form is not None:
            groups.setdefault(made.root, {})[offset] = made
    sizes = {root: sum(placed[offset].nbytes for offset in group) for root, group in groups.items()}
    return {}, [group for root, group in groups.items() if _allowed(group, sizes[root])]


def _allowed(group: Mapping[int, _Made], size: int) -> bool:
    """Whether a load accepts that recipes make `size` bytes of one source, see `Storage.check`."""
    [first, *_] = group.values()
    moved = 0
    for made in group.values():
        assert made.form is not None
        moved += sum(form.nbytes for form in forms(made.form, made.steps))
    return size <= MOST_GROWTH * first.source.nbytes and moved <= MOST_STEPS * size
