"""Equal pieces of work, done by this process and by a worker process at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Generic, TypeVar

from rcompiler.support.workers import Worker, WorkerDied, Workers

_T = TypeVar("_T")
_PATIENCE_S = 0.5  # for a piece that the worker is at, when there is nothing else to do
_STOP_S = 0.1


class SharedWork(Generic[_T]):
    """Pieces by name that a worker takes as they come, and this process when it needs them.

    What the worker does not do, for whatever reason, this process does: the results are the same.
    """

    def __init__(
        self, workers: Workers, read: Callable[[bytes], _T], done: Callable[[str, _T], None]
    ) -> None:
        """read: the result of what a worker answered. done: gets every result once, in any order,
        from one thread at a time.
        """
        self._workers, self._read, self._done = workers, read, done
        self._waiting: dict[str, bytes] = {}  # the questions that nobody has taken, in their order
        self._taken: set[str] = set()  # by the worker, who has not answered
        self._finished: set[str] = set()
        self._over = False
        self._changed = threading.Condition()
        self._stack = ExitStack()
        self._started = False

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Inside of the context a worker may take part."""
        with self._stack:
            yield

    def add(self, name: str, question: bytes) -> None:
        """One more piece, which a worker that takes part may do from now on."""
        with self._changed:
            self._waiting[name] = question
            self._changed.notify_all()

    def start(self) -> None:
        """Let a worker take part, until the context is left."""
        if self._started:
            return
        self._started = True
        try:
            worker = self._stack.enter_context(self._workers.borrow())
        except OSError:  # no process can be started
            return
        other = threading.Thread(target=self._ask, args=(worker,), daemon=True)
        other.start()
        self._stack.callback(self._stop, worker, other)

    def found(self, name: str, result: _T) -> None:
        """A result that was there already."""
        self._deliver(name, result)

    def finish(self, names: Sequence[str], here: Callable[[str], _T]) -> None:
        """Do what is left of these pieces, and leave the others: every result of theirs is there
        when this returns. here: does a piece; what it raises, this does.
        """
        with self._changed:
            for name in self._waiting.keys() - set(names):
                del self._waiting[name]
        for name in names:
            if self._is_mine(name):
                self._deliver(name, here(name))
        for name in names:
            if not self._comes(name):
                self._deliver(name, here(name))

    def _is_mine(self, name: str) -> bool:
        """Whether nobody is at a piece, which is taken then."""
        with self._changed:
            self._waiting.pop(name, None)
            return name not in self._taken and name not in self._finished

    def _comes(self, name: str) -> bool:
        """Wait for what the worker is at; False if it takes too long, or is not done there."""
        with self._changed:
            self._changed.wait_for(lambda: name not in self._taken, _PATIENCE_S)
            return name in self._finished

    def _deliver(self, name: str, result: _T) -> None:
        with self._changed:
            self._taken.discard(name)
            if name not in self._finished:
                self._done(name, result)
                self._finished.add(name)
            self._changed.notify_all()

    # -- the worker's side
    def _ask(self, worker: Worker) -> None:
        while (piece := self._next()) is not None:
            name, question = piece
            try:
                status, answer = worker.ask(question)
            except (WorkerDied, OSError):
                status, answer = 1, b""
            if status:
                with self._changed:
                    self._taken.discard(name)
                    self._changed.notify_all()
                return
            self._deliver(name, self._read(answer))

    def _next(self) -> tuple[str, bytes] | None:
        """The first piece that nobody has taken; None when there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._over)
            if self._over:
                return None
            name = next(iter(self._waiting))
            self._taken.add(name)
            return name, self._waiting.pop(name)

    def _stop(self, worker: Worker, other: threading.Thread) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
        other.join(_STOP_S)
        if other.is_alive():
            worker.kill()  # nobody waits for what it is at
            other.join()
