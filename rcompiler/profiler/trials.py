"""What is measured while plans are explored, kept in the profile index."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable

from rcompiler.astra.measurements import Measurements
from rcompiler.profiler.index import ProfileIndex
from rcompiler.profiler.records import TrialRun, utc_date


class KeptMeasurements(Measurements):
    """Measurements that `keep` writes into the index; those of other processes are there, too.

    Requests only note what they measure: they wait for no disk. The runs of a trial are written
    together, or not at all, whenever the process ends. Each has a name: what is recorded twice, or
    exported and loaded again, is one run, and agrees with nobody.
    """

    def __init__(
        self, index: ProfileIndex, machine: str, code: str, session: str | None = None
    ) -> None:
        """What the index has of this machine and version of the code.

        machine, code: see `Measurement`; keys need not have them. session: a name of this process,
        by default a new one.
        """
        super().__init__()
        self._index, self._machine, self._code = index, machine, code
        self._session, self._number = session or uuid.uuid4().hex, 0
        self._waiting: list[TrialRun] = []
        self._forgotten: set[str] = set()
        self._lock = threading.Lock()
        for run in index.trials(machine, code):
            if run.ratio:
                super().add(run.trial, [run.ratio])
            else:
                super().fail(run.trial)
        self._used.clear()

    def add(self, key: str, runs: Iterable[float]) -> None:
        found = [*runs]
        super().add(key, found)
        self._note(key, found)

    def fail(self, key: str) -> None:
        super().fail(key)
        self._note(key, [0.0])

    def forget(self) -> None:
        super().forget()
        with self._lock:
            gone = {key for key in self._used if not self.failed(key)}
            self._forgotten |= gone
            self._waiting = [run for run in self._waiting if run.trial not in gone]

    def keep(self, index: ProfileIndex | None = None) -> None:
        """Write what was noted. In the thread that has opened the index, and outside of requests:
        another process may have to be waited for.

        index: the same one as it was opened in this thread; by default as it was given.
        """
        with self._lock:
            runs, self._waiting = self._waiting, []
            forgotten, self._forgotten = self._forgotten, set()
        if runs or forgotten:
            (index or self._index).keep_trials(self._machine, self._code, runs, forgotten)

    def _note(self, key: str, runs: list[float]) -> None:
        date = utc_date("microseconds")
        with self._lock:
            for ratio in runs:
                self._waiting.append(
                    TrialRun(
                        key, self._session, self._number, self._machine, self._code, ratio, date
                    )
                )
                self._number += 1
