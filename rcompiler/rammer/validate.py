"""Proof that a schedule may run: no deadlock, no race, no overwritten value.

What is proved for all executions: each rTask runs exactly once; no wait is for ever; each read
comes after the writes of the value that it overlaps, and no other value is written to those bytes
in between, also where the next value of a state is written in the place of the last one, which is
there from the start; writes of common bytes are ordered; buffers lie in their arenas. "Overlap" is
decided on the exact boxes of task ranges, so column panels of one buffer do not conflict; "before"
is the happens-before of `order`. Anything that is unordered and overlaps is reported: the validator
is sound and, over the boxes that the rKernels declare, exact. What is proved of a dynamic program
holds for any number of EUs, from one on, whoever takes which queue. What EUs keep in memory of
their own is proved in `pinned_boxes`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rcompiler.errors import ScheduleError
from rcompiler.rammer.caller_tensors import check_signature
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.kernel import Kernel
from rcompiler.rammer.order import Order, happens_before
from rcompiler.rammer.pinned_boxes import check_pinned
from rcompiler.rammer.placement import Placement, derive_graph, describe, place_runs
from rcompiler.rammer.program import Program
from rcompiler.rammer.regions import Ints, covers, disjoint, intersect_ranges
from rcompiler.rammer.reuse import Operand, check_reuse
from rcompiler.rammer.states import check_updates, check_updates_in_place

_PAIRS = 1 << 22  # of runs compared at once: bounds the memory
_AT_ONCE = 1 << 12  # of operators


@dataclass(frozen=True)
class Certificate:
    """What was proved: sizes of the proof, for reports and artifacts."""

    programs: int
    eus: int
    operators: int
    runs: int
    tasks: int
    waits: int


def validate(
    programs: Sequence[Program],
    graph: Graph | None = None,
    *,
    kernels: Sequence[Kernel] | None = None,
    max_eus: int | None = None,
    inputs: Sequence[int] | None = None,
    outputs: Sequence[int] | None = None,
) -> Certificate:
    """Prove that the launches of `programs`, one after the other, compute `graph`.

    Without a graph, `kernels` are needed: the graph is then what the programs say themselves, one
    value per buffer name. max_eus: EUs of the device. inputs, outputs: bytes of each tensor of the
    signature; then every byte of every output must be written. Raises ScheduleError.
    """
    derived = graph is None
    if graph is None:
        graph = derive_graph(programs, kernels or ())
    _check_programs(programs, max_eus)
    check_updates(programs)
    check_signature(programs, graph, inputs, outputs)
    order = happens_before(programs)
    placement = place_runs(programs, graph, order, derived)
    check_updates_in_place(placement)
    checked: set[tuple[str, int]] = set()
    for runs in placement.runs.values():
        for number, access in enumerate(runs.kernel.writes):
            if (runs.kernel.name, number) not in checked:
                checked.add((runs.kernel.name, number))
                if not covers(runs.kernel.grid, access):
                    raise ScheduleError(
                        f"rKernel {runs.kernel.name} leaves a part of its result {number} "
                        "unwritten",
                        "task",
                    )
    _check_outputs(graph)
    for write, read in _late_reads(placement):
        _check_reads(placement, write, read)
    for op in graph.operators:
        _check_own_writes(placement, op.name)
    check_reuse(placement)
    check_pinned(programs, graph.kernel)
    return Certificate(
        len(programs),
        max((program.eus for program in programs), default=1),
        len(graph.operators),
        len(order.runs),
        int(sum(r.count.sum() for r in placement.runs.values())),
        order.waits,
    )


def _check_programs(programs: Sequence[Program], max_eus: int | None) -> None:
    for program in programs:
        if max_eus is not None and program.eus > max_eus:
            raise ScheduleError(
                f"program {program.name} needs {program.eus} EUs at the same time, the device "
                f"has {max_eus}: schedule for fewer EUs",
                "buffer",
            )
        if (program.arena, program.constants) != (programs[0].arena, programs[0].constants):
            raise ScheduleError(
                f"program {program.name} has other arenas than {programs[0].name}: the programs "
                "of one plan share them",
                "buffer",
            )
    constants = {b for p in programs for b in p.buffers if b.kind == "constant"}
    ordered = sorted(constants, key=lambda b: (b.offset, b.bytes))
    for one, two in zip(ordered, ordered[1:], strict=False):
        separate = one.offset + one.bytes <= two.offset or not min(one.bytes, two.bytes)
        if not separate and not _same_constant(one, two):
            raise ScheduleError(
                f"constants {one.name} and {two.name} overlap in the constant arena", "buffer"
            )


def _same_constant(one: object, two: object) -> bool:
    """Whether constants may overlap: the same content, or one is a view of the other."""
    keys = (getattr(one, "key", ""), getattr(two, "key", ""))
    names = (getattr(one, "name", ""), getattr(two, "name", ""))
    views = (getattr(one, "alias_of", None), getattr(two, "alias_of", None))
    shared = keys[0] == keys[1] != ""
    return shared or names[0] == names[1] or views[0] is not None or views[1] is not None


def _check_outputs(graph: Graph) -> None:
    for value in graph.values:
        if value.kind != "output" or not value.bytes:
            continue
        root, low = graph.root(value.name)
        spans = graph.written_spans(root)
        if not any(a <= low and low + value.bytes <= b for a, b in spans):
            raise ScheduleError(f"output {value.name} is not written by any operator", "task")
        if graph.homes[root] != ("output", value.index):
            raise ScheduleError(
                f"output {value.name} has the same bytes as another output or an input: insert an "
                "operator that copies it",
                "buffer",
            )


def _late_reads(placement: Placement) -> Iterator[tuple[Operand, Operand]]:
    """Writes and reads of common bytes of a root value; not those where all of the writer is over
    before any run of the reader starts.
    """
    graph, times, row = placement.graph, placement.times, placement.row
    pairs: list[tuple[Operand, Operand]] = []
    for root, writers in graph.writers.items():
        reads: dict[tuple[str, int], list[Operand]] = {writer: [] for writer in writers}
        for read in graph.readers.get(root, ()):
            for writer in graph.writers_of(graph.operator[read[0]].inputs[read[1]]):
                reads[writer].append(read)
        for writer, own in reads.items():
            pairs += [(graph.writing(writer), read) for read in own]
    for low in range(0, len(pairs), _AT_ONCE):
        some = pairs[low : low + _AT_ONCE]
        ends = times.ends[[row[write[0]] for write, _ in some]]
        starts = times.starts[[row[read[0]] for _, read in some]]
        for number in np.flatnonzero((starts < ends).any(axis=1)).tolist():
            yield some[number]


def _check_reads(placement: Placement, write: Operand, read: Operand) -> None:
    """Each run of a reader comes after the writes that it overlaps."""
    order, target = placement.order, placement.runs[read[0]]
    written, needed = placement.shares(*write), placement.shares(*read)
    if needed.base >= written.end or written.base >= needed.end:
        return
    ends = placement.times.ends[placement.row[write[0]]]
    late = np.flatnonzero((order.clock(target.which) < ends).any(axis=1))
    step = max(1, _PAIRS // max(1, len(written)))
    for part in range(0, len(late), step):
        _check_overlaps(placement, write, read, late[part : part + step])


def _check_overlaps(placement: Placement, write: Operand, read: Operand, some: Ints) -> None:
    """Of these runs of a reader: each write that they overlap must be before them."""
    order = placement.order
    source, target = placement.runs[write[0]], placement.runs[read[0]]
    i, j = placement.touching.pairs(
        placement.shares(*write), placement.shares(read[0], read[1], some)
    )
    j = some[j]
    unordered = ~order.precedes(source.which[i], target.which[j])
    if unordered.any():
        k = int(np.flatnonzero(unordered)[0])
        writer, reader = source.which[i[k : k + 1]], target.which[j[k : k + 1]]
        backwards = order.precedes(reader, writer)[0]
        verb = "always runs before" if backwards else "may run before or during"
        raise ScheduleError(
            f"{describe(order, int(reader[0]))} reads {_value(placement, read)} and {verb} "
            f"{describe(order, int(writer[0]))}, which writes "
            f"{_common(placement, write, int(i[k]), read, int(j[k]))}: the signal and wait "
            "from the write to the read are missing",
            "race",
        )


def _value(placement: Placement, operand: tuple[str, int]) -> str:
    op = placement.runs[operand[0]].operator
    return (*op.inputs, *op.outputs)[operand[1]]


def _common(placement: Placement, a: tuple[str, int], i: int, b: tuple[str, int], j: int) -> str:
    """The common bytes of a run of one operand and a run of another, for a message."""
    left, right = placement.shares(*a), placement.shares(*b)
    ranges = intersect_ranges(left.bytes_of(i), right.bytes_of(j))
    space, _ = placement.place[placement.graph.root(_value(placement, a))[0]]
    memory = space[0] if space[1] < 0 else f"{space[0]} {space[1]}"
    more = f" and {len(ranges) - 1} more ranges" if len(ranges) > 1 else ""
    return f"bytes {ranges[0, 0]}..{ranges[0, 1] - 1} of {memory} memory{more}"


def _check_own_writes(placement: Placement, name: str) -> None:
    """Two rTasks of one operator write different bytes, or one after the other."""
    runs = placement.runs[name]
    order: Order = placement.order
    for number, access in enumerate(runs.kernel.writes):
        if disjoint(runs.kernel.grid, access):
            continue
        operand = len(runs.operator.inputs) + number
        i, j = placement.touching.pairs(*[placement.shares(name, operand)] * 2)
        i, j = i[i < j], j[i < j]
        one, two = runs.which[i], runs.which[j]
        free = ~order.precedes(one, two) & ~order.precedes(two, one)
        if free.any():
            k = int(np.flatnonzero(free)[0])
            raise ScheduleError(
                f"{describe(order, int(one[k]))} and {describe(order, int(two[k]))} both write "
                f"{_common(placement, (name, operand), int(i[k]), (name, operand), int(j[k]))} "
                "in no order",
                "race",
            )
