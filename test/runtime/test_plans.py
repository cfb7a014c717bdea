"""runtime/plans.py: whatever becomes of a plan that is tried, each launch gives its one answer."""

import os
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import small_models as sm

from rcompiler.errors import ArtifactError
from rcompiler.runtime.artifact import Program, Tensor
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.plans import Launch, Plans, written_by
from rcompiler.runtime.run_delay import RunDelay
from rcompiler.runtime.tables import ARENA, CONSTANTS, EXTERNAL

X = np.linspace(-3, 3, sm.N, dtype=np.float32)
GOOD = sm.artifact([sm.two_steps(2)])
OTHER = sm.artifact([sm.two_steps(2, "barrier")])
ALONE = sm.artifact([sm.two_steps(1)])


@dataclass
class Script:
    """Chooses as it is told to, launch after launch; then `serving` serves."""

    launches: list[Launch]
    serving: int = 0
    seen: list = field(default_factory=list)

    def next(self) -> Launch:
        return self.launches.pop(0) if self.launches else Launch(self.serving)

    def ran(self, ns: int, delay_ns: int) -> None:
        assert ns > 0 and delay_ns >= 0
        self.seen.append("ran")

    def shadowed(self, ns: int) -> None:
        assert ns > 0
        self.seen.append("shadowed")

    def failed(self, ns: int, why: str) -> None:
        self.seen.append(why)


def model(script: Script, *others, **options) -> Executable:
    return Executable(GOOD, plans=Plans(others, script), **options)


def answers(own: Executable, launches: int) -> bool:
    return all(np.array_equal(own(X)[0], sm.expected(X)) for _ in range(launches))


def test_plans_take_turns_and_give_the_same_answer():
    script = Script([Launch(n % 3, timed=True) for n in range(30)])
    own = model(script, OTHER, ALONE)
    assert answers(own, 40) and script.seen == ["ran"] * 30
    own.close()


def test_launches_that_are_skipped_are_not_asked_about():
    script = Script([Launch(0, timed=True, skip=7) for _ in range(5)])
    own = model(script, OTHER)
    assert answers(own, 40) and not script.launches and script.seen == ["ran"] * 5


def test_a_plan_that_was_found_serves_and_is_what_the_model_is():
    script = Script([Launch(1, timed=True)])
    own = model(script, OTHER)
    assert own.artifact is GOOD
    assert answers(own, 1)
    script.serving = 1
    assert answers(own, 5) and own.artifact is OTHER
    script.serving = 0
    assert answers(own, 5) and own.artifact is GOOD


def test_a_shadow_run_answers_with_the_plan_that_serves():
    script = Script([Launch(1, timed=True, shadow=True)] * 3)
    own = model(script, OTHER)
    binding = own.bind([X])
    for _ in range(3):
        binding()
        assert np.array_equal(binding.outputs[0], sm.expected(X))
    assert script.seen == ["ran", "shadowed"] * 3


def wrong() -> Program:
    """Doubles what nobody has scaled."""
    return Program(
        "main_0",
        (
            sm.stream_of(
                ("run", sm.SCALE, 0, sm.N, 1, [(EXTERNAL, 0), (CONSTANTS, 0), (ARENA, 0)]),
                ("run", sm.TWICE, 0, sm.N, 1, [(EXTERNAL, 0), (EXTERNAL + 1, 0)]),
            ),
        ),
        (),
        (("mul", "add"),),
    )


def test_a_plan_with_other_results_is_found_in_the_shadow():
    """No proof would let it pass; here there is none."""
    script = Script([Launch(1, timed=True, shadow=True)])
    own = model(script, sm.artifact([wrong()]))
    assert answers(own, 1)
    assert script.seen == ["ran", "its results are other ones"]


def stuck() -> Program:
    """Each EU waits for the other one."""
    run = ("run", sm.SCALE, 0, sm.N, 1, [(EXTERNAL, 0), (CONSTANTS, 0), (ARENA, 0)])
    streams = tuple(sm.stream_of(("wait", eu, 1), run, ("signal", 1 - eu)) for eu in range(2))
    return Program("main_0", streams, ("one", "two"), (("mul",), ("mul",)))


def test_a_plan_that_stops_costs_no_answer(monkeypatch):
    monkeypatch.setattr("rcompiler.runtime.plans.PATIENCE_S", 0.1)
    script = Script([Launch(1, timed=True), Launch(0, timed=True)])
    own = model(script, sm.artifact([stuck()]), eus=2)
    assert answers(own, 3)
    assert "no EU made progress for 0.1 s" in script.seen[0] and script.seen[1:] == ["ran"]


@pytest.mark.parametrize(
    "other",
    [
        replace(GOOD, inputs=(Tensor("z", (sm.N,), "float32"),)),
        replace(GOOD, outputs=(Tensor("y", (sm.N, 1), "float32"),)),
        sm.artifact([sm.two_steps(2)], constants=np.ones(sm.N, np.float32)),
        replace(GOOD, target="another"),
    ],
)
def test_plans_of_another_model_are_refused(other):
    with pytest.raises(ArtifactError, match="a plan has other inputs"):
        model(Script([]), other)


def test_plans_are_proved_like_the_model():
    seen = []
    Executable(GOOD, plans=Plans([OTHER, ALONE], Script([])), validate=seen.append)
    assert seen == [GOOD, OTHER, ALONE]


def test_a_child_explores_nothing():
    script = Script([Launch(0)])
    own = model(script, OTHER)
    assert answers(own, 1)
    script.launches = [Launch(1, timed=True)] * 3
    child = os.fork()
    if not child:
        right = answers(own, 3) and not script.seen
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_arrays_that_are_written_are_found_in_tables_of_both_kinds():
    y = np.arange(8, dtype=np.float32)
    table = np.zeros(EXTERNAL + 2, np.uint64)
    table[EXTERNAL + 1] = y.__array_interface__["data"][0]
    for bases in (table.tobytes(), table.__array_interface__["data"][0]):
        [found] = written_by(bases, [(EXTERNAL + 1, 32)])
        assert np.array_equal(found.view(np.float32), y)


def test_the_delay_of_threads_that_have_their_cpus_is_no_time():
    delay = RunDelay([])
    before = delay.ns()
    assert before >= 0 and delay.ns() >= before
    delay.close()
    delay.close()


def test_a_system_that_does_not_count_delays_says_so():
    delay = RunDelay([1 << 30])
    assert not delay.known and delay.ns() >= 0
