"""Buffers from byte offsets of root values: the last step of every policy and of the planner."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rcompiler.rammer.graph import Graph
from rcompiler.rammer.program import Buffer, Instruction, Program, Run

ALIGN = 64  # bytes: a cache line, and the widest vector


def aligned(offset: int) -> int:
    """The next multiple of ALIGN."""
    return -(-offset // ALIGN) * ALIGN


@dataclass(frozen=True)
class Layout:
    """Byte offset of each root value in its memory; sizes of the two arenas in bytes."""

    offset: Mapping[str, int]
    arena: int
    constants: int


def temp_roots(graph: Graph) -> list[str]:
    """Root values that live in the temp arena, in graph order."""
    return [root for root in graph.views if graph.homes[root][0] == "temp"]


def constant_layout(graph: Graph) -> tuple[dict[str, int], int]:
    """Offsets of the constants, equal keys at the same bytes, and the bytes of the arena."""
    offset: dict[str, int] = {}
    by_key: dict[tuple[str, int], int] = {}
    end = 0
    for root in graph.views:
        value = graph.value[root]
        if graph.homes[root][0] != "constant":
            continue
        key = (value.key, value.bytes)
        if value.key and key in by_key:
            offset[root] = by_key[key]
            continue
        offset[root] = by_key[key] = end
        end = aligned(end + value.bytes)
    return offset, end


def plain_layout(graph: Graph) -> Layout:
    """Every value at bytes of its own: right for any schedule, and as large as can be."""
    offset, constants = constant_layout(graph)
    end = 0
    for root in temp_roots(graph):
        offset[root] = end
        end = aligned(end + graph.value[root].bytes)
    return Layout({**offset, **external_layout(graph)}, end, constants)


def external_layout(graph: Graph) -> dict[str, int]:
    """Offsets of the roots that lie in inputs and outputs: the outer tensor starts at byte 0."""
    offset: dict[str, int] = {}
    for root, views in graph.views.items():
        kind = graph.homes[root][0]
        if kind in ("input", "output"):
            value = next(v for v in views if graph.value[v].kind == kind)
            offset[root] = -graph.root(value)[1]
    return offset


def make_buffers(graph: Graph, layout: Layout, names: Iterable[str]) -> tuple[Buffer, ...]:
    """Buffers, called like the values, for these values and for what they are views of."""
    wanted: dict[str, None] = {}
    for name in names:
        root = graph.root(name)[0]
        if root != name and layout.offset[root] >= 0:
            wanted.setdefault(root)
        wanted.setdefault(name)
    buffers = []
    for name in wanted:
        value = graph.value[name]
        root, offset = graph.root(name)
        kind, index = graph.homes[root]
        view = root if root in wanted and root != name else None
        start = layout.offset[root] + offset
        buffers.append(Buffer(name, kind, start, value.bytes, index, view, graph.value[root].key))
    return tuple(buffers)


def make_program(
    name: str,
    graph: Graph,
    layout: Layout,
    queues: Sequence[Sequence[Instruction]],
    takers: int | None = None,
) -> Program:
    """A program with the buffers its runs use; takers: EUs of a dynamic one."""
    used: dict[str, None] = {}
    for queue in queues:
        for step in queue:
            if type(step) is Run:
                used.update(dict.fromkeys(step.buffers))
    return Program(
        name,
        takers or len(queues),
        make_buffers(graph, layout, used),
        tuple(tuple(queue) for queue in queues),
        layout.arena,
        layout.constants,
        dynamic=takers is not None,
    )


def place_programs(
    graph: Graph, layout: Layout, programs: Sequence[Program]
) -> tuple[Program, ...]:
    """The same schedules with their values at other bytes."""
    return tuple(
        replace(
            program,
            buffers=make_buffers(graph, layout, (b.name for b in program.buffers)),
            arena=layout.arena,
            constants=layout.constants,
        )
        for program in programs
    )
