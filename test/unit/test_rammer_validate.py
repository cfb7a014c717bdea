"""The validator on known right and wrong schedules; `test_rammer_mutants` has the changed ones."""

import random
from dataclasses import replace

import pytest
from rammer_cases import chain, hand_made, kernel, random_graph, refused

from rcompiler.errors import ScheduleError
from rcompiler.rammer.graph import Graph, Operator, Value
from rcompiler.rammer.kernel import Access, Kernel
from rcompiler.rammer.program import Wait
from rcompiler.rammer.schedule import schedule
from rcompiler.rammer.validate import validate


def two_steps(**more):
    k = kernel("k", (4, 4), (4, 1), "w", **more)
    return chain([k, k], [[-1], [0]])


def test_a_right_schedule_is_certified():
    graph = two_steps()
    program = hand_made(
        graph,
        [("o0", 0, 2), ("+", "a"), ("-", "b", 1), ("o1", 0, 2)],
        [("o0", 2, 2), ("+", "b"), ("-", "a", 1), ("o1", 2, 2)],
    )
    certificate = validate([program], graph, max_eus=2)
    assert (certificate.tasks, certificate.runs, certificate.waits) == (8, 4, 2)


def test_a_barrier_orders_everything():
    graph = two_steps()
    queues = [[("o0", 0, 2), "|", ("o1", 0, 2)], [("o0", 2, 2), "|", ("o1", 2, 2)]]
    validate([hand_made(graph, *queues)], graph)


def test_a_missing_wait_names_both_runs_and_the_bytes():
    graph = two_steps()
    queues = [[("o0", 0, 2), ("o1", 0, 2)], [("o0", 2, 2), ("+", "b"), ("o1", 2, 2)]]
    refused(
        hand_made(graph, *queues),
        graph,
        "race",
        "operator o1",
        "operator o0",
        "EU 1",
        "bytes 0..31 of temp",
    )


def test_waiting_for_each_other_is_a_named_circle():
    graph = two_steps()
    queues = [
        [("-", "b", 1), ("o0", 0, 4), ("+", "a")],
        [("-", "a", 1), ("+", "b"), ("o1", 0, 4)],
    ]
    refused(hand_made(graph, *queues), graph, "deadlock", "EU 0", "EU 1", "event a", "event b")


def test_a_count_that_is_never_reached():
    graph = two_steps()
    queues = [[("o0", 0, 4), ("+", "a")], [("-", "a", 2), ("o1", 0, 4)]]
    refused(hand_made(graph, *queues), graph, "deadlock", "2 times", "only 1 times")


def test_unequal_barriers():
    graph = two_steps()
    refused(hand_made(graph, [("o0", 0, 4), "|"], [("o1", 0, 4)]), graph, "deadlock", "barrier")


def test_the_stride_of_a_single_task_means_nothing():
    k = kernel("k", (4, 4), (1, 1), "w")
    graph = chain([k, k], [[-1], [0]])
    program = hand_made(graph, [("o0", 0, 1), ("o1", 0, 1)])
    queue = tuple(replace(step, stride=9) for step in program.queues[0])
    validate([replace(program, queues=(queue,))], graph)


@pytest.mark.parametrize("ranges", [[(0, 3)], [(0, 4), (3, 1)], [(0, 2), (3, 1)], [(0, 5)]])
def test_each_task_exactly_once(ranges):
    graph = two_steps()
    steps = [("o0", first, count) for first, count in ranges]
    refused(hand_made(graph, [*steps, ("o1", 0, 4)]), graph, "task", "o0")


def test_any_two_of_three_signals_guarantee_what_they_share():
    k = kernel("k", (4, 4), (1, 1), "w")
    graph = chain([k, k], [[-1], [0]])
    shared = [
        [("o0", 0, 1), ("+", "go"), ("+", "go")],
        [("-", "go", 2), ("+", "e")],
        [("-", "go", 1), ("+", "e")],
        [("-", "e", 1), ("o1", 0, 1)],
    ]
    validate([hand_made(graph, *shared)], graph)
    loose = [*shared[:2], [("+", "e")], shared[3]]
    refused(hand_made(graph, *loose), graph, "race")


def test_column_panels_of_one_buffer_do_not_conflict():
    k = kernel("k", (4, 4), (1, 2), "t")
    graph = chain([k, k], [[-1], [0]])
    queues = [[("o0", 0, 1), ("o1", 0, 1)], [("o0", 1, 1), ("o1", 1, 1)]]
    validate([hand_made(graph, *queues)], graph)
    crossed = [[("o0", 0, 1), ("o1", 1, 1)], [("o0", 1, 1), ("o1", 0, 1)]]
    refused(hand_made(graph, *crossed), graph, "race")


def test_a_value_that_is_overwritten_before_its_last_read():
    k = kernel("k", (4, 4), (1, 1), "w")
    two = kernel("k2", (4, 4), (1, 1), "ww")
    graph = chain([k, k, two], [[-1], [0], [0, 1]])
    program = hand_made(graph, [("o0", 0, 1), ("o1", 0, 1), ("o2", 0, 1)])
    validate([program], graph)
    buffers = tuple(replace(b, offset=0) for b in program.buffers)
    refused(replace(program, buffers=buffers), graph, "clobber", "v0", "v1")


def test_a_long_value_is_compared_with_all_that_lie_over_it():
    """Also with one that lies behind another one over it, which was over before."""
    small, large = (Access.whole((n, 4), 4) for n in (4, 16))
    k = Kernel("k", (1,), (small,), (small,), 1000.0)
    wide = Kernel("wide", (1,), (small,), (large,), 1000.0)
    last = Kernel("last", (1,), (large, small), (small,), 1000.0)
    steps = [("k", "x", "early"), ("k", "early", "t"), ("wide", "t", "long"), ("k", "t", "late")]
    operators = [Operator(f"o{n}", (name,), (a,), (b,)) for n, (name, a, b) in enumerate(steps)]
    operators.append(Operator("o4", ("last",), ("long", "late"), ("y",)))
    sizes = {"early": 64, "t": 64, "long": 256, "late": 64}
    ends = (Value("x", 64, "input", index=0), Value("y", 64, "output", index=0))
    graph = Graph(
        tuple(operators), (*ends, *(Value(*each) for each in sizes.items())), (k, wide, last)
    )
    program = hand_made(graph, [(op.name, 0, 1) for op in operators])

    def placed(**offsets):
        buffers = [replace(b, offset=offsets.get(b.name, b.offset)) for b in program.buffers]
        return replace(program, buffers=tuple(buffers))

    validate([placed(long=0, early=64, t=256, late=320)], graph)
    refused(placed(long=0, early=64, t=256, late=128), graph, "clobber", "long", "late")


def test_in_place_needs_the_kernels_word():
    def over(**more):
        k = kernel("k", (4, 4), (4, 1), "t", **more)
        graph = chain([k, k, k], [[-1], [0], [1]])
        program = hand_made(graph, [("o0", 0, 4), ("o1", 0, 4), ("o2", 0, 4)])
        return replace(program, buffers=tuple(replace(b, offset=0) for b in program.buffers)), graph

    program, graph = over(in_place=((0, 0),))
    validate([program], graph)
    refused(*over(), "clobber")


def test_tasks_read_in_the_order_of_a_run_what_it_writes_over():
    """o1 reads v0, and writes v1 a byte in front of it, or behind it."""
    k = kernel("k", (4,), (4,), "t", itemsize=1)
    graph = chain([k, k, k], [[-1], [0], [1]])
    program = hand_made(graph, [("o0", 0, 4), ("o1", 0, 4), ("o2", 0, 4)])

    def placed(**offsets: int):
        buffers = (replace(b, offset=offsets.get(b.name, b.offset)) for b in program.buffers)
        return replace(program, buffers=tuple(buffers))

    validate([placed(v0=1, v1=0)], graph)  # each task over what the one before has read
    refused(placed(v0=0, v1=1), graph, "clobber", "o1", "in place, writes")


def two_results(reads: str):
    """An operator of two tasks and two results u, v of four bytes, and one that reads some."""
    k = kernel("k", (4,), (2,), "t", itemsize=1)
    both = replace(k, name="both", writes=k.writes * 2)
    values = [Value("x", 4, "input", index=0), Value("y", 4, "output", index=0)]
    values += [Value("u", 4), Value("v", 4)]
    operators = [
        Operator("o0", ("both",), ("x",), ("u", "v")),
        Operator("o1", ("k",), (reads,), ("y",)),
    ]
    graph = Graph(tuple(operators), tuple(values), (both, k))
    program = hand_made(graph, [("o0", 0, 2), ("o1", 1, 1), ("o1", 0, 1)])

    def placed(u: int, v: int):
        place = {"u": u, "v": v}
        return replace(
            program,
            buffers=tuple(replace(b, offset=place.get(b.name, b.offset)) for b in program.buffers),
        )

    return graph, placed


def test_tasks_of_a_run_write_two_results_in_order():
    """Task 1 writes the second half of u over the first of v, or the other way round."""
    for reads, u, v in (("u", 8, 10), ("v", 10, 8)):
        graph, placed = two_results(reads)
        validate([placed(u, v)], graph)  # what is read was written last
        refused(placed(v, u), graph, "clobber", "o1", "before that writes")
        refused(placed(8, 8), graph, "clobber", "o0", "in no order")


def test_more_eus_than_the_device_has():
    graph = two_steps()
    with pytest.raises(ScheduleError, match="the device has 1"):
        validate([hand_made(graph, [("o0", 0, 4)], [])], graph, max_eus=1)


def test_the_programs_alone_are_enough():
    graph = random_graph(random.Random(3), 6)
    programs = schedule(graph, 2).programs
    assert validate(programs, kernels=graph.kernels) == validate(programs, graph)
    cut = replace(
        programs[-1],
        queues=tuple(tuple(s for s in q if not isinstance(s, Wait)) for q in programs[-1].queues),
    )
    if cut != programs[-1]:
        with pytest.raises(ScheduleError):
            validate([*programs[:-1], cut], kernels=graph.kernels)
