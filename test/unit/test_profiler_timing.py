"""Interleaved timing, with a clock that only the work moves."""

import random
from contextlib import contextmanager

import pytest

from rcompiler.profiler.timing import TimedWork, interleaved


class Machine:
    """A clock in ns, and work that takes some of it; `speed` is a factor for what comes next."""

    def __init__(self, noise=0.0):
        self.now = 0.0
        self.speed = 1.0
        self.log = []
        self._noise = noise
        self._random = random.Random(1)

    def clock(self):
        return int(self.now)

    def work(self, ns, name=""):
        def run(times):
            self.log.append((name, times))
            self.now += times * ns * self.speed * (1 + self._noise * self._random.random())

        return TimedWork(run)


def test_times_of_equal_rounds_are_exact_after_the_fewest_rounds():
    machine = Machine()
    found = interleaved([machine.work(200_000), machine.work(300_000)], clock=machine.clock)
    assert found.ns == pytest.approx((200_000, 300_000), rel=1e-3)
    assert (found.rounds, found.settled) == (7, True)


def test_candidates_take_turns_in_both_orders():
    machine = Machine()
    runs = [machine.work(200_000, "a"), machine.work(200_000, "b")]
    interleaved(runs, clock=machine.clock)
    # each twice to find how often to repeat; then a run that does not count before each that does
    turns = "".join(name for name, _ in machine.log[4:])
    assert turns == "aabb" + 3 * "bbaaaabb"


def test_short_work_is_repeated_between_two_readings_of_the_clock():
    machine = Machine()
    interleaved([machine.work(50, "a")], clock=machine.clock)
    assert max(times for _, times in machine.log) == 2000


def test_a_frequency_that_changes_does_not_favour_a_candidate():
    machine = Machine()
    count = 0

    def slower(run):
        def changing(times):
            nonlocal count
            count += 1
            machine.speed = 1.0 if count < 20 else 2.0
            run.work(times)

        return TimedWork(changing)

    runs = [slower(machine.work(ns)) for ns in (400_000, 200_000, 300_000)]
    found = interleaved(runs, clock=machine.clock, most=41)
    assert found.ns[0] / found.ns[1] == pytest.approx(2, rel=0.01)
    assert found.ns[2] / found.ns[1] == pytest.approx(1.5, rel=0.01)


def test_noise_asks_for_more_rounds_until_the_ratios_are_known():
    machine = Machine(noise=0.3)
    runs = [machine.work(1_000_000), machine.work(1_050_000)]
    found = interleaved(runs, clock=machine.clock, seconds=1e9, spread=0.02)
    assert found.settled and 7 < found.rounds < 200 and found.spread <= 0.02
    assert found.ns[1] / found.ns[0] == pytest.approx(1.05, abs=0.06)


def test_the_budget_ends_it_and_says_so():
    machine = Machine(noise=0.5)
    runs = [machine.work(10_000_000), machine.work(11_000_000)]
    found = interleaved(runs, clock=machine.clock, seconds=0.5, spread=1e-6)
    assert not found.settled and 7 <= found.rounds < 30


def test_noise_of_a_candidate_that_is_far_slower_does_not_matter():
    machine = Machine()
    noisy = Machine(noise=1.0)

    def slow(times):
        noisy.work(3_000_000).work(times)
        machine.now += noisy.now
        noisy.now = 0.0

    found = interleaved([machine.work(1_000_000), TimedWork(slow)], clock=machine.clock)
    assert found.settled and found.rounds == 7


class Neighbour:
    """What slows a machine down while it is there; sometimes it leaves in the middle."""

    def __init__(self, machine, factor, leaves=()):
        self.machine, self.factor, self.leaves = machine, factor, set(leaves)
        self.asked, self.there = [], False

    @contextmanager
    def meanwhile(self):
        self.there = True
        self.machine.speed = self.factor
        try:
            yield self.ran
        finally:
            self.there = False
            self.machine.speed = 1.0

    def ran(self, ns):
        if ns == 0:  # a reading begins
            self.machine.speed = 1.0 if len(self.asked) in self.leaves else self.factor
            return True
        self.asked.append(ns)
        return self.machine.speed == self.factor


def test_what_goes_on_meanwhile_is_there_for_every_reading():
    machine = Machine()
    near = Neighbour(machine, 1.5)
    runs = [machine.work(200_000), TimedWork(machine.work(200_000).work, near.meanwhile)]
    found = interleaved(runs, clock=machine.clock)
    assert found.ns == pytest.approx((200_000, 300_000), rel=1e-3)
    assert near.asked == [300_000] * 7 and not near.there


def test_a_reading_that_others_missed_is_taken_again():
    machine = Machine()
    near = Neighbour(machine, 1.5, leaves=(0, 1, 5))
    found = interleaved(
        [TimedWork(machine.work(200_000).work, near.meanwhile)], clock=machine.clock
    )
    assert found.ns == pytest.approx((300_000,), rel=1e-3)
    assert len(near.asked) == 7 + 3


def test_readings_that_others_missed_are_left_out():
    """Without them the work is faster, and would count as the fastest reading."""
    machine = Machine()
    near = Neighbour(machine, 1.5, leaves=range(3, 19))
    found = interleaved(
        [TimedWork(machine.work(200_000).work, near.meanwhile)], clock=machine.clock
    )
    assert found.ns == pytest.approx((300_000,), rel=1e-3) and found.settled
    assert found.rounds == 7 + 2 and len(near.asked) == 7 + 16


def test_candidates_without_a_round_in_common_are_compared_all_the_same():
    machine = Machine()
    a = Neighbour(machine, 1.5, leaves=range(8 * 7))
    b = Neighbour(machine, 1.5)
    b.leaves = range(7, 1 << 30)
    runs = [
        TimedWork(machine.work(n * 200_000).work, near.meanwhile) for n, near in ((1, a), (2, b))
    ]
    found = interleaved(runs, clock=machine.clock, most=14)
    assert found.ns == pytest.approx((300_000, 600_000), rel=1e-3) and found.rounds == 14


@pytest.mark.parametrize(("beside", "expected"), [(False, 200_000), (True, 300_000)])
def test_the_fastest_reading_counts_alone_and_the_typical_one_beside_others(beside, expected):
    machine = Machine()
    speeds = iter([1.5, 1.5, 1.5, 1.0, 1.5, 1.5, 1.5, 1.5, 1.0])  # two of them to begin with

    @contextmanager
    def others():
        yield lambda ns: True

    def work(times):
        machine.now += times * 2_000_000 * next(speeds)

    run = TimedWork(work, others) if beside else TimedWork(work)
    found = interleaved([run], clock=machine.clock)
    assert found.rounds == 7 and found.ns == pytest.approx((10 * expected,), rel=1e-3)


def test_others_that_never_come_end_it_all_the_same():
    machine = Machine()
    near = Neighbour(machine, 1.5, leaves=range(10_000))
    work = TimedWork(machine.work(200_000).work, near.meanwhile)
    found = interleaved([work], clock=machine.clock, seconds=0.01)
    assert found.rounds == 7 and len(near.asked) == 7 * 8
    assert found.ns == pytest.approx((200_000,), rel=1e-3) and not found.settled


def test_work_without_a_clock_is_beside_the_same():
    machine = Machine()
    TimedWork(machine.work(100).work, Neighbour(machine, 3.0).meanwhile)(2)
    assert machine.now == 600
