"""Instructions from the streams that `rammer.encode` writes, their loops gone through."""

from collections.abc import Iterator, Sequence

from rcompiler.errors import ScheduleError
from rcompiler.rammer.encode import BARRIER, END, REPEAT, RUN, SIGNAL, WAIT, Stream
from rcompiler.rammer.program import Barrier, Instruction, Run, Signal, Wait


def decode(
    streams: Sequence[Stream], kernels: Sequence[str]
) -> tuple[tuple[Instruction, ...], ...]:
    """Queues of instructions from streams, their loops gone through.

    Tables hold no names: operators are "", events are "e<number>", buffers "<base>+<offset>".
    Raises ScheduleError for a stream that is cut off or holds an unknown instruction.
    """
    queues = []
    for eu, stream in enumerate(streams):
        words = stream.tolist()
        if not words or words[-1] != END:
            raise ScheduleError(f"schedule of EU {eu}: END is not its last word", "task")
        queues.append(tuple(_decode(eu, words[:-1], kernels)))
    return tuple(queues)


def _decode(eu: int, words: list[int], kernels: Sequence[str]) -> Iterator[Instruction]:
    at = 0
    while at < len(words):
        code, start = words[at], at
        size = {RUN: 6, WAIT: 3, SIGNAL: 2, BARRIER: 1, REPEAT: 5}.get(code, 0)
        rest = words[at : at + size]
        if not size or len(rest) < size:
            raise ScheduleError(f"schedule of EU {eu}: no instruction at word {at}", "task")
        at += size
        pairs = words[at : at + 2 * rest[-1]] if code in (RUN, REPEAT) else []
        if code in (RUN, REPEAT) and (rest[-1] < 0 or len(pairs) < 2 * rest[-1]):
            raise ScheduleError(f"schedule of EU {eu}: cut off behind word {start}", "task")
        at += len(pairs)
        if code == RUN:
            kernel, first, count, stride = rest[1:5]
            if not 0 <= kernel < len(kernels):
                raise ScheduleError(f"schedule of EU {eu}: bad run at word {start}", "task")
            names = tuple(f"{b}+{o}" for b, o in zip(pairs[::2], pairs[1::2], strict=True))
            yield Run(kernels[kernel], "", first, count, stride, names)
        elif code == WAIT:
            yield Wait(f"e{rest[1]}", rest[2])
        elif code == SIGNAL:
            yield Signal(f"e{rest[1]}")
        elif code == BARRIER:
            yield Barrier()
        else:
            yield from _repeated(eu, words, start, kernels)


def _repeated(eu: int, words: list[int], at: int, kernels: Sequence[str]) -> Iterator[Instruction]:
    """All iterations but the first of the loop that ends at word `at`."""
    _, count, length, _, moved = words[at : at + 5]
    body = words[max(at - length, 0) : at]
    places, steps = (words[at + 5 + k : at + 5 + 2 * moved : 2] for k in (0, 1))
    if length < 1 or length > at or not all(0 <= place < length for place in places):
        raise ScheduleError(f"schedule of EU {eu}: bad loop at word {at}", "task")
    for _ in range(count - 1):
        for place, step in zip(places, steps, strict=True):
            body[place] += step
        yield from _decode(eu, body, kernels)
