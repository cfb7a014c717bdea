"""runtime/pace.py beside others, on a simulated machine and on made-up times."""

import random
from statistics import fmean

import pytest
from simulated_machine import MS, Machine, run

from rcompiler.runtime.pace import LaunchMode, Pace

WITHIN = 1.05
LENGTHS = [0.05, 0.5, 5, 30]  # ms of a launch on one thread


def two() -> int:
    return 2


def p90(walls):
    return sorted(walls)[len(walls) * 9 // 10]


def alternate(chooser, count, together, alone):
    """As many launches; each way has a function from the number of a launch to its ms. The steps
    and the ms."""
    steps, walls = [], []
    for number in range(count):
        steps.append(chooser.step())
        way = alone if steps[-1] is LaunchMode.ALONE else together
        walls.append(way(number))
        cpu = 6 if steps[-1] is LaunchMode.ALONE else 2.2  # ms: the rest is waiting
        if steps[-1] is not LaunchMode.PLAIN:
            chooser.took(int(walls[-1] * MS), int(min(walls[-1], cpu) * MS))
    return steps, walls


def gone_alone(together=20.0, alone=4.0):
    """Others use the machine, and it was noticed: ms of a launch then."""
    chooser = Pace(2, two)
    alternate(chooser, 8, lambda _: together, lambda _: alone)
    assert chooser.step() is LaunchMode.ALONE
    chooser.took(int(alone * MS), int(alone * MS))
    return chooser


@pytest.mark.parametrize("busy", [0, 1, 2])
@pytest.mark.parametrize("ms", LENGTHS)
def test_never_slower_than_one_thread(ms, busy):
    """Neither by the slowest tenth nor by the mean; and by one of these as good as the better of
    both ways, which often disagree. 2000 launches, or a second of them, four times."""
    count = max(2000, int(1000 / ms))
    alone, together, walls = [], [], []
    for seed in range(4):
        machines = [Machine(ms * MS, busy, seed) for _ in range(3)]
        alone += [machines[0].alone()[0] for _ in range(count)]
        together += [machines[1].together()[0] for _ in range(count)]
        walls += run(Pace(2, two), machines[2], count + 20)[1][20:]
    for measure in (p90, fmean):
        assert measure(walls) <= WITHIN * measure(alone)
    assert any(m(walls) <= WITHIN * min(m(alone), m(together)) for m in (p90, fmean))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("ms", [8, 30])
def test_others_are_noticed_within_ten_launches_that_they_disturb(ms, seed):
    machine, chooser = Machine(ms * MS, 0, seed), Pace(2, two)
    assert LaunchMode.ALONE not in run(chooser, machine, 100 + seed)[0]
    machine.set_busy(1)
    assert LaunchMode.ALONE in run(chooser, machine, 11)[0]


@pytest.mark.parametrize("ms", LENGTHS)
def test_all_threads_run_again_when_the_others_have_gone(ms):
    """257 launches later, or 2 s."""
    machine, chooser = Machine(ms * MS, 1), Pace(2, two)
    run(chooser, machine, max(2000, int(3000 / ms)))
    machine.set_busy(0)
    run(chooser, machine, max(257, int(2000 / ms)))
    assert LaunchMode.ALONE not in run(chooser, machine, 2000)[0]


def test_it_goes_back_ever_more_rarely_where_that_was_wrong():
    """Others that come and go: two thirds of half a second are quiet."""
    machine, chooser, backs, now = Machine(5 * MS, 0), Pace(2, two), [], LaunchMode.PLAIN
    while machine.now < 60_000 * MS:
        machine.set_busy(1 if machine.now % (500 * MS) > 330 * MS else 0)
        [step], _ = run(chooser, machine, 1)
        if step is LaunchMode.PLAIN and now is not LaunchMode.PLAIN:
            backs.append(machine.now)
        now = step
    soon, late = (sum(low <= b < low + 20_000 * MS for b in backs) for low in (0, 40_000 * MS))
    assert late < 15, (soon, late)


def test_a_relapse_soon_doubles_the_patience_and_a_late_one_does_not():
    waits, chooser = [], Pace(2, two)
    for quiet in (80, 80, 80, 5000, 80):
        while LaunchMode.ALONE not in alternate(chooser, 1, lambda _: 20.0, lambda _: 4.0)[0]:
            pass
        steps, _ = alternate(chooser, 140, lambda _: 2.1, lambda _: 4.0)
        waits.append(steps.index(LaunchMode.TIMED))
        alternate(chooser, quiet - 80, lambda _: 2.1, lambda _: 4.0)
    assert waits == [18, 34, 66, 130, 18]


def test_soon_is_some_turns_for_short_launches():
    """A thousand quiet ones say nothing: they take 25 ms."""
    chooser, waits = Pace(2, two), []
    for _ in range(3):
        while LaunchMode.ALONE not in alternate(chooser, 1, lambda _: 20.0, lambda _: 0.05)[0]:
            pass
        steps, _ = alternate(chooser, 2000, lambda _: 0.025, lambda _: 0.05)
        waits.append(steps.index(LaunchMode.TIMED))
    assert waits == [255, 271, 303]


def test_trials_of_all_threads_take_a_fiftieth_of_the_time():
    """A disturbed launch takes 5 ms, fifty on one thread."""
    steps, walls = alternate(gone_alone(5, 0.1), 20000, lambda _: 5.0, lambda _: 0.1)
    tried = sum(w for w, step in zip(walls, steps, strict=True) if step is LaunchMode.TIMED)
    assert 0 < tried < 0.025 * sum(walls)


def test_so_do_trials_of_one_thread():
    """It takes a hundred times as long as all, each of which waits a while."""
    steps, walls = alternate(Pace(2, two), 29000, lambda _: 10.0, lambda _: 1000.0)
    tried = sum(w for w, step in zip(walls, steps, strict=True) if step is LaunchMode.ALONE)
    assert 0 < tried < 0.025 * sum(walls)


def test_a_costly_trial_is_repeated_after_two_seconds_at_most():
    steps, _ = alternate(gone_alone(5000, 1), 9000, lambda _: 5000.0, lambda _: 1.0)
    tried = [number for number, step in enumerate(steps) if step is LaunchMode.TIMED]
    assert max(b - a for a, b in zip(tried, tried[1:], strict=False)) <= 2010


def test_a_quiet_turn_does_not_bring_all_threads_back():
    """A hundred launches in a row are fast; then one waits as long as all of these took."""
    steps, _ = alternate(
        gone_alone(5, 0.06), 30000, lambda n: 3.5 if n % 100 == 0 else 0.03, lambda _: 0.06
    )
    assert LaunchMode.TIMED in steps
    assert LaunchMode.PLAIN not in steps


def test_a_trial_ends_at_the_first_late_launch():
    steps, _ = alternate(gone_alone(), 30, lambda n: 5.0 if n % 3 == 0 else 2.1, lambda _: 4.0)
    first = steps.index(LaunchMode.TIMED)
    late = -first % 3
    assert steps[first : first + late + 2] == [LaunchMode.TIMED] * (late + 1) + [LaunchMode.ALONE]


def test_a_trial_ends_when_it_lost_some_turns():
    """Where one thread suffers, too, no single launch ends it."""
    steps, _ = alternate(Pace(2, two), 500, lambda _: 30.0, lambda n: 3.0 if n % 2 else 12.0)
    tried = [number for number, step in enumerate(steps) if step is LaunchMode.TIMED][3:]
    assert tried
    assert all(b - a > 1 for a, b in zip(tried, tried[1:], strict=False))


def test_trials_get_longer():
    """After many that were no use 16 times 12 ms must be quiet."""
    chooser = gone_alone()
    alternate(chooser, 5000, lambda _: 20.0, lambda _: 4.0)
    steps, _ = alternate(chooser, 600, lambda _: 2.0, lambda _: 4.0)
    first = steps.index(LaunchMode.TIMED)
    assert steps[first : first + 96] == [LaunchMode.TIMED] * 96
    assert LaunchMode.ALONE not in steps[first:]


def test_launches_that_are_rarely_but_long_disturbed_run_alone():
    """The median and the sample after it look quiet: every tenth takes 15 ms."""
    rng = random.Random(0)
    steps, _ = alternate(
        Pace(2, two), 3000, lambda _: 15.0 if rng.random() < 0.1 else 1.0, lambda _: 1.8
    )
    assert steps[1500:].count(LaunchMode.ALONE) > 1300


@pytest.mark.parametrize(
    ("together", "alone"), [([3, 3, 9], [6, 6, 6]), ([8, 8, 8], [5, 5, 9])], ids=["p90", "mean"]
)
def test_all_threads_win_by_mean_and_by_the_slowest_tenth(together, alone):
    """One thread is chosen where it is better by either."""
    steps, _ = alternate(Pace(2, two), 8, lambda n: together[n % 3], lambda n: alone[n % 3])
    assert steps[3:7] == [LaunchMode.ALONE] * 4


def test_where_one_thread_suffers_both_ways_are_measured_in_turn():
    """First it gets the time to find a free CPU. Of all threads only bad moments were seen before:
    they win, and are left in peace then."""
    steps, _ = alternate(
        Pace(2, two), 250, lambda n: 12.0 if n < 3 else 4.0, lambda n: 3.0 if n % 2 else 12.0
    )
    assert steps[3:13] == [LaunchMode.ALONE] * 7 + [LaunchMode.TIMED] * 3
    assert LaunchMode.ALONE not in steps[13:]


@pytest.mark.parametrize("seed", range(3))
def test_all_threads_run_where_one_suffers_more(seed):
    """Where each CPU is shared: launches on one thread are disturbed, too, and say so."""
    steps, _ = run(Pace(2, two), Machine(MS / 2, 2, seed), 6000)
    assert steps[2000:].count(LaunchMode.ALONE) < 600


def test_others_are_noticed_soon_after_one_thread_was_no_use():
    """Each launch waits a while on a quiet machine, where one thread is slower."""
    chooser = Pace(2, two)
    steps, _ = alternate(chooser, 200, lambda _: 10.0, lambda _: 15.0)
    assert LaunchMode.ALONE not in steps[20:]
    steps, _ = alternate(chooser, 11, lambda _: 50.0, lambda _: 15.0)
    assert LaunchMode.ALONE in steps


def test_it_stays_alone_while_fewer_cpus_may_be_used():
    allowed = [2]
    chooser = Pace(2, lambda: allowed[0])
    alternate(chooser, 8, lambda _: 20.0, lambda _: 4.0)
    allowed[0] = 1
    assert set(alternate(chooser, 3000, lambda _: 2.0, lambda _: 4.0)[0]) == {LaunchMode.ALONE}
    allowed[0] = 2
    assert LaunchMode.ALONE not in alternate(chooser, 600, lambda _: 2.0, lambda _: 4.0)[0][300:]


def test_cpus_are_asked_for_rarely():
    """It takes a quarter of a ms: as long as 25 launches."""
    asked = []
    chooser = Pace(2, lambda: asked.append(0) or (1 if len(asked) > 1 else 2))
    alternate(chooser, 30000, lambda _: 5.0, lambda _: 0.01)
    assert 1 < len(asked) < 40


def test_more_threads_than_cpus_from_the_start_were_asked_for():
    chooser = Pace(4, lambda: 2)
    alternate(chooser, 8, lambda _: 20.0, lambda _: 4.0)
    assert LaunchMode.PLAIN in alternate(chooser, 600, lambda _: 2.0, lambda _: 4.0)[0]
