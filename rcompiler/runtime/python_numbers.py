"""A number of Python's for a scalar input: converted where its value is right, else refused.

Numpy would make a float64 of any float and an int64 of any int, which few models take.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rcompiler.errors import ShapeError

# By exact type: a numpy.float64 is a float, too, and has a dtype of its own that must fit.
NUMBERS = frozenset({bool, int, float})


def number_array(what: str, value: Any, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """An array without axes.

    Args:
        what: the input, for messages.
        value: a bool, int or float. A float becomes the nearest number of a float type; an int must
            be a number of the type, whether integer or float, and a bool is for bool alone.
        shape, dtype: what is declared of the input.

    Raises:
        ShapeError: the input is no scalar, or of another kind, or has no such number.
    """
    given = f"{what} is the number {_shown(value)}"
    if shape:
        raise ShapeError(
            f"{given}, the model wants an array of shape {list(shape)}; make one, as by "
            "numpy.full(shape, value, dtype)"
        )
    kind = _kind(dtype)
    if kind not in _FITS[type(value)]:
        raise ShapeError(f"{given}, the model wants {dtype}; give {_REMEDY.get(kind, 'an array')}")
    with np.errstate(all="ignore"):
        try:
            array = np.array(value, dtype)
        except (OverflowError, TypeError):  # an int that is too large for numpy, or for ml_dtypes
            array = None
    if array is None or not _is_right(value, array):
        raise ShapeError(
            f"{given}, which is no number of the type {dtype} that the model wants; give one that "
            "is, or compile the model for a wider type"
        )
    return array


_MOST_BITS = 128  # of what is written out; Python refuses to write the longest
_FITS = {bool: {"bool"}, int: {"int", "float"}, float: {"float"}}
_REMEDY = {"bool": "True or False", "int": "a whole number, as by int()", "float": "a float"}


def _kind(dtype: np.dtype) -> str:
    """Of all types that inputs have, those of ml_dtypes included, which numpy knows nothing of."""
    name = dtype.name
    if name == "bool":
        return name
    if name.startswith(("int", "uint")):
        return "int"
    return "float" if "float" in name else ""


def _is_right(value: bool | int | float, array: np.ndarray) -> bool:
    if not isinstance(value, float):
        back = array.item()
        return math.isfinite(back) and back == value  # exact: Python compares an int with a float
    back = float(array)
    if not math.isfinite(value):  # a type may have neither, or take one for the other
        return str(back) == str(value)
    return math.isfinite(back) and abs(value) <= _largest(array.dtype)


def _largest(dtype: np.dtype) -> float:
    if dtype.isbuiltin == 1:
        return float(np.finfo(dtype).max)
    import ml_dtypes  # the dtype is one of its

    return float(ml_dtypes.finfo(dtype).max)


def _shown(value: bool | int | float) -> str:
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"of {value.bit_length()} bits"
    return repr(value)
