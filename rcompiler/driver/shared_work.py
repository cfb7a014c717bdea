"""A list of equal work, done by this process and by a worker process at the same time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Generic, TypeVar

from rcompiler.support.workers import Worker, WorkerDied, Workers

_T = TypeVar("_T")
_PATIENCE_S = 0.5  # for a piece that the worker is at, when there is nothing else to do
_STOP_S = 0.1


class SharedWork(Generic[_T]):
    """Pieces that a worker and this process take from one list, each the next one.

    What the worker does not do, for whatever reason, this process does: the results are the same.
    """

    def __init__(
        self,
        count: int,
        here: Callable[[int], _T],
        read: Callable[[bytes], _T],
        done: Callable[[int, _T], None],
    ) -> None:
        """here: does a piece, by its number. read: the same of what a worker answered. done: gets
        every result once, in any order, from one thread at a time.
        """
        self._here, self._read, self._done = here, read, done
        self._left = deque(range(count))
        self._missing = set(range(count))
        self._changed = threading.Condition()

    @contextmanager
    def begun(self, workers: Workers, questions: Sequence[bytes]) -> Iterator[None]:
        """Inside of the context a worker takes part. questions: one for each piece."""
        with ExitStack() as stack:
            try:
                worker = stack.enter_context(workers.borrow())
            except OSError:  # no process can be started
                yield
                return
            other = threading.Thread(target=self._ask, args=(worker, questions), daemon=True)
            other.start()
            try:
                yield
            finally:
                self._left.clear()
                other.join(_STOP_S)
                if other.is_alive():
                    worker.kill()  # nobody waits for what it is at
                    other.join()

    def found(self, number: int, result: _T) -> None:
        """A result that was there already; told before any work begins."""
        self._left.remove(number)
        self._deliver(number, result)

    def finish(self) -> None:
        """Do what is left; every result is there when this returns. Raises as `here`."""
        while self._missing:
            number = self._take()
            if number is None and not self._something_comes():
                with self._changed:  # it may have come just now
                    number = min(self._missing, default=None)
            if number is not None:
                self._deliver(number, self._here(number))

    def _take(self) -> int | None:
        try:
            return self._left.popleft()
        except IndexError:
            return None

    def _something_comes(self) -> bool:
        """Wait for the worker; False if it takes too long."""
        with self._changed:
            return not self._missing or bool(self._left) or self._changed.wait(_PATIENCE_S)

    def _deliver(self, number: int, result: _T) -> None:
        with self._changed:
            if number in self._missing:
                self._done(number, result)
                self._missing.remove(number)
                self._changed.notify()

    def _ask(self, worker: Worker, questions: Sequence[bytes]) -> None:
        while (number := self._take()) is not None:
            try:
                status, answer = worker.ask(questions[number])
            except (WorkerDied, OSError):
                status, answer = 1, b""
            if status:
                with self._changed:
                    self._left.append(number)
                    self._changed.notify()
                return
            self._deliver(number, self._read(answer))
