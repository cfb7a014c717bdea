"""Arguments of models whose sizes are known at run time: the counts in their shapes, and memory at
the bounds for what kernels read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rcompiler.errors import DeviceError, ShapeError
from rcompiler.runtime.arguments import Arrays, Parameter
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.memory import Results, address, aligned_empty
from rcompiler.runtime.program import Tensor
from rcompiler.runtime.sizes import is_plain
from rcompiler.support.extent import Extent, Symbol

Counts = dict[str, int]


class SizedArguments:
    """The arguments of a model, some of which have axes of any size within a range.

    Attributes:
        sizes: the counts that the arguments tell, in order.
        beyond: what is written behind the numbers of an argument. No result depends on it.
    """

    beyond: Any = 0

    def __init__(self, parameters: Sequence[Parameter], sizes: Sequence[Symbol]) -> None:
        """parameters: of all inputs, those of the sizes last."""
        self._parameters = parameters[: len(parameters) - len(sizes)]
        self.sizes = tuple(sizes)

    def take(self, args: Sequence[object]) -> tuple[list[np.ndarray], list[int], Counts]:
        """Arrays that a kernel may read, those of the sizes last; their addresses; the sizes.

        args: a value for each input of the model, in order.

        Raises:
            ShapeError: another dtype, a size outside of its range, or two that disagree.
            RangeError: an index leads out of its tensor.
            DeviceError: there is no memory.
        """
        pairs = zip(self._parameters, args, strict=True)
        values: list[Any] = [p.sized_array(v) if p.tensor.extents else v for p, v in pairs]
        counts = self._counts(values)
        arrays, bases = [], []
        for parameter, value in zip(self._parameters, values, strict=True):
            cut_short = parameter.tensor.extents and value.shape != parameter.shape
            taken = self._padded if cut_short else Parameter.take
            array, start = taken(parameter, value)
            arrays.append(array)
            bases.append(start)
        told = np.array([counts[symbol.name] for symbol in self.sizes], np.int64)
        first = address(told)
        arrays += [told[n : n + 1].reshape(()) for n in range(len(told))]
        bases += [first + 8 * n for n in range(len(told))]
        return arrays, bases, counts

    def _counts(self, values: Sequence[Any]) -> Counts:
        """By the axes that are one count; all others have to agree."""
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
            if extent.at(counts) != size:
                raise ShapeError(
                    f"{where} has {size} elements; '{extent}' is {extent.at(counts)} where "
                    + ", ".join(f"'{s.name}' is {counts[s.name]}" for s in extent.symbols)
                )
        return counts

    def _padded(self, parameter: Parameter, value: np.ndarray) -> tuple[np.ndarray, int]:
        """A copy at the bounds."""
        parameter.check_range(value)
        try:
            array = aligned_empty(parameter.shape, parameter.dtype)
        except MemoryError:
            raise DeviceError(
                f"call: no memory for {parameter.tensor.nbytes} bytes of an input; free some memory"
            ) from None
        array[...] = np.asarray(self.beyond).astype(parameter.dtype)
        array[tuple(map(slice, value.shape))] = value
        array = parameter.as_read(array)
        return array, address(array)


class SizedCall:
    """The memory of calls of a model whose sizes are known at run time."""

    def __init__(self, artifact: Artifact, parameters: Sequence[Parameter]) -> None:
        """parameters: of all inputs."""
        self._outputs, self._counts = artifact.outputs, artifact.counts
        self._inputs = artifact.given
        self._names = [t.name for t in artifact.inputs if t.size is not None]
        self._arguments = SizedArguments(parameters, artifact.sizes)
        self.take = self._arguments.take
        self._count = Results((), np.dtype(np.int64))

    @staticmethod
    def of(artifact: Artifact, parameters: Sequence[Parameter]) -> "SizedCall | None":
        """None where all sizes are known."""
        needed = artifact.sizes or artifact.counts
        return SizedCall(artifact, parameters) if needed else None

    def new_counts(self) -> tuple[list[np.ndarray], list[int]]:
        """Memory for the sizes that the model computes, and its addresses."""
        made = [self._count.new() for _ in self._counts]
        return [array for array, _ in made], [start for _, start in made]

    def cut(
        self, outputs: Sequence[np.ndarray], counts: Counts, counted: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """The parts of the results that are there. counted: what `new_counts` made, filled."""
        found = zip(self._counts, counted, strict=True)
        counts = {**counts, **{symbol.name: int(number) for symbol, number in found}}
        pairs = zip(self._outputs, outputs, strict=True)
        return [cut(tensor, array, counts) for tensor, array in pairs]

    def with_bounds(self, inputs: Arrays | None) -> Arrays | None:
        """Arrays to be bound with the sizes behind them: the bounds."""
        bounds = [np.array(symbol.high, np.int64) for symbol in self._arguments.sizes]
        if inputs is None:
            made = [aligned_empty(t.shape, t.numpy_dtype()) for t in self._inputs]
            for array in made:
                array[...] = np.zeros((), array.dtype)
            return [*made, *bounds]
        if isinstance(inputs, Mapping):
            return {**dict(zip(self._names, bounds, strict=True)), **inputs}
        if len(inputs) == len(self._inputs):
            return [*inputs, *bounds]
        return inputs


def cut(tensor: Tensor, array: np.ndarray, counts: Counts) -> np.ndarray:
    """The part of a result that is there, in one piece of memory.

    Raises:
        ArtifactError: it would be larger than the whole.
    """
    if not tensor.extents:
        return array
    part = array[tuple(map(slice, tensor.shape_at(counts)))]
    return part if part.flags.c_contiguous else part.copy()
