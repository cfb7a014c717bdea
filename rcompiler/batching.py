"""Calls of many callers joined along the batch, and their results taken apart again.

A call that waits for an instance may be joined by others: the first of them leads, which is to
collect the others, to run them as one call, and to hand out the results; then the next one that
waits leads. Nobody's result depends on who else was there: each row of a batch is computed of its
own row alone, which `Rows.try_on` tries and the caller of a pool answers for.
"""

from __future__ import annotations

import copy
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rcompiler.bucketed import BucketedModel
from rcompiler.errors import BusyError, CompilerError, RangeError, ShapeError
from rcompiler.model import CompiledModel
from rcompiler.runtime.memory import aligned_empty
from rcompiler.runtime.outputs import Outputs, named
from rcompiler.support.random_inputs import random_inputs
from rcompiler.support.this_process import PerProcess

Runs = CompiledModel | BucketedModel

MOST_ROWS = 1 << 16
_MOST_US = 60e6
# How far rows that were computed together may be from those that were not, in parts of the largest
# number: that of a sum of numbers of 8 bits of mantissa. What depends on other rows is farther off.
_FAR = 0.02


@dataclass(frozen=True)
class Batching:
    """How calls are joined.

    Attributes:
        most: rows of a joined call.
        latency_us: microseconds that a call waits for others to be joined to; 0: only those are
            that wait at the same time because no instance is free.
        independent: the caller's word that no row of a result depends on another row of the
            arguments; without it the pool tries that with random numbers when it is made.

    Raises:
        CompilerError: an option has no such value.
    """

    most: int = 8
    latency_us: float = 2000.0
    independent: bool = False

    def __post_init__(self) -> None:
        most, late = self.most, self.latency_us
        if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_ROWS:
            raise CompilerError(f"most={most!r}: give rows of a batch, from 1 to {MOST_ROWS}")
        if isinstance(late, bool) or not isinstance(late, int | float) or not 0 <= late <= _MOST_US:
            raise CompilerError(f"latency_us={late!r}: give microseconds, at most {_MOST_US:g}")
        if not isinstance(self.independent, bool):
            raise CompilerError(f"independent={self.independent!r}: give True or False")


@dataclass(eq=False)
class Request:
    """A call that waits to be run.

    Attributes:
        arrays: its arguments.
        rows: of its batch.
        key: requests of one key can be joined.
        since: when it came, in seconds.
        ready: set when its thread has something to do: it leads, or there is an outcome.
        leads: its thread is to collect others.
        taken: it is in a batch that runs.
        outcome: the results, or the error.
    """

    arrays: list[np.ndarray]
    rows: int
    key: tuple[tuple[int, ...], ...]
    since: float
    ready: threading.Event = field(default_factory=threading.Event)
    leads: bool = False
    taken: bool = False
    outcome: Outputs[np.ndarray] | BaseException | None = None

    def answer(self) -> Outputs[np.ndarray]:
        """The results; raises the error."""
        assert self.outcome is not None
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


class Rows:
    """Along which axis calls of a model are joined, and how many rows it takes."""

    def __init__(self, model: Runs, batching: Batching) -> None:
        """Raises CompilerError where calls of the model cannot be joined."""
        self._model, self._batching = model, batching
        self._names = tuple(tensor.name for tensor in model.outputs)
        firsts = {str(tensor.sizes[0]) if tensor.sizes else "" for tensor in model.inputs}
        symbol = firsts.pop() if len(firsts) == 1 else ""
        self.spans = _spans(model, symbol)
        if not self.spans:
            raise CompilerError(
                "batching joins calls along the first axis of all inputs, which has to be one size "
                f"of several; they are {_shapes(model.inputs)}. Compile the model with "
                "shapes={'batch': range(1, 9)} or the like, or leave batching out"
            )
        for tensor in (*model.inputs, *model.outputs):
            axes = [axis for axis, size in enumerate(tensor.sizes) if str(size) == symbol]
            if axes != [0]:
                raise CompilerError(
                    f"batching joins calls along '{symbol}', which has to be the first axis of "
                    f"each input and output and no other; there is {_shapes([tensor])}. Leave "
                    "batching out"
                )
        most = max(high for _, high in self.spans)
        if batching.most > most:
            raise CompilerError(
                f"most={batching.most}: the largest program of the model takes {most} rows; give "
                "fewer, or compile it with a larger range"
            )

    def takes(self, rows: int) -> bool:
        """Whether the model has a program for so many rows."""
        return any(low <= rows <= high for low, high in self.spans)

    def request(self, args: Sequence[object], kwargs: Mapping[str, object], now: float) -> Request:
        """A call, checked: what is wrong with it cannot be found when others are joined to it.

        Raises ShapeError, RangeError.
        """
        arrays = self._model.arguments(*args, **kwargs)
        key = tuple(array.shape[1:] for array in arrays)
        return Request(arrays, arrays[0].shape[0], key, now)

    def group(self, first: Request, waiting: Sequence[Request]) -> list[Request]:
        """Who is joined to a request, itself the first: those of its key, in their order, as long
        as there is room; and so many that there is a program for all of their rows.
        """
        found, rows = [first], first.rows
        for each in waiting:
            if each is first or each.key != first.key:
                continue
            if rows + each.rows > self._batching.most:
                break
            found.append(each)
            rows += each.rows
        while not self.takes(rows):
            rows -= found.pop().rows
        return found

    def full(self, group: Sequence[Request]) -> bool:
        """Whether no more can be joined."""
        return sum(each.rows for each in group) >= self._batching.most

    def run(self, model: Runs, group: Sequence[Request]) -> None:
        """Run requests as one call of a model, and note what came of each."""
        if len(group) == 1:
            _alone(model, group[0])
            return
        columns = zip(*(each.arrays for each in group), strict=True)
        try:
            results = model(*map(np.concatenate, columns))
        except (RangeError, ShapeError):  # of one of them, which is the only one to be told
            for each in group:
                _alone(model, each)
            return
        except CompilerError as error:
            for each in group:
                each.outcome = copy.copy(error)
            return
        begin = 0
        for each in group:
            end = begin + each.rows
            each.outcome = named(self._names, [_own(array[begin:end]) for array in results])
            begin = end

    def try_on(self, model: Runs) -> None:
        """Whether rows are independent of one another, tried with random numbers.

        Raises CompilerError unless they are.
        """
        if self._batching.independent:
            return
        tried = self._tried()
        if tried is None:
            return  # none of its calls can be joined
        rows, few = tried
        program = _program(model, rows)
        ranges = {each.input: (each.first, each.last + 1) for each in program.artifact.ranges}
        drawn = random_inputs(program.artifact.given, 0, ranges)
        arrays = [drawn[tensor.name] for tensor in model.inputs]
        parts = slice(0, few), slice(rows - few, rows)
        try:
            whole = model(*arrays)
            apart = [model(*(array[part] for array in arrays)) for part in parts]
        except CompilerError as error:
            raise CompilerError(
                f"batching: rows cannot be tried with random numbers: {error}. Say "
                "independent=True if none of them depends on another, or leave batching out"
            ) from None
        for name, together, *alone in zip(self._names, whole, *apart, strict=True):
            pairs = zip((together[part] for part in parts), alone, strict=True)
            if not all(_alike(*pair) for pair in pairs):
                raise CompilerError(
                    f"batching: rows of output '{name}' depend on the other rows of the batch, so "
                    "that a result would depend on other callers; leave batching out"
                )

    def _tried(self) -> tuple[int, int] | None:
        """Rows of the smallest program for several, and fewer rows that there is a program for."""
        for rows in sorted(high for _, high in self.spans if high > 1):
            few = next(filter(self.takes, range(1, rows)), None)
            if few is not None:
                return rows, few
        return None


class _Waiting:
    """The requests of one process that wait, and which of them leads."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.requests: deque[Request] = deque()
        self.leader: Request | None = None

    def promote(self) -> None:
        """Let the first one lead. Hold the lock."""
        self.leader = self.requests[0] if self.requests else None
        if self.leader is not None:
            self.leader.leads = True
            self.leader.ready.set()


class Batcher:
    """Calls of a pool, joined."""

    def __init__(
        self,
        rows: Rows,
        batching: Batching,
        instance: Callable[[float], AbstractContextManager[Runs]],
        wait_s: float,
        most_waiting: int | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """instance: takes one for a while, waiting at most so many seconds. wait_s, most_waiting:
        as of `Pool`. clock: tells seconds."""
        self._rows, self._instance, self._wait_s = rows, instance, wait_s
        self._latency_s, self._most_waiting = batching.latency_us / 1e6, most_waiting
        self._clock = clock
        self._waiting = PerProcess(_Waiting)

    def __call__(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Outputs[np.ndarray]:
        """As of `Pool`. Raises as that."""
        request = self._rows.request(args, kwargs, self._clock())
        waiting = self._waiting.get()
        with waiting.changed:
            if self._most_waiting is not None and len(waiting.requests) > self._most_waiting:
                raise BusyError(
                    f"{self._most_waiting} calls wait already, which is the most; send fewer at a "
                    "time"
                )
            waiting.requests.append(request)
            if waiting.leader is None:
                waiting.promote()
            else:
                waiting.changed.notify()  # the leader may be waiting for it
        while request.outcome is None:
            if request.leads:
                self._lead(waiting, request)
            else:
                self._follow(waiting, request)
        return request.answer()

    def _left(self, request: Request) -> float:
        return max(request.since + self._wait_s - self._clock(), 0.0)

    def _follow(self, waiting: _Waiting, request: Request) -> None:
        """Until it leads, or has an outcome."""
        try:
            came = request.ready.wait(self._left(request))
        except BaseException:
            self._withdraw(waiting, request)
            raise
        if came:
            return
        with waiting.changed:
            if request.leads or request.outcome is not None:
                return
            taken = request.taken
            if not taken:
                ahead = waiting.requests.index(request)
                waiting.requests.remove(request)
        if taken:
            request.ready.wait()  # as long as a launch may take
            return
        raise BusyError(
            f"the call was not begun for {self._wait_s:g} s: {ahead} calls wait before it. Make "
            "more instances, send fewer calls at a time, or let them wait longer (wait_s)"
        )

    def _lead(self, waiting: _Waiting, request: Request) -> None:
        """Take an instance, collect others, run all of them."""
        try:
            with self._instance(self._left(request)) as model:
                self._run(waiting, model, self._collected(waiting, request))
        except BaseException:
            self._withdraw(waiting, request)
            raise

    def _withdraw(self, waiting: _Waiting, request: Request) -> None:
        """A request whose thread is gone waits and leads no more."""
        with waiting.changed:
            if request in waiting.requests:
                waiting.requests.remove(request)
            if waiting.leader is request:
                waiting.promote()

    def _collected(self, waiting: _Waiting, leader: Request) -> list[Request]:
        """The requests that are run with it; the next one leads from now on."""
        end = leader.since + self._latency_s
        with waiting.changed:
            while True:
                group = self._rows.group(leader, waiting.requests)
                left = end - self._clock()
                if left <= 0 or self._rows.full(group):
                    break
                waiting.changed.wait(left)
            for each in group:
                each.taken = True
                waiting.requests.remove(each)
            waiting.promote()
        return group

    def _run(self, waiting: _Waiting, model: Runs, group: list[Request]) -> None:
        try:
            self._rows.run(model, group)
        finally:
            with waiting.changed:
                lost = [each for each in group if each.outcome is None and each is not group[0]]
                for each in lost:  # an interrupt of this thread is none of theirs
                    each.taken = False
                waiting.requests.extendleft(reversed(lost))
                if waiting.leader is None:
                    waiting.promote()
            for each in group:
                if each.outcome is not None:
                    each.ready.set()


def _alone(model: Runs, request: Request) -> None:
    try:
        request.outcome = model(*request.arrays)
    except CompilerError as error:
        request.outcome = error


def _own(rows: np.ndarray) -> np.ndarray:
    """A copy: what it is a part of is of other callers, too."""
    made = aligned_empty(rows.shape, rows.dtype)
    made[...] = rows
    return made


def _spans(model: Runs, symbol: str) -> list[tuple[int, int]]:
    """How many rows each program takes; none where the axis has one size."""
    if isinstance(model, CompiledModel):
        return [(each.low, each.high) for each in model.artifact.sizes if each.name == symbol]
    family = model.family
    if symbol not in family.symbols:
        return []
    number = family.symbols.index(symbol)
    return sorted({sizes[number] for sizes in family.sizes})


def _program(model: Runs, rows: int) -> CompiledModel:
    """One for at most so many rows."""
    if isinstance(model, CompiledModel):
        return model
    [found, *_] = [each for _, each in model.programs if each.artifact.given[0].shape[0] == rows]
    assert isinstance(found, CompiledModel)
    return found


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    if one.shape != other.shape:
        return False
    if one.dtype.kind in "iub":
        return bool(np.array_equal(one, other))
    a, b = (np.asarray(each, np.float64) for each in (one, other))
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    far = np.abs(a[finite] - b[finite])
    return not far.size or float(far.max()) <= _FAR * float(np.abs(a[finite]).max(initial=0.0))


def _shapes(tensors: Sequence[Any]) -> str:
    return ", ".join(f"'{t.name}' [{', '.join(map(str, t.sizes))}]" for t in tensors)
