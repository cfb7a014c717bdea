"""Buffers in the caller's tensors: inside of them, and every result complete."""

from collections.abc import Sequence

from rcompiler.errors import ScheduleError
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.program import Program
from rcompiler.rammer.states import updates


def check_signature(
    programs: Sequence[Program],
    graph: Graph,
    inputs: Sequence[int] | None,
    outputs: Sequence[int] | None,
) -> None:
    """inputs, outputs: bytes of each tensor of the signature, None: not known, not checked.

    Raises ScheduleError for a buffer that leaves its tensor, and for an output of which a byte is
    written by no operator.
    """
    sizes = {"input": inputs, "output": outputs}
    for program in programs:
        for buffer in program.buffers:
            known = sizes.get(buffer.kind)
            if known is None:
                continue
            have = known[buffer.index] if 0 <= buffer.index < len(known) else -1
            if buffer.offset + buffer.bytes > have:
                what = f"of {have} bytes" if have >= 0 else "which does not exist"
                raise ScheduleError(
                    f"program {program.name}, buffer {buffer.name} ends at byte "
                    f"{buffer.offset + buffer.bytes} of {buffer.kind} {buffer.index}, {what}",
                    "buffer",
                )
    for output, place in updates(programs).items():
        if inputs and outputs and inputs[place] != outputs[output]:
            raise ScheduleError(
                f"output {output} has {outputs[output]} bytes, and lies over input {place} of "
                f"{inputs[place]}",
                "buffer",
            )
    written = {name for op in graph.operators for name in op.outputs}
    for index, size in enumerate(outputs or ()):
        spans = sorted(
            (b.offset, b.offset + b.bytes)
            for p in programs
            for b in p.buffers
            if (b.kind, b.index) == ("output", index) and b.name in written
        )
        end = 0
        for low, high in spans:
            if low > end:
                break
            end = max(end, high)
        if end < size:
            raise ScheduleError(
                f"output {index} has {size} bytes, and no operator writes byte {end} of it", "task"
            )
