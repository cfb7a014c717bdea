"""On a machine that others use: whether a launch runs on all threads or on the caller's alone.

Threads that wait for each other every few microseconds need their CPUs at the same time. Where
other programs take turns on these CPUs, each wait lasts as long as a turn, some milliseconds, and
the same schedule on one thread, which waits for nobody, is several times faster. Its results have
the same bits (see `runtime.thread_schedule.combine`), so that timing may choose.

All threads run where they are faster by the mean and by the slowest tenth: what a caller feels
beside others is either. Each way is tried at a small share of the time that the other served.
"""

import math
import time
from collections.abc import Callable
from enum import Enum
from statistics import fmean, median

from rcompiler.device.cgroups import usable_cpus
from rcompiler.errors import ArtifactError, DeviceError
from rcompiler.runtime.stretch import OFF, Stretch
from rcompiler.runtime.threads import Team

_EVERY = 8  # of so many launches one is timed, which costs a microsecond
_WATCHED = 4  # launches, of which the first was disturbed, that are timed one after the other
_MOST = 3  # of these disturbed: that is no accident, and others use the machine
_WORSE = 2  # so many times what launches took when all threads won says more than that they did

# A turn of others lasts 3 ms and more. In between, and just after threads have slept, short
# launches look as if nobody else was there.
_LASTS = 12_000_000  # ns of them: some turns
_LATE = 500_000  # ns: a launch that took so much longer met others, not an interrupt of the system

_AGAIN = 16, 256  # first and largest number of launches alone before all threads are tried again
_SOON = 8  # times so many launches: who is back on one thread by then had left it too early
_SHARE = 50  # trials of a way take one part in so many of the time on the other
_LONGEST = 2_000_000_000  # ns until all threads are tried again, or _AGAIN[1] launches
_ASKED = 250_000  # ns that it takes to ask for the CPUs that may be used
_REST = 256, 1 << 16  # first and largest number of launches until one thread is tried again
_NEVER = 1 << 62


class LaunchMode(Enum):
    """What a launch is: on all threads, the same with its times noted, or on one thread."""

    PLAIN, TIMED, ALONE = range(3)


class Pace:
    """The choice, launch by launch, from times alone."""

    def __init__(self, threads: int, cpus: Callable[[], int] = usable_cpus) -> None:
        """cpus: how many this process may use now. More threads than that from the start are what
        somebody asked for."""
        self._threads, self._cpus = threads, cpus
        self._needed = min(threads, cpus())
        self._took: Callable[[int, int], None] = self._sampled
        self._step = LaunchMode.PLAIN
        self._every = self._count = _EVERY
        self._together, self._alone = Stretch(), Stretch()
        self._rest, self._next_rest = 0, _REST[0]
        self._bar = 0.0  # while it rests: ns of a launch on all threads that say something new
        self._patience, self._wait = _AGAIN[0], 0.0  # launches alone, and ns, until a trial
        self._back = self._back_ns = _NEVER  # since all threads were chosen again
        self._seen, self._disturbed = Stretch(), 0  # launches that are watched
        self._settled = False  # one thread had the time to get a CPU of its own
        self._served, self._late = 0, 0.0  # ns since the last trial; a launch of it ends it

    def step(self) -> LaunchMode:
        """What the next launch is; unless PLAIN, `took` is to be called after it."""
        self._count += 1
        if self._step is LaunchMode.PLAIN and self._count >= self._every:
            self._count = 0
            return LaunchMode.TIMED
        return self._step

    def skip(self) -> int:
        """How many launches from now on are PLAIN, whatever comes of them; `step` goes on behind
        these."""
        if self._step is not LaunchMode.PLAIN:
            return 0
        left = max(self._every - 1 - self._count, 0)
        self._count += left
        return left

    def took(self, wall: int, cpu: int) -> None:
        """ns of the last launch: by the clock, and those that the caller had a CPU."""
        self._took(wall, cpu)

    def give_up(self) -> None:
        """There is no schedule for one thread."""
        self._run_together()
        self._every = _NEVER

    def _sampled(self, wall: int, cpu: int) -> None:
        self._back += _EVERY
        self._rest -= _EVERY
        if self._rest <= 0:
            self._bar = 0.0
        self._together.add(wall, cpu)
        if not self._is_disturbed(wall, cpu):
            self._back_ns += _EVERY * wall
            return
        if not self._bar and self._often_late():
            self._try_alone(self._together)
            return
        self._step, self._took = LaunchMode.TIMED, self._watched
        self._seen, self._disturbed = Stretch(), 1
        self._seen.add(wall, cpu)

    def _often_late(self) -> bool:
        """Whether one thread might be faster by the mean: launches shorter than a turn are rarely
        disturbed, but each of these costs as much as a hundred others."""
        walls = self._together.walls
        alone = self._threads * median(walls)
        return sum(wall > alone for wall in walls) >= _MOST and fmean(walls) > alone

    def _watched(self, wall: int, cpu: int) -> None:
        self._seen.add(wall, cpu)
        self._disturbed += self._is_disturbed(wall, cpu)
        if self._disturbed >= _MOST:
            self._try_alone(self._seen)
        elif self._seen.count - self._disturbed > _WATCHED - _MOST:  # an accident
            self._step, self._took, self._count = LaunchMode.PLAIN, self._sampled, 0

    def _is_disturbed(self, wall: int, cpu: int) -> bool:
        """Whether one thread might be faster: it takes no longer than all together work."""
        return wall > max(OFF * cpu, self._threads * cpu / 2, self._bar)

    def _try_alone(self, together: Stretch) -> None:
        self._step, self._took = LaunchMode.ALONE, self._tried
        self._together, self._alone, self._settled = together, Stretch(), False

    def _tried(self, wall: int, cpu: int) -> None:
        alone, together = self._alone, self._together
        alone.add(wall, cpu)
        if not alone.lasts(_LASTS):
            return
        if not self._settled and alone.suffers():  # until the system has moved it to a free CPU
            self._alone, self._settled = Stretch(), True
            return
        if together.beats(alone):
            self._run_together()
            self._rest_from_trials(together, (1 + self._settled) * alone.lost(together))
            return
        early = self._back < _SOON * self._patience or self._back_ns < _SOON * self._length()
        self._patience = min(2 * self._patience, _AGAIN[1]) if early else _AGAIN[0]
        self._run_alone(0.0)
        if alone.suffers():  # of all threads only bad moments were seen: no fair comparison
            self._count = self._patience

    def _rest_from_trials(self, together: Stretch, cost: float) -> None:
        """All threads were found to be faster beside others: cost is what that took, in ns."""
        self._rest = int(max(self._next_rest, _SHARE * cost / together.mean()))
        self._next_rest = min(2 * self._next_rest, _REST[1])
        self._bar = _WORSE * together.upper()

    def _run_together(self) -> None:
        self._step, self._took, self._count = LaunchMode.PLAIN, self._sampled, 0
        self._together = Stretch()

    def _run_alone(self, cost: float) -> None:
        """cost: ns that the last trial lost."""
        self._step, self._took = LaunchMode.ALONE, self._ran_alone
        self._count, self._served = 0, 0
        self._wait = min(_SHARE * cost, max(_LONGEST, _AGAIN[1] * self._alone.mean()))

    def _ran_alone(self, wall: int, cpu: int) -> None:
        self._alone.add(wall, cpu)
        self._served += wall
        if self._count < self._patience or self._served < self._wait:
            return
        if self._cpus() < self._needed:
            self._stay_alone(_ASKED)
            return
        self._step, self._took, self._together = LaunchMode.TIMED, self._tried_again, Stretch()
        alone = self._alone
        late = max(alone.upper(), alone.mean() + _LATE)
        self._late = math.inf if alone.suffers() else late

    def _tried_again(self, wall: int, cpu: int) -> None:
        """The others have gone when all threads are faster for as long as some turns."""
        together, alone = self._together, self._alone
        together.add(wall, cpu)
        if wall < self._late and together.lost(alone) < _LASTS:
            if not together.lasts(self._length()):
                return
            if together.beats(alone):
                self._back = self._back_ns = 0
                self._run_together()
                if alone.suffers():
                    self._rest_from_trials(together, alone.lost(together))
                else:
                    self._next_rest = _REST[0]
                return
        self._stay_alone(together.lost(alone))

    def _length(self) -> float:
        """ns of a trial of all threads, more after each time that this was no use or wrong."""
        return _LASTS * self._patience / _AGAIN[0]

    def _stay_alone(self, cost: float) -> None:
        self._patience = min(2 * self._patience, _AGAIN[1])
        self._run_alone(cost)


def keep_pace(team: Team, make_alone: Callable[[], Team]) -> Team:
    """Let `team` run on one thread while that is faster. It stays the owner of its threads.

    make_alone: the same schedule on one thread; called when it is first needed.
    """
    team.start = paced(team.start, team.threads, make_alone)
    return team


def paced(
    together: Callable[[int | bytes], int], threads: int, make_alone: Callable[[], Team]
) -> Callable[[int | bytes], int]:
    """What starts a launch on so many threads, or on one while that is faster.

    together: starts one on all of them. make_alone: see `keep_pace`.
    """
    return _Paced(together, Pace(threads), make_alone).start


class _Paced:
    """`Team.start` with a choice.

    Between two launches the caches are full of the model: each function that Python enters then
    takes microseconds. So of most launches nothing is asked.
    """

    __slots__ = ("_alone", "_make", "_pace", "_skipped", "_together")

    def __init__(
        self, together: Callable[[int | bytes], int], pace: Pace, make_alone: Callable[[], Team]
    ) -> None:
        self._together, self._pace, self._make = together, pace, make_alone
        self._alone: Team | None = None
        self._skipped = 0  # launches from now on that are PLAIN

    def start(self, bases: int | bytes) -> int:
        if self._skipped:
            self._skipped -= 1
            return self._together(bases)
        return self._start(bases)

    def _start(self, bases: int | bytes) -> int:
        step = self._pace.step()
        if step is LaunchMode.PLAIN:
            self._skipped = self._pace.skip()
            return self._together(bases)
        alone = self._alone_team() if step is LaunchMode.ALONE else None
        launch = alone.start if alone else self._together
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        result = launch(bases)
        cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
        if alone and result:
            alone.failed(result)
        if alone or step is LaunchMode.TIMED:
            self._pace.took(wall, cpu)
        return result

    def _alone_team(self) -> Team | None:
        if self._alone is None:
            try:
                self._alone = self._make()
            except (ArtifactError, DeviceError):  # no such order, or no memory for it
                self._pace.give_up()
        return self._alone
