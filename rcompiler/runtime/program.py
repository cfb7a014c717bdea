"""What an artifact says about tensors, kernels and programs, and the check that it holds together.

The check is structural: whatever a stream says, it stays inside the buffers it was given. That a
schedule is free of races and deadlocks is proved elsewhere (rammer.validate), from the same data.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rcompiler.errors import ArtifactError, DeviceError
from rcompiler.runtime import tables
from rcompiler.runtime.loops import Line, lines, parse
from rcompiler.runtime.memory import ALIGNMENT
from rcompiler.support.extent import Extent, Size, Symbol

# Types that numpy does not have; kept in memory in so many bytes per element.
_EXTENSION_BYTES = {
    "bfloat16": 2,
    **dict.fromkeys(("int4", "uint4", "int2", "uint2", "float4_e2m1fn", "float8_e8m0fnu"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"), 1),
}
_NUMPY_TYPES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
)
MAX_EUS = 4096
MAX_QUEUES = 1 << 22  # of a dynamic program
MAX_BYTES = 1 << 46
MAX_RANK = 64  # of a numpy array
MAX_WORKSPACE = 1 << 30  # bytes; on-chip memory of a real device is far below
MAX_OPERANDS = 1 << 14  # of a kernel: their addresses are on the stack of the thread that runs it


@dataclass(frozen=True)
class Tensor:
    """An input or output.

    Attributes:
        name: as in the ONNX model.
        shape: static; the bounds of sizes that are known at run time.
        dtype: name of the type in numpy or ml_dtypes.
        extents: along each axis the size at run time, None where it is that of the shape; () where
            all are.
        size: of an input behind those of the model the count that it tells.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    extents: tuple[Extent | None, ...] = ()
    size: Symbol | None = None

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The shape, with the extents where there are some."""
        own = self.extents or (None,) * len(self.shape)
        return tuple(n if e is None else e for n, e in zip(self.shape, own, strict=True))

    def shape_at(self, counts: Mapping[str, int]) -> tuple[int, ...]:
        """The shape where the counts are these.

        Args:
            counts: by the names of symbols.

        Raises:
            ArtifactError: it is none within the bounds.
        """
        shape = tuple(n.at(counts) if isinstance(n, Extent) else n for n in self.sizes)
        if any(not 0 <= n <= bound for n, bound in zip(shape, self.shape, strict=True)):
            raise ArtifactError(
                f"tensor '{self.name}': shape {list(shape)} is beyond {list(self.shape)}; compile "
                "the model again"
            )
        return shape

    @property
    def itemsize(self) -> int:
        """Bytes per element in memory; `bool` and the 4-bit types take one.

        Raises:
            ArtifactError: there is no such type.
        """
        if self.dtype in _NUMPY_TYPES:
            return np.dtype(self.dtype).itemsize
        if self.dtype in _EXTENSION_BYTES:
            return _EXTENSION_BYTES[self.dtype]
        raise ArtifactError(f"tensor '{self.name}': unknown type '{self.dtype}'")

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor."""
        return math.prod(self.shape) * self.itemsize

    def numpy_dtype(self) -> np.dtype:
        """The numpy type object.

        Raises:
            DeviceError: the type needs ml_dtypes, which is not installed.
        """
        if self.dtype in _NUMPY_TYPES:
            return np.dtype(self.dtype)
        try:
            import ml_dtypes

            return np.dtype(getattr(ml_dtypes, self.dtype))
        except (ImportError, AttributeError):
            raise DeviceError(
                f"tensor '{self.name}': type {self.dtype} needs the package ml_dtypes; install it"
            ) from None


@dataclass(frozen=True)
class IndexRange:
    """All elements of an input are indices, and must lie in a range.

    Attributes:
        input: its name.
        first, last: the least and the largest index.
        reader: the node that reads them.
    """

    input: str
    first: int
    last: int
    reader: str


@dataclass(frozen=True)
class IndexCheck:
    """What the model says of indices that it computes itself, or of its counts.

    It is an int64 scalar behind the outputs: an index that is outside of the range, or 0.

    Attributes:
        first, last: the least and the largest index.
        reader: the node that reads them.
        says: what is wrong with one that is outside; "" of an index into a dimension whose size is
            known. In it `{}` stands for the number; `{index}` for an index that was moved away from
            0 by the size of the range's one side, so that it is outside of it whatever the size of
            a call is; `{size}` for the number of the check behind this one, which says that alone,
            and `{first}` and `{last}` for the ends of the positions in so many elements.
        bound: the name in `bounds` under which more would have to be allowed.
    """

    first: int
    last: int
    reader: str
    says: str = ""
    bound: str = ""


@dataclass(frozen=True)
class State:
    """A tensor that a call finds as the one before has left it.

    Attributes:
        input, output: the numbers of its last and of its next value in the signature.
        in_place: whether the next value is written in the place of the last one.
    """

    input: int
    output: int
    in_place: bool


@dataclass(frozen=True)
class KernelEntry:
    """A kernel of the image.

    Attributes:
        name: symbol in the code image.
        tasks: number of rTasks; task indices are below it.
        operand_bytes: bytes that the kernel may touch behind each operand pointer.
        outputs: so many of the last operands are written.
        workspace: bytes of memory of the EU that a task may use, undefined before and after it.
        pinned: numbers of the operands that lie in memory of the EU which it keeps.
    """

    name: str
    tasks: int
    operand_bytes: tuple[int, ...]
    outputs: int
    workspace: int = 0
    pinned: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Program:
    """One launch: a stream per EU; or, of a dynamic program, one per queue, which the EUs take.

    Attributes:
        name: as in the schedule.
        streams: int64 words, see `runtime.tables`.
        events: names, by event number.
        operators: per stream, the operator that its i-th RUN belongs to.
        taken_by: EUs of a dynamic program, which take the streams in this order; else 0.
    """

    name: str
    streams: tuple[np.ndarray, ...]
    events: tuple[str, ...]
    operators: tuple[tuple[str, ...], ...]
    taken_by: int = 0

    @property
    def eus(self) -> int:
        """EUs that it runs on."""
        return self.taken_by or len(self.streams)

    def signals(self) -> list[int]:
        """How often a launch signals each event."""
        return _signals(self, [list(lines(parse(stream))) for stream in self.streams])


@dataclass(frozen=True)
class OperandLimits:
    """What the operands of a RUN are checked against, by base: bytes, may it be written, and what
    offsets into it must be multiples of. pinned: bytes that each EU keeps in its own memory.
    """

    sizes: tuple[int, ...]
    writable: tuple[bool, ...]
    alignments: tuple[int, ...]
    pinned: int = 0

    @staticmethod
    def of(
        arena: int,
        constants: int,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        input_alignment: int,
        pinned: int = 0,
    ) -> "OperandLimits":
        """The bases in the order of `runtime.tables`."""
        sizes = (arena, constants, *(t.nbytes for t in (*inputs, *outputs)))
        n, m = len(inputs), len(outputs)
        writable = (True, False, *[False] * n, *[True] * m)
        ours = ALIGNMENT
        alignments = (ours, ours, *[input_alignment] * n, *[ours] * m)
        return OperandLimits(sizes, writable, alignments, pinned)


def check_tensor(tensor: Tensor) -> None:
    """Refuse impossible shapes and types of a signature."""
    # numpy refuses an empty array, too, whose other extents are beyond any memory.
    extents = [max(extent, 1) for extent in tensor.shape]
    too_large = len(extents) > MAX_RANK or math.prod(extents) * tensor.itemsize > MAX_BYTES
    if any(extent < 0 for extent in tensor.shape) or too_large:
        raise ArtifactError(f"tensor '{tensor.name}': impossible shape {list(tensor.shape)}")


def check_range(first: int, last: int, reader: str) -> None:
    """Refuse impossible ranges of indices. 0 is in each: it is what a check says where none is
    wrong.
    """
    if not -MAX_BYTES <= first <= 0 <= last <= MAX_BYTES:
        raise ArtifactError(f"{reader}: indices from {first} to {last} are impossible")


def check_program(program: Program, kernels: Sequence[KernelEntry], limits: OperandLimits) -> None:
    """Refuse a program that could leave its buffers or tables.

    Raises:
        ArtifactError: naming program, EU or queue, word and the reason.
    """
    most = MAX_QUEUES if program.taken_by else MAX_EUS
    usable = 1 <= len(program.streams) <= most and 0 <= program.taken_by <= MAX_EUS
    if not usable or len(program.operators) != len(program.streams):
        raise ArtifactError(f"program '{program.name}': it has no usable number of EUs")
    streams = [list(lines(parse(stream))) for stream in program.streams]
    for eu, steps in enumerate(streams):
        for line in steps:
            for operands in line.extremes():
                wrong = None
                if line.opcode == tables.RUN:
                    wrong = _wrong_run(operands, kernels, limits)
                elif line.opcode in (tables.WAIT, tables.SIGNAL):
                    if not 0 <= operands[0] < len(program.events):
                        wrong = f"there is no event {operands[0]}"
                elif line.opcode == tables.TAKE:
                    wrong = "only the runtime takes queues"
                if wrong:
                    raise _fault(program, eu, line.position, wrong)
    _check_counts(program, streams)
    if program.taken_by:
        _check_queues(program, streams)


def _signals(program: Program, streams: Sequence[Sequence[Line]]) -> list[int]:
    totals = [0] * len(program.events)
    for steps in streams:
        for line in steps:
            if line.opcode == tables.SIGNAL:
                for event in line.values(0):
                    totals[event] += 1
    return totals


def _check_counts(program: Program, streams: Sequence[Sequence[Line]]) -> None:
    totals = _signals(program, streams)
    barriers = []
    for eu, steps in enumerate(streams):
        runs = sum(line.times for line in steps if line.opcode == tables.RUN)
        meetings = sum(line.times for line in steps if line.opcode == tables.BARRIER)
        for line in steps:
            if line.opcode == tables.WAIT:
                for event, count in zip(line.values(0), line.values(1), strict=True):
                    if not 1 <= count <= totals[event]:
                        raise _fault(
                            program,
                            eu,
                            line.position,
                            f"it waits for {count} signals of event "
                            f"'{program.events[event]}', which gets {totals[event]}",
                        )
        barriers.append(meetings)
        if runs != len(program.operators[eu]):
            raise _fault(program, eu, 0, "the operator names do not match the RUNs")
    if len(set(barriers)) > 1:
        raise ArtifactError(
            f"program '{program.name}': its EUs have {barriers} barriers, not equally many; "
            "compile the model again"
        )


def _check_queues(program: Program, streams: Sequence[Sequence[Line]]) -> None:
    """One EU alone can take the queues in order: then any number of them never deadlock.

    Queues lie once in memory for all EUs, so nothing is written to them: they have no loops.
    """
    signals = [0] * len(program.events)
    for number, steps in enumerate(streams):
        for line in steps:
            wrong = None
            if line.counts:
                wrong = "a queue that any EU may take has no loops"
            elif line.opcode == tables.SIGNAL:
                signals[line.operands[0]] += 1
            elif line.opcode == tables.BARRIER:
                wrong = "EUs that take queues meet in no barrier"
            elif line.opcode == tables.WAIT and signals[line.operands[0]] < line.operands[1]:
                event, count = line.operands
                wrong = (
                    f"it waits for {count} signals of event '{program.events[event]}', "
                    f"of which {signals[event]} come before it"
                )
            if wrong:
                raise _fault(program, number, line.position, wrong)


def _wrong_run(
    operands: tuple[int, ...], kernels: Sequence[KernelEntry], limits: OperandLimits
) -> str | None:
    number, first, count, stride, n = operands[:5]
    if not 0 <= number < len(kernels):
        return f"there is no kernel {number}"
    kernel = kernels[number]
    if first < 0 or count < 1 or stride < 1 or first + (count - 1) * stride >= kernel.tasks:
        return f"tasks {first} + {count} * {stride} are not all among the {kernel.tasks}"
    if n != len(kernel.operand_bytes):
        return f"kernel '{kernel.name}' takes {len(kernel.operand_bytes)} operands, not {n}"
    for index, need in enumerate(kernel.operand_bytes):
        base, offset = operands[5 + 2 * index : 7 + 2 * index]
        if index in kernel.pinned:
            if base != tables.PINNED or not 0 <= offset <= limits.pinned - need * count:
                return f"operand {index} leaves the {limits.pinned} bytes of pinned memory"
            if offset % ALIGNMENT:
                return f"operand {index} is not {ALIGNMENT}-byte aligned"
            continue
        if not 0 <= base < len(limits.sizes):
            return f"operand {index} has no base {base}"
        if offset < 0 or offset + need > limits.sizes[base]:
            return f"operand {index} leaves base {base} of {limits.sizes[base]} bytes"
        if offset % limits.alignments[base]:
            return f"operand {index} is not {limits.alignments[base]}-byte aligned"
        if index >= n - kernel.outputs and not limits.writable[base]:
            return f"operand {index} is written, but base {base} is read-only"
    return None


def _fault(program: Program, stream: int, position: int, what: str) -> ArtifactError:
    unit = "queue" if program.taken_by else "EU"
    return ArtifactError(
        f"program '{program.name}', {unit} {stream}, word {position}: {what}; compile the model "
        "again"
    )
