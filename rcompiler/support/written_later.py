"""What is written while its caller goes on: by a thread of its own, which the process waits for at
its end.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any


class WrittenLater:
    """Writers by the names of what they write; a forked child begins with none."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def begin(self, name: str, write: Callable[[], Any]) -> None:
        """Let a thread call `write`, which raises nothing; where none can be started, now."""

        def run() -> None:
            try:
                write()
            finally:
                with self._lock:
                    self._writers.pop(name, None)

        self.wait(name)
        writer = threading.Thread(target=run, name=f"write {name}")
        with self._lock:
            self._writers[name] = writer
        try:
            writer.start()
        except RuntimeError:  # no more threads, or the process is ending
            run()

    def wait(self, name: str) -> None:
        """Return when what is written under this name has been."""
        with self._lock:
            writer = self._writers.get(name)
        if writer is not None and writer.ident is not None:
            writer.join()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._writers: dict[str, threading.Thread] = {}
