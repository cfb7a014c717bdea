"""Arguments of models whose sizes are known at run time: the counts in their shapes, and memory at
the bounds for what kernels read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcompiler.errors import ShapeError
from rcompiler.runtime.arguments import Arrays, Parameter
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.memory import Results, address, aligned_empty
from rcompiler.runtime.sizes import is_plain
from rcompiler.support.extent import Extent, count_of
from rcompiler.support.random_keys import without_key

Counts = dict[str, int]
Box = tuple[slice, ...]
_Array = np.ndarray
_MOST_LAYOUTS = 256  # that are kept


@dataclass(frozen=True)
class Layout:
    """What follows from the shapes of arguments.

    Attributes:
        counts: the sizes by name.
        sizes: (n,) int64, those that the program is told, and their addresses.
        boxes: by input where its numbers lie in the array of the bounds; None where it is that.
        cuts: by output the part that is there; None for all, or where the model counts more.
    """

    counts: Counts
    sizes: np.ndarray
    addresses: tuple[int, ...]
    boxes: tuple[Box | None, ...]
    cuts: tuple[Box | None, ...]


class SizedCall:
    """Arguments and results of a model, some of which have axes of any size within a range.

    Attributes:
        beyond: what is written behind the numbers of an argument. No result depends on it.
    """

    beyond: Any = 0

    def __init__(self, artifact: Artifact, parameters: Sequence[Parameter]) -> None:
        """parameters: of all inputs."""
        self._inputs, self._outputs = artifact.given, artifact.outputs
        self._sizes, self._computed = artifact.sizes, artifact.counts
        self._names = [t.name for t in artifact.inputs if t.size is not None]
        self._parameters = parameters[: len(self._inputs)]
        self._makes = [Results(p.shape, p.dtype) for p in self._parameters]
        self._count = Results((), np.dtype(np.int64))
        self._layouts: dict[object, Layout] = {}

    @staticmethod
    def of(artifact: Artifact, parameters: Sequence[Parameter]) -> "SizedCall | None":
        """None where all sizes are known."""
        needed = artifact.sizes or artifact.counts
        return SizedCall(artifact, parameters) if needed else None

    def take(self, args: Sequence[object]) -> tuple[list[np.ndarray], list[int], Layout]:
        """Arrays that a kernel may read, without those of the sizes; the addresses of all inputs.

        args: a value for each input of the model, in order.

        Raises:
            ShapeError: another dtype, a size outside of its range, or two that disagree.
            RangeError: an index leads out of its tensor.
            DeviceError: there is no memory.
        """
        key = tuple([(v.shape, v.dtype) if type(v) is _Array else None for v in args])
        layout = self._layouts.get(key)
        if layout is None:
            args = self._arrays(args)
            layout = self._layout(args)
            if None not in key:
                if len(self._layouts) >= _MOST_LAYOUTS:
                    self._layouts.clear()
                self._layouts[key] = layout
        arrays, bases = [], []
        for number, box in enumerate(layout.boxes):
            value: Any = args[number]
            if box is None:
                array, start = self._parameters[number].take(value)
            else:
                array, start = self._padded(number, value, box)
            arrays.append(array)
            bases.append(start)
        return arrays, [*bases, *layout.addresses], layout

    def take_all(self, args: Sequence[object]) -> tuple[list[Any], Layout]:
        """Arrays at the bounds for all inputs, those of the sizes last. Raises as `take`."""
        arrays, _, layout = self.take(args)
        sizes = layout.sizes
        return [*arrays, *(sizes[n : n + 1].reshape(()) for n in range(len(sizes)))], layout

    def checked(self, args: Sequence[object]) -> list[np.ndarray]:
        """Arguments as arrays of the sizes that they have. Raises as `take`."""
        values = self._arrays(args)
        self._layout(values)
        found = []
        for parameter, value in zip(self._parameters, values, strict=True):
            if parameter.tensor.extents:
                parameter.check_range(value)
                found.append(value)
            else:
                found.append(parameter.take(value)[0])
        return found

    def _arrays(self, args: Sequence[object]) -> list[Any]:
        """What numpy makes of arguments that have a size at run time."""
        pairs = zip(self._parameters, args, strict=True)
        return [p.sized_array(v) if p.tensor.extents else v for p, v in pairs]

    def _layout(self, values: Sequence[Any]) -> Layout:
        counts = self._counts(values)
        boxes = [
            tuple(map(slice, value.shape))
            if parameter.tensor.extents and value.shape != parameter.shape
            else None
            for parameter, value in zip(self._parameters, values, strict=True)
        ]
        sizes = np.array([counts[symbol.name] for symbol in self._sizes], np.int64)
        places = tuple(address(sizes) + 8 * n for n in range(len(sizes)))
        return Layout(counts, sizes, places, tuple(boxes), tuple(self._cuts(counts)))

    def _cuts(self, counts: Counts) -> Iterator[Box | None]:
        for tensor in self._outputs:
            names = {
                symbol.name for extent in tensor.extents if extent for symbol in extent.symbols
            }
            shape = tensor.shape_at(counts) if names <= counts.keys() else tensor.shape
            yield None if shape == tensor.shape else tuple(map(slice, shape))

    def _counts(self, values: Sequence[Any]) -> Counts:
        """By the axes that are one count, or a multiple of one; all others have to agree."""
        counts: Counts = {}
        tellers: dict[str, str] = {}
        composed: list[tuple[Extent, int, str]] = []
        for parameter, value in zip(self._parameters, values, strict=True):
            for axis, extent in enumerate(parameter.tensor.extents):
                if extent is None:
                    continue
                size, where = value.shape[axis], f"axis {axis} of input '{parameter.tensor.name}'"
                symbol = extent.symbols[0]
                if not is_plain(extent):
                    composed.append((extent, size, where))
                elif not symbol.low <= size <= symbol.high:
                    raise ShapeError(
                        f"{where} has {size} elements; '{symbol.name}' is from {symbol.low} to "
                        f"{symbol.high}; compile the model with another range, or cut the argument"
                    )
                elif counts.setdefault(symbol.name, size) != size:
                    raise ShapeError(
                        f"{where} has {size} elements, and {tellers[symbol.name]} has "
                        f"{counts[symbol.name]}; both are '{symbol.name}', from {symbol.low} to "
                        f"{symbol.high}"
                    )
                else:
                    tellers.setdefault(symbol.name, where)
        for extent, size, where in composed:
            if extent.multiple and extent.symbols[0].name not in counts:
                counts[extent.symbols[0].name] = _told(size, extent, where)
        for extent, size, where in composed:
            if extent.at(counts) != size:
                raise ShapeError(
                    f"{where} has {size} elements; '{extent}' is {extent.at(counts)} where "
                    + ", ".join(f"'{s.name}' is {counts[s.name]}" for s in extent.symbols)
                )
        return counts

    def _padded(self, number: int, value: np.ndarray, box: Box) -> tuple[np.ndarray, int]:
        """A copy at the bounds."""
        parameter = self._parameters[number]
        parameter.check_range(value)
        array, start = self._makes[number].new()
        fill = np.asarray(self.beyond).astype(parameter.dtype)
        for axis, part in enumerate(box):
            if part.stop != parameter.shape[axis]:
                array[(*box[:axis], slice(part.stop, None))] = fill
        array[box] = value
        if parameter.filled is not None:
            array = parameter.as_read(array)
            start = address(array)
        return array, start

    def new_counts(self) -> tuple[list[np.ndarray], list[int]]:
        """Memory for the sizes that the model computes, and its addresses."""
        made = [self._count.new() for _ in self._computed]
        return [array for array, _ in made], [start for _, start in made]

    def cut(
        self, outputs: Sequence[np.ndarray], layout: Layout, counted: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """The parts of the results that are there, each in one piece of memory.

        counted: what `new_counts` made, filled.

        Raises:
            ArtifactError: one would be larger than the whole.
        """
        cuts = layout.cuts
        if counted:
            found = zip(self._computed, counted, strict=True)
            counts = {**layout.counts, **{symbol.name: int(number) for symbol, number in found}}
            cuts = tuple(self._cuts(counts))
        parts = []
        for array, box in zip(outputs, cuts, strict=True):
            part = array if box is None else array[box]
            parts.append(part if part.flags.c_contiguous else part.copy())
        return parts

    def with_bounds(self, inputs: Arrays | None) -> Arrays | None:
        """Arrays to be bound with the sizes behind them: the bounds."""
        bounds = [np.array(symbol.high, np.int64) for symbol in self._sizes]
        own = without_key(self._inputs)
        if inputs is None:
            made = {t.name: aligned_empty(t.shape, t.numpy_dtype()) for t in own}
            for array in made.values():
                array[...] = np.zeros((), array.dtype)
            inputs = made
        elif not isinstance(inputs, Mapping) and len(inputs) in (len(own), len(self._inputs)):
            inputs = dict(zip((t.name for t in self._inputs), inputs, strict=False))
        if isinstance(inputs, Mapping):
            return {**dict(zip(self._names, bounds, strict=True)), **inputs}
        return inputs


def _told(size: int, extent: Extent, where: str) -> int:
    """The count that an axis tells which has a multiple of it. Raises ShapeError if it has none."""
    assert extent.multiple is not None
    count, [symbol] = count_of(size, extent.multiple), extent.symbols
    if count is None or not symbol.low <= count <= symbol.high:
        factor, number = extent.multiple
        raise ShapeError(
            f"{where} has {size} elements; '{extent}' is from {factor * symbol.low + number} to "
            f"{factor * symbol.high + number} in steps of {factor}, as '{symbol.name}' is from "
            f"{symbol.low} to {symbol.high}; compile the model with another range, or cut or pad "
            "the argument"
        )
    return count
