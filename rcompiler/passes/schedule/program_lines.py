"""The parts of a program as lines in which loops are found, and those loops as ops.

In a loop the numbers in names move: `step4_h`, `step5_h`, ... are written as `step{4+i}_h`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from torch_mlir import ir

from rcompiler.dialects import vdevice
from rcompiler.dialects.iterations import moving_number
from rcompiler.rammer.loops import Item, Line, Repeat, roll
from rcompiler.rammer.program import Buffer, Instruction, Program, Run, Signal, Wait

FEWEST = 4  # iterations of a loop in a text: what comes a few times is read better written out

# Digits that are a number: few enough, and the same when printed again.
_NUMBER = re.compile(r"(?<!\d)(0|[1-9]\d{0,8})(?!\d)")

Template = tuple[str, ...]
"""The text of a name between its numbers, and in front of the first and behind the last."""


@lru_cache(maxsize=1 << 16)
def split_name(name: str) -> tuple[Template, tuple[int, ...]]:
    """The text of a name and its numbers. Kept, as the runs of all EUs name the same buffers, until
    `forget_names`.
    """
    parts = _NUMBER.split(name)
    return tuple(parts[::2]), tuple(int(part) for part in parts[1::2])


def forget_names() -> None:
    """Of a program that is written: constants are named by their content, so that no other model
    has these names, and those of all models would be 20 MB.
    """
    split_name.cache_clear()


class Numbers:
    """The numbers of one line, in order, each with its step in every loop around."""

    def __init__(self, line: Line, steps: Iterable[tuple[int, ...]]) -> None:
        self._left = iter(list(zip(line.numbers, steps, strict=True)))

    def name(self, template: Template) -> str:
        """The next name."""
        text = template[0]
        for part in template[1:]:
            text += moving_number(*next(self._left)) + part
        return text

    def integer(self) -> tuple[int, tuple[int, ...]]:
        """The next integer and how it moves."""
        return next(self._left)


def may_have_loops(program: Program) -> bool:
    """Whether no name could be mistaken for one that moves."""
    names = [buffer.name for buffer in program.buffers]
    for queue in program.queues:
        for step in queue:
            names += [step.operator] if isinstance(step, Run) else []
            names += [step.event] if isinstance(step, Wait | Signal) else []
    return not any(mark in name for name in names for mark in "{}")


def write_lines(lines: Sequence[Line], loops: bool, write: Callable[[Line, Numbers], None]) -> None:
    """Write lines, their loops as vdevice.repeat, at the current insertion point."""
    _write(roll(lines, FEWEST) if loops else lines, write, ())


def _write(
    items: Iterable[Item], write: Callable[[Line, Numbers], None], around: tuple[Iterator[int], ...]
) -> None:
    for item in items:
        if isinstance(item, Repeat):
            repeat = vdevice.RepeatOp.build(item.count)
            with ir.InsertionPoint(repeat.body.blocks[0]):
                _write(item.body, write, (*around, iter(item.steps)))
        else:
            write(item, Numbers(item, [tuple(map(next, around)) for _ in item.numbers]))


def instruction_line(step: Instruction, eu_step: int) -> Line:
    """An instruction of a list, in which `eu_step` tasks lie between EU and EU."""
    match step:
        case Run(kernel, operator, first, count, stride, buffers):
            names = [split_name(name) for name in (operator, *buffers)]
            templates = tuple(template for template, _ in names)
            moving = [first, *(number for _, numbers in names for number in numbers)]
            return Line(("run", kernel, count, stride, eu_step, templates), tuple(moving))
        case Wait(event, count):
            template, numbers = split_name(event)
            return Line(("wait", template), (count, *numbers))
        case Signal(event):
            template, numbers = split_name(event)
            return Line(("signal", template), tuple(numbers))
    return Line(("barrier",), ())


def write_instruction(line: Line, numbers: Numbers) -> None:
    """The op of an `instruction_line`."""
    match line.fixed:
        case ("run", kernel, count, stride, eu_step, templates):
            first, steps = numbers.integer()
            operator, *buffers = (numbers.name(template) for template in templates)
            op = vdevice.RunOp.build(kernel, operator, first, count, stride, eu_step, buffers)
            _move(op, "first", steps)
        case ("wait", template):
            count, steps = numbers.integer()
            op = vdevice.WaitOp.build(event_symbol(numbers.name(template)), count)
            _move(op, "count", steps)
        case ("signal", template):
            vdevice.SignalOp.build(event_symbol(numbers.name(template)))
        case _:
            vdevice.BarrierOp.build()


def buffer_line(buffer: Buffer, type_: ir.Type) -> Line:
    """A buffer that holds a tensor of this type; a constant is in no loop."""
    name, numbers = split_name(buffer.name)
    if buffer.kind == "constant":
        name, numbers = (buffer.name,), ()
    alias, more = split_name(buffer.alias_of) if buffer.alias_of is not None else (None, ())
    fixed = (buffer.kind, buffer.bytes, buffer.index, buffer.over, str(type_), name, alias)
    return Line(fixed, (buffer.offset, *numbers, *more))


def write_buffer(line: Line, numbers: Numbers, constants: Mapping[str, ir.Attribute]) -> None:
    """The op of a `buffer_line`; constants: by name."""
    kind, size, index, over, type_, template, alias = line.fixed
    offset, steps = numbers.integer()
    name = numbers.name(template)
    op = vdevice.BufferOp.build(
        name,
        kind,
        offset,
        size,
        ir.Type.parse(type_),
        index=index if kind in ("input", "output") else None,
        value=constants.get(name) if kind == "constant" else None,
        over=over if over >= 0 else None,
    )
    _move(op, "offset", steps)
    if alias is not None:
        op.operation.attributes["alias_of"] = ir.FlatSymbolRefAttr.get(numbers.name(alias))


def event_line(event: str) -> Line:
    """The declaration of an event."""
    template, numbers = split_name(event)
    return Line(("event", template), tuple(numbers))


def write_event(line: Line, numbers: Numbers) -> None:
    """The op of an `event_line`."""
    vdevice.EventOp.build(event_symbol(numbers.name(line.fixed[1])))


def event_symbol(event: str) -> str:
    """Events and buffers share one name space in a program."""
    return event + ".done"


def _move(op: ir.OpView, name: str, steps: tuple[int, ...]) -> None:
    if any(steps):
        op.operation.attributes[f"{name}_steps"] = ir.DenseI64ArrayAttr.get(steps)
