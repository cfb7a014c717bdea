"""A property that is computed when it is first read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):
    """`functools.cached_property` as it is from Python 3.12 on: without a lock.

    The lock of Python 3.11 takes longer than most of the properties of a linalg op, which a large
    model reads a million of.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self._name, self.__doc__ = compute, compute.__name__, compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T | Self:
        if instance is None:
            return self
        # The instance's own attribute hides this one from now on.
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
