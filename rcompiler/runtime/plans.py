"""A model with several plans: one serves, and now and then another one is tried (Astra §4).

All plans have one signature, one block of weights and one arena, so the table of base addresses
that a launch gets is right for each of them: to change the plan is to start another team. Whoever
chooses sees times, and knows nothing of threads.
"""

from __future__ import annotations

import ctypes
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rcompiler.errors import ArtifactError, DeviceError
from rcompiler.runtime import tables
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.loaded_schedule import LoadedSchedule
from rcompiler.runtime.pace import paced
from rcompiler.runtime.run_delay import RunDelay
from rcompiler.runtime.threads import Team

_WORD = 8
PATIENCE_S = 2.0  # of a plan that is tried: then it has stopped


@dataclass(frozen=True)
class Launch:
    """What the next launch is.

    Attributes:
        plan: number of the plan that runs; 0 is the first one.
        timed: what it took is wanted.
        shadow: its results are compared with those of the plan that serves, which are the answer.
        skip: so many launches after this one run the plan that serves, and are not asked about.
    """

    plan: int
    timed: bool = False
    shadow: bool = False
    skip: int = 0


class Chooser(Protocol):
    """Who says which plan a launch runs. Asked by one thread at a time."""

    @property
    def serving(self) -> int:
        """The number of the plan that serves."""

    def next(self) -> Launch:
        """What the next launch shall be."""

    def ran(self, ns: int, delay_ns: int) -> None:
        """The launch took so long, of which its threads had no CPU for `delay_ns`."""

    def shadowed(self, ns: int) -> None:
        """The answer was computed by the plan that serves, besides, for which it took so long."""

    def failed(self, ns: int, why: str) -> None:
        """The plan has stopped, or its results were other ones; `ns` are lost."""


@dataclass(frozen=True)
class Plans:
    """Other plans of a model, numbered from 1, and who chooses."""

    others: Sequence[Artifact]
    chooser: Chooser


def check_plans(first: Artifact, others: Sequence[Artifact]) -> None:
    """Whether a table of base addresses is right for all of them.

    Raises ArtifactError for a plan of another model.
    """
    for other in others:
        other.check()
        same = (
            first.inputs == other.inputs
            and first.outputs == other.outputs
            and first.checks == other.checks
            and first.counts == other.counts
            and first.ranges == other.ranges
            and first.target == other.target
            and np.array_equal(first.constants, other.constants)
        )
        if not same:
            raise ArtifactError(
                "a plan has other inputs, outputs, weights or another target than the model that "
                "it is a plan of; compile them together"
            )


class LoadedPlan(Protocol):
    """A plan whose code is loaded.

    threads: that it runs on.
    """

    @property
    def threads(self) -> int: ...
    def loaded(self) -> LoadedSchedule:
        """For a team of as many threads."""

    def team(self) -> Team:
        """Threads of its own."""

    def alone(self) -> Team:
        """The same on one thread."""


def serve_plans(
    plans: Sequence[LoadedPlan], chooser: Chooser, first: Artifact, limit_s: float
) -> Team:
    """A team that runs the plan that is chosen, launch by launch.

    plans: by number; `first`: the artifact of the first one. limit_s: of the waits of one that
    serves.
    """
    begin = tables.EXTERNAL + len(first.inputs)
    sizes = [(begin + number, tensor.nbytes) for number, tensor in enumerate(first.written)]
    most = max(plans, key=lambda plan: plan.threads)
    team = most.team()
    serving = _Serving(team, plans, chooser, sizes, limit_s)
    team.start = serving.start
    return team


class _Serving:
    """`Team.start` with a choice of plans; as in `pace`, most launches are not asked about.

    Plans for as many threads take turns on the same ones: threads that wait for their next launch
    spin for a while, and would be in the way of those of another team. A plan for fewer threads has
    a team of its own.
    """

    __slots__ = (
        "_chooser",
        "_delay",
        "_limit_s",
        "_loaded",
        "_now",
        "_number",
        "_others",
        "_plans",
        "_raw",
        "_serve",
        "_sizes",
        "_skipped",
        "_team",
    )

    def __init__(
        self,
        team: Team,
        plans: Sequence[LoadedPlan],
        chooser: Chooser,
        sizes: Sequence[tuple[int, int]],
        limit_s: float,
    ) -> None:
        """team: of the most threads. sizes: base number and bytes of all that a launch writes for
        its caller."""
        self._team, self._raw = weakref.proxy(team), team.start
        self._plans, self._chooser, self._sizes, self._limit_s = plans, chooser, sizes, limit_s
        self._loaded: dict[int, LoadedSchedule] = {}
        self._others: dict[int, Team] = {}
        self._delay = RunDelay(team.native_ids)
        self._now = -1  # the plan whose schedule the team has
        self._skipped, self._number = 0, chooser.serving
        self._serve = self._serving(self._number)

    def start(self, bases: int | bytes) -> int:
        if self._skipped:
            self._skipped -= 1
            return self._serve(bases)
        return self._start(bases)

    def _start(self, bases: int | bytes) -> int:
        if self._number != self._chooser.serving:
            self._change()
        launch = self._chooser.next()
        self._skipped = launch.skip
        if not launch.timed:
            return self._serve(bases)
        if launch.plan == self._number:
            return self._timed(self._serve, bases)
        return self._tried(launch, bases)

    def _timed(self, start: Callable[[int | bytes], int], bases: int | bytes) -> int:
        late, begin = self._delay.ns(), time.perf_counter_ns()
        result = start(bases)
        ns = time.perf_counter_ns() - begin
        if not result:
            self._chooser.ran(ns, self._delay.ns() - late)
        return result

    def _tried(self, launch: Launch, bases: int | bytes) -> int:
        """Run a candidate; whatever happens to it, the answer comes."""
        begin = time.perf_counter_ns()
        try:
            start, team = self._candidate(launch.plan)
            result = self._timed(start, bases)
            if result:
                team.failed(result)
        except (ArtifactError, DeviceError) as error:
            self._others.pop(launch.plan, None)
            self._restore()
            self._chooser.failed(time.perf_counter_ns() - begin, str(error))
            return self._serve(bases)
        self._restore()
        if not launch.shadow:
            return result
        written = [view.copy() for view in written_by(bases, self._sizes)]
        begin = time.perf_counter_ns()
        result = self._serve(bases)
        ns = time.perf_counter_ns() - begin
        if result:
            return result
        if all(map(np.array_equal, written, written_by(bases, self._sizes))):
            self._chooser.shadowed(ns)
        else:
            self._chooser.failed(ns, "its results are other ones")
        return result

    def _candidate(self, number: int) -> tuple[Callable[[int | bytes], int], Team]:
        """What starts it, which is not paced, and its team."""
        plan = self._plans[number]
        if plan.threads == self._team.threads:
            self._load(number, min(PATIENCE_S, self._limit_s))
            return self._raw, self._team
        if number not in self._others:
            self._others = {number: plan.team()}
        team = self._others[number]
        return team.start, team

    def _restore(self) -> None:
        """The team has the schedule of the plan that serves."""
        if self._plans[self._number].threads == self._team.threads and self._now != self._number:
            self._load(self._number, self._limit_s)

    def _load(self, number: int, limit_s: float) -> None:
        if number not in self._loaded:
            self._loaded[number] = self._plans[number].loaded()
        self._team.load(self._loaded[number], limit_s)
        self._now = number

    def _change(self) -> None:
        """Let the plan that was found serve."""
        self._number = self._chooser.serving
        self._serve = self._serving(self._number)
        kept = {self._number, self._now}
        self._loaded = {n: loaded for n, loaded in self._loaded.items() if n in kept}

    def _serving(self, number: int) -> Callable[[int | bytes], int]:
        """What starts the plan that serves."""
        plan = self._plans[number]
        self._others.clear()
        if plan.threads < self._team.threads:
            self._others[number] = plan.team()
            return self._others[number].start
        self._load(number, self._limit_s)
        if plan.threads == 1:
            return self._raw
        return paced(self._raw, plan.threads, plan.alone)


def written_by(bases: int | bytes, sizes: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    """Arrays (bytes) over what a launch has written for its caller.

    bases: the table of the launch, or its address. sizes: base number and bytes of each array.
    """
    most = max((number for number, _ in sizes), default=-1) + 1
    table = bases if isinstance(bases, bytes) else ctypes.string_at(bases, most * _WORD)
    places = np.frombuffer(table, np.uint64, most)
    return [
        np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(int(places[number])))
        for number, size in sizes
        if size
    ]
