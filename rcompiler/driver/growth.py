"""Programs of a model that are built while it serves: what there is, what waits, what failed.

One thread builds what calls have asked for, in the order in which they did. It exists only while
something is to be built. Who builds is behind `Builder`.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from rcompiler.errors import CompilerError, DeviceError, FailedBuildWarning
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.family import Family, Interval, smallest
from rcompiler.support.this_process import this_process

_JOIN_S = 5.0  # that closing waits for the thread

State = Literal["built", "building", "waiting", "not asked for", "failed"]


@dataclass(frozen=True)
class Build:
    """One program of a model.

    Attributes:
        sizes: by symbol, the least and the greatest size that it takes.
        state: "built", "building", "waiting" (asked for), "not asked for" or "failed".
        added_bytes: of weights that no other program has in this form.
        error: why it could not be built; None unless it failed.
    """

    sizes: dict[str, tuple[int, int]]
    state: State
    added_bytes: int = 0
    error: CompilerError | None = None


class Builder(Protocol):
    """Who builds programs."""

    def build(self, number: int) -> Artifact:
        """The program of a bucket, whose block of weights begins with that of the programs before.

        Args:
            number: of the bucket.

        Raises:
            CompilerError: it cannot be built.
        """

    def add(self, bucket: Sequence[Interval]) -> None:
        """Be ready to build the program of one more bucket, behind all others."""

    def stop(self) -> None:
        """End a build that another thread waits for, and give back what is held. Idempotent."""

    def forget(self) -> None:
        """Hold nothing any more that is the parent's, in a forked child."""


class Grows(Protocol):
    """A model that takes programs as they come."""

    def adopt(self, family: Family) -> None:
        """Serve all programs of a family: those that it has, and others behind them."""


class Growth:
    """The programs of a model, of which some are built when they are asked for.

    Attributes:
        family: those that are built, the first ones first.
        buckets: of all, for each symbol the least and the greatest size.
    """

    def __init__(
        self,
        family: Family,
        buckets: Sequence[Sequence[Interval]],
        builder: Builder,
        open_ended: bool = False,
    ) -> None:
        """family: what is built already, of some of the buckets. open_ended: whether buckets may be
        added, of which then no FailedBuildWarning says that they could not be built."""
        self.family, self.buckets = family, tuple(map(tuple, buckets))
        self._builder, self._open_ended = builder, open_ended
        self._built = {self.buckets.index(sizes) for sizes in family.sizes}
        self._failed: dict[int, CompilerError] = {}
        self._added: dict[int, int] = {}
        self._models: weakref.WeakSet[Grows] = weakref.WeakSet()
        self._stopped = threading.Event()
        # also at the end of the interpreter, where the thread just stays where it is
        weakref.finalize(self, _end, self._stopped, builder)
        self._begin([])

    def _begin(self, queue: Sequence[int]) -> None:
        """Nobody builds in this process yet."""
        self._owner = this_process()
        self._changed = threading.Condition()
        self._queue = deque(queue)
        self._building: int | None = None
        self._thread: threading.Thread | None = None

    def _of_this_process(self) -> None:
        """A forked child has no thread, and locks that one of its parent's may have held."""
        if self._owner != this_process():
            self._builder.forget()
            building = [] if self._building is None else [self._building]
            self._begin([*building, *self._queue])
            with self._changed:
                self._want([])

    # -- what models ask ---------------------------------------------------------------------------
    def attach(self, model: Grows) -> None:
        """Let a model have what is built from now on, and what was built while it was made."""
        self._of_this_process()
        # what is made first is called last: when the set has lost the model
        weakref.finalize(model, self._collected)
        with self._changed:
            self._models.add(model)
            family = self.family
        model.adopt(family)

    def detach(self, model: Grows) -> None:
        """A model needs no more programs; without any model nothing is built."""
        self._of_this_process()
        with self._changed:
            self._models.discard(model)
            last = not self._models
        if last:
            self.stop()

    def _collected(self) -> None:
        if not self._models:
            _end(self._stopped, self._builder)

    def ask(self, sizes: Sequence[int]) -> None:
        """Have the smallest program for inputs of these sizes built, unless it is there or failed.

        Args:
            sizes: for each symbol; -1 where any will do.
        """
        self._of_this_process()
        number = smallest(self.buckets, sizes)
        with self._changed:
            if number is not None and number not in self._failed:
                self._want([number])

    def add(self, bucket: Sequence[Interval]) -> int:
        """Have the program of one more bucket built, unless it is there or failed.

        Args:
            bucket: for each symbol the least and the greatest size.

        Returns:
            The number of the bucket.
        """
        assert self._open_ended
        self._of_this_process()
        sizes = tuple(bucket)
        with self._changed:
            if sizes not in self.buckets:
                self._builder.add(sizes)
                self.buckets = (*self.buckets, sizes)
            number = self.buckets.index(sizes)
            if number not in self._failed:
                self._want([number])
            return number

    @property
    def failed(self) -> list[tuple[Interval, ...]]:
        """Buckets whose programs could not be built."""
        self._of_this_process()
        with self._changed:
            return [self.buckets[number] for number in self._failed]

    def coming(self, sizes: Sequence[int]) -> int | None:
        """The number of the bucket of these sizes that is built just now; None where none is."""
        self._of_this_process()
        with self._changed:
            number = self._building
            found = number is not None and smallest([self.buckets[number]], sizes) is not None
            return number if found else None

    def wait_for(self, number: int, limit_s: float) -> None:
        """Until a bucket is built, has failed, is given up, or the limit is over."""
        self._of_this_process()
        with self._changed:
            self._changed.wait_for(
                lambda: number not in (self._building, *self._queue) or self._stopped.is_set(),
                limit_s,
            )

    def ask_again(self, numbers: Sequence[int]) -> None:
        """Have programs built, also those that failed before."""
        self._of_this_process()
        with self._changed:
            for number in numbers:
                self._failed.pop(number, None)
            self._want(numbers)

    def _want(self, numbers: Sequence[int]) -> None:
        """Let them wait, and be built. Hold the lock."""
        known = {*self._built, *self._queue, self._building}
        wanted = [number for number in numbers if number not in known]
        if self._stopped.is_set():
            return
        self._queue.extend(wanted)
        if self._queue and self._thread is None:
            thread = threading.Thread(target=self._serve, name="rcompiler builder", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system gives no thread: calls are not to fail for that
                error = DeviceError("the system refuses a thread that builds programs")
                self._failed |= dict.fromkeys(self._queue, error)
                self._queue.clear()
            else:
                self._thread = thread

    def wait(self, limit_s: float | None) -> None:
        """Until all that was asked for is built, has failed, or the limit is over."""
        self._of_this_process()
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None, limit_s)

    def builds(self) -> tuple[Build, ...]:
        """All programs, in the order of the buckets."""
        self._of_this_process()
        with self._changed:
            return tuple(
                Build(
                    dict(zip(self.family.symbols, bucket, strict=True)),
                    self._state(number),
                    self._added.get(number, 0),
                    self._failed.get(number),
                )
                for number, bucket in enumerate(self.buckets)
            )

    def _state(self, number: int) -> State:
        if number in self._failed:  # also where it was built, and cannot be loaded
            return "failed"
        if number in self._built:
            return "built"
        if number == self._building:
            return "building"
        return "waiting" if number in self._queue else "not asked for"

    def stop(self) -> None:
        """Build no more: a build that runs is ended, and waited for some seconds. Idempotent."""
        if self._owner != this_process():
            return  # what runs is the parent's
        with self._changed:
            self._queue.clear()
            self._stopped.set()
            self._changed.notify_all()
            thread = self._thread
        _end(self._stopped, self._builder)
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)

    # -- the thread --------------------------------------------------------------------------------
    def _serve(self) -> None:
        """Build what waits; the thread ends when nothing does."""
        while (number := self._next()) is not None:
            try:
                self._add(number, self._builder.build(number))
            except Exception as error:  # whatever it is: calls go on, and the thread with the next
                self._fail(number, error)

    def _next(self) -> int | None:
        if len(self._built) == len(self.buckets) and not self._open_ended:
            self._builder.stop()
        with self._changed:
            self._building = self._queue.popleft() if self._queue else None
            if self._building is None:
                self._thread = None
            self._changed.notify_all()
            return self._building

    def _add(self, number: int, program: Artifact) -> None:
        before = self.family.programs[0].constants.size
        family = self.family.grown(self.buckets[number], program)
        with self._changed:
            if self._stopped.is_set():
                return
            self.family = family
            self._built.add(number)
            self._added[number] = program.constants.size - before
            models = [*self._models]
        for model in models:  # one that is attached from now on begins with this family
            model.adopt(family)

    def _fail(self, number: int, error: Exception) -> None:
        if not isinstance(error, CompilerError):
            kind = type(error).__name__
            error = CompilerError(
                f"{kind}: {error}; this is a defect of the compiler, report it with the model"
            )
        with self._changed:
            if self._stopped.is_set():  # it was ended, or what it needs is gone
                return
            self._failed[number] = error
        if self._open_ended:
            return  # nobody has asked for these sizes: they were a guess
        bucket = zip(self.family.symbols, self.buckets[number], strict=True)
        sizes = ", ".join(f"{name} from {low} to {high}" for name, (low, high) in bucket)
        text = f"the program for {sizes} was not built, a larger one serves: {error}"
        try:
            warnings.warn(FailedBuildWarning(text), stacklevel=2)
        except FailedBuildWarning:
            pass  # where warnings are errors: there is no caller here, and `builds` has it


def needed_first(buckets: Sequence[Sequence[Interval]]) -> list[int]:
    """Numbers of the buckets that no other one holds: with these alone each size has a program."""

    def holds(one: Sequence[Interval], other: Sequence[Interval]) -> bool:
        return all(a <= c and d <= b for (a, b), (c, d) in zip(one, other, strict=True))

    return [
        number
        for number, bucket in enumerate(buckets)
        if not any(holds(each, bucket) for each in buckets if each != bucket)
    ]


def _end(stopped: threading.Event, builder: Builder) -> None:
    """Build no more: what is built now is ended."""
    stopped.set()
    builder.stop()


__all__ = ["Build", "Builder", "Grows", "Growth", "needed_first"]
