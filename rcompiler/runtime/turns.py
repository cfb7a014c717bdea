"""Threads and an arena for several models that take turns: each launch is of one of them.

Models of one team may differ in all but their threads: what a launch reads and writes comes with
its table of base addresses. Changing the model takes some microseconds; threads that wait for their
next launch spin for a while, and those of a team for each model would be in the way of each other.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

from rcompiler.runtime.loaded_schedule import LoadedSchedule
from rcompiler.runtime.memory import arena
from rcompiler.runtime.pace import paced
from rcompiler.runtime.plans import LoadedPlan
from rcompiler.runtime.run_delay import RunDelay
from rcompiler.runtime.stamps import Stamps
from rcompiler.runtime.threads import Launcher, Team
from rcompiler.support.this_process import this_process

Start = Callable[[int | bytes], int]


class Turns:
    """What models share that run one at a time.

    Attributes:
        arena: uint8[bytes], the temporary tensors of whoever joins.
        launcher: of all launches, once the threads were started.
        teams: what launches of a process run, by process; hold the lock of its team.
    """

    def __init__(self, arena_bytes: int, limit_s: float) -> None:
        """Reserve the memory.

        Args:
            arena_bytes: of the model that needs most.
            limit_s: of the waits of a launch, see `threads.Waiting`.

        Raises:
            DeviceError: there is no memory.
        """
        self.arena = arena(arena_bytes, "temporary tensors of the model")
        self._limit_s = limit_s
        self._plans: list[LoadedPlan] = []  # others may join while they run
        self.teams: dict[int, _TakenTeam] = {}
        self.launcher: Launcher | None = None

    def room(self, arena_bytes: int) -> None:
        """Let `arena` be large enough for a model that joins; the others keep what they have.

        Raises:
            DeviceError: there is no memory.
        """
        if arena_bytes > self.arena.size:
            self.arena = arena(arena_bytes, "temporary tensors of the model")

    def join(self, plan: LoadedPlan) -> Turn:
        """The place of one more model; by one thread at a time, also while others run."""
        self._plans.append(plan)
        return Turn(self, len(self._plans) - 1)

    def begin(self) -> Launcher:
        """Start the threads, if they are not there yet.

        Raises:
            DeviceError: no memory, or no threads.
        """
        if self.launcher is None:
            self.launcher = Launcher(self._team)
        return self.launcher

    def _team(self) -> Team:
        most = max(self._plans, key=lambda plan: plan.threads)
        team = most.team()
        self.teams[this_process()] = _TakenTeam(team, self._plans, self._limit_s)
        return team


class Turn:
    """One model among those that take turns: what it has for a `threads.Launcher`."""

    def __init__(self, turns: Turns, number: int) -> None:
        self._turns, self._number = turns, number

    def run(self, bases: int | bytes) -> None:
        """Run once, as `Launcher.run`."""
        turns = self._turns
        (turns.launcher or turns.begin()).run(bases, self._prepare)

    def _prepare(self, _: Team) -> None:
        """Let the next launch of this process be of this model."""
        if (team := self._turns.teams[this_process()]).now != self._number:
            team.turn(self._number)

    @property
    def closed(self) -> bool:
        """Whether it runs no more."""
        return self._turns.begin().closed

    def stamps(self) -> Stamps | None:
        """None: what takes turns is not timed."""
        return None

    def run_delay(self) -> RunDelay:
        """Of the threads that all of them run on, and of the calling one."""
        return self._turns.begin().run_delay()

    def close(self) -> bool:
        """Stop the threads, which are those of all models."""
        return self._turns.begin().close()


class _TakenTeam:
    """A team, and what its next launch runs.

    A plan for another number of threads than it has gets a team of its own.
    """

    def __init__(self, team: Team, plans: Sequence[LoadedPlan], limit_s: float) -> None:
        self._team, self._raw = weakref.proxy(team), team.start
        self._plans, self._limit_s = plans, limit_s
        self._loaded: dict[int, LoadedSchedule] = {}
        self._starts: dict[int, Start] = {}
        self._others: list[Team] = []
        self.now = -1

    def turn(self, number: int) -> None:
        """Let the next launch run this plan."""
        self.now = -1  # until all of this has gone well
        plan = self._plans[number]
        if plan.threads == self._team.threads:
            if number not in self._loaded:
                self._loaded[number] = plan.loaded()
            self._team.load(self._loaded[number], self._limit_s)
        if number not in self._starts:
            self._starts[number] = self._start(plan)
        self._team.start, self.now = self._starts[number], number

    def _start(self, plan: LoadedPlan) -> Start:
        """What starts a plan; on one thread while that is faster."""
        start = self._raw
        if plan.threads != self._team.threads:
            own = plan.team()
            self._others.append(own)

            def start(bases: int | bytes) -> int:
                if result := own.start(bases):
                    own.failed(result)
                return 0

        return start if plan.threads == 1 else paced(start, plan.threads, plan.alone)
