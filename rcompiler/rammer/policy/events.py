"""Which events carry the waits of a program, and who signals them.

A consumer that waits for a whole operator, or for all of it but what is known anyway, waits for the
operator's own event, which each share signals. One that needs a few shares waits for each share's
event; one that needs some other set waits for an event of that set. So a wait never asks for more
than its tiles need, and each is one comparison.
"""

from collections.abc import Mapping

import numpy as np

from rcompiler.rammer.overlap import Bools
from rcompiler.rammer.program import Instruction, Signal, Wait

FEW = 2  # shares that are waited for one by one


class Events:
    """The events of one program. signals: of each operator, what each of its shares signals."""

    def __init__(self, shares: Mapping[str, int]) -> None:
        """shares: how many each operator has in this program."""
        self.signals: dict[str, list[list[Signal]]] = {
            name: [[] for _ in range(number)] for name, number in shares.items()
        }
        self._sets: dict[tuple[str, bytes], str] = {}
        self._count: dict[str, int] = {}

    def waits(self, producer: str, members: Bools, *, full: bool) -> list[Instruction]:
        """The waits of one share for these shares (m,) of a producer; full: for all of them, which
        asks for nothing more.
        """
        number = int(members.sum())
        if not number:
            return []
        if full:
            return [self._event(producer, np.ones_like(members))]
        if number <= FEW:
            which = np.flatnonzero(members)
            return [self._event(producer, np.arange(len(members)) == share) for share in which]
        return [self._event(producer, members)]

    def _event(self, producer: str, members: Bools) -> Wait:
        """The wait for all these shares."""
        key = (producer, members.tobytes())
        if key not in self._sets:
            which = np.flatnonzero(members)
            if len(which) == len(members):
                name = producer
            elif len(which) == 1:
                name = f"{producer}.{which[0]}"
            else:
                number = self._count[producer] = self._count.get(producer, 0) + 1
                name = f"{producer}.set{number}"
            self._sets[key] = name
            for share in which:
                self.signals[producer][share].append(Signal(name))
        return Wait(self._sets[key], int(members.sum()))
