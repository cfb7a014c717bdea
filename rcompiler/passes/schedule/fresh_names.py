"""Names that nothing has yet: `x`, then `x.1`, `x.2`, ..."""

from __future__ import annotations

from collections.abc import Container


class FreshNames:
    """Numbers equal names. None that was taken becomes free again, so that the numbers of a name
    are gone through once, however many parts of one tensor are named after it.
    """

    def __init__(self, taken: Container[str]) -> None:
        """taken: all names that there are, also those that come later."""
        self._taken = taken
        self._numbers: dict[str, int] = {}  # of each name, below which all are taken

    def of(self, name: str) -> str:
        """The name, or the name with the first number that makes it new."""
        number = self._numbers.get(name, 0)
        while (found := f"{name}.{number}" if number else name) in self._taken:
            number += 1
        self._numbers[name] = number  # whoever asked may not take it
        return found
