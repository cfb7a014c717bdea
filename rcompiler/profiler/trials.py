"""What is measured while plans are explored, kept in the profile index."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime

from rcompiler.astra.measurements import Measurements
from rcompiler.profiler.index import ProfileIndex
from rcompiler.profiler.records import TrialRun


class KeptMeasurements(Measurements):
    """Measurements that are in the index as soon as they are made; those of others are there, too.

    The runs of a trial are written together, or not at all, whenever the process ends. Each has a
    name: what is recorded twice, or exported and loaded again, is one run, and agrees with nobody.
    """

    def __init__(
        self, index: ProfileIndex, machine: str, code: str, session: str | None = None
    ) -> None:
        """What the index has of this machine and version of the code.

        machine, code: see `Measurement`. session: a name of this process, by default a new one.
        """
        super().__init__()
        self._index, self._machine, self._code = index, machine, code
        self._session, self._number = session or uuid.uuid4().hex, 0
        for run in index.trials(machine, code):
            if run.ns:
                super().add(run.trial, [run.ns])
            else:
                super().fail(run.trial)

    def add(self, key: str, runs: Iterable[float]) -> None:
        found = [*runs]
        super().add(key, found)
        self._keep(key, found)

    def fail(self, key: str) -> None:
        super().fail(key)
        self._keep(key, [0.0])

    def _keep(self, key: str, runs: list[float]) -> None:
        date = datetime.now(UTC).isoformat(timespec="seconds")
        numbers = range(self._number, self._number + len(runs))
        self._number += len(runs)
        self._index.record(
            TrialRun(key, self._session, number, self._machine, self._code, ns, date)
            for number, ns in zip(numbers, runs, strict=True)
        )
