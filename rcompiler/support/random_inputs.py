"""Input arrays that are drawn at random: for measuring, tuning and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from rcompiler.errors import ShapeError

Range = tuple[float, float]


class TensorLike(Protocol):
    """Name, static shape and dtype name (numpy or ml_dtypes) of an input or output."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> str: ...


def dtype_of(name: str) -> np.dtype:
    """The numpy dtype of a name such as "float32" or "bfloat16"."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def random_inputs(
    inputs: Sequence[TensorLike],
    seed: int | np.random.Generator = 0,
    ranges: Mapping[str, Range] | None = None,
) -> dict[str, np.ndarray]:
    """Reproducible data: floats from N(0, 1), booleans even, integers 0 or 1.

    Integers are often indices, which must stay inside a table that is not known here; 0 and 1 are
    valid for nearly all of them. ranges: other bounds by input name, low included, high excluded.
    """
    rng = np.random.default_rng(seed)
    ranges = ranges or {}
    unknown = set(ranges) - {tensor.name for tensor in inputs}
    if unknown:
        raise ShapeError(
            f"no input '{min(unknown)}'; the inputs are: {', '.join(t.name for t in inputs)}"
        )
    data = {}
    for tensor in inputs:
        dtype = dtype_of(tensor.dtype)
        array: Any
        if dtype.kind == "b":
            array = rng.random(tensor.shape) < 0.5
        elif dtype.name.startswith(("int", "uint")):
            low, high = ranges.get(tensor.name, (0, 2))
            array = rng.integers(int(low), int(high), tensor.shape)
        elif tensor.name in ranges:
            array = rng.uniform(*ranges[tensor.name], tensor.shape)
        else:
            array = rng.standard_normal(tensor.shape)
        data[tensor.name] = np.asarray(array).astype(dtype)
    return data
