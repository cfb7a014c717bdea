"""Strong accesses: loads, stores and read-modify-writes by which threads tell each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from rcompiler.emulator.checks.order import Order
from rcompiler.emulator.checks.shadow import Shadow
from rcompiler.emulator.lanes import Array
from rcompiler.emulator.machine.access import MemoryUnit
from rcompiler.emulator.machine.spaces import Space
from rcompiler.emulator.machine.threads import Threads
from rcompiler.emulator.numbers import floats
from rcompiler.emulator.ptx.types import DTYPES, size_of


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


# What an operation makes of the old values, and of the given ones.
_CHANGES: dict[str, Callable[..., Any]] = {
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda old, v: np.where(old >= v, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, v: np.where((old == 0) | (old > v), v, old - old.dtype.type(1)),
    "cas": lambda old, v, new: np.where(old == v, new, old),
    "exch": lambda old, v: v,
}


class Atomics:
    """Threads that write one word do so one after another, in the order of their numbers."""

    def __init__(self, c: Threads, memory: MemoryUnit, order: Order) -> None:
        self.c, self._memory, self._order = c, memory, order

    # -- what generated code calls

    def load(
        self, at: int, space: str, address: Array, mask: Array | None, width: int, count: int,
        order: str,
    ) -> list[Array]:  # fmt: skip
        """As MemoryUnit.load, by an order such as "acquire"."""
        c = self.c
        lanes, addresses = self._memory.active(address, mask)
        results = [np.zeros(c.count, f"u{width}") for _ in range(count)]
        for memory, part, where in self._memory.split(at, space, lanes, addresses, width * count):
            self._check(at, memory, part, where, width * count, False, "a strong load")
            memory.check_written(c, at, part, where, width * count)
            view = memory.view(width)
            for k, result in enumerate(results):
                keys = self._memory.keys(memory, part, where + k * width)
                result[part] = self._order.read(part, keys, view[where // width + k], order)
        return results

    def store(
        self, at: int, space: str, address: Array, mask: Array | None, width: int,
        values: tuple[Array, ...], order: str,
    ) -> None:  # fmt: skip
        """As MemoryUnit.store, by an order such as "release"."""
        c, size = self.c, width * len(values)
        lanes, addresses = self._memory.active(address, mask)
        c.launch.progress += 1
        for memory, part, where in self._memory.split(at, space, lanes, addresses, size):
            memory.writable(c, at, part, where)
            self._check(at, memory, part, where, size, True, "a strong store")
            view = memory.view(width)
            for k, value in enumerate(values):
                index, given = where // width + k, value[part]
                keys = self._memory.keys(memory, part, where + k * width)
                self._order.wrote(part, keys, view[index], given, order, update=False)
                view[index] = given
            memory.mark_written(where, size)

    def update(
        self, at: int, space: str, address: Array, mask: Array, type_: str, operation: str,
        values: tuple[Array, ...], order: str, returns: bool,
    ) -> Array:  # fmt: skip
        """The bits that were there before, of every lane."""
        c, width = self.c, size_of(type_)
        lanes = np.flatnonzero(mask)
        before = np.zeros(c.count, f"u{width}")
        for memory, part, where in self._memory.split(at, space, lanes, address[lanes], width):
            memory.writable(c, at, part, where)
            self._check(at, memory, part, where, width, True, "an atomic")
            memory.check_written(c, at, part, where, width)
            keys = self._memory.keys(memory, part, where)
            view = memory.view(width).view(DTYPES[type_])
            given = [value[part] for value in values]
            old, new = self._apply(view, where // width, operation, type_, given)
            before[part] = old
            self._order.wrote(part, keys, old, new, order, update=True, sees=returns)
        return before

    # -- parts of them

    def _check(
        self, at: int, memory: Space, lanes: Array, where: Array, size: int, writes: bool,
        verb: str,
    ) -> None:  # fmt: skip
        self.c.asks(at, lanes, where + memory.window)
        memory.check(self.c, at, lanes, where, size, verb, Shadow.update, writes=writes)

    def _apply(
        self, view: Array, index: Array, operation: str, type_: str, values: list[Array]
    ) -> tuple[Array, Array]:
        """Update `view`; the bits before and after."""
        rounds: list[Any] = [slice(None)]
        if len(np.unique(index)) < len(index):
            rounds = [slice(k, k + 1) for k in range(len(index))]
        old, new = np.empty(len(index), view.dtype), np.empty(len(index), view.dtype)
        for part in rounds:
            old[part] = view[index[part]]
            given = [value[part] for value in values]
            change = partial(_add, type_) if operation == "add" else _CHANGES[operation]
            new[part] = change(old[part], *given)
            view[index[part]] = new[part]
        bits = f"u{view.dtype.itemsize}"
        if not np.array_equal(old.view(bits), new.view(bits)):
            self.c.launch.progress += 1
        return old.view(bits), new.view(bits)
