"""The key that the random numbers of a call are a function of.

A program has no generator: what its random operators give depends on the position of the element,
the operator and this argument alone, so that no number depends on the schedule. Whoever calls a
model without a key gets a new one in each call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Protocol, TypeVar

import numpy as np

from rcompiler.errors import CompilerError

RANDOM_KEY = (
    "random key"  # the name of the argument: (2,) uint32, the seed and the number of a call
)

_BITS = 0xFFFFFFFF


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


_Named = TypeVar("_Named", bound=_HasName)


def _keys(seed: int) -> Iterator[np.ndarray]:
    return (np.array([seed, number & _BITS], np.uint32) for number in count())


class _Process:
    """What all models of a process draw from: as numpy's and onnxruntime's seeds, that of a process
    is one, whatever models there are."""

    keys = _keys(0)


def next_key() -> np.ndarray:
    """A key that no call has had since the last `set_seed`, or since the process began: (2,)
    uint32."""
    return next(_Process.keys)


def set_seed(seed: int) -> None:
    """Begin the random numbers of all models of this process anew.

    The calls that follow, in their order, draw what they drew after the same seed before; without
    any, the seed is 0. A forked process goes on where its parent was.

    Args:
        seed: from 0 to 2**32 - 1.

    Raises:
        CompilerError: it is no such number.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _BITS:
        raise CompilerError(f"set_seed({seed!r}): give a whole number from 0 to {_BITS}")
    _Process.keys = _keys(seed)


def without_key(tensors: Iterable[_Named]) -> list[_Named]:
    """The inputs of a model that its file has. tensors: all inputs."""
    return [tensor for tensor in tensors if tensor.name != RANDOM_KEY]
