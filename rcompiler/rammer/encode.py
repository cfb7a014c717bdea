"""Schedule tables of the runtime: one int64 stream per EU, and back.

[1 RUN, kernel, first, count, stride, n, (base, byte offset) * n] [2 WAIT, event, count]
[3 SIGNAL, event] [4 BARRIER] [0 END]. base: 0 the temp arena, 1 the constant arena, 2.. the outer
tensors, inputs before outputs.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rcompiler.errors import ScheduleError
from rcompiler.rammer.program import Barrier, Buffer, Instruction, Program, Run, Signal, Wait

END, RUN, WAIT, SIGNAL, BARRIER = range(5)
ARENA, CONSTANTS, EXTERNAL = range(3)
Stream = NDArray[np.int64]


def event_ids(program: Program) -> dict[str, int]:
    """Number the events of a program, in the order in which the queues name them."""
    ids: dict[str, int] = {}
    for queue in program.queues:
        for step in queue:
            if isinstance(step, Wait | Signal):
                ids.setdefault(step.event, len(ids))
    return ids


def encode(program: Program, kernels: Mapping[str, int], inputs: int) -> list[Stream]:
    """One stream per EU.

    kernels: number of each rKernel in the code table; inputs: how many inputs the signature has.
    Raises ScheduleError for a run of an rKernel or buffer that is not there.
    """
    events = event_ids(program)
    place = {b.name: _address(b, inputs) for b in program.buffers}
    streams = []
    for queue in program.queues:
        words: list[int] = []
        for step in queue:
            if isinstance(step, Run):
                if step.kernel not in kernels or not set(step.buffers) <= place.keys():
                    raise ScheduleError(
                        f"program {program.name}, operator {step.operator}: rKernel "
                        f"{step.kernel} or a buffer of {step.buffers} does not exist",
                        "buffer",
                    )
                words += [RUN, kernels[step.kernel], step.first, step.count, step.stride]
                words.append(len(step.buffers))
                for name in step.buffers:
                    words += place[name]
            elif isinstance(step, Wait):
                words += [WAIT, events[step.event], step.count]
            elif isinstance(step, Signal):
                words += [SIGNAL, events[step.event]]
            else:
                words.append(BARRIER)
        streams.append(np.array([*words, END], np.int64))
    return streams


def _address(buffer: Buffer, inputs: int) -> tuple[int, int]:
    base = {"temp": ARENA, "constant": CONSTANTS, "input": EXTERNAL + buffer.index}.get(
        buffer.kind, EXTERNAL + inputs + buffer.index
    )
    return base, buffer.offset


def decode(
    streams: Sequence[Stream], kernels: Sequence[str]
) -> tuple[tuple[Instruction, ...], ...]:
    """Queues of instructions from streams.

    Tables hold no names: operators are "", events are "e<number>", buffers "<base>+<offset>".
    Raises ScheduleError for a stream that is cut off or holds an unknown instruction.
    """
    return tuple(_decode_one(eu, s.tolist(), kernels) for eu, s in enumerate(streams))


def _decode_one(eu: int, words: list[int], kernels: Sequence[str]) -> tuple[Instruction, ...]:
    steps: list[Instruction] = []
    at = 0
    while at < len(words) and words[at] != END:
        code = words[at]
        size = {RUN: 6, WAIT: 3, SIGNAL: 2, BARRIER: 1}.get(code, 0)
        rest = words[at : at + size]
        if not size or len(rest) < size:
            raise ScheduleError(f"schedule of EU {eu}: no instruction at word {at}", "task")
        at += size
        if code == RUN:
            kernel, first, count, stride, operands = rest[1:]
            pairs = words[at : at + 2 * operands]
            if not 0 <= kernel < len(kernels) or operands < 0 or len(pairs) < 2 * operands:
                raise ScheduleError(f"schedule of EU {eu}: bad run before word {at}", "task")
            at += 2 * operands
            names = tuple(f"{b}+{o}" for b, o in zip(pairs[::2], pairs[1::2], strict=True))
            steps.append(Run(kernels[kernel], "", first, count, stride, names))
        elif code == WAIT:
            steps.append(Wait(f"e{rest[1]}", rest[2]))
        elif code == SIGNAL:
            steps.append(Signal(f"e{rest[1]}"))
        else:
            steps.append(Barrier())
    if at != len(words) - 1:
        raise ScheduleError(f"schedule of EU {eu}: END is not its last word", "task")
    return tuple(steps)
