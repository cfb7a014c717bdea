"""A model for requests of unequal lengths, which are computed together without padding.

    model = rcompiler.compile_onnx(bert, shapes={"batch": 8, "seq": range(1, 513)},
                                   packed=("batch", "seq"))
    hidden, pooled = model([ids_of_a, ids_of_b], [mask_of_a, mask_of_b])

Loading imports numpy, the runtime and the checker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcompiler.bucketed import BucketedModel, SizedTensor
from rcompiler.errors import ShapeError
from rcompiler.model import Model
from rcompiler.runtime.arguments import call_arguments
from rcompiler.runtime.family import Family
from rcompiler.runtime.outputs import Outputs, named
from rcompiler.runtime.program import Tensor
from rcompiler.support.packed_names import LENGTHS, ROWS


@dataclass(frozen=True)
class _Side:
    """An input or output of the programs. rows: which axis is the rows, requests: which is the
    requests; None for none."""

    tensor: Tensor
    rows: int | None
    requests: int | None


@dataclass(frozen=True)
class _Batch:
    """The requests of a call. order: their numbers, the longest first; lengths: in this order."""

    order: np.ndarray
    lengths: np.ndarray

    @property
    def rows(self) -> int:
        return int(self.lengths.sum())


class PackedModel(BucketedModel):
    """Lists of numpy arrays in, lists of them out.

    The arrays of all requests are joined to rows, the longest request first, and results are cut
    into those of the requests again, in the order of the call.

    Attributes:
        inputs, outputs: name, shape, dtype of each: of one that has lengths those of one request.
    """

    def __init__(self, family: Family, eus: int | None = None, **options: Any) -> None:
        """Prove the schedules of all programs, load their code, start the threads.

        Args:
            family, eus, **options: as of `BucketedModel`.

        Raises:
            ArtifactError, ScheduleError, DeviceError: as of `BucketedModel`.
        """
        super().__init__(family, eus, **options)
        first = family.programs[0]
        [lengths] = [tensor for tensor in first.given if tensor.name == LENGTHS]
        self._batch, self._seq = str(lengths.sizes[0]), family.symbols[1]
        self._most = lengths.shape[0]
        self._shortest = min(sizes[1][0] for sizes in family.sizes)
        self._longest = max(sizes[1][1] for sizes in family.sizes)
        self._in = [self._side(tensor) for tensor in first.given if tensor.name != LENGTHS]
        self._out = [self._side(tensor) for tensor in first.outputs]
        self._names = tuple(tensor.name for tensor in first.outputs)
        self.inputs = tuple(map(self._sized, self._in))
        self.outputs = tuple(map(self._sized, self._out))

    def __call__(self, *args: object, **kwargs: object) -> Outputs[Any]:
        """Run one inference.

        Args: by position or by name, for each input that has lengths a list with an array per
            request; for each other input an array.

        Returns:
            A list with, per output, a list of an array per request where it has lengths; else an
            array. They are in the order of the requests of the call.

        Raises:
            ShapeError: lists of different lengths, a request whose arrays have different lengths,
                more requests or longer ones than the model was compiled for; or as
                `BucketedModel.__call__`.
            RangeError, DeviceError: as of `BucketedModel.__call__`.
        """
        batch, arrays = self._joined(call_arguments(self.inputs, args, kwargs))  # type: ignore[arg-type]
        made = self._model_for(batch)(arrays)
        ends = np.cumsum(batch.lengths)[:-1]
        back = np.argsort(batch.order)
        found: list[Any] = []
        for side, array in zip(self._out, made, strict=True):
            if side.rows is not None:
                parts = np.split(array, ends, side.rows)
                found.append([np.ascontiguousarray(parts[number]) for number in back])
            else:
                at = side.requests
                found.append(array if at is None else np.take(array, back, at))
        return named(self._names, found)

    def taking(self, *args: object, **kwargs: object) -> Model:
        """The model that runs a call with these arguments, on the rows of the requests.

        Args: as of a call.

        Raises:
            ShapeError: as of a call.
        """
        batch, _ = self._joined(call_arguments(self.inputs, args, kwargs))  # type: ignore[arg-type]
        return self._model_for(batch)

    def rows(self, *args: object, **kwargs: object) -> dict[str, np.ndarray]:
        """What `taking(...)` is called with: the rows of the requests, and their lengths.

        Args: as of a call.

        Raises:
            ShapeError: as of a call.
        """
        return self._joined(call_arguments(self.inputs, args, kwargs))[1]  # type: ignore[arg-type]

    def _side(self, tensor: Tensor) -> _Side:
        sizes = [str(size) for size in tensor.sizes]
        at = {name: sizes.index(name) if name in sizes else None for name in (ROWS, self._batch)}
        return _Side(tensor, at[ROWS], at[self._batch])

    def _sized(self, side: _Side) -> SizedTensor:
        """As a caller sees it."""
        tensor = side.tensor
        shape, sizes = (
            list(tensor.shape),
            [s if isinstance(s, int) else str(s) for s in tensor.sizes],
        )
        if side.rows is not None:
            shape[side.rows], sizes[side.rows] = self._longest, self._seq
        return SizedTensor(tensor.name, tuple(shape), tensor.dtype, tuple(sizes))

    def _model_for(self, batch: _Batch) -> Model:
        now, sizes = self._now, (batch.rows, int(batch.lengths[0]))
        return now.models[now.family.program_for(sizes)]

    def _joined(self, values: Sequence[object]) -> tuple[_Batch, dict[str, np.ndarray]]:
        """The requests, and the arguments of a program."""
        lists = {
            side.tensor.name: self._requests(side, value)
            for side, value in zip(self._in, values, strict=True)
            if side.rows is not None
        }
        batch = self._lengths(lists)
        arrays = {LENGTHS: batch.lengths}
        for side, value in zip(self._in, values, strict=True):
            name = side.tensor.name
            if side.rows is not None:
                arrays[name] = np.concatenate([lists[name][n] for n in batch.order], side.rows)
            elif side.requests is None:
                arrays[name] = value  # type: ignore[assignment]  # whatever a program takes
            else:
                arrays[name] = self._of_requests(side, value, batch)
        return batch, arrays

    def _requests(self, side: _Side, value: object) -> list[np.ndarray]:
        """The arrays of an input, one for each request."""
        tensor = side.tensor
        if not isinstance(value, list | tuple):
            raise ShapeError(
                f"input '{tensor.name}' is a {type(value).__name__}; a packed model takes a list "
                "of arrays, one for each request"
            )
        shape, dtype = self._sized(side), tensor.numpy_dtype()
        arrays = [np.asarray(each) for each in value]
        for number, array in enumerate(arrays):
            kept = [n for axis, n in enumerate(array.shape) if axis != side.rows]
            wanted = [n for axis, n in enumerate(tensor.shape) if axis != side.rows]
            if kept != wanted or array.ndim != len(tensor.shape) or array.dtype != dtype:
                raise ShapeError(
                    f"request {number} of input '{tensor.name}' is {array.dtype}"
                    f"{list(array.shape)}; the model wants {dtype} "
                    f"[{', '.join(map(str, shape.sizes))}]"
                )
        return arrays

    def _lengths(self, lists: dict[str, list[np.ndarray]]) -> _Batch:
        """Of the requests, on which all inputs have to agree."""
        lengths: dict[str, list[int]] = {}
        for side in self._in:
            if side.rows is not None:
                name = side.tensor.name
                lengths[name] = [array.shape[side.rows] for array in lists[name]]
        (first, told), *others = lengths.items()
        for name, other in others:
            if len(other) != len(told):
                raise ShapeError(
                    f"input '{first}' has {len(told)} requests and input '{name}' {len(other)}; "
                    "give all inputs of each request"
                )
            for number, (one, two) in enumerate(zip(told, other, strict=True)):
                if one != two:
                    raise ShapeError(
                        f"request {number} has {one} positions in input '{first}' and {two} in "
                        f"input '{name}'; give arrays of one length"
                    )
        if not 1 <= len(told) <= self._most:
            raise ShapeError(
                f"{len(told)} requests; '{self._batch}' is from 1 to {self._most}; give fewer to a "
                "call, or compile the model for more"
            )
        for number, length in enumerate(told):
            if not self._shortest <= length <= self._longest:
                raise ShapeError(
                    f"request {number} has {length} positions; '{self._seq}' is from "
                    f"{self._shortest} to {self._longest}; compile the model with another range, "
                    "or cut the request"
                )
        every = np.array(told, np.int64)
        order = np.argsort(-every, kind="stable")
        return _Batch(order, every[order])

    def _of_requests(self, side: _Side, value: object, batch: _Batch) -> np.ndarray:
        """An argument with an axis of the requests, in their order by length."""
        array, axis = np.asarray(value), side.requests
        assert axis is not None
        if array.ndim != len(side.tensor.shape) or array.shape[axis] != len(batch.order):
            raise ShapeError(
                f"input '{side.tensor.name}' has shape {list(array.shape)} for {len(batch.order)} "
                f"requests, which are its axis {axis}"
            )
        return np.take(array, batch.order, axis)


def family_model(family: Family, eus: int | None = None, **options: Any) -> BucketedModel:
    """The model of a family.

    Args:
        family, eus, **options: as of `BucketedModel`.

    Raises:
        ArtifactError, ScheduleError, DeviceError: as of `BucketedModel`.
    """
    return (PackedModel if family.packed else BucketedModel)(family, eus, **options)
