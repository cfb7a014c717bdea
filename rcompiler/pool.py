"""Several instances of a model for many callers: each call takes one that is free.

Loading imports numpy, the runtime and the checker.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from rcompiler.batching import Batcher, Batching, Rows
from rcompiler.bucketed import BucketedModel
from rcompiler.device.cgroups import usable_cpus
from rcompiler.errors import CompilerError, DeviceError
from rcompiler.model import CompiledModel
from rcompiler.report import Report
from rcompiler.runtime.closing import Closable
from rcompiler.runtime.line import Line
from rcompiler.runtime.outputs import Outputs

MOST_INSTANCES = 1024
_DAY_S = 86400.0


class Pool(Closable):
    """Instances of a model on a CPU: one block of weights, and threads and an arena for each.

        with rcompiler.Pool(model, instances=4, eus=2) as pool:
            (y,) = pool(x)                  # from any thread

    A call takes an instance that is free, or waits for one: who came first is served first. Calls
    of one instance run one after the other, those of several at the same time.

    Attributes:
        inputs, outputs: as of the model.
        instances: the models that run; take one by `instance`.
        cpus: of each instance those that its threads are bound to; None where they are not.
    """

    def __init__(
        self,
        model: CompiledModel | BucketedModel,
        instances: int,
        *,
        eus: int | None = None,
        pin: bool | None = None,
        wait_s: float = 20.0,
        most_waiting: int | None = None,
        batching: Batching | None = None,
    ) -> None:
        """Make the instances.

        Args:
            model: what is run; the pool has copies of it, and needs it no more.
            instances: how many.
            eus: execution units of each, which are threads; None to share the CPUs that this
                process may use evenly.
            pin: bind the threads of each instance to CPUs of its own, and the calling thread while
                it runs; None where there are CPUs enough. Other processes do not know of that: give
                each one CPUs of its own (`taskset`, a cpuset), or do not pin.
            wait_s: a call waits at most so long for an instance.
            most_waiting: so many calls may wait, whatever comes then is refused; None: any number.
                With batching the one that begins the next batch is none of them.
            batching: join calls that wait at the same time; None: each runs alone.

        Raises:
            CompilerError: an option has no such value; the model has a state, which calls of
                several instances would not share, or is none of one part; batching does not fit it.
            DeviceError: the model is for a GPU or for another CPU, or is closed; there are too few
                CPUs to pin the threads to, or no memory or threads.
        """
        _check_model(model)
        count = _whole("instances", instances, MOST_INSTANCES)
        threads = max(usable_cpus() // count, 1) if eus is None else _whole("eus", eus, 1 << 16)
        threads = min(threads, _most_eus(model))
        self.cpus = _cpus(count, threads, pin)
        self._wait_s = _checked_wait(wait_s)
        if most_waiting is not None and (
            not isinstance(most_waiting, int) or isinstance(most_waiting, bool) or most_waiting < 0
        ):
            raise CompilerError(f"most_waiting={most_waiting!r}: give a number of calls, or None")
        # batches wait in a line of their own
        self._line = Line(count, "instance", most_waiting if batching is None else None)
        made: list[Any] = []
        try:
            for number in range(count):
                pinned = False if self.cpus is None else self.cpus[number]
                made.append(model.another(eus=threads, pin=pinned))
        except BaseException:
            for each in made:
                each.close()
            raise
        self.instances: tuple[CompiledModel | BucketedModel, ...] = tuple(made)
        self.inputs, self.outputs = model.inputs, model.outputs
        self._batcher = None
        if batching is not None:
            try:
                rows = Rows(self.instances[0], batching)
                rows.try_on(self.instances[0])
            except BaseException:
                self.close()
                raise
            self._batcher = Batcher(rows, batching, self.instance, self._wait_s, most_waiting)

    def __call__(self, *args: object, **kwargs: object) -> Outputs[np.ndarray]:
        """Run one inference on an instance that is free.

        Args: as of a call of the model.

        Returns:
            As of a call of the model.

        Raises:
            BusyError: no instance was free for `wait_s`, or too many calls wait.
            ShapeError, RangeError, DeviceError: as of a call of the model.
        """
        if self._batcher is not None:
            return self._batcher(args, kwargs)
        number, before = self._begin(self._wait_s)
        try:
            return self.instances[number](*args, **kwargs)
        finally:
            self._end(number, before)

    @contextmanager
    def instance(self, wait_s: float | None = None) -> Iterator[CompiledModel | BucketedModel]:
        """An instance for one caller alone: to bind memory to it, or to call it several times.

        Args:
            wait_s: wait at most so long for it; None for what the pool was made with.

        Raises:
            BusyError: none was free in time, or too many calls wait.
            DeviceError: the pool is closed.
            CompilerError: `wait_s` is no time.
        """
        number, before = self._begin(self._wait_s if wait_s is None else _checked_wait(wait_s))
        try:
            yield self.instances[number]
        finally:
            self._end(number, before)

    def _begin(self, wait_s: float) -> tuple[int, set[int] | None]:
        """Take an instance, on its CPUs; its number, and the CPUs that the thread had."""
        number = self._line.take(wait_s)
        if self.cpus is None:
            return number, None
        before = os.sched_getaffinity(0)
        # to all of them: who asks how many CPUs there are is told those of the instance
        _bind(self.cpus[number])
        return number, before

    def _end(self, number: int, before: set[int] | None) -> None:
        self._line.give(number)
        if before is not None:
            _bind(before)

    @property
    def eus(self) -> int:
        """Execution units of each instance."""
        return self.instances[0].eus

    def report(self) -> Report:
        """As of an instance.

        Returns:
            As `CompiledModel.report`.

        Raises:
            CompilerError, ArtifactError: as `CompiledModel.report`.
        """
        return self.instances[0].report()

    @property
    def closed(self) -> bool:
        return self._line.closed

    def close(self) -> None:
        """Refuse calls that wait, and close the instances once their calls have ended.

        Idempotent.
        """
        self._line.close()
        for each in self.instances:
            each.close()

    def __repr__(self) -> str:
        return f"<Pool of {len(self.instances)} instances of {self.instances[0]!r}>"


def _bind(cpus: Collection[int]) -> None:
    """Let the calling thread run on some CPUs. Those that were taken from this process since the
    pool was made are none of its any more: then it runs where it may.
    """
    with suppress(OSError):
        os.sched_setaffinity(0, cpus)


def _check_model(model: Any) -> None:
    if not isinstance(model, CompiledModel | BucketedModel):
        raise CompilerError(
            f"a pool is of a compiled model for a CPU in one part, not of {_kind(model)}; call the "
            "model itself"
        )
    first = model.largest if isinstance(model, BucketedModel) else model
    if not isinstance(first, CompiledModel):
        raise DeviceError(
            f"a pool is of models for CPUs that run here, and this one is for "
            f"'{first.artifact.target}'; call the model itself"
        )
    if first.artifact.states:
        names = ", ".join(tensor.name for tensor in first.artifact.kept)
        raise CompilerError(
            f"the model has a state ({names}), and calls of a pool run on any instance, which has "
            "one of its own; call the model itself, or a fork of it for each caller"
        )


def _kind(model: object) -> str:
    name = type(model).__name__
    return f"an {name}" if name[:1] in "AEIOU" else f"a {name}"


def _most_eus(model: CompiledModel | BucketedModel) -> int:
    """Of the schedules."""
    family = model.family.programs if isinstance(model, BucketedModel) else (model.artifact,)
    return max((each.eus for program in family for each in program.programs), default=1)


def _whole(name: str, given: Any, most: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= most:
        raise CompilerError(f"{name}={given!r}: give a whole number from 1 to {most}")
    return given


def _checked_wait(given: Any) -> float:
    number = isinstance(given, int | float) and not isinstance(given, bool)
    if not number or not 0 <= given <= _DAY_S:
        raise CompilerError(f"wait_s={given!r}: give seconds, at most {_DAY_S:g}")
    return float(given)


def _cpus(count: int, threads: int, pin: bool | None) -> tuple[tuple[int, ...], ...] | None:
    """Those of each instance."""
    if pin not in (True, False, None):
        raise CompilerError(f"pin={pin!r}: give True, False or None")
    there = sorted(os.sched_getaffinity(0))
    needed = count * threads
    if pin is False or (pin is None and needed > min(usable_cpus(), len(there))):
        return None
    if needed > len(there):
        raise DeviceError(
            f"pin=True: {count} instances of {threads} threads need {needed} CPUs, and this "
            f"process may use {len(there)}; make fewer, or leave pin out"
        )
    return tuple(tuple(there[n * threads : (n + 1) * threads]) for n in range(count))


__all__ = ["Batching", "Pool"]
