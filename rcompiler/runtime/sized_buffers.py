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
from rcompiler.runtime.sizes import is_plain
from rcompiler.support.extent import Extent

_MOST_LAYOUTS = 1 << 10  # that are kept
# Bytes of a result of which a part at the start is there, up to which a copy of it takes less time
# than new memory for all of it.
_COPIED = 16 << 10

# Bytes of the buffers of one model; new memory for more takes little of the time of a call.
_MOST = 64 << 20

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
    what is told of sizes."""

    copied: tuple[_Copied, ...]
    taken: tuple[int, ...]
    made: tuple[_Made, ...]
    bases: tuple[int, ...]
    sizes: np.ndarray


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
    ) -> None:
        """parameters: of all inputs. checks: of indices that the model computes. beyond: what is
        written behind arguments at first; no result depends on it, nor on what is left of others.

        Raises DeviceError where there is no memory.
        """
        given = artifact.given
        self._parameters, self._outputs = parameters[: len(given)], artifact.outputs
        self._symbols = artifact.sizes
        self._tellers = [_teller(self._parameters, symbol.name) for symbol in self._symbols]
        self._checks, self._answers = checks, checks.new()
        self._beyond = beyond
        self._in: dict[int, tuple[np.ndarray, int]] = {}  # those that a call has needed
        self._out: dict[int, tuple[np.ndarray, int]] = {}
        self._new = [Results(t.shape, t.numpy_dtype()).new for t in self._outputs]
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

    def call(
        self, args: Sequence[Any], run: Callable[[bytes], None], table: Callable[..., bytes]
    ) -> Outputs[np.ndarray] | None:
        """The results; None where another call has the buffers, or an argument is not as expected.

        Args:
            args: a value for each input of the model, in order.
            run: one inference with a table of base addresses.
            table: makes one of the addresses of inputs, sizes, results and answers.

        Raises:
            RangeError: an index leads out of its tensor.
            DeviceError: there is no memory; as of `run`.
        """
        if not self._free.acquire(blocking=False):
            return None
        try:
            return self._run(args, run, table)
        finally:
            self._free.release()

    def _run(
        self, args: Sequence[Any], run: Callable[[bytes], None], table: Callable[..., bytes]
    ) -> Outputs[np.ndarray] | None:
        try:
            sizes = tuple([args[number].shape[axis] for number, axis in self._tellers])
        except (AttributeError, IndexError, TypeError):
            return None
        layout = self._layouts.get(sizes) or self._layout(sizes)
        if layout is None:
            return None
        for number, shape, dtype, part, check in layout.copied:
            value = args[number]
            if type(value) is not np.ndarray or value.shape != shape or value.dtype is not dtype:
                return None
            if check is not None:
                check(value)
            part[...] = value
        bases, kept = [*layout.bases], []
        for number in layout.taken:
            array, bases[number] = self._parameters[number].take(args[number])
            kept.append(array)
        results: Outputs[np.ndarray] = Outputs()
        results.names = self._names
        for base, place, new, box in layout.made:
            if place is None:
                array, bases[base] = new()
                results.append(array if box is None else array[box])
            else:
                results.append(place)
        run(table(*bases))
        if self._checks:
            self._checks.look(self._answers)
        for number, each in enumerate(layout.made):
            if each.place is not None:
                results[number] = each.place.copy()
        return results

    def _layout(self, sizes: Sizes) -> _Layout | None:
        """What follows from sizes; None where one is outside of its range."""
        told = zip(sizes, self._symbols, strict=True)
        if not all(type(n) is int and s.low <= n <= s.high for n, s in told):
            return None
        counts = {s.name: n for s, n in zip(self._symbols, sizes, strict=True)}
        shapes: dict[Any, Sizes] = {}  # many tensors of a model have one

        def shape_of(tensor: Any) -> Sizes:
            key = tensor.shape, tensor.extents
            if key not in shapes:
                shapes[key] = tensor.shape_at(counts)
            return shapes[key]

        told_sizes = np.array(sizes, np.int64)
        copied, taken, bases = [], [], []
        for number, p in enumerate(self._parameters):
            shape = shape_of(p.tensor) if p.tensor.extents else p.shape
            if shape == p.shape:
                taken.append(number)
                bases.append(0)
                continue
            if number not in self._in:
                self._in[number] = _buffer(p.shape, p.dtype, self._beyond)
            buffer, start = self._in[number]
            check = None if p.indices is None else p.check_range
            part = buffer[tuple(map(slice, shape))]
            copied.append(_Copied(number, shape, p.dtype, part, check))
            bases.append(start)
        bases += [address(told_sizes) + 8 * n for n in range(len(sizes))]
        made = []
        for number, tensor in enumerate(self._outputs):
            shape = shape_of(tensor) if tensor.extents else tensor.shape
            box = None if shape == tensor.shape else tuple(map(slice, shape))
            place: np.ndarray | None = None
            start = 0
            if box is not None and (tensor.nbytes <= _COPIED or not _at_start(box, tensor.shape)):
                if number not in self._out:
                    self._out[number] = _buffer(tensor.shape, tensor.numpy_dtype(), None)
                buffer, start = self._out[number]
                place = buffer[box]
            made.append(_Made(len(bases), place, self._new[number], box))
            bases.append(start)
        bases += self._answers.addresses
        if len(self._layouts) >= _MOST_LAYOUTS:
            self._layouts.clear()
        layout = _Layout(tuple(copied), tuple(taken), tuple(made), tuple(bases), told_sizes)
        self._layouts[sizes] = layout
        return layout


def _at_start(box: Box, shape: Sizes) -> bool:
    """Whether a part of an array is one piece of memory at its start."""
    cut = [axis for axis, (part, n) in enumerate(zip(box, shape, strict=True)) if part.stop < n]
    return all(n == 1 for n in shape[: max(cut, default=0)])


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
