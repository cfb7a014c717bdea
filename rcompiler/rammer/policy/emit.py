"""Write a draft down as a program: choose events, then list the instructions of each EU."""

from rcompiler.rammer.layout import Layout, make_program
from rcompiler.rammer.policy.draft import Draft
from rcompiler.rammer.policy.events import Events
from rcompiler.rammer.program import Instruction, Program, Run, Signal


def emit(draft: Draft, name: str, layout: Layout) -> Program:
    """The program of a draft, its values at the bytes of `layout`."""
    events = Events({name: len(shares.eu) for name, shares in draft.shares.items()})
    queues: list[list[Instruction]]
    steps: list[tuple[int, list[Instruction], Run, list[Signal]]] = []
    for op_name, shares in draft.shares.items():
        op = draft.graph.operator[op_name]
        buffers = (*op.inputs, *op.outputs)
        ranges = zip(shares.eu.tolist(), shares.first.tolist(), shares.count.tolist(), strict=True)
        for row, (eu, first, count) in enumerate(ranges):
            waits: list[Instruction] = []
            for need in shares.needs:
                waits += events.waits(need.producer, need.shares[row], full=bool(need.full[row]))
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
