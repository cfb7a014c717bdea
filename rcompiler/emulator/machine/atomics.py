"""Read-modify-writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rcompiler.emulator.numbers import floats
from rcompiler.emulator.ptx.types import DTYPES, size_of

if TYPE_CHECKING:
    from rcompiler.emulator.machine.cohort import Cohort

Array = npt.NDArray[Any]


def _add(type_: str, old: Array, value: Array) -> Array:
    match type_:
        case "f16x2":
            return (old.view("f2") + value.view("f2")).view("u4")
        case "bf16x2":
            total = floats.widen(old.view("u2")) + floats.widen(value.view("u2"))
            return floats.bf16(total).view("u4")
        case "bf16":
            return floats.bf16(floats.widen(old) + floats.widen(value))
    return old + value


def _changed(operation: str, type_: str, old: Array, values: list[Array]) -> Array:
    """What the operation makes of the old values."""
    value = values[0]
    match operation:
        case "add":
            return _add(type_, old, value)
        case "min":
            return np.minimum(old, value)
        case "max":
            return np.maximum(old, value)
        case "and":
            return old & value
        case "or":
            return old | value
        case "xor":
            return old ^ value
        case "inc":
            return np.where(old >= value, old.dtype.type(0), old + old.dtype.type(1))
        case "dec":
            return np.where((old == 0) | (old > value), value, old - old.dtype.type(1))
        case "cas":
            return np.where(old == value, values[1], old)
    return value


class Atomics:
    """Threads that update one word do so one after another, in the order of their numbers."""

    def __init__(self, cohort: Cohort) -> None:
        self.c = cohort

    def update(
        self, at: int, space: str, address: Array, mask: Array, type_: str, operation: str,
        values: tuple[Array, ...], order: str, returns: bool,
    ) -> Array:  # fmt: skip
        """The bits that were there before, of every lane."""
        c, width = self.c, size_of(type_)
        lanes = np.flatnonzero(mask)
        before = np.zeros(c.count, f"u{width}")
        for memory, part, where in c.memory.split(at, space, lanes, address[lanes], width):
            memory.writable(c, at, part, where)
            memory.check_written(c, at, part, where, width)
            if memory.shadow is not None:
                c.launch.now += 1
                of, cells = memory.cells(part, where, width)
                race = memory.shadow.update(c, at, of, cells, writes=True)
                memory.report(c, at, of, cells, race, "an atomic")
                keys = c.memory.keys(memory, part, where)
                if returns:
                    c.order.read(part, keys, order)
                c.order.wrote(part, keys, order, update=True)
            c.asks(at, part, where + memory.window)
            given = [value[part] for value in values]
            view = memory.view(width).view(DTYPES[type_])
            before[part] = self._apply(view, where // width, operation, type_, given)
        return before

    def _apply(
        self, view: Array, index: Array, operation: str, type_: str, values: list[Array]
    ) -> Array:
        """Update `view`; the old values as bits."""
        if len(np.unique(index)) == len(index):
            rounds: list[Any] = [slice(None)]
        else:
            rounds = [slice(k, k + 1) for k in range(len(index))]
        old = np.empty(len(index), view.dtype)
        for part in rounds:
            places = index[part]
            old[part] = view[places]
            new = _changed(operation, type_, view[places], [value[part] for value in values])
            if not np.array_equal(new, old[part]):
                self.c.launch.progress += 1
            view[places] = new
        return old.view(f"u{view.dtype.itemsize}")
