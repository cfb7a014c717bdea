"""Proof that pinned boxes are where rTasks read them: in the own memory of their execution unit.

Each EU has the box that one run has written, from the offset of the buffer on, until the launch is
over. That a box is written before it is read is proved as for all values; here, that EU by EU
each box lies inside of the memory, has its bytes for itself, and is the one that is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from rcompiler.errors import ScheduleError
from rcompiler.rammer.kernel import WHOLE, Access, Kernel
from rcompiler.rammer.program import Program, Run
from rcompiler.rammer.regions import task_boxes

Bounds = tuple[tuple[int, int], ...]
"""Lower bound and end of each tensor dim."""

_Box = tuple[Bounds, tuple[int, ...], int]  # of a tensor of this shape and item size


def check_pinned(programs: Sequence[Program], kernels: Mapping[str, Kernel]) -> None:
    """Raises ScheduleError for a pinned box that is not where it is read, or not alone there."""
    boxes = _Boxes(kernels)
    some = any(kernel.pinned for kernel in kernels.values())
    for program in programs:
        if not some and not any(buffer.kind == "pinned" for buffer in program.buffers):
            continue
        operands: dict[tuple[str, tuple[str, ...]], list[int]] = {}
        for eu, queue in enumerate(program.queues):
            unit = _Unit(program, f"program {program.name}, EU {eu}, operator ")
            for step in queue:
                if not isinstance(step, Run):
                    continue
                key = step.kernel, step.buffers
                if key not in operands:
                    operands[key] = _pinned(program, step, kernels[step.kernel])
                if operands[key] and step.count > 1 and step.stride != 1:
                    raise ScheduleError(
                        f"{unit.name}{step.operator}: its operands are pinned, so the rTasks of a "
                        "run must be neighbours",
                        "buffer",
                    )
                for number in operands[key]:
                    box, size = boxes.of(step, number)
                    if number < len(kernels[step.kernel].reads):
                        unit.read(step, number, box)
                    else:
                        unit.write(step, number, box, size)


class _Boxes:
    """What runs have of their pinned operands."""

    def __init__(self, kernels: Mapping[str, Kernel]) -> None:
        self._kernels = kernels
        self._known: dict[tuple[str, int, int, int], tuple[_Box, int]] = {}

    def of(self, run: Run, number: int) -> tuple[_Box, int]:
        """The box, and the bytes that it takes."""
        key = run.kernel, number, run.first, run.count
        if key not in self._known:
            kernel = self._kernels[run.kernel]
            access, ends = kernel.accesses[number], np.array([0, run.count - 1]) + run.first
            first, last = task_boxes(kernel.grid, access, ends)
            bounds = tuple(zip(first[:, 0].tolist(), last[:, 1].tolist(), strict=True))
            self._known[key] = (
                (bounds, access.shape, access.itemsize),
                access.task_bytes * run.count,
            )
        return self._known[key]


@dataclass
class _Unit:
    """One EU. name: for messages. held: by buffer the box that is pinned here, where it begins and
    ends.
    """

    program: Program
    name: str
    held: dict[str, tuple[_Box, int, int]] = field(default_factory=dict)

    def read(self, run: Run, number: int, box: _Box) -> None:
        """A run reads this box through an operand."""
        name = run.buffers[number]
        if name not in self.held or self.held[name][0] != box:
            raise ScheduleError(
                f"{self.name}{run.operator}: box {_text(box[0])} of {name} is not pinned there; "
                "run the rTask where its box is pinned",
                "buffer",
            )

    def write(self, run: Run, number: int, box: _Box, size: int) -> None:
        """A run pins this box, of so many bytes, through an operand."""
        buffer = self.program.buffer[run.buffers[number]]
        start, end = buffer.offset, buffer.offset + size
        if end > self.program.pinned:
            raise ScheduleError(
                f"{self.name}{run.operator}: {buffer.name} ends at byte {end} of "
                f"{self.program.pinned} that are for pinned boxes",
                "buffer",
            )
        for name, (_, low, high) in self.held.items():
            if name == buffer.name or (low < end and start < high):
                raise ScheduleError(
                    f"{self.name}{run.operator}: it pins {buffer.name} at bytes "
                    f"{start}..{end - 1}, and {name} is pinned at {low}..{high - 1}",
                    "clobber",
                )
        self.held[buffer.name] = (box, start, end)


def _pinned(program: Program, run: Run, kernel: Kernel) -> list[int]:
    """Numbers of the pinned operands and results of runs like this one, which may be pinned."""
    where = f"program {program.name}, operator {run.operator}: "
    for number, name in enumerate(run.buffers):
        kind = program.buffer[name].kind
        if (kind == "pinned") != (number in kernel.pinned):
            raise ScheduleError(
                f"{where}rKernel {kernel.name} takes operand {number} "
                f"{'' if number in kernel.pinned else 'not '}from the memory of the EU, and buffer "
                f"{name} is {kind}",
                "buffer",
            )
        if number in kernel.pinned and program.dynamic:
            raise ScheduleError(
                f"{where}{name} is pinned, and which EU takes which queue is not known: pin "
                "nothing in a dynamic program",
                "buffer",
            )
        if number in kernel.pinned and not may_pin(kernel, kernel.accesses[number]):
            raise ScheduleError(
                f"{where}{name} is pinned, so the boxes of its tasks must be runs of bytes side by "
                "side",
                "buffer",
            )
    return [*kernel.pinned]


def may_pin(kernel: Kernel, access: Access) -> bool:
    """Whether the box of each task is one run of neighbouring bytes behind that of the task before:
    one dim is cut, by the only axis that has several tasks.
    """
    axes = [axis for axis, points in enumerate(kernel.grid) if points > 1]
    cut = [n for n, dim in enumerate(access.dims) if dim.axis != WHOLE]
    if [access.dims[n].axis for n in cut if kernel.grid[access.dims[n].axis] > 1] != axes:
        return False
    plain = all(d.scale == d.extent and d.offset == 0 for d in map(access.dims.__getitem__, cut))
    lengths = access.task_shape
    inner = len(lengths)
    while inner and lengths[inner - 1] == access.shape[inner - 1]:
        inner -= 1
    return plain and prod(lengths[: max(inner - 1, 0)]) == 1


def _text(bounds: Bounds) -> str:
    return "[" + ", ".join(f"{low}:{end}" for low, end in bounds) + "]"
