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
from rcompiler.support.extent import Extent, Symbol, count_of

_MOST_LAYOUTS = 1 << 10  # that are kept
# Bytes of a result of which a part at the start is there, up to which a copy of it takes less time
# than new memory for all of it.
_COPIED = 16 << 10

# Bytes of the buffers of one model; new memory for more takes little of the time of a call.
_MOST = 64 << 20
_Array = np.ndarray  # a name that the path of every call looks up

Sizes = tuple[int, ...]
Box = tuple[slice, ...]


# An argument that is smaller than the bound: its number, shape and type, where it is copied to, and
# what checks the indices in it.
_Copied = tuple[int, Sizes, np.dtype, np.ndarray, Callable[[np.ndarray], None] | None]
# A result: the number of its address; what is copied out of a buffer, or None and what makes new
# memory; of that the part that is there, None for all.
_Made = tuple[int, np.ndarray | None, Callable[[], tuple[np.ndarray, int]], Box | None]


class _Tensor:
    """An argument or a result. kind: number of its shape; large: whether a part at the start of it
    is better new memory than a copy; buffer: memory at the bound, once a call has needed it."""

    def __init__(self, number: int, parameter: Parameter, kind: int) -> None:
        self.number, self.parameter, self.kind = number, parameter, kind
        self.new = Results(parameter.shape, parameter.dtype).new
        self.large = parameter.tensor.nbytes > _COPIED
        self.buffer: np.ndarray | None = None


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

        given = [_Tensor(number, p, kind(p.tensor)) for number, p in enumerate(own)]
        self._results = [
            _Tensor(number, Parameter(tensor, "output"), kind(tensor))
            for number, tensor in enumerate(artifact.outputs)
        ]
        self._parameters = own
        self._sized = [each for each in given if each.parameter.tensor.extents]
        self._whole = [each.number for each in given if not each.parameter.tensor.extents]
        every = [*artifact.given, *artifact.outputs]
        first = [next(t for t in every if kind(t) == number) for number in [*kinds.values()]]
        self._kinds = [_Kind(tensor, artifact.sizes) for tensor in first]
        self._symbols = artifact.sizes
        tellers = [_teller(own, symbol.name) for symbol in self._symbols]
        self._tellers = [(number, axis) for number, axis, _ in tellers]
        multiples = [multiple for _, _, multiple in tellers]
        # None where all of them are the counts themselves
        self._multiples = multiples if any(each != (1, 0) for each in multiples) else None
        self._checks, self._answers = checks if checks else None, checks.new()
        self._run, self._table, self._count = run, table, len(own)
        # addresses of inputs, sizes and results, of those that are known, and of answers
        count = len(own) + len(artifact.sizes) + len(artifact.outputs)
        self._bases = [*[0] * count, *self._answers.addresses]
        self._beyond = beyond
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
                lengths = tuple([args[number].shape[axis] for number, axis in self._tellers])
            except (AttributeError, IndexError, TypeError):
                return None
            layout = self._layouts.get(lengths) or self._layout(lengths)
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
            array, bases[number] = self._parameters[number].take(args[number])
            kept.append(array)
        for base, place, new, box in layout.made:
            if place is None:
                array, bases[base] = new()
                results.append(array if box is None else array[box])
            else:
                results.append(place)
        self._launch(self._table(*bases))
        for number, (_, place, _, _) in enumerate(layout.made):
            if place is not None:
                results[number] = place.copy()

    def _launch(self, table: bytes) -> None:
        self._run(table)
        if self._checks is not None:
            self._checks.look(self._answers)

    def _layout(self, lengths: Sizes) -> _Layout | None:
        """What follows from the lengths of the axes that tell sizes; None where one is outside of
        its range."""
        sizes = lengths
        if self._multiples is not None and all(type(length) is int for length in lengths):
            pairs = zip(lengths, self._multiples, strict=True)
            found = [count_of(length, multiple) for length, multiple in pairs]
            sizes = tuple([-1 if count is None else count for count in found])
        for size, symbol in zip(sizes, self._symbols, strict=True):
            if type(size) is not int or not symbol.low <= size <= symbol.high:
                return None
        parts = [kind.part(sizes) for kind in self._kinds]
        told = np.array(sizes, np.int64)
        place = address(told)
        bases = [*self._bases]
        for n in range(len(sizes)):
            bases[self._count + n] = place + 8 * n
        copied: list[_Copied] = []
        taken = [*self._whole]
        for given in self._sized:
            shape, box, _ = parts[given.kind]
            if box is None:
                taken.append(given.number)
                continue
            if given.buffer is None:
                given.buffer, self._bases[given.number] = _buffer(given.parameter, self._beyond)
                bases[given.number] = self._bases[given.number]
            own = given.parameter
            check = None if own.indices is None else own.check_range
            copied.append((given.number, shape, own.dtype, given.buffer[box], check))
        made: list[_Made] = []
        out: list[np.ndarray] = []
        for base, result in enumerate(self._results, self._count + len(sizes)):
            _, box, at_start = parts[result.kind]
            if box is None or (at_start and result.large):
                made.append((base, None, result.new, box))
                continue
            if result.buffer is None:
                result.buffer, self._bases[base] = _buffer(result.parameter, None)
                bases[base] = self._bases[base]
            part = result.buffer[box]
            out.append(part)
            made.append((base, part, result.new, box))
        fixed = not taken and len(out) == len(made)  # all addresses are known
        packed = self._table(*bases) if fixed else None
        if len(self._layouts) >= _MOST_LAYOUTS:
            self._layouts.clear()
        layout = self._layouts[lengths] = _Layout(copied, taken, made, bases, told, packed, out)
        return layout


class _Kind:
    """Tensors of one shape, of which a part is there."""

    def __init__(self, tensor: Tensor, symbols: Sequence[Symbol]) -> None:
        self._tensor, self._names = tensor, [symbol.name for symbol in symbols]
        self._whole = tensor.shape, None, True
        # of one axis that is a size and a number: what there is a quick way for
        self._one: tuple[int, int, int, Box, bool] | None = None
        told = [(axis, extent) for axis, extent in enumerate(tensor.extents) if extent is not None]
        if len(told) == 1:
            [(axis, extent)] = told
            symbol = extent.symbols[0]
            more = extent - Extent.of(symbol)
            if isinstance(more, int):
                at_start = all(size == 1 for size in tensor.shape[:axis])
                number = self._names.index(symbol.name)
                self._one = axis, number, more, (slice(None),) * axis, at_start

    def part(self, sizes: Sizes) -> tuple[Sizes, Box | None, bool]:
        """The shape for some sizes, the part that is there, None for all, and whether that is one
        piece of memory.

        Raises ArtifactError where the shape is beyond the bounds.
        """
        bound = self._tensor.shape
        if self._one is not None:
            axis, number, more, before, at_start = self._one
            size = sizes[number] + more
            if size == bound[axis]:
                return self._whole
            if 0 <= size < bound[axis]:
                shape = (*bound[:axis], size, *bound[axis + 1 :])
                return shape, (*before, slice(size)), at_start
        shape = self._tensor.shape_at(dict(zip(self._names, sizes, strict=True)))
        if shape == bound:
            return self._whole
        ends = zip(shape, bound, strict=True)
        last = max(axis for axis, (size, most) in enumerate(ends) if size < most)
        return shape, tuple(map(slice, shape)), all(size == 1 for size in bound[:last])


def _teller(parameters: Sequence[Parameter], name: str) -> tuple[int, int, tuple[int, int]]:
    """Number and axis of an input that has this many elements, or a multiple of it, and which."""
    found = [
        (number, axis, extent.multiple)
        for number, parameter in enumerate(parameters)
        for axis, extent in enumerate(parameter.tensor.extents)
        if extent and extent.multiple and extent.symbols[0].name == name
    ]
    # `check_sizes` has refused an artifact that has none
    return next((each for each in found if each[2] == (1, 0)), found[0])


def _buffer(parameter: Parameter, fill: Any) -> tuple[np.ndarray, int]:
    """Memory at the bounds, and its address."""
    array, start = Results(parameter.shape, parameter.dtype).new()
    if fill is not None:
        array[...] = np.asarray(fill).astype(parameter.dtype)
    return array, start
