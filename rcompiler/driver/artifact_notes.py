"""The notes beside the streams of a compiled file, and the programs that they stand for.

The streams of an artifact are numbers. `describe` notes beside them what the checker needs and the
numbers do not say: the boxes that each rTask reads and writes, names, views and contents of the
buffers. `rebuild` makes the programs of them again - what will run, not what is said of it - and
checks that the notes fit them byte for byte. Needs numpy only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rcompiler.errors import ArtifactError
from rcompiler.rammer.kernel import Access, DimAccess, Kernel
from rcompiler.rammer.program import (
    Barrier,
    Buffer,
    Instruction,
    Program,
    Run,
    Signal,
    Wait,
)
from rcompiler.runtime import tables
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.program import KernelEntry
from rcompiler.runtime.program import Program as Launch
from rcompiler.runtime.untrusted import integer, string

Json = dict[str, Any]
_MOST = 1 << 46  # of any number in the notes: sums and products of a few stay exact in int64


def describe(
    programs: Sequence[Program], kernels: Iterable[Kernel], lines: Sequence[Sequence[int]]
) -> Json:
    """What is needed beside the streams, as JSON; kernels in the order of their numbers.

    Of each kernel its grid, what its tasks read and write, and pairs of both that may lie in the
    same bytes, with a 1 behind those that have to. Of each operator of a program: the number of its
    kernel, and those of its buffers.

    Buffers are columns of names, kinds (as numbers), offsets, bytes, indices, keys, views (the
    number of what each one views, or its own) and values (of the first one with the same content: a
    view has that of what it views, and constants of one key are one). lines: of the queues of each
    dynamic program, see `rammer.certificate`.
    """
    kernels = [*kernels]
    kernel_numbers = {kernel.name: number for number, kernel in enumerate(kernels)}
    numbers: dict[Buffer, int] = {}
    launches = []
    for program, mine in zip(programs, lines, strict=True):
        for buffer in program.buffers:
            numbers.setdefault(buffer, len(numbers))
        runs = [step for queue in program.queues for step in queue if isinstance(step, Run)]
        launches.append(
            {
                **({"lines": list(mine)} if mine else {}),
                "buffers": [numbers[buffer] for buffer in program.buffers],
                "operators": {
                    run.operator: [
                        kernel_numbers[run.kernel],
                        [numbers[program.buffer[name]] for name in run.buffers],
                    ]
                    for run in runs
                },
            }
        )
    return {
        "kernels": [
            [
                list(kernel.grid),
                [_access_data(access) for access in kernel.reads],
                [_access_data(access) for access in kernel.writes],
                [[*pair, *[1] * (pair in kernel.updates)] for pair in kernel.in_place],
            ]
            for kernel in kernels
        ],
        "buffers": _columns([*numbers]),
        "programs": launches,
    }


def rebuild(artifact: Artifact) -> tuple[list[Program], list[Kernel]]:
    """The programs of an artifact as its streams say them, not proved, and its rKernels without
    times.

    Raises ArtifactError: there is no proof, or its notes are not of these programs.
    """
    notes: Any = artifact.proof
    if not notes:
        raise ArtifactError(
            "the compiled model carries no proof of its schedule; compile the model again"
        )
    try:
        kernels = [
            _kernel(entry, data)
            for entry, data in zip(artifact.kernels, notes["kernels"], strict=True)
        ]
        over = {state.output: state.input for state in artifact.states if state.in_place}
        buffers = [
            replace(b, over=over.get(b.index, -1)) if b.kind == "output" else b
            for b in _buffers(*notes["buffers"])
        ]
        programs = [
            _Rebuilt(artifact, launch, data, buffers).program()
            for launch, data in zip(artifact.programs, notes["programs"], strict=True)
        ]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise _unfit("they cannot be read") from None
    return programs, kernels


class _Rebuilt:
    """One program of the validator, from the streams of a launch."""

    def __init__(
        self, artifact: Artifact, launch: Launch, data: Mapping[str, Any], buffers: Sequence[Buffer]
    ) -> None:
        self._artifact, self._launch = artifact, launch
        self._buffers = tuple(buffers[_index(number, buffers)] for number in data["buffers"])
        self._operators: dict[str, tuple[int, tuple[str, ...], tuple[int, ...]]] = {}
        for operator, (kernel, numbers) in data["operators"].items():
            operands = [buffers[_index(number, buffers)] for number in numbers]
            addresses = [word for b in operands for word in self._address(b)]
            names = tuple(b.name for b in operands)
            self._operators[operator] = (kernel, names, tuple(addresses))

    def program(self) -> Program:
        launch, artifact = self._launch, self._artifact
        queues = tuple(tuple(self._queue(eu, stream)) for eu, stream in enumerate(launch.streams))
        return Program(
            launch.name,
            launch.eus,
            self._buffers,
            queues,
            artifact.arena_bytes,
            int(artifact.constants.size),
            dynamic=launch.taken_by > 0,
            pinned=artifact.image.pinned,
        )

    def _queue(self, eu: int, stream: np.ndarray) -> Iterable[Instruction]:
        names = iter(self._launch.operators[eu])
        events, kernels = self._launch.events, self._artifact.kernels
        for _, opcode, operands in tables.instructions(stream):
            if opcode == tables.RUN:
                operator = next(names)
                noted, buffers, addresses = self._operators[operator]
                kernel, first, count, stride = operands[:4]
                if (kernel, *operands[5:]) != (noted, *addresses):
                    raise _unfit(
                        f"program '{self._launch.name}', EU {eu}: a run of operator "
                        f"'{operator}' is not with the kernel or on the buffers that the notes name"
                    )
                yield Run(kernels[kernel].name, operator, first, count, stride, buffers)
            elif opcode == tables.WAIT:
                yield Wait(events[operands[0]], operands[1])
            elif opcode == tables.SIGNAL:
                yield Signal(events[operands[0]])
            elif opcode == tables.BARRIER:
                yield Barrier()

    def _address(self, buffer: Buffer) -> tuple[int, int]:
        inputs = len(self._artifact.inputs)
        base = {
            "temp": tables.ARENA,
            "constant": tables.CONSTANTS,
            "input": tables.EXTERNAL + buffer.index,
            "output": tables.EXTERNAL + inputs + buffer.index,
            "pinned": tables.PINNED,
        }[buffer.kind]
        return base, buffer.offset


def _access_data(access: Access) -> list[Any]:
    dims = [[d.axis, d.scale, d.offset, d.extent] for d in access.dims]
    return [list(access.shape), access.itemsize, dims]


def _access(shape: Any, itemsize: Any, dims: Any) -> Access:
    entries = tuple(DimAccess(*map(_int, dim)) for dim in dims)
    return Access(tuple(map(_int, shape)), _int(itemsize), entries)


def _kernel(entry: KernelEntry, data: Any) -> Kernel:
    grid, reads, writes, pairs = data
    kernel = Kernel(
        name=entry.name,
        grid=tuple(map(_int, grid)),
        reads=tuple(_access(*fields) for fields in reads),
        writes=tuple(_access(*fields) for fields in writes),
        estimated_ns=0.0,  # times prove nothing
        in_place=tuple((_int(read), _int(write)) for read, write, *_ in pairs),
        updates=tuple((_int(read), _int(write)) for read, write, *has in pairs if has),
        pinned=entry.pinned,
    )
    if (kernel.tasks, kernel.operand_bytes, len(kernel.writes)) != (
        entry.tasks,
        entry.operand_bytes,
        entry.outputs,
    ):
        raise _unfit(f"rKernel '{entry.name}' has other tasks or operands than the kernel table")
    return kernel


def _columns(buffers: Sequence[Buffer]) -> list[list[Any]]:
    numbers = {buffer.name: number for number, buffer in enumerate(buffers)}
    views = [number if b.alias_of is None else numbers[b.alias_of]
             for number, b in enumerate(buffers)]  # fmt: skip
    first: dict[str, int] = {}  # constant of each key
    values = []
    for number, buffer in enumerate(buffers):
        while number != views[number]:
            number = views[number]
        key = buffers[number].key if buffer.kind == "constant" else ""
        values.append(first.setdefault(key, number) if key else number)
    return [
        [b.name for b in buffers],
        [tables.BUFFER_KINDS.index(b.kind) for b in buffers],
        [b.offset for b in buffers],
        [b.bytes for b in buffers],
        [b.index for b in buffers],
        [b.key for b in buffers],
        views,
        values,
    ]


def _buffers(names: Any, *columns: Any) -> list[Buffer]:
    rows = zip(names, *columns, strict=True)
    return [
        Buffer(
            string(name),
            tables.BUFFER_KINDS[_index(kind, tables.BUFFER_KINDS)],
            _int(offset),
            _int(size),
            _int(index),
            None if view == number else string(names[_index(view, names)]),
            string(key),
        )
        for number, (name, kind, offset, size, index, key, view, _) in enumerate(rows)
    ]


def _index(number: Any, items: Sequence[object]) -> int:
    if not 0 <= _int(number) < len(items):
        raise IndexError
    return int(number)


def _int(value: Any) -> int:
    return integer(value, _MOST)


def _unfit(what: str) -> ArtifactError:
    return ArtifactError(
        f"the notes for the proof do not fit the schedule: {what}; compile the model again"
    )


__all__ = ["describe", "rebuild"]
