"""runtime/pace.py: when a launch runs on one thread, from made-up times; and that it can."""

import dataclasses

import numpy as np
import pytest
import small_models as sm

from rcompiler.errors import ArtifactError
from rcompiler.runtime import pace
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.pace import LaunchMode, Pace

QUIET, BUSY = (100, 98), (3000, 120)  # on all threads, in units: by the clock, on a CPU
UNIT = 10_000  # ns: three launches on one thread last as long as some turns of others


def launches(chooser, count, together, alone):
    """The steps of so many launches that take as long as said."""
    steps = []
    for _ in range(count):
        step = chooser.step()
        steps.append(step)
        if step is LaunchMode.TIMED:
            chooser.took(*(UNIT * time for time in together))
        elif step is LaunchMode.ALONE:
            chooser.took(*(UNIT * time for time in alone))
    return steps


def test_on_a_quiet_machine_nothing_but_samples_is_timed():
    steps = launches(Pace(2), 1000, QUIET, (180, 180))
    assert steps.count(LaunchMode.TIMED) == 1000 // 8
    assert LaunchMode.ALONE not in steps


def test_plain_launches_are_known_ahead():
    """However many of them are skipped: the steps are those that come one by one."""
    one_by_one, ahead = Pace(2), Pace(2)
    wanted = launches(one_by_one, 400, QUIET, (180, 180))
    steps = []
    while len(steps) < 400:
        steps += launches(ahead, 1, QUIET, (180, 180))
        left = ahead.skip()
        assert left == (6 if steps[-1] is LaunchMode.PLAIN else 7)
        steps += [LaunchMode.PLAIN] * left
    assert steps[:400] == wanted


def test_nothing_is_skipped_beside_others():
    chooser = Pace(2)
    while launches(chooser, 1, BUSY, (400, 190)) != [LaunchMode.ALONE]:
        pass
    assert chooser.skip() == 0
    chooser.give_up()
    assert chooser.skip() > 1 << 60


def test_most_launches_on_a_quiet_machine_ask_nothing(monkeypatch):
    asked = []

    class Counted(Pace):
        def step(self):
            asked.append(super().step())
            return asked[-1]

        def took(self, wall, cpu):
            super().took(*QUIET)

    monkeypatch.setattr(pace, "Pace", Counted)
    model = Executable(sm.artifact([sm.two_steps(2)]), 2)
    x = np.ones(sm.N, np.float32)
    for _ in range(80):
        assert np.array_equal(model(x)[0], sm.expected(x))
    assert asked == [LaunchMode.TIMED, LaunchMode.PLAIN] * 10


def test_beside_others_one_thread_is_chosen_where_it_is_faster():
    steps = launches(Pace(2), 1000, BUSY, (400, 190))
    first = steps.index(LaunchMode.ALONE)
    assert first == 3
    later = steps[first:]
    assert later.count(LaunchMode.ALONE) > 0.97 * len(later)
    assert LaunchMode.TIMED in later  # whether the others have gone
    assert LaunchMode.PLAIN not in later


@pytest.mark.parametrize("before", range(100, 108))
def test_the_plan_changes_within_ten_launches(before):
    """Whenever it is that others begin."""
    chooser = Pace(2)
    launches(chooser, before, QUIET, (180, 180))
    steps = launches(chooser, 11, BUSY, (400, 190))
    assert 3 <= steps.index(LaunchMode.ALONE) <= 10


def test_two_disturbances_in_a_row_change_nothing():
    chooser = Pace(2)
    for _ in range(20):
        assert LaunchMode.ALONE not in launches(chooser, 2, BUSY, (400, 190))
        assert LaunchMode.ALONE not in launches(chooser, 30, QUIET, (180, 180))


def test_when_the_others_have_gone_all_threads_run_again():
    chooser = Pace(2)
    assert launches(chooser, 3000, BUSY, (400, 190))[-1] is not LaunchMode.PLAIN
    steps = launches(chooser, 2000, QUIET, (180, 180))  # of 2 ms: after 2 s at most
    assert LaunchMode.ALONE not in steps[1150:]
    assert steps[1350:].count(LaunchMode.PLAIN) > 500


def test_where_one_thread_is_slower_it_is_tried_ever_more_rarely():
    """As where the caller waits long for others on a machine of its own."""
    steps = launches(Pace(2), 20000, (1000, 500), (1500, 1500))
    tried = [i for i, step in enumerate(steps) if step is LaunchMode.ALONE]
    assert 3 <= len(tried) < 30
    gaps = np.diff(tried)
    gaps = gaps[gaps > 1]
    assert (gaps[1:] > 1.5 * gaps[:-1]).all()


def test_single_disturbances_change_nothing():
    chooser, steps = Pace(2), []
    for turn in range(500):
        steps += launches(chooser, 1, BUSY if turn % 16 == 7 else QUIET, (400, 190))
    assert LaunchMode.ALONE not in steps


def test_many_threads_are_not_given_up_for_a_little():
    """64 EUs that wait half of the time are still far faster than one."""
    assert LaunchMode.ALONE not in launches(Pace(64), 1000, (1000, 500), (32000, 32000))
    assert LaunchMode.ALONE in launches(Pace(64), 1000, (32000, 500), (32000, 32000))


def test_it_goes_on_for_ever_where_there_is_no_order_for_one_thread():
    chooser = Pace(2)
    steps = launches(chooser, 17, BUSY, (400, 190))
    assert steps[-1] is LaunchMode.ALONE
    chooser.give_up()
    assert set(launches(chooser, 1000, BUSY, (400, 190))) == {LaunchMode.PLAIN}


class Scripted(Pace):
    """Every step in turn."""

    def step(self):
        self._count += 1
        return list(LaunchMode)[self._count % 3]


@pytest.mark.parametrize("make", [sm.two_steps, sm.taken_steps])
@pytest.mark.parametrize("sync", ["event", "barrier"])
def test_either_way_gives_the_same_bits(monkeypatch, make, sync):
    monkeypatch.setattr(pace, "Pace", Scripted)
    program = make(2, sync) if make is sm.two_steps else make(8, 2)
    model = Executable(sm.artifact([program]), 2)
    rng = np.random.default_rng(0)
    for _ in range(30):
        x = rng.standard_normal(sm.N).astype(np.float32)
        assert model(x)[0].tobytes() == sm.expected(x).tobytes()
    model.close()


def test_a_schedule_without_an_order_for_one_thread_stays_on_all(monkeypatch):
    monkeypatch.setattr(pace, "Pace", Scripted)
    made = []

    def refuse(programs, threads):
        made.append(threads)
        if threads == 1:
            raise ArtifactError("no order")
        return combine(programs, threads)

    from rcompiler.runtime import executable

    combine = executable.combine
    monkeypatch.setattr(executable, "combine", refuse)
    model = Executable(sm.artifact([sm.two_steps(2)]), 2)
    x = np.ones(sm.N, np.float32)
    for _ in range(9):
        assert np.array_equal(model(x)[0], sm.expected(x))
    assert 1 in made
    model.close()


def test_a_timed_model_runs_as_it_was_asked_to(monkeypatch):
    monkeypatch.setattr(pace, "Pace", Scripted)
    model = Executable(sm.artifact([sm.two_steps(2)]), 2, timed=True)
    for _ in range(6):
        model(np.ones(sm.N, np.float32))
        assert set(model.times()["eu"]) == {0, 1}


def test_a_model_of_one_eu_has_no_choice(monkeypatch):
    monkeypatch.setattr(pace, "Pace", None)
    program = dataclasses.replace(sm.two_steps(2))
    x = np.ones(sm.N, np.float32)
    assert np.array_equal(Executable(sm.artifact([program]), 1)(x)[0], sm.expected(x))
