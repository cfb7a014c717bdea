"""Which launches of the kernel an inference consists of.

Where an EU waits for another, all blocks must run at the same time: the programs of the model
become one cooperative launch, with a meeting of all blocks between them. Where none does, in any
program, each program is a launch of its own, whose blocks run in any order, on as many
multiprocessors as there are: one launch per operator (policy base) or per wave (policy wave), the
baselines of Rammer (OSDI'20, §5), and what a device runs that holds too few blocks at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rcompiler.runtime import tables
from rcompiler.runtime.loops import lines, parse
from rcompiler.runtime.program import Program
from rcompiler.runtime.thread_schedule import ThreadSchedule, combine


@dataclass(frozen=True)
class KernelLaunch:
    """One launch of the kernel.

    Attributes:
        schedule: a stream for each block.
        cooperative: whether its blocks must all run at the same time.
    """

    schedule: ThreadSchedule
    cooperative: bool

    @property
    def blocks(self) -> int:
        """One for each stream."""
        return len(self.schedule.threads)


def independent(streams: Iterable[np.ndarray]) -> bool:
    """Whether none of these streams ever waits: for an event, or for the others at a barrier."""
    waits = tables.WAIT, tables.BARRIER
    return not any(line.opcode in waits for stream in streams for line in lines(parse(stream)))


def launches(programs: Sequence[Program], eus: int) -> list[KernelLaunch]:
    """The launches of one inference, in order; eus: the most that a program has."""
    if all(independent(program.streams) for program in programs):
        return [KernelLaunch(combine([program], program.eus), False) for program in programs]
    return [KernelLaunch(combine(programs, eus), True)]
