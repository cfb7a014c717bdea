"""Several things that threads use one at a time each: who came first gets the next free one."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from rcompiler.errors import BusyError, DeviceError
from rcompiler.support.this_process import PerProcess


class _Waiting:
    """A thread in the line. number: what it was handed; None before that."""

    __slots__ = ("number", "ready")

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.number: int | None = None


class _State:
    """What threads of one process hold and wait for."""

    def __init__(self, count: int) -> None:
        self.lock = threading.RLock()  # also for a call of a signal handler, inside of one
        self.free = [*range(count)][::-1]
        self.waiting: deque[_Waiting] = deque()
        self.holders: dict[int, tuple[str, float]] = {}  # name of the thread, and since when


class Line:
    """Hands out numbers of things, first come, first served."""

    def __init__(
        self,
        count: int,
        what: str,
        most_waiting: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is taken.

        Args:
            count: of the things.
            what: they are, as "instance", for messages.
            most_waiting: so many threads may wait, whoever comes then is refused; None: any number.
            clock: tells seconds.
        """
        self._count, self._what, self._most, self._clock = count, what, most_waiting, clock
        self._states = PerProcess(lambda: _State(count))
        self._closed = False

    def take(self, limit_s: float) -> int:
        """A number that nobody else has until it is given back.

        Args:
            limit_s: wait at most so many seconds.

        Raises:
            BusyError: none was free in time, or too many wait.
            DeviceError: the line is closed.
        """
        state = self._states.get()
        with state.lock:
            self._check_open()
            if state.free and not state.waiting:
                number = state.free.pop()  # the last one that was used: its memory is in the caches
                self._hold(state, number)
                return number
            if self._most is not None and len(state.waiting) >= self._most:
                raise self._busy(state, f"{self._most} calls wait already, which is the most", None)
            me = _Waiting()
            state.waiting.append(me)
        try:
            me.ready.wait(limit_s)
        except BaseException:  # an interrupt; it may have been handed one just now
            with state.lock:
                if me.number is None:
                    self._leave(state, me)
                else:
                    del state.holders[me.number]
                    self._pass_on(state, me.number)
            raise
        with state.lock:
            if me.number is not None:
                self._hold(state, me.number)
                return me.number
            ahead = self._leave(state, me)
            self._check_open()
            raise self._busy(state, f"none was free for {limit_s:g} s", ahead)

    def _leave(self, state: _State, me: _Waiting) -> int:
        """How many are before it."""
        if me not in state.waiting:  # the line was closed
            return 0
        ahead = state.waiting.index(me)
        del state.waiting[ahead]
        return ahead

    def give(self, number: int) -> None:
        """Give a number back: who waits longest has it.

        Args:
            number: that `take` gave to this process; one that a fork left behind is nobody's.
        """
        state = self._states.get()
        with state.lock:
            if state.holders.pop(number, None) is not None:
                self._pass_on(state, number)

    def _pass_on(self, state: _State, number: int) -> None:
        if not state.waiting:
            state.free.append(number)
            return
        first = state.waiting.popleft()
        first.number = number
        state.holders[number] = "a call that begins", self._clock()
        first.ready.set()

    def close(self) -> None:
        """Refuse whoever waits, and comes from now on. Idempotent."""
        state = self._states.get()
        with state.lock:
            self._closed = True
            waiting, state.waiting = state.waiting, deque()
        for each in waiting:
            each.ready.set()

    @property
    def closed(self) -> bool:
        """Whether nothing is handed out any more."""
        return self._closed

    def _hold(self, state: _State, number: int) -> None:
        state.holders[number] = threading.current_thread().name, self._clock()

    def _check_open(self) -> None:
        if self._closed:
            raise DeviceError("the pool is closed; make another one")

    def _busy(self, state: _State, why: str, ahead: int | None) -> BusyError:
        now = self._clock()
        holders = ", ".join(
            f"'{name}' for {now - since:.3g} s" for name, since in [*state.holders.values()][:8]
        )
        before = "" if ahead is None else f", {ahead} of them before this one"
        return BusyError(
            f"{self._count} {self._what}s: {why}; they run calls of the threads {holders}; "
            f"{len(state.waiting)} more calls wait{before}. Make more {self._what}s, send fewer "
            "calls at a time, or let them wait longer (wait_s)"
        )


__all__ = ["Line"]
