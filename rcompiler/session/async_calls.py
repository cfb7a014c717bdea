"""Calls of a session that go on in threads of their own, and tell a function their results."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

Told = Callable[[list[Any], Any, str], object]


class AsyncCalls:
    """Those of one session that have not ended yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()

    def start(self, call: Callable[[], list[Any]], told: Told, user_data: Any) -> None:
        """Make a call in a thread; `told` gets its results, `user_data` and the message of an
        error, "" without one."""

        def work() -> None:
            try:
                try:
                    results, error = call(), ""
                except Exception as raised:  # the caller's thread is elsewhere
                    results, error = [], f"{type(raised).__name__}: {raised}"
                told(results, user_data, error)
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=work, name="rcompiler-run-async", daemon=True)
        with self._lock:
            self._threads.add(thread)
        thread.start()

    def wait(self) -> None:
        """For all that go on; not for the one whose function asks for it."""
        with self._lock:
            threads = [*self._threads]
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()
