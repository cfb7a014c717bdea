"""A kernel ready to be executed: its blocks as Python functions, made when they are first run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rcompiler.emulator.numbers import floats, integers
from rcompiler.emulator.ptx.registers import refuse_unwritten
from rcompiler.emulator.ptx.syntax import Function, Instruction, Module
from rcompiler.emulator.ptx.types import size_of
from rcompiler.emulator.translate import (
    asynchronous,
    control,
    convert,
    floating,
    integer,
    matrix,
    memory,
    moves,
    warp,
)
from rcompiler.emulator.translate.accumulators import accumulators, watch
from rcompiler.emulator.translate.blocks import Flow, ends_block
from rcompiler.emulator.translate.emitter import Emitter
from rcompiler.emulator.translate.form import Form
from rcompiler.emulator.translate.layout import Layout

Handler = Callable[[Emitter, Instruction, Form], None]
Block = Callable[[Any, Any, Any], None]
_HANDLERS: Mapping[str, Handler] = {
    **integer.HANDLERS, **convert.HANDLERS, **moves.HANDLERS, **memory.HANDLERS,
    **control.HANDLERS, **warp.HANDLERS, **matrix.HANDLERS, **asynchronous.HANDLERS,
    **{name: h for name, h in floating.HANDLERS.items() if name not in integer.HANDLERS},
}  # fmt: skip


def _handler(instruction: Instruction) -> Handler:
    """Integer and floating-point instructions share names; the type says which one it is."""
    floats = instruction.modifiers[-1:] and instruction.modifiers[-1] in floating.FLOATING
    found: Handler | None = floating.HANDLERS.get(instruction.name) if floats else None
    found = found or _HANDLERS.get(instruction.name)
    if found is None:
        raise instruction.refuse(f"unknown instruction '{instruction.name}'")
    return found


class Kernel:
    """An entry of a module.

    blocks: how many it has. instructions: of all its functions; what faults call `at` are places
    in it. together: how many threads each block wants together. bulk: which instructions are bulk
    copies. unit: bytes of the cells in which races are looked for, the narrowest access to global
    or shared memory.
    """

    def __init__(self, module: Module, entry: Function, addresses: Mapping[str, int]) -> None:
        self.name, self.layout = entry.name, Layout(module, entry, addresses)
        self.entry = entry
        self._flows: dict[str, Flow] = {}
        self._of: list[Flow] = []
        self.instructions: list[Instruction] = []
        self._first: dict[str, int] = {}
        for number, function in enumerate(self.layout.functions):
            refuse_unwritten(function)
            flow = Flow(function, number, len(self._of), self._flows, accumulators(function))
            self._flows[function.name] = flow
            self._of += [flow] * len(flow.blocks)
            self._first[function.name] = len(self.instructions)
            self.instructions += function.instructions
        self.start = self._flows[entry.name].first
        self.bulk = np.array(
            [i.name == "cp" and "bulk" in i.modifiers for i in self.instructions], bool
        )
        self.together = [flow.together(number) for number, flow in enumerate(self._of)]
        self._made: dict[tuple[int, bool], Block] = {}
        self.blocks = len(self._of)
        self.unit = min([4, *map(_width, self.instructions)])
        for number in range(len(self._of)):  # refuse what is unknown before anything runs
            self._emit(number, False)

    def block(self, number: int, full: bool) -> Block:
        """The function of a block; full: all threads of the cohort execute it."""
        made = self._made.get((number, full))
        if made is None:
            made = self._made[number, full] = self._compile(number, full)
        return made

    def first_instruction(self, number: int) -> int:
        """Of a block, its place in `instructions`."""
        flow = self._of[number]
        return self._first[flow.function.name] + flow.starts[number - flow.first]

    def source(self, number: int, full: bool) -> tuple[str, dict[str, Any]]:
        """The text of a block's function, and the constants that it names."""
        e = self._emit(number, full)
        return "def block(S, R, M):\n" + "".join(f"    {line}\n" for line in e.lines), e.pool

    def _emit(self, number: int, full: bool) -> Emitter:
        flow = self._of[number]
        e = Emitter(self.layout, flow, full, number)
        local = number - flow.first
        if local and flow.blocks[local - 1] and flow.blocks[local - 1][-1].name == "call":
            control.results_of_call(e, flow.blocks[local - 1][-1])
        ended = False
        for e.at, instruction in enumerate(flow.blocks[local], self.first_instruction(number)):
            e.guard(instruction)
            watch(e, instruction, flow.accumulators)
            try:
                _handler(instruction)(e, instruction, Form(instruction))
            except (IndexError, ValueError):  # a handler asked for operands that are not there
                raise instruction.refuse("wrong number of operands") from None
            ended = ends_block(instruction)
            if ended and instruction.guard is not None:  # the others go on behind it
                e.line(f"S.go({e.following}, M & ~G)")
        if not ended:
            behind = local + 1 < len(flow.blocks)
            leave = "S.exit(M)" if flow.entry else f"S.leave({flow.number}, M)"
            e.line(f"S.go({number + 1}, M)" if behind else leave)
        return e

    def _compile(self, number: int, full: bool) -> Block:
        text, constants = self.source(number, full)
        names: dict[str, Any] = {"np": np, "I": integers, "F": floats, **constants}
        exec(compile(text, f"<{self.name} block {number}>", "exec"), names)
        block: Block = names["block"]
        return block


def _width(instruction: Instruction) -> int:
    """Bytes of the cells that a load or store touches."""
    if instruction.name not in ("ld", "st", "atom", "red") or not instruction.modifiers:
        return 4
    if "param" in instruction.modifiers or "local" in instruction.modifiers:
        return 4
    try:
        return size_of(instruction.modifiers[-1])
    except KeyError:
        return 4
