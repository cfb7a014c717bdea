"""Scopes of generated code: where a line stands, and what is known there.

Each open loop is a scope with its own list of lines. A pure operation is written into the outermost
scope that sees all its operands, and written once. That replaces a later loop-invariant-code-motion
and CSE of the whole kernel, which the LLVM middle end is known to spoil for register-tiled code (it
spills the accumulators).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True)
class Loop:
    """An open loop. variable: its name; depth: of its scope; trips: iterations, None: not known."""

    variable: str
    depth: int
    trips: int | None


class Scope:
    """Lines of one loop, or of one side of a branch."""

    def __init__(self) -> None:
        self.loop: Loop | None = None
        self.lines: list[str] = []
        # values by the number of their key; results behind a guard by the text of their operation
        self.known: dict[str | int, Any] = {}


class Scopes:
    """The open scopes from the outermost to the innermost, and the names that are defined there."""

    def __init__(self) -> None:
        self._scopes = [Scope()]
        self._hidden: list[list[Scope]] = []
        self._depth: dict[str, int] = {}
        # keys of many parts are hashed once, and not in every scope
        self._key_numbers: dict[object, int] = {}
        # results by the text of their operation, which are known wherever its operands are
        self._written: dict[str, str] = {}
        self._count = 0

    @property
    def depth(self) -> int:
        """Of the innermost open scope; that of the function is 0."""
        return len(self._scopes) - 1

    def fresh(self, prefix: str = "v") -> str:
        """A name that no value has yet."""
        self._count += 1
        return f"%{prefix}{self._count}"

    def define(self, name: str, depth: int | None = None) -> str:
        """Note from which depth on a value is known, by default the innermost one; its name."""
        self._depth[name] = self.depth if depth is None else depth
        return name

    def depth_of(self, *names: str) -> int:
        """From where on all these values are known; arguments and constants of the module: 0."""
        depth, known = 0, self._depth
        for name in names:
            found = known.get(name, 0)
            if found > depth:
                depth = found
        return depth

    @property
    def lines(self) -> list[str]:
        """Of the innermost open scope."""
        return self._scopes[-1].lines

    def line(self, text: str) -> None:
        """Write into the innermost scope."""
        self._scopes[-1].lines.append(text)

    @property
    def branch_depth(self) -> int:
        """Of the innermost side of a branch; 0 where none is open."""
        sides = (k for k in range(self.depth, 0, -1) if self._scopes[k].loop is None)
        return next(sides, 0)

    def pure(
        self, text: str, operands: Sequence[str], prefix: str = "v", least_depth: int = 0
    ) -> str:
        """The result name of a side-effect free operation, written once in the outermost possible
        scope.
        """
        name = self._written.get(text)
        if name is not None:
            return name
        depth = self.depth_of(*operands)
        known: dict[Any, Any] = self._written
        if depth < least_depth:  # behind the guard of a branch
            for scope in self._scopes[depth + 1 : least_depth + 1]:
                name = scope.known.get(text)
                if name is not None:
                    return name
            depth, known = least_depth, self._scopes[least_depth].known
        self._count += 1
        name = known[text] = f"%{prefix}{self._count}"  # as `fresh` and `define`
        self._depth[name] = depth
        self._scopes[depth].lines.append(f"{name} = {text}")
        return name

    def remember(self, key: object, value: object, depth: int | None = None) -> None:
        """Keep `value` for `recall` until the scope at `depth` closes, by default the innermost."""
        self._scopes[-1 if depth is None else depth].known[self._number_of(key)] = value

    def recall(self, key: object) -> Any:
        """What an open scope remembers under `key`; None if nothing."""
        number = self._key_numbers.get(key)
        return None if number is None else self._recall(number)

    def _number_of(self, key: object) -> int:
        return self._key_numbers.setdefault(key, len(self._key_numbers))

    def _recall(self, number: int) -> Any:
        for scope in reversed(self._scopes):
            known = scope.known.get(number)
            if known is not None:
                return known
        return None

    def is_known(self, key: object) -> bool:
        """Whether any open scope remembers `key`, also one that `at_depth` hides."""
        number = self._key_numbers.get(key)
        return number is not None and any(
            number in scope.known for scopes in (self._scopes, *self._hidden) for scope in scopes
        )

    def path(self) -> list[object]:
        """The open scopes from the outermost to the innermost, those that `at_depth` hides
        included.
        """
        return [scope for scopes in (self._scopes, *reversed(self._hidden)) for scope in scopes]

    def at_depth(self, depth: int, write: Callable[[], _T]) -> _T:
        """Run `write` as if the scopes deeper than `depth` were not open yet: its code precedes
        them.
        """
        hidden = self._scopes[depth + 1 :]
        del self._scopes[depth + 1 :]
        self._hidden.append(hidden)
        try:
            return write()
        finally:
            self._scopes.extend(self._hidden.pop())

    def open(self) -> None:
        """A new innermost scope."""
        self._scopes.append(Scope())

    def enter(self, variable: str, trips: int | None) -> None:
        """A new innermost scope, of a loop."""
        self.open()
        self.define(variable)
        self._scopes[-1].loop = Loop(variable, self.depth, trips)

    def loops(self) -> list[Loop]:
        """Those around what is written, from the outermost to the innermost."""
        return [scope.loop for scope in self._scopes if scope.loop is not None]

    def close(self) -> list[str]:
        """Leave the innermost scope; its lines."""
        return self._scopes.pop().lines

    @contextmanager
    def left_on_error(self) -> Iterator[None]:
        """A context that leaves the innermost scope, without its lines, where an exception leads
        out of it: whoever catches that writes in another way.
        """
        depth = self.depth
        try:
            yield
        except BaseException:
            del self._scopes[depth:]
            raise

    def text(self) -> list[str]:
        """The lines of the whole function, when all scopes but the outermost are closed."""
        assert len(self._scopes) == 1
        return self._scopes[0].lines
