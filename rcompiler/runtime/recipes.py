"""How weights are made of others: steps as data, which a compiler notes and a loader repeats.

A recipe has one source and a few steps, each a plain move or IEEE arithmetic on single elements in
a fixed order, so that every machine makes the same bits:

    ["reshape", shape]               the same elements in C order
    ["permute", axes]                dim k of the result is dim axes[k]
    ["broadcast", shape]             dims of one element, which is seen as often as asked for
    ["pad", low, shape, fill]        the elements begin at `low`; hex digits of the bytes elsewhere
    ["cast", dtype]                  float16, float32 and float64 to one another
    ["signed", dtype]                signed integers as float32, or as uint16: in 16 bits
    ["whole"]                        whole numbers of float32 as signed integers of 16 bits
    ["from_bf16"]                    bf16, as 16 bits, to float32
    ["combine", axis, matrix]        sums of products along an axis, one for each row of the matrix

Both sides evaluate them by what is here; only a file's are checked first (`checked`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rcompiler.runtime.deferred import Box, Constant, Deferred, reshape, whole, write
from rcompiler.runtime.pieces import Pieces
from rcompiler.runtime.stored import Stored
from rcompiler.runtime.untrusted import integer, integers, string

MOST_STEPS = 16
MOST_GROWTH = 64  # bytes of what a step makes, for each of the source
_MOST_DIMS = 16
_MOST_FACTORS = 256  # of a matrix
_FLOATS = ("float32", "float64")  # of which there is arithmetic
_CAST = (*_FLOATS, "float16")
_TYPES = (*_CAST, "uint8", "uint16", "uint32", "uint64")


class Form(NamedTuple):
    """Shape and type of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """Of all elements."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Reshape:
    """The same elements in C order."""

    shape: tuple[int, ...]

    def result(self, form: Form) -> Form:
        """What it makes of an array; raises ValueError where it does not fit."""
        _demand(math.prod(self.shape) == math.prod(form.shape), "a reshape to another size")
        return Form(self.shape, form.dtype)

    def of(self, array: Constant) -> Constant:
        """What it makes."""
        return reshape(array, self.shape)

    def data(self) -> list[Any]:
        """As JSON has it."""
        return ["reshape", list(self.shape)]


@dataclass(frozen=True)
class Permute:
    """Dim k of the result is dim axes[k]."""

    axes: tuple[int, ...]

    def result(self, form: Form) -> Form:
        """See `Reshape`."""
        rank = len(form.shape)
        _demand(sorted(self.axes) == list(range(rank)), "axes that are no permutation")
        return Form(tuple(form.shape[axis] for axis in self.axes), form.dtype)

    def of(self, array: Constant) -> Constant:
        """See `Reshape`."""
        if not isinstance(array, Deferred):
            return array.transpose(self.axes)
        inverse = np.argsort(self.axes).tolist()

        def block(box: Box) -> np.ndarray:
            return array[tuple(box[place] for place in inverse)].transpose(self.axes)

        form = self.result(Form(array.shape, array.dtype))
        return Deferred(*form, block, frozenset(inverse[row] for row in array.rows))

    def data(self) -> list[Any]:
        """See `Reshape`."""
        return ["permute", list(self.axes)]


@dataclass(frozen=True)
class Broadcast:
    """Dims of one element, which is seen as often as asked for."""

    shape: tuple[int, ...]

    def result(self, form: Form) -> Form:
        """See `Reshape`."""
        fits = len(self.shape) == len(form.shape) and all(
            extent in (1, most) for extent, most in zip(form.shape, self.shape, strict=True)
        )
        _demand(fits, "a broadcast to a shape that does not fit")
        return Form(self.shape, form.dtype)

    def of(self, array: Constant) -> Constant:
        """See `Reshape`."""
        if not isinstance(array, Deferred):
            return np.broadcast_to(array, self.shape)

        def block(box: Box) -> np.ndarray:
            pairs = zip(array.shape, box, strict=True)
            read = tuple(slice(0, 1) if extent == 1 else part for extent, part in pairs)
            return np.broadcast_to(array[read], [part.stop - part.start for part in box])

        return Deferred(self.shape, array.dtype, block, array.rows)

    def data(self) -> list[Any]:
        """See `Reshape`."""
        return ["broadcast", list(self.shape)]


@dataclass(frozen=True)
class Pad:
    """The elements begin at `low`; elsewhere lie the bytes `fill`."""

    low: tuple[int, ...]
    shape: tuple[int, ...]
    fill: bytes

    def result(self, form: Form) -> Form:
        """See `Reshape`."""
        fits = len(self.low) == len(self.shape) == len(form.shape) and all(
            0 <= low <= most - extent
            for low, most, extent in zip(self.low, self.shape, form.shape, strict=True)
        )
        _demand(fits and len(self.fill) == form.dtype.itemsize, "a padding that does not fit")
        return Form(self.shape, form.dtype)

    def of(self, array: Constant) -> Constant:
        """See `Reshape`."""
        [number] = np.frombuffer(self.fill, array.dtype)

        def block(box: Box) -> np.ndarray:
            made = np.full([part.stop - part.start for part in box], number, array.dtype)
            read, to = [], []
            for part, low, extent in zip(box, self.low, array.shape, strict=True):
                begin = min(max(part.start - low, 0), extent)
                end = min(max(part.stop - low, begin), extent)
                read.append(slice(begin, end))
                to.append(slice(begin + low - part.start, end + low - part.start))
            if all(part.start < part.stop for part in read):
                made[tuple(to)] = array[tuple(read)]
            return made

        rows = array.rows if isinstance(array, Deferred) else frozenset()
        return Deferred(self.shape, array.dtype, block, rows)

    def data(self) -> list[Any]:
        """See `Reshape`."""
        return ["pad", list(self.low), list(self.shape), self.fill.hex()]


@dataclass(frozen=True)
class Cast:
    """The numbers as another type, rounded to nearest."""

    dtype: str

    def result(self, form: Form) -> Form:
        """See `Reshape`."""
        _demand({form.dtype.name, self.dtype} <= {*_CAST}, "a cast between types it has not")
        return Form(form.shape, np.dtype(self.dtype))

    def of(self, array: Constant) -> Constant:
        """See `Reshape`."""

        def block(box: Box) -> np.ndarray:
            with np.errstate(all="ignore"):
                return array[box].astype(self.dtype)

        rows = array.rows if isinstance(array, Deferred) else frozenset()
        return Deferred(array.shape, np.dtype(self.dtype), block, rows)

    def data(self) -> list[Any]:
        """See `Reshape`."""
        return ["cast", self.dtype]


@dataclass(frozen=True)
class Signed:
    """Signed integers of 8 or 16 bits as float32, or of 8 as 16 bits, which a file calls uint16."""

    dtype: str

    def result(self, form: Form) -> Form:
        """See `Reshape`."""
        known = (form.dtype.itemsize, self.dtype) in ((1, "uint16"), (1, "float32"), (2, "float32"))
        _demand(known and form.dtype.kind in "iu", "signed numbers between types it has not")
        return Form(form.shape, np.dtype(self.dtype))

    def of(self, array: Constant) -> Constant:
        """See `Reshape`."""
        wide = np.dtype(self.dtype)

        def block(box: Box) -> np.ndarray:
            numbers = array[box].view(f"i{array.dtype.itemsize}")
            return numbers.astype("i2").view(wide) if wide == "u2" else numbers.astype(wide)

        rows = array.rows if isinstance(array, Deferred) else frozenset()
        return Deferred(array.shape, wide, block, rows)

    def data(self) -> list[Any]:
        """See `Reshape`."""
        return ["signed", self.dtype]


@dataclass(frozen=True)
class Whole:
    """Whole numbers in float32 as signed integers of 16 bits, which hold them."""

    def result(self, form: Form) -> Form:
        """See `Reshape`."""
        _demand(form.dtype == np.float32, "whole numbers of a type that is not float32")
        return Form(form.shape, np.dtype("uint16"))

    def of(self, array: Constant) -> Constant:
        """See `Reshape`."""

        def block(box: Box) -> np.ndarray:
            with np.errstate(all="ignore"):
                return array[box].astype("i2").view("u2")

        rows = array.rows if isinstance(array, Deferred) else frozenset()
        return Deferred(array.shape, np.dtype("uint16"), block, rows)

    def data(self) -> list[Any]:
        """See `Reshape`."""
        return ["whole"]


@dataclass(frozen=True)
class FromBf16:
    """Numbers of bf16, which numpy knows as 16 bits, as f32: the same bits and 16 zeros."""

    def result(self, form: Form) -> Form:
        """See `Reshape`."""
        _demand(form.dtype.name == "uint16", "bf16 of other than 16 bits")
        return Form(form.shape, np.dtype(np.float32))

    def of(self, array: Constant) -> Constant:
        """See `Reshape`."""

        def block(box: Box) -> np.ndarray:
            return (array[box].astype(np.uint32) << 16).view(np.float32)

        rows = array.rows if isinstance(array, Deferred) else frozenset()
        return Deferred(array.shape, np.dtype(np.float32), block, rows)

    def data(self) -> list[Any]:
        """See `Reshape`."""
        return ["from_bf16"]


@dataclass(frozen=True)
class Combine:
    """Sums of products along an axis: of each row of the matrix one, in the order of its columns,
    from 0 on. A factor 0 has no product.
    """

    axis: int
    matrix: tuple[tuple[float, ...], ...]

    def result(self, form: Form) -> Form:
        """See `Reshape`."""
        _demand(form.dtype.name in _FLOATS, "sums of numbers that are no floats")
        _demand(0 <= self.axis < len(form.shape), "sums along an axis that is not there")
        columns = form.shape[self.axis]
        fits = columns * len(self.matrix) <= _MOST_FACTORS
        fits = fits and all(len(row) == columns for row in self.matrix)
        fits = fits and all(math.isfinite(factor) for row in self.matrix for factor in row)
        _demand(fits, "a matrix that does not fit")
        before, after = form.shape[: self.axis], form.shape[self.axis + 1 :]
        return Form((*before, len(self.matrix), *after), form.dtype)

    def of(self, array: Constant) -> Constant:
        """See `Reshape`."""
        axis, columns = self.axis, array.shape[self.axis]

        def block(box: Box) -> np.ndarray:
            read = (*box[:axis], slice(0, columns), *box[axis + 1 :])
            with np.errstate(all="ignore"):
                sums = _multiply(self.matrix, np.moveaxis(array[read], axis, 0))
            return np.moveaxis(sums[box[axis]], 0, axis)

        rows = {axis, *(array.rows if isinstance(array, Deferred) else ())}
        return Deferred(*self.result(Form(array.shape, array.dtype)), block, frozenset(rows))

    def data(self) -> list[Any]:
        """See `Reshape`."""
        return ["combine", self.axis, [list(row) for row in self.matrix]]


Step = Reshape | Permute | Broadcast | Pad | Cast | Signed | Whole | FromBf16 | Combine


def _multiply(matrix: Sequence[Sequence[float]], terms: np.ndarray) -> np.ndarray:
    """matrix @ terms over the first dim; no two machines differ in a bit, as they may with a
    library's product. Rows that have a factor in common share its product."""
    sums = np.zeros((len(matrix), *terms.shape[1:]), terms.dtype)
    for column, term in zip(zip(*matrix, strict=True), np.ascontiguousarray(terms), strict=True):
        for size in {abs(factor) for factor in column if factor}:
            product = term if size == 1 else term * terms.dtype.type(size)
            for factor, total in zip(column, sums, strict=True):
                if factor == size:
                    total += product
                elif factor == -size:
                    total -= product
    return sums


class Derived(Deferred):
    """What steps make of a source, and which ones. A source in a file is read again whenever
    somebody asks for elements.

    Attributes:
        source: an array that was made in another way.
        steps: from the source to this one.
    """

    def __init__(self, source: Constant, *steps: Step) -> None:
        self.source: Constant = source
        self.steps: tuple[Step, ...] = ()
        if isinstance(source, Derived):
            self.source, self.steps = source.source, source.steps
            source = source._made
        elif isinstance(source, Stored):
            source = source.unread
        for step in steps:
            source = step.of(source)
            self.steps = _joined(self.steps, step)
        self._made: Constant = source
        rows = source.rows if isinstance(source, Deferred) else frozenset()
        super().__init__(source.shape, source.dtype, source.__getitem__, rows)

    def __getitem__(self, box: Box) -> np.ndarray:
        return self._now_made()[box]

    @property
    def whole(self) -> np.ndarray:
        """All elements; a view where the steps only move them."""
        return whole(self._now_made())

    def write(self, out: np.ndarray) -> None:
        """All elements into a C-contiguous array of the same shape."""
        if not (isinstance(self.source, Stored) and self._moved_into(out)):
            write(self._now_made(), out)

    def _moved_into(self, out: np.ndarray) -> bool:
        """Write what steps make that only move elements, as these are read of the file; False where
        they do more, or no strides can tell where an element goes.
        """
        assert isinstance(self.source, Stored)
        source, steps = self.source, self.steps
        if steps and isinstance(steps[0], Reshape):
            source, steps = source.reshaped(steps[0].shape), steps[1:]
        if not all(isinstance(step, Permute | Reshape) for step in steps):
            return False
        forms = [Form(source.shape, source.dtype)]
        for step in steps:
            forms.append(step.result(forms[-1]))
        try:
            for step, before in zip(reversed(steps), forms[-2::-1], strict=True):
                if isinstance(step, Permute):
                    out = out.transpose(np.argsort(step.axes))
                else:
                    out = np.reshape(out, before.shape, copy=False)
        except ValueError:
            return False
        source.write(out)
        return True

    def _now_made(self) -> Constant:
        """What the steps make, of the elements of the source where `_made` knows its form alone."""
        if isinstance(self.source, Stored):
            return Derived(self.source.whole, *self.steps)._made
        return self._made


def in_memory(array: Constant) -> Constant:
    """The same with what it is made of in memory, for whoever asks for it part by part."""
    if isinstance(array, Derived) and isinstance(array.source, Stored):
        return Derived(array.source.whole, *array.steps)
    return array.whole if isinstance(array, Stored) else array


def _joined(steps: tuple[Step, ...], step: Step) -> tuple[Step, ...]:
    """Steps with one more behind them; two that are one become one."""
    last = steps[-1] if steps else None
    if isinstance(last, Reshape) and isinstance(step, Reshape):
        return (*steps[:-1], step)
    if isinstance(last, Permute) and isinstance(step, Permute):
        return (*steps[:-1], Permute(tuple(last.axes[axis] for axis in step.axes)))
    return (*steps, step)


@dataclass(frozen=True)
class Recipe:
    """A part of the weights, as a file describes it.

    Attributes:
        offset: in the weights of the model, bytes.
        source: where the elements of the source begin, in the bytes that the file keeps.
        form: of the source.
        steps: what is done with it.
        crc32: of what is made.
    """

    offset: int
    source: int
    form: Form
    steps: tuple[Step, ...]
    crc32: int

    @cached_property
    def result(self) -> Form:
        """What is made, by the types of a file. Raises ValueError: see `forms`."""
        return self.forms[-1]

    @cached_property
    def forms(self) -> list[Form]:
        """See `forms`."""
        return forms(self.form, self.steps)

    def made(self, kept: np.ndarray | Pieces) -> Constant:
        """The elements, of the bytes that the file keeps."""
        source = kept[self.source : self.source + self.form.nbytes].view(self.form.dtype)
        return Derived(source.reshape(self.form.shape), *self.steps)

    def data(self) -> list[Any]:
        """As JSON has it."""
        shape, dtype = list(self.form.shape), self.form.dtype.name
        steps = [step.data() for step in self.steps]
        return [self.offset, self.source, shape, dtype, steps, self.crc32]


def forms(form: Form, steps: Sequence[Step]) -> list[Form]:
    """A source, and what each step makes of the one before. Nothing of it is reserved.

    Raises:
        ValueError: the steps do not fit, or make far more than the source has.
    """
    most, found = MOST_GROWTH * form.nbytes, [form]
    _demand(form.dtype.name in _TYPES, "a source of a type that has no steps")
    _demand(len(steps) <= MOST_STEPS, f"more than {MOST_STEPS} steps")
    for step in (None, *steps):
        if step is not None:
            found.append(step.result(found[-1]))
        odd = len(found[-1].shape) > _MOST_DIMS or min(found[-1].shape, default=1) < 1
        _demand(not odd, "an impossible shape")
        large = found[-1].nbytes > most
        _demand(not large, f"more than {MOST_GROWTH} times the bytes of its source")
    return found


def decoded(entry: Any) -> Recipe:
    """From untrusted JSON data; wrong types raise what `container.decoded` catches."""
    offset, source, shape, dtype, steps, crc32 = entry
    if dtype not in _TYPES:
        raise ValueError
    return Recipe(
        integer(offset),
        integer(source),
        Form(integers(shape), np.dtype(string(dtype))),
        tuple(_STEPS[string(name)](*fields) for name, *fields in steps),
        integer(crc32),
    )


def _decoded_combine(axis: Any, matrix: Any) -> Combine:
    if any(type(factor) is not float for row in matrix for factor in row):
        raise TypeError
    return Combine(integer(axis), tuple(map(tuple, matrix)))


_STEPS: dict[str, Callable[..., Step]] = {
    "reshape": lambda shape: Reshape(integers(shape)),
    "permute": lambda axes: Permute(integers(axes)),
    "broadcast": lambda shape: Broadcast(integers(shape)),
    "pad": lambda low, shape, fill: Pad(
        integers(low), integers(shape), bytes.fromhex(string(fill))
    ),
    "cast": lambda dtype: Cast(string(dtype)),
    "signed": lambda dtype: Signed(string(dtype)),
    "whole": Whole,
    "from_bf16": FromBf16,
    "combine": _decoded_combine,
}


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def plain(dtype: np.dtype) -> np.dtype | None:
    """The type by which a recipe knows elements: floats that it casts, and bytes of all others;
    None for what is too wide.
    """
    name = dtype.name if dtype.name in _CAST else f"uint{8 * dtype.itemsize}"
    return np.dtype(name) if name in _TYPES else None
