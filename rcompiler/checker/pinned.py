"""Boxes that EUs keep in memory of their own: each is read where it is."""

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from rcompiler.checker.boxes import Access
from rcompiler.checker.facts import refuse

if TYPE_CHECKING:
    from rcompiler.checker.check import Check


def check_pinned(found: "Check") -> None:
    """EU by EU, in the order of the program: a box lies inside of the memory and has its bytes for
    itself, and a run reads the very box that was pinned there.
    """
    facts, uses = found.facts, found.uses
    pinned = [set(numbers) for _, _, _, numbers in facts.sizes]
    known = np.zeros(len(uses.accesses), bool)
    known[[n for n, (k, i) in enumerate(_numbers(found)) if i in pinned[k]]] = True
    if (known[uses.access] != (found.base[found.buffer] < 0)).any():
        refuse("buffer", "an operand is pinned, and its kernel does not know it, or reverse")
    kernels = found.kernel[found.operator]
    some = np.flatnonzero(np.array([bool(numbers) for numbers in pinned], bool)[kernels])
    neighbours = [
        [n in own and _side_by_side(access) for n, access in enumerate(accesses)]
        for own, accesses in zip(pinned, found.accesses, strict=True)
    ]
    held: dict[int, dict[int, tuple[int, int, int, int]]] = {}
    launches = found.order.thread_program(found.run)
    taken = np.array([bool(launch.taken_by) for launch in facts.launches], bool)
    first, count, stride = found.tasks.T
    if (taken[launches[some]] | ((count > 1) & (stride != 1))[some]).any():
        refuse("buffer", "which EU has a pinned box is not known")
    # of each operator: (whether it is read, bytes of a task, bytes of all, value, its place)
    own: dict[int, list[tuple[bool, int, int, int, int]]] = {}
    for operator in np.unique(found.operator[some]).tolist():
        kernel, buffers = int(found.kernel[operator]), found.operands[operator]
        if not all(neighbours[kernel][number] for number in pinned[kernel]):
            refuse("buffer", "the pinned boxes of a run are not bytes side by side")
        own[operator] = [
            (number < found.reads[kernel], access.task_bytes, access.bytes, b, int(found.low[b]))
            for number in sorted(pinned[kernel])
            for access, b in [(found.accesses[kernel][number], buffers[number])]
        ]
    threads = found.steps.thread[found.run[some]].tolist()
    ranges = first[some].tolist(), count[some].tolist()
    for thread, operator, begin, number in zip(
        threads, found.operator[some].tolist(), *ranges, strict=True
    ):
        here = held.setdefault(thread, {})
        for reads, size, most, value, low in own[operator]:
            box = begin * size, min((begin + number) * size, most)
            if reads:
                if value not in here or here[value][:2] != box:
                    refuse("buffer", "a run reads a box that is not pinned on its EU")
                continue
            end = low + number * size
            if end > facts.pinned:
                refuse("buffer", "a pinned box leaves the memory of its EU")
            if value in here or any(a < end and low < b for _, _, a, b in here.values()):
                refuse("clobber", "a pinned box lies over another one")
            here[value] = (*box, low, end)


def _numbers(found: "Check") -> list[tuple[int, int]]:
    """Kernel and number of each operand of the kernels."""
    return [(k, i) for k, own in enumerate(found.accesses) for i in range(len(own))]


def _side_by_side(access: Access) -> bool:
    """Whether the box of each task is one run of bytes behind that of the task before: one dim is
    cut, by the only axis that has several tasks.
    """
    axis, scale, offset, extent = access.dims.T
    cut = axis >= 0
    moving = axis[cut & (np.append(access.grid, 1)[axis] > 1)].tolist()
    if moving != np.flatnonzero(access.grid > 1).tolist():
        return False
    lengths = np.where(cut, np.minimum(extent, access.shape), access.shape)
    inner = len(lengths)
    while inner and lengths[inner - 1] == access.shape[inner - 1]:
        inner -= 1
    plain = ((scale == extent) & (offset == 0))[cut].all()
    return bool(plain) and prod(lengths[: max(inner - 1, 0)].tolist()) == 1
