"""What a call returns: a list, of which the items have the names of the outputs, too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex, TypeVar, overload

from rcompiler.errors import ShapeError

_Item = TypeVar("_Item")


class Outputs(list[_Item]):
    """A list in the order of the model's outputs; `outputs["logits"]` is the item of that name.

    In all else it is a list: it compares as one, and slices of it, and sums with it, are plain
    lists. Names are those of the places in it: keep the order of a list that you read by name.

    Attributes:
        names: of the outputs, in order. `dict(zip(outputs.names, outputs))` is a dict of them.
    """

    __slots__ = ("names",)
    names: tuple[str, ...]

    # There is no __init__: a call that makes one must not pay for it.

    @overload
    def __getitem__(self, at: SupportsIndex | str) -> _Item: ...

    @overload
    def __getitem__(self, at: slice) -> list[_Item]: ...

    def __getitem__(self, at: SupportsIndex | str | slice) -> _Item | list[_Item]:
        """The item at a position or of a name, or a list of those of a slice.

        Args:
            at: a position, a name or a slice.

        Raises:
            ShapeError: there is no output of that name, or items were added or taken out.
            IndexError: there is no such position.
        """
        if isinstance(at, str):
            at = self._position(at)
        return super().__getitem__(at)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return named, (self.names, list(self))

    def _position(self, name: str) -> int:
        if len(self) != len(self.names):
            raise ShapeError(
                f"output '{name}': the list has {len(self)} items for {len(self.names)} outputs; "
                "read it by name before you add or take out items"
            )
        if name not in self.names:
            listed = ", ".join(self.names) or "none"
            raise ShapeError(f"there is no output '{name}'; the outputs are: {listed}")
        return self.names.index(name)


def named(names: tuple[str, ...], items: Iterable[_Item]) -> Outputs[_Item]:
    """Items with the names of their places."""
    made = Outputs(items)
    made.names = names
    return made
