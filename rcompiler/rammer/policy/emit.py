"""Write a draft down as a program: choose events, then list the instructions of each EU.

A consumer that waits for a whole operator, or for all of it but what is known anyway, waits for the
operator's own event, which each share signals. One that needs a few shares waits for each share's
event; one that needs some other set waits for an event of that set. So a wait never asks for more
than its tiles need, and each is one comparison.
"""

from collections.abc import Sequence

import numpy as np

from rcompiler.rammer.layout import Layout, make_program
from rcompiler.rammer.policy.draft import Draft, Needs
from rcompiler.rammer.program import Instruction, Program, Run, Signal, Wait

FEW = 2  # shares that are waited for one by one


class _Events:
    """The events of one program, and who signals them."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.signals: dict[str, list[list[Signal]]] = {
            name: [[] for _ in shares.eu] for name, shares in draft.shares.items()
        }
        self.sets: dict[tuple[str, bytes], str] = {}
        self.count: dict[str, int] = {}

    def event(self, producer: str, members: np.ndarray) -> Wait:
        """The wait for all these shares (m,) of a producer."""
        key = (producer, members.tobytes())
        if key not in self.sets:
            which = np.flatnonzero(members)
            if len(which) == len(members):
                name = producer
            elif len(which) == 1:
                name = f"{producer}.{which[0]}"
            else:
                number = self.count[producer] = self.count.get(producer, 0) + 1
                name = f"{producer}.set{number}"
            self.sets[key] = name
            for share in which:
                self.signals[producer][share].append(Signal(name))
        return Wait(self.sets[key], int(members.sum()))

    def waits(self, needs: Sequence[Needs], row: int) -> list[Instruction]:
        """The waits of one share."""
        found: list[Instruction] = []
        for need in needs:
            members = need.shares[row]
            number = int(members.sum())
            if not number:
                continue
            if need.full[row]:
                found.append(self.event(need.producer, np.ones_like(members)))
            elif number <= FEW:
                for share in np.flatnonzero(members):
                    found.append(self.event(need.producer, np.arange(len(members)) == share))
            else:
                found.append(self.event(need.producer, members))
        return found


def emit(draft: Draft, name: str, layout: Layout) -> Program:
    """The program of a draft, its values at the bytes of `layout`."""
    events = _Events(draft)
    queues: list[list[Instruction]]
    steps: list[tuple[int, list[Instruction], Run, list[Signal]]] = []
    for op_name, shares in draft.shares.items():
        op = draft.graph.operator[op_name]
        buffers = (*op.inputs, *op.outputs)
        ranges = zip(shares.eu.tolist(), shares.first.tolist(), shares.count.tolist(), strict=True)
        for row, (eu, first, count) in enumerate(ranges):
            waits = events.waits(shares.needs, row) if shares.needs else []
            run = Run(shares.kernel.name, op_name, first, count, 1, buffers)
            steps.append((eu, waits, run, events.signals[op_name][row]))
    if draft.dynamic:
        queues = [[*waits, run, *signals] for _, waits, run, signals in steps]
        return make_program(name, draft.graph, layout, queues, takers=len(draft.free))
    queues = [[] for _ in draft.length]
    for eu, waits, run, signals in steps:
        queues[eu].extend(waits)
        queues[eu].append(run)
        queues[eu].extend(signals)
    return make_program(name, draft.graph, layout, queues)
