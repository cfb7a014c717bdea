"""What callers hand to a model: found by position or name, checked, turned into addresses."""

import ctypes
from collections.abc import Mapping, Sequence

import numpy as np

from rcompiler.errors import RangeError, ShapeError
from rcompiler.runtime.memory import address
from rcompiler.runtime.program import IndexRange, Tensor
from rcompiler.runtime.python_numbers import NUMBERS, number_array
from rcompiler.support.random_keys import RANDOM_KEY, next_key

Arrays = Sequence[np.ndarray] | Mapping[str, np.ndarray]

# Bits of the types that take a whole byte each in memory.
_NARROW = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}
# Names that the path of every call looks up.
_address_of, _window = ctypes.addressof, ctypes.c_char.from_buffer
_Array = np.ndarray
# Indices of which Python finds the extremes sooner than numpy between two launches, when the caches
# hold neither's code: of 64 in 10 us instead of 20, of 512 as soon (a Xeon of 2023).
_FEW_INDICES = 256


def arrange(
    tensors: Sequence[Tensor], args: Sequence[object], named: Mapping[str, object], kind: str
) -> list[object]:
    """One value per tensor, in their order; a key of random numbers that is not given is a new one.

    kind: "input" or "output", for messages.

    Raises:
        ShapeError: a value is missing, unknown, or given twice.
    """
    if len(args) == len(tensors) and not named:
        return list(args)
    names = [tensor.name for tensor in tensors]
    listed = ", ".join(names) or "none"
    if len(args) > len(names):
        raise ShapeError(
            f"{len(args)} arguments for {len(names)} {kind}s; the {kind}s are: {listed}"
        )
    given = dict(zip(names, args, strict=False))
    for name, value in named.items():
        if name not in names:
            raise ShapeError(f"there is no {kind} '{name}'; the {kind}s are: {listed}")
        if name in given:
            raise ShapeError(f"{kind} '{name}' is given by position and by name")
        given[name] = value
    for name in names:
        if name not in given:
            if name == RANDOM_KEY:
                given[name] = next_key()
                continue
            raise ShapeError(f"{kind} '{name}' is missing; the {kind}s are: {listed}")
    return [given[name] for name in names]


def call_arguments(
    tensors: Sequence[Tensor], args: Sequence[object], named: Mapping[str, object]
) -> list[object]:
    """One value per input of a call, in order: by position, by keyword, or all in one mapping.

    Raises:
        ShapeError: as `arrange`, or there are a mapping and keywords.
    """
    if len(args) != 1 or not isinstance(args[0], Mapping):
        return arrange(tensors, args, named, "input")
    if named:
        raise ShapeError(
            f"the inputs are given by a {type(args[0]).__name__} and by keyword; give all of them "
            "in one of the two ways"
        )
    return arrange(tensors, (), args[0], "input")


class Parameter:
    """An input or output of a model, with what its checks need kept at hand.

    Attributes:
        tensor, shape, dtype: what is declared; dtype as numpy has it.
        filled: (256,) each byte with the bits above a number of less than 8 bits as kernels expect
            them, which numpy lets be anything; None for all other types.
        indices: what elements are indices of, or None.
    """

    def __init__(self, tensor: Tensor, kind: str, indices: IndexRange | None = None) -> None:
        """kind: "input", "output" or "state", for messages."""
        self.indices = indices
        self.tensor, self.shape, self.dtype = tensor, tensor.shape, tensor.numpy_dtype()
        self._what = f"{kind} '{tensor.name}'"
        self._misaligned = self.dtype.alignment - 1
        self.filled = _filled(self.dtype)

    def take(self, value: object) -> tuple[np.ndarray, int]:
        """An array that a kernel may read, and its address; a copy only where it must be.

        Raises:
            ShapeError: another shape or dtype, or a number of Python's that is none of the dtype.
            RangeError: see `check_range`.
        """
        if (
            type(value) is _Array
            and value.dtype is self.dtype
            and value.shape == self.shape
            and self.filled is None
        ):
            try:  # refuses what is not C-contiguous, too
                start = _address_of(_window(value))  # type: ignore[arg-type]
            except (TypeError, ValueError, BufferError):
                pass
            else:
                if not start & self._misaligned:
                    if self.indices is not None:
                        self.check_range(value)
                    return value, start
        if isinstance(value, Mapping):
            raise ShapeError(
                f"{self._what} is a {type(value).__name__}; give an array, or the arrays of all "
                "inputs in one dict by their names, and nothing beside it"
            )
        if type(value) in NUMBERS:
            array = number_array(self._what, value, self.shape, self.dtype)
        else:
            array = self._array(value)
        self.check_range(array)
        if not (array.flags.c_contiguous and array.flags.aligned):
            array = np.array(array, order="C", copy=True)
        array = self.as_read(array)
        return array, address(array)

    def as_read(self, array: np.ndarray) -> np.ndarray:
        """The same with all bits of numbers of less than 8 as kernels expect them."""
        if self.filled is None:
            return array
        return np.asarray(self.filled[array.view(np.uint8)]).view(self.dtype)

    def _array(self, value: object) -> np.ndarray:
        """Anything that numpy makes an array of, if that is of the declared shape and dtype."""
        array = self._any_array(value)
        self._check(array)
        return array

    def sized_array(self, value: object) -> np.ndarray:
        """The same with any size along the axes whose sizes are known at run time.

        Raises:
            ShapeError: another rank, dtype, or size along the other axes.
        """
        array, sizes = self._any_array(value), self.tensor.sizes
        if array.ndim != len(sizes) or any(
            isinstance(want, int) and want != have
            for want, have in zip(sizes, array.shape, strict=True)
        ):
            raise ShapeError(
                f"{self._what} has shape {list(array.shape)}, the model wants "
                f"[{', '.join(map(str, sizes))}]; reshape the argument"
            )
        self._check_dtype(array)
        return array

    def _any_array(self, value: object) -> np.ndarray:
        try:
            return np.asarray(value)
        except (TypeError, ValueError) as error:  # such as lists of different lengths
            raise ShapeError(f"{self._what} is not an array: {error}") from None

    def fixed(self, value: object, alignment: int = 1, write: bool = False) -> np.ndarray:
        """An array that kernels use where it lies.

        Args:
            alignment: of the first byte; at least that of the type is needed.
            write: whether the array must be writable.

        Raises:
            ShapeError: not an array of the declared shape and dtype in one piece of memory.
        """
        if not isinstance(value, np.ndarray):
            raise ShapeError(
                f"{self._what} is a {type(value).__name__}; memory to be bound is a numpy array"
            )
        self._check(value)
        least = max(alignment, self.dtype.alignment)
        wrong = ""
        if not value.flags.c_contiguous:
            wrong = "is not C-contiguous"
        elif value.size and value.__array_interface__["data"][0] % least:
            wrong = f"does not start at a multiple of {least} bytes"
        elif write and not value.flags.writeable:
            wrong = "is read-only"
        if wrong:
            raise ShapeError(f"{self._what} {wrong}; bind an array that bind() has made")
        return value

    def check_range(self, array: np.ndarray) -> None:
        """Raises RangeError for an index that leads out of its tensor."""
        if self.indices is None or not array.size:
            return
        if array.size <= _FEW_INDICES:
            numbers = array.ravel().tolist()
            low, high = min(numbers), max(numbers)
        else:
            low, high = int(array.min()), int(array.max())
        if low < self.indices.first or high > self.indices.last:
            wrong = low if low < self.indices.first else high
            raise RangeError(
                f"{self._what} has the index {wrong}; {self.indices.reader} reads from "
                f"{self.indices.first} to {self.indices.last}"
            )

    def _check(self, array: np.ndarray) -> None:
        if array.shape != self.shape:
            raise ShapeError(
                f"{self._what} has shape {list(array.shape)}, the model wants "
                f"{list(self.shape)}; compile it for that shape or reshape the argument"
            )
        self._check_dtype(array)

    def _check_dtype(self, array: np.ndarray) -> None:
        if array.dtype != self.dtype:
            raise ShapeError(
                f"{self._what} is {array.dtype}, the model wants {self.dtype}; "
                f"convert it with .astype('{self.dtype}')"
            )


def parameters(
    inputs: Sequence[Tensor], ranges: Sequence[IndexRange], kind: str = "input"
) -> list[Parameter]:
    """Those of the inputs of a model, in order. kind: for messages."""
    by_name = {each.input: each for each in ranges}
    for tensor in inputs:
        if tensor.size is not None:
            low, high = tensor.size.low, tensor.size.high
            by_name[tensor.name] = IndexRange(tensor.name, low, high, "the model")
    return [Parameter(tensor, kind, by_name.get(tensor.name)) for tensor in inputs]


def _filled(dtype: np.dtype) -> np.ndarray | None:
    if dtype.name not in _NARROW:
        return None
    unused = 8 - _NARROW[dtype.name]
    raw = np.arange(256, dtype=np.uint8).view(np.uint8 if dtype.name[0] in "uf" else np.int8)
    return ((raw << unused) >> unused).view(np.uint8)
