"""Schedule tables of the runtime: one int64 stream per EU, or per queue.

[1 RUN, kernel, first, count, stride, n, (base, byte offset) * n] [2 WAIT, event, count]
[3 SIGNAL, event] [4 BARRIER] [5 REPEAT, count, words, 0, n, (word, step) * n] [0 END]. base: 0 the
temp arena, 1 the constant arena, 2.. the outer tensors, inputs before outputs, -1 the memory of the
EU itself. REPEAT stands behind the body of a loop, so many words long; from iteration to iteration
`step` is added to its word number `word`.
"""

from collections.abc import Hashable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from rcompiler.errors import ScheduleError
from rcompiler.rammer.loops import Item, Line, Repeat, roll
from rcompiler.rammer.program import Buffer, Instruction, Program, Run, Signal, Wait

END, RUN, WAIT, SIGNAL, BARRIER, REPEAT = range(6)
ARENA, CONSTANTS, EXTERNAL = range(3)
PINNED = -1
Stream = NDArray[np.int64]


def event_ids(program: Program) -> dict[str, int]:
    """Number the events of a program, in the order in which the queues name them."""
    ids: dict[str, int] = {}
    for queue in program.queues:
        for step in queue:
            if isinstance(step, Wait | Signal):
                ids.setdefault(step.event, len(ids))
    return ids


def encode(
    program: Program, kernels: Mapping[str, int], inputs: int, shortest: int = 1
) -> list[Stream]:
    """One stream per queue; what repeats is a loop where that makes the stream smaller.

    The queues of a dynamic program have no loops: who walks a loop counts in its stream, and they
    lie once for all EUs.

    kernels: number of each rKernel in the code table; inputs: how many inputs the signature has;
    shortest: instructions in the body of a loop. Raises ScheduleError for a run of an rKernel or
    buffer that is not there.
    """
    place = {b.name: _address(b, inputs) for b in program.buffers}
    return [
        np.array(
            [*_words(lines if program.dynamic else roll(lines, shortest=shortest))[0], END],
            np.int64,
        )
        for lines in program_lines(program, kernels, place)
    ]


def program_lines(
    program: Program, kernels: Mapping[str, Hashable], place: Mapping[str, tuple[Hashable, int]]
) -> list[list[Line]]:
    """The instructions of each queue as lines: what may move in a loop are their numbers.

    place: memory and byte offset of each buffer. Fixed part and numbers are as many as the words of
    the instruction. Raises ScheduleError for a run of an rKernel or buffer that is not there.
    """
    events = event_ids(program)

    def line(step: Instruction) -> Line:
        if isinstance(step, Run):
            if step.kernel not in kernels or not set(step.buffers) <= place.keys():
                raise ScheduleError(
                    f"program {program.name}, operator {step.operator}: rKernel "
                    f"{step.kernel} or a buffer of {step.buffers} does not exist",
                    "buffer",
                )
            places = [place[name] for name in step.buffers]
            bases = [base for base, _ in places]
            offsets = [offset for _, offset in places]
            fixed = (RUN, kernels[step.kernel], step.count, step.stride, len(places), *bases)
            return Line(fixed, (step.first, *offsets))
        if isinstance(step, Wait):
            return Line((WAIT,), (events[step.event], step.count))
        if isinstance(step, Signal):
            return Line((SIGNAL,), (events[step.event],))
        return Line((BARRIER,), ())

    return [[line(step) for step in queue] for queue in program.queues]


def _words(items: Iterable[Item]) -> tuple[list[int], list[int]]:
    """The words of items, and which of them are the numbers, in order."""
    words: list[int] = []
    places: list[int] = []
    for item in items:
        start = len(words)
        if isinstance(item, Repeat):
            body, inside = _words(item.body)
            moved = [pair for pair in zip(inside, item.steps, strict=True) if pair[1]]
            words += [*body, REPEAT, item.count, len(body), 0, len(moved)]
            words += [word for pair in moved for word in pair]
        elif item.fixed[0] == RUN:
            (code, kernel, count, stride, n, *bases), (first, *offsets) = item.fixed, item.numbers
            words += [code, kernel, first, count, stride, n]
            words += [word for pair in zip(bases, offsets, strict=True) for word in pair]
            inside = [2, *range(7, 6 + 2 * n, 2)]
        else:
            words += [*item.fixed, *item.numbers]
            inside = list(range(1, 1 + len(item.numbers)))
        places += [start + place for place in inside]
    return words, places


def _address(buffer: Buffer, inputs: int) -> tuple[int, int]:
    base = {
        "temp": ARENA,
        "constant": CONSTANTS,
        "input": EXTERNAL + buffer.index,
        "output": EXTERNAL + inputs + buffer.index,
        "pinned": PINNED,
    }[buffer.kind]
    return base, buffer.offset
