"""Values from the JSON of a file: of the type that is expected, or an error.

Every function raises TypeError, which `container.decoded` and `certified.prove` turn into an
ArtifactError.
"""

from collections.abc import Iterable
from typing import Any

_MOST = 1 << 62


def integer(value: Any, most: int = _MOST) -> int:
    """An int (no bool) of at most this size, negative ones included."""
    if type(value) is not int or not -most <= value <= most:
        raise TypeError
    return value


def string(value: Any) -> str:
    """A str."""
    if type(value) is not str:
        raise TypeError
    return value


def integers(values: Iterable[Any]) -> tuple[int, ...]:
    """A tuple of ints."""
    return tuple(integer(value) for value in values)


def strings(values: Iterable[Any]) -> tuple[str, ...]:
    """A tuple of strs."""
    return tuple(string(value) for value in values)
