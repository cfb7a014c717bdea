"""How many there may be of what a model counts, where nothing in it bounds that.

A program has room for so many. Of a model that is called with numbers that nobody has told before
the first room is a guess; a call that finds more has it made greater, and is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rcompiler.errors import Gap, RangeError

# Room for elements; for iterations of a loop; for points along an axis of a bin of a region.
_FIRST, _FIRST_OF = 64, {"Loop": 16, "RoiAlign": 8}
_FACTOR = 4  # of a guess for a loop, which says how often it could run if nothing else ended it


class GuessedBounds:
    """The guesses of one model.

    Attributes:
        now: by the names that `bounds` of compile_onnx has for them; another dict after each
            change, so that a program can keep what it was compiled for.
    """

    def __init__(self, given: Mapping[str, int]) -> None:
        """given: what a caller says, which is no guess."""
        self._given = set(given)
        self._loops: set[str] = set()
        self._found: dict[str, int] = {}  # by calls, of those that were made greater
        self.now: dict[str, int] = {}
        self._compiled = self.now  # those that there was a program for

    @property
    def notes(self) -> Sequence[str]:
        """What is to be said of them, a line each."""
        return tuple(
            f"'{name}' has room for {room}, which is a guess: nothing in the model bounds it"
            + (f", and a call had {self._found[name]}" if name in self._found else "")
            + f"; bounds={{'{name}': ...}} says how many there may be"
            for name, room in self.now.items()
        )

    def guess(self, gap: Gap | None) -> list[str]:
        """Guess what a model is refused for the lack of; the names of what is new."""
        if gap is None:
            return []
        names = [name for name in gap.bounds if name not in self._given and name not in self.now]
        first = _FIRST_OF.get(gap.op, _FIRST)
        if gap.op == "Loop":
            self._loops.update(names)
        if names:
            self.now = {**self.now, **dict.fromkeys(names, first)}
        return names

    def compiled(self, guesses: dict[str, int]) -> None:
        """There is a program for guesses."""
        self._compiled = guesses

    def give_up(self) -> None:
        """There is none for the last ones, so that other calls go by those before."""
        self.now = self._compiled

    def forget(self, names: Sequence[str]) -> None:
        """Take guesses back."""
        self.now = {name: room for name, room in self.now.items() if name not in names}

    def widen(self, error: RangeError) -> bool:
        """Make room for what a call found; whether no caller says that it is too much."""
        if not error.bound or error.bound in self._given:
            return False
        room = self.now.get(error.bound, 0)  # 0 where the front end had a guess of its own
        if error.found > room:  # else another call has had it made greater
            wanted = error.found + error.found // 4
            if room and error.bound in self._loops:
                wanted = min(wanted, _FACTOR * room)
            self.now = {**self.now, error.bound: 1 << (wanted - 1).bit_length()}
            self._found[error.bound] = error.found
        return True
