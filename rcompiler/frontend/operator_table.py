"""What is registered for operators, by modules that are imported when an operator is asked for."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class OperatorTable(Generic[_T]):
    """One entry for each operator of each domain.

    package: the name of the package whose modules register; what: the entries, in messages.
    """

    def __init__(self, package: str, what: str) -> None:
        self._package, self._what = package, what
        self._entries: dict[tuple[str, str], _T] = {}
        self._loaded = False

    def register(self, *ops: str, domain: str = "") -> Callable[[_T], _T]:
        """A decorator that registers what it is given. It raises ValueError for an operator that
        has an entry.
        """

        def added(entry: _T) -> _T:
            for op in ops:
                if (op, domain) in self._entries:
                    raise ValueError(f"{op}: two {self._what}")
                self._entries[op, domain] = entry
            return entry

        return added

    def find(self, op: str, domain: str) -> _T | None:
        """The entry of an operator; domain: "ai.onnx" is another name of ""."""
        self._load()
        return self._entries.get((op, "" if domain == "ai.onnx" else domain))

    def names(self) -> list[tuple[str, str]]:
        """All (op, domain) that have an entry."""
        self._load()
        return sorted(self._entries)

    def _load(self) -> None:
        if self._loaded:
            return
        package = importlib.import_module(self._package)
        for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
            importlib.import_module(f"{self._package}.{module}")
        self._loaded = True
