"""What must hold across the parts of one vdevice.program; each op alone is verified by itself."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch_mlir import ir

from rcompiler.dialects import rtask
from rcompiler.dialects.attributes import integer_or_none, integer_problems, place_problems
from rcompiler.dialects.iterations import (
    MOST,
    Index,
    instances,
    integer_at,
    name_at,
    name_problems,
    size,
    steps_problems,
    written,
)

LARGEST = 1 << 62  # of any number that moves: sums and differences of two are in 64 bits

MOST_QUEUES = 1 << 22  # of a program: text may name queues far faster than lists can be made

Problem = tuple[ir.OpView, str]
"""The op to blame and what is wrong with it."""

# Of each op that may stand in a repeat: names and lists of names, integers that may move there and
# the least that they may be.
_NAMES = {
    "vdevice.buffer": ("sym_name", "alias_of"),
    "vdevice.event": ("sym_name",),
    "vdevice.wait": ("event",),
    "vdevice.signal": ("event",),
    "vdevice.run": ("operator", "buffers"),
}
_INTEGERS = {
    "vdevice.buffer": {"offset": 0},
    "vdevice.wait": {"count": 1},
    "vdevice.run": {"first": 0},
}


@dataclass(frozen=True)
class _Kernel:
    """What runs must fit. there: whether it is an rtask.kernel; types: of its operands, then of its
    results.
    """

    there: bool
    tasks: int | None
    operands: int
    types: tuple[ir.Type, ...]
    pinned: tuple[int, ...]

    @staticmethod
    def of(op: Any) -> "_Kernel":
        """Of an op of the module, or of none."""
        if not isinstance(op, rtask.KernelOp):
            return _Kernel(False, None, 0, (), ())
        operands, results = rtask.body_types(op)
        types = (*operands, *results)
        pinned = rtask.pinned_of(op.operation)
        return _Kernel(True, integer_or_none(op, "tasks"), len(operands), types, pinned)


@dataclass(frozen=True)
class _Program:
    """The parts of one program, by name; buffers and events with the iteration they are of.

    lists: of EUs or of queues. kernels: those that runs have named so far.
    """

    eus: int
    buffers: dict[str, tuple[Any, Index]]
    events: dict[str, tuple[Any, Index]]
    lists: list[Any]
    module: Any  # ir.SymbolTable
    kernels: dict[str, _Kernel] = field(default_factory=dict)


def list_problems(op: Any, unit: str) -> Iterator[str]:
    """What is wrong with one list, for the units (EUs, queues) first..last."""
    yield from place_problems(op, ("vdevice.program",))
    yield from integer_problems(op, {"first": 0, "last": 0})
    if op.last.value < op.first.value:
        yield f"expects {unit} first <= last, not {op.first.value}..{op.last.value}"
    if len(list(op.body.blocks)) != 1:
        yield "expects a body of one block"


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
    yield from _loops(program, program.body.blocks[0])
    yield from _collect(program, parts)
    for buffer, index in parts.buffers.values():
        yield from _placement(program, buffer, index)
    for eu in parts.lists:
        yield from _loops(eu, eu.body.blocks[0])
    kinds = {op.operation.name for op in parts.lists}
    if len(kinds) > 1:
        other = next(op for op in parts.lists if op.operation.name != parts.lists[0].operation.name)
        yield (
            other,
            "may not stand beside lists of the other kind: a program has those of EUs or queues",
        )
    yield from _queues(parts) if kinds == {"vdevice.queue"} else _units(program, parts)
    for eu in parts.lists:
        for op, index in instances(eu.body.blocks[0]):
            yield from _instruction(op, index, eu, parts)


def _loops(owner: Any, block: Any) -> Iterator[Problem]:
    """The repeats in a block come to an end, and what moves in them says how."""
    if size(block) > MOST:
        yield owner, f"has more than {MOST} ops with its repeats gone through"
    for op, depth in written(block):
        kind = op.operation.name
        for key in _NAMES.get(kind, ()):
            if key in op.attributes:
                for name in _names(op.attributes[key]):
                    yield from ((op, problem) for problem in name_problems(name, depth))
        yield from ((op, p) for p in steps_problems(op, list(_INTEGERS.get(kind, {})), depth))


def _names(attribute: Any) -> list[str]:
    if isinstance(attribute, ir.ArrayAttr):
        return [item.value for item in attribute]
    return [attribute.value]


def _collect(program: Any, parts: _Program) -> Iterator[Problem]:
    for op, index in instances(program.body.blocks[0]):
        kind = op.operation.name
        if kind in ("vdevice.eu", "vdevice.queue") and not index:
            parts.lists.append(op)
        elif kind in ("vdevice.buffer", "vdevice.event"):
            name = name_at(op.sym_name.value, index)
            if name in parts.buffers or name in parts.events:
                yield op, f"redefines @{name} of this program"
            (parts.buffers if kind == "vdevice.buffer" else parts.events)[name] = (op, index)
        else:
            yield op, "may not stand in a vdevice.program: only buffer, event, eu and queue may"


def _placement(program: Any, buffer: Any, index: Index) -> Iterator[Problem]:
    """Temporaries inside the arena, constants inside theirs."""
    if index and buffer.kind.value == "constant":
        yield buffer, "may not stand in a vdevice.repeat: a constant has one value"
    offset = integer_at(buffer, "offset", index)
    if not 0 <= offset <= LARGEST:
        where = f"{offset} in iteration {list(index)}"
        yield buffer, f"expects 'offset' of at least 0 and at most 2^62, not {where}"
    region = {"temp": "arena", "constant": "constants"}.get(buffer.kind.value)
    if region is None:
        return
    end = offset + buffer.attributes["bytes"].value
    arena = program.attributes[region].value
    if end > arena:
        yield buffer, f"ends at byte {end}, past the {arena} bytes of the program's '{region}'"


def _units(program: Any, parts: _Program) -> Iterator[Problem]:
    """Each EU of the device has exactly one list, and all meet at the same barriers."""
    barriers: dict[int, int] = {}
    for eu in parts.lists:
        steps = instances(eu.body.blocks[0])
        count = sum(op.operation.name == "vdevice.barrier" for op, _ in steps)
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


def _queues(parts: _Program) -> Iterator[Problem]:
    """Queues are numbered through, and meet nowhere."""
    expected = 0
    for queue in parts.lists:
        if queue.first.value != expected:
            yield queue, f"begins with queue {queue.first.value}, and queue {expected} is the next"
        expected = queue.last.value + 1
        if expected > MOST_QUEUES:
            yield queue, f"names queue {queue.last.value}: a program has at most {MOST_QUEUES}"
        for op in queue.body.blocks[0].operations:
            if op.operation.name == "vdevice.barrier":
                yield op, "may not stand in a vdevice.queue: which EU runs it is not known"


def _instruction(op: Any, index: Index, eu: Any, parts: _Program) -> Iterator[Problem]:
    kind = op.operation.name
    for key, least in _INTEGERS.get(kind, {}).items() if index else ():
        if not least <= (value := integer_at(op, key, index)) <= LARGEST:
            where = f"{value} in iteration {list(index)}"
            yield op, f"expects '{key}' of at least {least} and at most 2^62, not {where}"
    match kind:
        case "vdevice.wait" | "vdevice.signal":
            event = name_at(op.event.value, index)
            if event not in parts.events:
                yield op, f"refers to @{event}, which is no event of this program"
        case "vdevice.run":
            yield from ((op, problem) for problem in _run(op, index, eu, parts))
        case "vdevice.barrier":
            return
        case _:
            may = "wait, run, signal and barrier"
            if eu.operation.name == "vdevice.queue":
                may = "wait, run and signal"
            yield op, f"may not stand in a {eu.operation.name}: only {may} may"


def _run(op: Any, index: Index, eu: Any, parts: _Program) -> Iterator[str]:
    name = op.kernel.value
    if name not in parts.kernels:
        parts.kernels[name] = _Kernel.of(parts.module[name] if name in parts.module else None)
    kernel = parts.kernels[name]
    if not kernel.there:
        yield f"refers to @{name}, which is no rtask.kernel of this module"
    last = (
        integer_at(op, "first", index)
        + (eu.last.value - eu.first.value) * op.eu_step.value
        + (op.count.value - 1) * op.stride.value
    )
    if kernel.tasks is not None and last >= kernel.tasks:
        yield f"runs task {last} of @{name}, which has {kernel.tasks}"
    if kernel.pinned and (op.stride.value != 1 or eu.operation.name == "vdevice.queue"):
        yield f"expects tasks of @{name} side by side, on a known EU: it has pinned tensors"
    names = [name_at(buffer.value, index) for buffer in op.buffers]
    if len(names) != len(kernel.types):
        yield (
            f"expects {kernel.operands} operands and {len(kernel.types) - kernel.operands} results"
            f" of @{name} as buffers, not {len(names)}"
        )
    for position, (buffer, type_) in enumerate(zip(names, kernel.types, strict=True)):
        if buffer not in parts.buffers:
            yield f"refers to @{buffer}, which is no buffer of this program"
        found, _ = parts.buffers[buffer]
        if found.attributes["type"].value != type_:
            yield f"expects @{buffer} to have the type of @{name}'s tensor {position}, {type_}"
        kind = found.kind.value
        if (kind == "pinned") != (position in kernel.pinned):
            yield f"expects tensor {position} of @{name} to be pinned where @{buffer} is"
        if position >= kernel.operands and kind in ("input", "constant"):
            yield f"writes @{buffer}, which is of kind {kind}"
