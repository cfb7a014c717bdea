"""Memory at the bounds that stays from call to call, for models whose sizes are known at run time.

A call writes its arguments to the start of buffers, and copies results out of others: neither is
allocated anew, and what follows from sizes is computed once for each.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from rcompiler.runtime.arguments import Parameter
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.index_checks import IndexChecks
from rcompiler.runtime.memory import Results, address
from rcompiler.runtime.outputs import Outputs
from rcompiler.runtime.program import Tensor
from rcompiler.runtime.sizes import is_plain
from rcompiler.support.extent import Extent, Symbol

_MOST_LAYOUTS = 1 << 10  # that are kept
# Bytes of a result of which a part at the start is there, up to which a copy of it takes less time
# than new memory for all of it.
_COPIED = 16 << 10

# Bytes of the buffers of one model; new memory for more takes little of the time of a call.
_MOST = 64 << 20
_Array = np.ndarray  # a name that the path of every call looks up

Sizes = tuple[int, ...]
Box = tuple[slice, ...]


class _Copied(NamedTuple):
    """An argument that is smaller than the bound. place: where it is copied to."""

    number: int
    shape: Sizes
    dtype: np.dtype
    place: np.ndarray
    check: Callable[[np.ndarray], None] | None


class _Made(NamedTuple):
    """A result. place: what is copied out of a buffer; None for new memory, of which `box` is the
    part that is there, None for all."""

    base: int
    place: np.ndarray | None
    new: Callable[[], tuple[np.ndarray, int]]
    box: Box | None


class _Layout(NamedTuple):
    """What follows from sizes. taken: numbers of the arguments that are read where they lie; bases:
    all addresses, of which those of `taken` and of new results are to be replaced; sizes: keeps
    what is told of sizes; table: of all addresses, where none is to be replaced, and parts: what
    then is copied out of buffers."""

    copied: Sequence[_Copied]
    taken: Sequence[int]
    made: Sequence[_Made]
    bases: Sequence[int]
    sizes: np.ndarray
    table: bytes | None
    parts: Sequence[np.ndarray]


class SizedBuffers:
    """The buffers of one model. They serve one call at a time: another one is told to do without.

    Whatever is not exactly as expected is left to the usual path of a call, which has the messages.
    """

    def __init__(
        self,
        artifact: Artifact,
        parameters: Sequence[Parameter],
        checks: IndexChecks,
        beyond: Any,
        run: Callable[[bytes], None],
        table: Callable[..., bytes],
    ) -> None:
        """parameters: of all inputs. checks: of indices that the model computes. beyond: what is
        written behind arguments at first; no result depends on it, nor on what is left of others.
        run: one inference with a table of base addresses. table: makes one of the addresses of
        inputs, sizes, results and answers.

        Raises DeviceError where there is no memory.
        """
        own = parameters[: len(artifact.given)]
        kinds: dict[object, int] = {}  # many tensors have one shape

        def kind(tensor: Tensor) -> int:
            return kinds.setdefault((tensor.shape, tensor.extents), len(kinds))

        self._given = [(parameter, kind(parameter.tensor)) for parameter in own]
        self._returned = [
            (tensor, kind(tensor), Results(tensor.shape, tensor.numpy_dtype()).new)
            for tensor in artifact.outputs
        ]
        every = [*artifact.given, *artifact.outputs]
        first = [next(t for t in every if kind(t) == number) for number in [*kinds.values()]]
        self._kinds = [_Kind(tensor, artifact.sizes) for tensor in first]
        self._symbols = artifact.sizes
        self._tellers = [_teller(own, symbol.name) for symbol in self._symbols]
        self._checks, self._answers = checks if checks else None, checks.new()
        self._run, self._table, self._count = run, table, len(own)
        self._beyond = beyond
        self._in: dict[int, tuple[np.ndarray, int]] = {}  # those that a call has needed
        self._out: dict[int, tuple[np.ndarray, int]] = {}
        self._names = tuple(tensor.name for tensor in artifact.returned)
        self._layouts: dict[Sizes, _Layout] = {}
        self._free = Lock()

    @staticmethod
    def can_serve(artifact: Artifact, parameters: Sequence[Parameter]) -> bool:
        """Whether a model has sizes that arguments tell, and nothing that a call has to do more."""
        tensors = [tensor for tensor in (*artifact.given, *artifact.outputs) if any(tensor.extents)]
        return (
            bool(artifact.sizes)
            and sum(tensor.nbytes for tensor in tensors) <= _MOST
            and not artifact.counts
            and not artifact.states
            and all(parameter.filled is None for parameter in parameters)
        )

    def call(self, args: Sequence[Any]) -> Outputs[np.ndarray] | None:
        """The results; None where another call has the buffers, or an argument is not as expected.

        Args:
            args: a value for each input of the model, in order.

        Raises:
            RangeError: an index leads out of its tensor.
            DeviceError: there is no memory; or as of `run`.
        """
        if not self._free.acquire(False):
            return None
        try:
            try:
                sizes = tuple([args[number].shape[axis] for number, axis in self._tellers])
            except (AttributeError, IndexError, TypeError):
                return None
            layout = self._layouts.get(sizes) or self._layout(sizes)
            if layout is None or len(args) != self._count:
                return None
            for number, shape, dtype, part, check in layout.copied:
                value = args[number]
                if type(value) is not _Array or value.shape != shape or value.dtype is not dtype:
                    return None
                if check is not None:
                    check(value)
                part[...] = value
            results: Outputs[np.ndarray] = Outputs()
            results.names = self._names
            if layout.table is None:
                self._with_others(layout, args, results)
            else:
                self._launch(layout.table)
                for part in layout.parts:
                    results.append(part.copy())
            return results
        finally:
            self._free.release()

    def _with_others(
        self, layout: _Layout, args: Sequence[Any], results: Outputs[np.ndarray]
    ) -> None:
        """Run where not all arguments and results are in buffers."""
        bases, kept = [*layout.bases], []
        for number in layout.taken:
            array, bases[number] = self._given[number][0].take(args[number])
            kept.append(array)
        for base, place, new, box in layout.made:
            if place is None:
                array, bases[base] = new()
                results.append(array if box is None else array[box])
            else:
                results.append(place)
        self._launch(self._table(*bases))
        for number, each in enumerate(layout.made):
            if each.place is not None:
                results[number] = each.place.copy()

    def _launch(self, table: bytes) -> None:
        self._run(table)
        if self._checks is not None:
            self._checks.look(self._answers)

    def _layout(self, sizes: Sizes) -> _Layout | None:
        """What follows from sizes; None where one is outside of its range."""
        for size, symbol in zip(sizes, self._symbols, strict=True):
            if type(size) is not int or not symbol.low <= size <= symbol.high:
                return None
        parts = [kind.part(sizes) for kind in self._kinds]
        told = np.array(sizes, np.int64)
        copied: list[_Copied] = []
        taken: list[int] = []
        bases: list[int] = []
        for number, (parameter, kind) in enumerate(self._given):
            shape, box, _ = parts[kind]
            if box is None:
                taken.append(number)
                bases.append(0)
                continue
            if number not in self._in:
                self._in[number] = _buffer(parameter.shape, parameter.dtype, self._beyond)
            buffer, start = self._in[number]
            check = None if parameter.indices is None else parameter.check_range
            copied.append(_Copied(number, shape, parameter.dtype, buffer[box], check))
            bases.append(start)
        place = address(told)
        bases += range(place, place + told.nbytes, told.itemsize)
        made: list[_Made] = []
        for number, (tensor, kind, new) in enumerate(self._returned):
            _, box, at_start = parts[kind]
            part: np.ndarray | None = None
            start = 0
            if box is not None and (tensor.nbytes <= _COPIED or not at_start):
                if number not in self._out:
                    self._out[number] = _buffer(tensor.shape, tensor.numpy_dtype(), None)
                buffer, start = self._out[number]
                part = buffer[box]
            made.append(_Made(len(bases), part, new, box))
            bases.append(start)
        bases += self._answers.addresses
        if len(self._layouts) >= _MOST_LAYOUTS:
            self._layouts.clear()
        out = [each.place for each in made if each.place is not None]
        fixed = not taken and len(out) == len(made)  # all addresses are known
        packed = self._table(*bases) if fixed else None
        layout = _Layout(copied, taken, made, bases, told, packed, out)
        self._layouts[sizes] = layout
        return layout


class _Kind:
    """Tensors of one shape, of which a part is there."""

    def __init__(self, tensor: Tensor, symbols: Sequence[Symbol]) -> None:
        self._tensor, self._names = tensor, [symbol.name for symbol in symbols]
        self._whole = tensor.shape, None, True
        # of axes that are one size and a number, these; of any other there is no quick way
        self._quick: list[tuple[int, int, int]] | None = []
        for axis, extent in enumerate(tensor.extents):
            if extent is None:
                continue
            symbol = extent.symbols[0]
            more = extent - Extent.of(symbol)
            if isinstance(more, Extent):
                self._quick = None
                break
            self._quick.append((axis, self._names.index(symbol.name), more))

    def part(self, sizes: Sizes) -> tuple[Sizes, Box | None, bool]:
        """The shape for some sizes, the part that is there, None for all, and whether that is one
        piece of memory.

        Raises ArtifactError where the shape is beyond the bounds.
        """
        bound = self._tensor.shape
        if self._quick is None:
            shape = self._tensor.shape_at(dict(zip(self._names, sizes, strict=True)))
        else:
            axes = [*bound]
            for axis, number, more in self._quick:
                axes[axis] = size = sizes[number] + more
                if not 0 <= size <= bound[axis]:
                    self._tensor.shape_at(dict(zip(self._names, sizes, strict=True)))
            shape = tuple(axes)
        if shape == bound:
            return self._whole
        ends = zip(shape, bound, strict=True)
        last = max(axis for axis, (size, most) in enumerate(ends) if size < most)
        return shape, tuple(map(slice, shape)), all(size == 1 for size in bound[:last])


def _teller(parameters: Sequence[Parameter], name: str) -> tuple[int, int]:
    """Number and axis of an input that has this many elements."""
    for number, parameter in enumerate(parameters):
        for axis, extent in enumerate(parameter.tensor.extents):
            if isinstance(extent, Extent) and is_plain(extent) and extent.symbols[0].name == name:
                return number, axis
    raise AssertionError(name)  # `check_sizes` has refused the artifact


def _buffer(shape: Sizes, dtype: np.dtype, fill: Any) -> tuple[np.ndarray, int]:
    """Memory at the bounds, and its address."""
    array, start = Results(shape, dtype).new()
    if fill is not None:
        array[...] = np.asarray(fill).astype(dtype)
    return array, start
