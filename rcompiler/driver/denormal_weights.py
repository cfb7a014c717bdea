"""Weights that are denormal numbers, with which a CPU takes up to a hundred times as long."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_LOOKED_AT = 4096  # of the elements of one tensor, evenly spaced
_MANY = 1 / 1000  # of the weights that were looked at; fewer cost little


def note_of(arrays: Iterable[np.ndarray]) -> str | None:
    """A line for the report of a model that computes with them, None where they are few.

    Args:
        arrays: all constants of a model, of any type and shape.
    """
    found = looked_at = 0
    for array in arrays:
        if array.dtype not in (np.float32, np.float64) or not array.size:
            continue
        least = np.finfo(array.dtype).smallest_normal
        sample = np.abs(array.reshape(-1)[:: -(-array.size // _LOOKED_AT)])
        found += int(np.count_nonzero((sample > 0) & (sample < least)))
        looked_at += sample.size
    if found <= looked_at * _MANY:
        return None
    return (
        f"about {found / looked_at:.1%} of the weights are denormal numbers, with which a CPU "
        "takes up to a hundred times as long; denormals='zero' takes them for zeros"
    )
