"""A model with several plans: one serves, and now and then another one is tried (Astra §4).

All plans have one signature, one block of weights and one arena, so the table of base addresses
that a launch gets is right for each of them: to change the plan is to start another team. Whoever
chooses sees times, and knows nothing of threads.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rcompiler.errors import ArtifactError, DeviceError
from rcompiler.runtime import tables
from rcompiler.runtime.artifact import Artifact
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
            and first.ranges == other.ranges
            and first.target == other.target
            and np.array_equal(first.constants, other.constants)
        )
        if not same:
            raise ArtifactError(
                "a plan has other inputs, outputs, weights or another target than the model that "
                "it is a plan of; compile them together"
            )


def serve_plans(
    team: Team, makers: Sequence[Callable[[bool], Team]], plans: Plans, first: Artifact
) -> Team:
    """Let `team`, which runs the plan `first`, run the plan that is chosen instead.

    makers: each makes the team of a plan, by number; with True for one that serves.
    """
    begin = tables.EXTERNAL + len(first.inputs)
    sizes = [(begin + number, tensor.nbytes) for number, tensor in enumerate(first.written)]
    team.start = _Serving(team.start, team.native_ids, makers, plans.chooser, sizes).start
    return team


class _Serving:
    """`Team.start` with a choice of plans; as in `pace`, most launches are not asked about."""

    __slots__ = (
        "_candidate",
        "_chooser",
        "_delays",
        "_first",
        "_makers",
        "_native_ids",
        "_number",
        "_serve",
        "_serving",
        "_sizes",
        "_skipped",
    )

    def __init__(
        self,
        first: Callable[[int | bytes], int],
        native_ids: Sequence[int],
        makers: Sequence[Callable[[bool], Team]],
        chooser: Chooser,
        sizes: Sequence[tuple[int, int]],
    ) -> None:
        """sizes: base number and bytes of all that a launch writes for its caller."""
        self._first, self._native_ids = first, native_ids
        self._makers, self._chooser, self._sizes = makers, chooser, sizes
        self._serve, self._number = first, 0
        self._serving: Team | None = None  # None: the first plan's
        self._candidate: tuple[int, Team] | None = None
        self._delays: dict[int, RunDelay] = {}
        self._skipped = 0

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
            return self._timed(self._serve, self._serving, bases)
        return self._tried(launch, bases)

    def _timed(
        self, start: Callable[[int | bytes], int], team: Team | None, bases: int | bytes
    ) -> int:
        delay = self._delay(team)
        late, begin = delay.ns(), time.perf_counter_ns()
        result = start(bases)
        ns = time.perf_counter_ns() - begin
        if not result:
            self._chooser.ran(ns, delay.ns() - late)
        return result

    def _tried(self, launch: Launch, bases: int | bytes) -> int:
        """Run a candidate; whatever happens to it, the answer comes."""
        begin = time.perf_counter_ns()
        try:
            team = self._team(launch.plan)
            result = self._timed(team.start, team, bases)
            if result:
                team.failed(result)
        except (ArtifactError, DeviceError) as error:
            self._drop()
            self._chooser.failed(time.perf_counter_ns() - begin, str(error))
            return self._serve(bases)
        if not launch.shadow:
            return result
        written = [view.copy() for view in self._written(bases)]
        begin = time.perf_counter_ns()
        result = self._serve(bases)
        ns = time.perf_counter_ns() - begin
        if result:
            return result
        if all(map(np.array_equal, written, self._written(bases))):
            self._chooser.shadowed(ns)
        else:
            self._drop()
            self._chooser.failed(ns, "its results are other ones")
        return result

    def _change(self) -> None:
        """Let the plan that was found serve."""
        number = self._chooser.serving
        self._drop()
        self._number, self._serving = number, None
        self._serve = self._first
        if number:
            self._serving = self._makers[number](True)
            self._serve = self._serving.start

    def _drop(self) -> None:
        """The candidate; its threads end."""
        if self._candidate is not None:
            self._candidate[1].close()
        self._candidate = None
        self._delays.clear()

    def _team(self, number: int) -> Team:
        if self._candidate is None or self._candidate[0] != number:
            self._drop()  # before the next one has threads
            self._candidate = number, self._makers[number](False)
        return self._candidate[1]

    def _delay(self, team: Team | None) -> RunDelay:
        key = id(team)
        if key not in self._delays:
            ids = self._native_ids if team is None else team.native_ids
            self._delays[key] = RunDelay(ids)
        return self._delays[key]

    def _written(self, bases: int | bytes) -> list[np.ndarray]:
        """What a launch has written for its caller, where it lies."""
        most = max((number for number, _ in self._sizes), default=-1) + 1
        table = bases if isinstance(bases, bytes) else ctypes.string_at(bases, most * _WORD)
        places = np.frombuffer(table, np.uint64, most)
        return [
            np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(int(places[number])))
            for number, size in self._sizes
            if size
        ]
