"""What numpy does slowly: its functions take ten times as long for plain numbers as Python's, which
stay plain numbers here; and some of them import much that nobody needs.
"""

from typing import Any

import numpy as np

from rcompiler.roller.index_expr import Number


def minimum(a: Number, b: Number) -> Number:
    """The smaller one, of each pair where they are arrays."""
    return np.minimum(a, b) if _are_arrays(a, b) else min(a, b)


def maximum(a: Number, b: Number) -> Number:
    """The larger one, of each pair where they are arrays."""
    return np.maximum(a, b) if _are_arrays(a, b) else max(a, b)


def where(condition: Any, this: Number, other: Number) -> Number:
    """`this` where the condition holds, else `other`."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, this, other)
    return this if condition else other


def some(condition: Any) -> bool:
    """Whether it holds anywhere."""
    return bool(condition.any() if isinstance(condition, np.ndarray) else condition)


def distinct(values: np.ndarray) -> np.ndarray:
    """As numpy.unique, which first imports what numpy has for masked arrays: that takes longer."""
    found = np.sort(values, axis=None)
    return found[np.concatenate([[True], found[1:] != found[:-1]])[: len(found)]]


def _are_arrays(a: Number, b: Number) -> bool:
    return isinstance(a, np.ndarray) or isinstance(b, np.ndarray)
