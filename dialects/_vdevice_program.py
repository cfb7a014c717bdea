"""What must hold across the parts of one vdevice.program; each op alone is verified by itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from rcompiler.dialects import rtask
from rcompiler.dialects.attributes import integer_or_none

Problem = tuple[ir.OpView, str]
"""The op to blame and what is wrong with it."""


@dataclass(frozen=True)
class _Program:
    """The parts of one program, by name."""

    eus: int
    buffers: dict[str, Any]
    events: dict[str, Any]
    lists: list[Any]
    module: Any  # ir.SymbolTable


def problems(program: Any) -> Iterator[Problem]:
    """Every broken rule of a vdevice.program whose ops are valid one by one."""
    module = program.operation.parent
    if module is None:
        return
    symbols = ir.SymbolTable(module.operation)
    name = program.device.value
    if name not in symbols or symbols[name].operation.name != "vdevice.device":
        yield program, f"refers to @{name}, which is no vdevice.device of this module"
    eus = integer_or_none(symbols[name], "eus")
    if eus is None:  # the device's own verifier says so
        return
    parts = _Program(eus, {}, {}, [], symbols)
    yield from _collect(program, parts)
    for buffer in parts.buffers.values():
        yield from _placement(program, buffer)
    yield from _units(program, parts)
    for eu in parts.lists:
        for op in eu.body.blocks[0].operations:
            yield from _instruction(op, eu, parts)


def _collect(program: Any, parts: _Program) -> Iterator[Problem]:
    for op in program.body.blocks[0].operations:
        kind = op.operation.name
        if kind == "vdevice.eu":
            parts.lists.append(op)
        elif kind in ("vdevice.buffer", "vdevice.event"):
            name = op.sym_name.value
            if name in parts.buffers or name in parts.events:
                yield op, f"redefines @{name} of this program"
            (parts.buffers if kind == "vdevice.buffer" else parts.events)[name] = op
        else:
            yield op, "may not stand in a vdevice.program: only buffer, event and eu may"


def _placement(program: Any, buffer: Any) -> Iterator[Problem]:
    """Temporaries inside the arena, constants inside theirs."""
    region = {"temp": "arena", "constant": "constants"}.get(buffer.kind.value)
    if region is None:
        return
    end = buffer.offset.value + buffer.attributes["bytes"].value
    size = program.attributes[region].value
    if end > size:
        yield buffer, f"ends at byte {end}, past the {size} bytes of the program's '{region}'"


def _units(program: Any, parts: _Program) -> Iterator[Problem]:
    """Each EU of the device has exactly one list, and all meet at the same barriers."""
    barriers: dict[int, int] = {}
    for eu in parts.lists:
        operations = eu.body.blocks[0].operations
        count = sum(op.operation.name == "vdevice.barrier" for op in operations)
        if eu.last.value >= parts.eus:
            yield eu, f"names EU {eu.last.value} of a device with {parts.eus}"
        for unit in range(eu.first.value, eu.last.value + 1):
            if unit in barriers:
                yield eu, f"gives EU {unit} a second list"
            barriers[unit] = count
        if count != next(iter(barriers.values())):
            yield eu, f"has {count} barriers, other EUs have {next(iter(barriers.values()))}"
    missing = sorted(set(range(parts.eus)) - set(barriers))
    if missing:
        yield program, f"has no list for EU {missing[0]} of {parts.eus}"


def _instruction(op: Any, eu: Any, parts: _Program) -> Iterator[Problem]:
    match op.operation.name:
        case "vdevice.wait" | "vdevice.signal":
            if op.event.value not in parts.events:
                yield op, f"refers to @{op.event.value}, which is no event of this program"
        case "vdevice.run":
            yield from ((op, problem) for problem in _run(op, eu, parts))
        case "vdevice.barrier":
            return
        case _:
            yield op, "may not stand in a vdevice.eu: only wait, run, signal and barrier may"


def _run(op: Any, eu: Any, parts: _Program) -> Iterator[str]:
    name = op.kernel.value
    kernel: Any = parts.module[name] if name in parts.module else None
    if not isinstance(kernel, rtask.KernelOp):
        yield f"refers to @{name}, which is no rtask.kernel of this module"
    last = (
        op.first.value
        + (eu.last.value - eu.first.value) * op.eu_step.value
        + (op.count.value - 1) * op.stride.value
    )
    tasks = integer_or_none(kernel, "tasks")
    if tasks is not None and last >= tasks:
        yield f"runs task {last} of @{name}, which has {tasks}"
    operands, results = rtask.body_types(kernel)
    names = [buffer.value for buffer in op.buffers]
    if len(names) != len(operands) + len(results):
        yield (
            f"expects {len(operands)} operands and {len(results)} results of @{name}"
            f" as buffers, not {len(names)}"
        )
    for position, (buffer, type_) in enumerate(zip(names, operands + results, strict=True)):
        if buffer not in parts.buffers:
            yield f"refers to @{buffer}, which is no buffer of this program"
        found = parts.buffers[buffer]
        if found.attributes["type"].value != type_:
            yield f"expects @{buffer} to have the type of @{name}'s tensor {position}, {type_}"
        if position >= len(operands) and found.kind.value in ("input", "constant"):
            yield f"writes @{buffer}, which is of kind {found.kind.value}"
