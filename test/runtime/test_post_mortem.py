"""runtime/post_mortem.py: where an EU is after some steps, and what is said of its waits."""

from functools import partial

import numpy as np
import pytest
import small_models as sm

from rcompiler.runtime import tables
from rcompiler.runtime.artifact import Program
from rcompiler.runtime.loops import executed, parse
from rcompiler.runtime.post_mortem import PostMortem, after_steps
from rcompiler.runtime.tables import ARENA, EXTERNAL
from rcompiler.runtime.thread_schedule import ThreadSchedule, combine

RUN = ("run", sm.TWICE, 0, sm.N, 1, [(EXTERNAL, 0), (ARENA, 0)])  # 10 words
INNER = ("repeat", 2, 10, [])
OUTER = ("repeat", 3, 10 + 5 + 2, [])


def nested() -> ThreadSchedule:
    """EU 0: 3 times (2 times a run, then a signal); EU 1 waits for all three, then runs."""
    streams = (
        sm.stream_of(RUN, INNER, ("signal", 0), OUTER),
        sm.stream_of(("wait", 0, 3), RUN),
    )
    names = (tuple(f"{i}.{j}" for i in range(3) for j in range(2)), ("last",))
    return combine([Program("p", streams, ("done",), names)], 2)


def test_every_step_has_its_place():
    """Jumps are no steps; the END is where an EU is when it has made all of them."""
    schedule = nested()
    want = [(i, j) for i in range(3) for j in (0, 1, None)]
    for steps, (outer, inner) in enumerate(want):
        piece, place = after_steps(schedule, [steps, 0], 0)
        assert piece is schedule.threads[0]
        assert place == ((15, (outer,)) if inner is None else (0, (outer, inner)))
    assert after_steps(schedule, [len(want), 0], 0)[1] == (22, ())
    assert schedule.threads[0].stream[22] == tables.END


def test_beyond_the_end_is_the_end():
    schedule = nested()
    assert after_steps(schedule, [100, 100], 0)[1] == (22, ())
    assert after_steps(schedule, [100, 100], 1)[1] == (13, ())


def test_all_places_of_a_stream_are_those_that_are_executed():
    schedule = nested()
    for eu, piece in enumerate(schedule.threads):
        places = [(line.position, index) for line, index in executed(parse(piece.stream))]
        found = [after_steps(schedule, [k, k], eu)[1] for k in range(len(places))]
        assert found == places


@pytest.mark.parametrize(
    "steps, counts, before, said",
    [
        # in the second turn of the outer loop, one signal so far
        ((4, 0), [1], 0, "came 1 times (still to come from EU 0 at word 15, EU 0 at word 15)"),
        # the same in the third launch: two had three signals each
        ((4, 0), [7], 2, "came 1 times (still to come from EU 0 at word 15, EU 0 at word 15)"),
        # EU 0 is at its end, and one signal is lost
        ((9, 0), [2], 0, "came 2 times (nobody is left to: past is EU 0 at word 15)"),
        # none is
        ((9, 0), [3], 0, None),
    ],
)
def test_who_waits_for_what(steps, counts, before: int, said: str | None):
    schedule = nested()
    found = PostMortem(schedule, partial(after_steps, schedule, steps), counts, before).waits()
    if said is None:
        assert found == []
        return
    [wait] = found
    assert wait.startswith(
        "EU 1 at word 0 (before operator 'last') waits for signal 3 of event 'p: done', which "
    )
    assert wait.endswith(said)


def test_the_root_of_the_trouble_comes_first():
    """EU 0 waits for EU 1, which still may come; EU 1 for a signal that nobody is left to give."""
    streams = (
        sm.stream_of(("wait", 1, 1), RUN),
        sm.stream_of(("wait", 0, 1), ("signal", 1)),
        sm.stream_of(("signal", 0)),
    )
    program = Program("p", streams, ("lost", "later"), (("a",), (), ()))
    schedule = combine([program], 3)
    place = partial(after_steps, schedule, [0, 0, 1])
    first, second = PostMortem(schedule, place, np.array([0, 0]), 0).waits()
    assert first.startswith("EU 1 at word 0 waits for signal 1 of event 'p: lost'")
    assert first.endswith("(nobody is left to: past is EU 2 at word 0)")
    assert second.startswith("EU 0 at word 0 (before operator 'a') waits for")
    assert second.endswith("(still to come from EU 1 at word 3)")
