"""On a machine that others use: whether a launch runs on all threads or on the caller's alone.

Threads that wait for each other every few microseconds need their CPUs at the same time. Where
other programs take turns on these CPUs, each wait lasts as long as a turn, some milliseconds, and
the same schedule on one thread, which waits for nobody, is several times faster. Its results have
the same bits (see `runtime.thread_schedule.combine`), so that timing may choose.
"""

import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from statistics import median

from rcompiler.errors import ArtifactError, DeviceError
from rcompiler.runtime.threads import Team

_EVERY = 8  # of so many launches one is timed, which costs a microsecond
_WATCHED = 4  # launches, of which the first was disturbed, that are timed one after the other
_MOST = 3  # of these disturbed: that is no accident, and others use the machine
_TRIED = 3  # launches on one thread before they are compared
_RECENT = 9  # launches on one thread that a trial of all threads is compared with
_AGAIN = 16, 256  # first and largest number of launches before the other way is tried again
_REST = 256, 1 << 16  # the same after a trial that was of no use
_OFF = 1.25  # a launch took so many times the caller's time on a CPU: it waited, or was interrupted


class LaunchMode(Enum):
    """What a launch is: on all threads, the same with its times noted, or on one thread."""

    PLAIN, TIMED, ALONE = range(3)


class Pace:
    """The choice, launch by launch, from times alone."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._took: Callable[[int, int], None] = self._sampled
        self._count, self._rest, self._next_rest = _EVERY, 0, _REST[0]
        self._step = LaunchMode.PLAIN
        self._walls: list[int] = []
        self._disturbed = 0
        self._usual = 0.0  # ns of a launch on all threads, when one thread was tried last
        self._alone: deque[int] = deque(maxlen=_RECENT)
        self._patience, self._wins = _AGAIN[0], 0

    def step(self) -> LaunchMode:
        """What the next launch is; unless PLAIN, `took` is to be called after it."""
        self._count += 1
        if self._step is LaunchMode.PLAIN and self._count >= self._rest + _EVERY:
            self._count = self._rest = 0
            return LaunchMode.TIMED
        if self._step is LaunchMode.ALONE and self._count > self._patience:
            self._look_again()
        return self._step

    def skip(self) -> int:
        """How many launches from now on are PLAIN, whatever comes of them; `step` goes on behind
        these."""
        if self._step is not LaunchMode.PLAIN:
            return 0
        left = max(self._rest + _EVERY - 1 - self._count, 0)
        self._count += left
        return left

    def took(self, wall: int, cpu: int) -> None:
        """ns of the last launch: by the clock, and those that the caller had a CPU."""
        self._took(wall, cpu)

    def give_up(self) -> None:
        """There is no schedule for one thread."""
        self._begin_sampling(rest=1 << 62)

    def _sampled(self, wall: int, cpu: int) -> None:
        if self._is_disturbed(wall, cpu):
            self._step, self._took = LaunchMode.TIMED, self._watched
            self._walls, self._disturbed = [wall], 1

    def _watched(self, wall: int, cpu: int) -> None:
        self._walls.append(wall)
        self._disturbed += self._is_disturbed(wall, cpu)
        if self._disturbed < _MOST:
            if len(self._walls) - self._disturbed > _WATCHED - _MOST:  # an accident
                self._begin_sampling()
            return
        self._usual = median(self._walls)
        self._step, self._took = LaunchMode.ALONE, self._tried
        self._alone.clear()
        self._count, self._patience = 0, _AGAIN[0]

    def _is_disturbed(self, wall: int, cpu: int) -> bool:
        """Whether one thread might be faster: it takes no longer than all together work."""
        return wall > _OFF * cpu and 2 * wall > self._threads * cpu

    def _tried(self, wall: int, cpu: int) -> None:
        self._alone.append(wall)
        if len(self._alone) < _TRIED:
            return
        if median(self._alone) < self._usual:
            self._took, self._next_rest = self._ran_alone, _REST[0]
        else:
            self._begin_sampling(self._next_rest)
            self._next_rest = min(2 * self._next_rest, _REST[1])

    def _ran_alone(self, wall: int, cpu: int) -> None:
        self._alone.append(wall)

    def _look_again(self) -> None:
        self._step, self._took, self._wins = LaunchMode.TIMED, self._together_again, 0

    def _together_again(self, wall: int, cpu: int) -> None:
        """Three launches in a row that are faster on all threads: the others have gone."""
        if wall >= median(self._alone):
            self._step, self._took = LaunchMode.ALONE, self._ran_alone
            self._count, self._patience = 0, min(2 * self._patience, _AGAIN[1])
            return
        self._wins += 1
        if self._wins == _TRIED:
            self._begin_sampling()

    def _begin_sampling(self, rest: int = 0) -> None:
        self._step, self._took = LaunchMode.PLAIN, self._sampled
        self._count, self._rest = 0, rest


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
