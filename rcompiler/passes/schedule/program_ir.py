"""vdevice.program <-> the scheduler's Program: the text is the whole truth, both ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from torch_mlir import ir

from rcompiler.dialects import vdevice
from rcompiler.dialects.attributes import to_attribute
from rcompiler.dialects.iterations import Index, instances, integer_at, moving_integer, name_at
from rcompiler.linalg.values import integer, ops_of, string, symbol, symbols
from rcompiler.passes.ir.operators import kernels_by_name, ops_in_module
from rcompiler.passes.schedule.program_lines import (
    Numbers,
    buffer_line,
    event_line,
    forget_names,
    instruction_line,
    may_have_loops,
    write_buffer,
    write_event,
    write_instruction,
    write_lines,
)
from rcompiler.passes.schedule.schedule_graph import ScheduleGraph, constant_key, kernel_of
from rcompiler.rammer.kernel import Kernel
from rcompiler.rammer.loops import Line
from rcompiler.rammer.program import Barrier, Buffer, Instruction, Program, Run, Signal, Wait


def write_program(program: Program, source: ScheduleGraph, device: str, bound: int) -> None:
    """Print `program` as a vdevice.program at the current insertion point.

    bound: bytes that no arena of this schedule can go below, a remark for the reader and the
    report.
    """
    op = vdevice.ProgramOp.build(program.name, device, program.arena, program.constants)
    op.operation.attributes["arena_bound"] = to_attribute(bound)
    if program.pinned:
        op.operation.attributes["pinned"] = to_attribute(program.pinned)
    loops = may_have_loops(program)

    def write(line: Line, numbers: Numbers) -> None:
        write_buffer(line, numbers, source.constants)

    with ir.InsertionPoint(op.body.blocks[0]):
        buffers = [buffer_line(buffer, source.types[buffer.name]) for buffer in program.buffers]
        write_lines(buffers, loops, write)
        write_lines([event_line(event) for event in _events(program)], loops, write_event)
        for first, last, steps in _shared_lists(program):
            kind = vdevice.QueueOp if program.dynamic else vdevice.EuOp
            eu = kind.build(first, last)
            lines = [*map(instruction_line, program.queues[first], steps)]
            with ir.InsertionPoint(eu.body.blocks[0]):
                write_lines(lines, loops and not program.dynamic, write_instruction)
    forget_names()


def _events(program: Program) -> list[str]:
    seen: dict[str, None] = {}
    for queue in program.queues:
        for instruction in queue:
            if isinstance(instruction, Wait | Signal):
                seen.setdefault(instruction.event)
    return list(seen)


def _shared_lists(program: Program) -> list[tuple[int, int, list[int]]]:
    """(first EU, last EU, eu_step per instruction): neighbours whose lists differ only by a
    constant task shift; or queues of a dynamic program.
    """
    found: list[tuple[int, int, list[int]]] = []
    for eu, queue in enumerate(program.queues):
        if found:
            first, last, steps = found[-1]
            shift = _shift(program.queues[last], queue)
            if shift is not None and (first == last or shift == steps):
                found[-1] = (first, eu, shift)
                continue
        found.append((eu, eu, [0] * len(queue)))
    return found


def _shift(before: tuple[Instruction, ...], after: tuple[Instruction, ...]) -> list[int] | None:
    if len(before) != len(after):
        return None
    steps = []
    for a, b in zip(before, after, strict=True):
        if isinstance(a, Run) and isinstance(b, Run):
            same = (a.kernel, a.operator, a.count, a.stride, a.buffers) == (
                b.kernel,
                b.operator,
                b.count,
                b.stride,
                b.buffers,
            )
            if not same or b.first < a.first:
                return None
            steps.append(b.first - a.first)
        elif a != b:
            return None
        else:
            steps.append(0)
    return steps


# -- reading
def read_kernels(module: ir.Operation) -> dict[str, Kernel]:
    """All rKernels of a module by name."""
    return {name: kernel_of(op) for name, op in kernels_by_name(module).items()}


def read_programs(module: ir.Operation) -> list[Program]:
    """The programs in the order in which @main launches them."""
    programs = {string(o, "sym_name"): o for o in ops_in_module(module, "vdevice.program")}
    devices = ops_in_module(module, "vdevice.device")
    eus = {string(o, "sym_name"): integer(o, "eus") for o in devices}
    ops = [op for function in ops_in_module(module, "func.func")
           for op in ops_of(function.regions[0].blocks[0])]  # fmt: skip
    launches = [symbol(op, "program") for op in ops if op.name == "vdevice.launch"]
    return [_read_program(programs[name], eus) for name in launches]


def _read_program(op: ir.Operation, eus: Mapping[str, int]) -> Program:
    """eus: by the name of a device."""
    buffers: list[Buffer] = []
    lists: dict[int, tuple[Instruction, ...]] = {}
    dynamic = False
    for inner, index in instances(op.regions[0].blocks[0]):
        if inner.operation.name == "vdevice.buffer":
            buffers.append(_read_buffer(inner.operation, index))
        elif inner.operation.name in ("vdevice.eu", "vdevice.queue"):
            dynamic = inner.operation.name == "vdevice.queue"
            first, last = (integer(inner.operation, name) for name in ("first", "last"))
            body = _readers(inner.operation.regions[0].blocks[0])
            for eu in range(first, last + 1):
                lists[eu] = tuple(_instructions(body, eu - first, ()))
    queues = tuple(lists[eu] for eu in sorted(lists))
    return Program(
        string(op, "sym_name"),
        eus[symbol(op, "device")] if dynamic else len(queues),
        tuple(buffers),
        queues,
        integer(op, "arena"),
        integer(op, "constants"),
        dynamic,
        pinned_bytes(op),
    )


def pinned_bytes(program: ir.Operation) -> int:
    """Bytes of each EU's own memory that hold pinned tiles of a vdevice.program."""
    return integer(program, "pinned") if "pinned" in program.attributes else 0


def most_pinned(module: ir.Operation) -> int:
    """Of all programs of a module: they have one kernel on a GPU."""
    return max(map(pinned_bytes, ops_in_module(module, "vdevice.program")), default=0)


def _read_buffer(op: ir.Operation, iteration: Index) -> Buffer:
    kind = string(op, "kind")
    key = constant_key(op.attributes["value"]) if kind == "constant" else ""
    alias = symbol(op, "alias_of") if "alias_of" in op.attributes else None
    index = integer(op, "index") if "index" in op.attributes else -1
    return Buffer(
        name_at(string(op, "sym_name"), iteration),
        kind,
        integer_at(op, "offset", iteration),
        integer(op, "bytes"),
        index,
        None if alias is None else name_at(alias, iteration),
        key,
        integer(op, "over") if "over" in op.attributes else -1,
    )


_Reader = Callable[[int, Index], Instruction]
"""An instruction of a list: on the EU of this position in it, in one iteration of the loops around.
"""

_Readers = list["_Reader | tuple[int, _Readers]"]
"""Instructions, and loops: a count and a body."""


def _readers(block: ir.Block) -> _Readers:
    """The instructions of a block, each op looked at once, however often it is executed."""
    found: _Readers = []
    for op in ops_of(block):
        if op.name == "vdevice.repeat":
            found.append((integer(op, "count"), _readers(op.regions[0].blocks[0])))
        else:
            found.append(_reader(op))
    return found


def _instructions(body: _Readers, position: int, iteration: Index) -> Iterator[Instruction]:
    for item in body:
        if isinstance(item, tuple):
            count, inner = item
            for i in range(count):
                yield from _instructions(inner, position, (*iteration, i))
        else:
            yield item(position, iteration)


def _reader(op: ir.Operation) -> _Reader:
    match op.name:
        case "vdevice.run":
            kernel, operator = symbol(op, "kernel"), string(op, "operator")
            count, stride, eu_step = (integer(op, n) for n in ("count", "stride", "eu_step"))
            buffers = symbols(op, "buffers")
            first = moving_integer(op, "first")

            def run(position: int, iteration: Index) -> Run:
                return Run(
                    kernel,
                    name_at(operator, iteration),
                    first(iteration) + position * eu_step,
                    count,
                    stride,
                    tuple([name_at(buffer, iteration) for buffer in buffers]),
                )

            return run
        case "vdevice.wait":
            event, signals = symbol(op, "event"), moving_integer(op, "count")
            return lambda _, iteration: Wait(name_at(event, iteration), signals(iteration))
        case "vdevice.signal":
            event = symbol(op, "event")
            return lambda _, iteration: Signal(name_at(event, iteration))
    return lambda _, __: Barrier()


class ProgramParts:
    """A vdevice.program and what it refers to, for passes that change it.

    kernels: the rKernels of its module, by name.
    """

    def __init__(self, program: ir.Operation, kernels: dict[str, ir.Operation]) -> None:
        self._program, self._kernels = program, kernels
        self._plain = {name: kernel_of(op) for name, op in kernels.items()}
        parts = ops_of(program.regions[0].blocks[0])
        self._lists = [op for op in parts if op.name == "vdevice.eu"]
        buffers = (op for op in parts if op.name == "vdevice.buffer" and "value" in op.attributes)
        self._constants = {string(op, "sym_name"): op for op in buffers}
