"""Run test cases in worker processes: a crash or a hang is an outcome, not the end of the run."""

from __future__ import annotations

import contextlib
import faulthandler
import itertools
import multiprocessing
import os
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any

_GLANCE_S = 1.0  # how long is waited at a time
_STOPPED_S = 5.0  # what waiting takes longer only where all processes were stopped
LATE = "no result in time"  # the reason of a crash that is a hang
Report = Callable[[str], None]


@dataclass(frozen=True)
class Verdict:
    """What a job says of its case. facts: what else is to be known of it, as JSON has it."""

    status: str
    reason: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


Job = Callable[[str, Report], Verdict]


@dataclass(frozen=True)
class Outcome:
    """A verdict (its status is "crash" where there was none) and the time that it took.

    subject: the last thing that the job reported.
    """

    case: str
    subject: str
    status: str
    reason: str
    seconds: float
    facts: Mapping[str, Any] = field(default_factory=dict)


class _Worker:
    """A forked process: it inherits what the parent has loaded, so that starting costs nothing."""

    def __init__(self, job: Job) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        self._process = context.Process(target=self._serve, args=(job, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def _serve(self, job: Job, pipe: Any) -> None:
        self.pipe.close()  # the parent's end: with it open, the parent's death would go unnoticed
        faulthandler.disable()  # its dump would hide the line that says why
        for descriptor in (1, 2):
            os.dup2(self._errors.fileno(), descriptor)
        with contextlib.suppress(EOFError, KeyboardInterrupt, BrokenPipeError):
            while True:
                case = pipe.recv()
                pipe.send(("done", job(case, lambda subject: pipe.send(("subject", subject)))))

    def give(self, case: str, timeout_s: float) -> None:
        self.case, self.subject = case, ""
        self._start = time.monotonic()
        self.deadline = self._start + timeout_s
        self.pipe.send(case)

    def poll(self) -> Outcome | None:
        """The outcome, or None while the job is running."""
        try:
            while self.pipe.poll():
                kind, said = self.pipe.recv()
                if kind == "done":
                    return self._outcome(said)
                self.subject = said
        except (EOFError, ConnectionResetError):
            self._process.join()
            return self._outcome(Verdict("crash", self._cause()))
        if time.monotonic() > self.deadline:
            self.close()
            return self._outcome(Verdict("crash", LATE))
        return None

    def _outcome(self, verdict: Verdict) -> Outcome:
        seconds = time.monotonic() - self._start
        return Outcome(
            self.case, self.subject, verdict.status, verdict.reason, seconds, verdict.facts
        )

    def _cause(self) -> str:
        code = self._process.exitcode or 0
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"{name}: {last}" if last else name

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()
        self._errors.close()


def run_cases(cases: Iterable[str], job: Job, workers: int, timeout_s: float) -> Iterator[Outcome]:
    """Outcomes as they come in. job: run in a worker, job(case, report) -> verdict."""
    waiting, idle, busy = iter(cases), deque[_Worker](), list[_Worker]()
    try:
        while True:
            for case in itertools.islice(waiting, workers - len(busy)):
                worker = idle.popleft() if idle else _Worker(job)
                worker.give(case, timeout_s)
                busy.append(worker)
            if not busy:
                return
            begun = time.monotonic()
            left = min(worker.deadline for worker in busy) - begun
            pause = min(max(0.0, left) + 0.01, _GLANCE_S)
            connection.wait([worker.pipe for worker in busy], pause)
            stopped = time.monotonic() - begun - pause
            if stopped > _STOPPED_S:  # a shell's Ctrl-Z: the workers did nothing either
                for worker in busy:
                    worker.deadline += stopped
            for worker in list(busy):
                if (outcome := worker.poll()) is None:
                    continue
                busy.remove(worker)
                if outcome.status == "crash":
                    worker.close()
                else:
                    idle.append(worker)
                yield outcome
    finally:
        for worker in (*busy, *idle):
            worker.close()
