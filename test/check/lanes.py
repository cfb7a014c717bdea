"""Runs steps: the heavy ones one after the other, those of one core beside them."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .steps import Step


@dataclass(frozen=True)
class Done:
    """A step that ran. seconds: on the clock; cpu: of it and all that it started."""

    name: str
    status: int
    seconds: float
    cpu: float


class Lanes:
    """Prints the output of a step in one piece, when it ends."""

    def __init__(self, folder: Path, home: Path, variables: Mapping[str, str]) -> None:
        self._folder, self._home, self._variables = folder, home, variables
        self._printing = threading.Lock()
        self._done: list[Done] = []

    def run(self, steps: Sequence[Step]) -> list[Done]:
        """All of them, in the order in which they ended, also behind one that fails: one run tells
        all that is wrong.
        """
        self._done = []
        beside = threading.Thread(target=self._each, args=([s for s in steps if s.beside],))
        beside.start()
        try:
            self._each([s for s in steps if not s.beside])
        finally:
            beside.join()
        return self._done

    def _each(self, steps: Sequence[Step]) -> None:
        for step in steps:
            words = [word.format(home=self._home) for word in shlex.split(step.command)]
            self._say(f"-- {step.name}: {shlex.join(words)}")
            done, output = self._run(step.name, words)
            self._done.append(done)
            failed = f"FAILED with exit status {done.status}, " if done.status else ""
            self._say(f"== {step.name}: {failed}{done.seconds:.0f} s", output)
            if step.needed and done.status:
                return

    def _run(self, name: str, words: list[str]) -> tuple[Done, str]:
        begun = time.monotonic()
        try:
            process = subprocess.Popen(
                words, cwd=self._folder, env=self._variables, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        except OSError as error:
            return Done(name, 127, 0.0, 0.0), f"{words[0]} cannot be run: {error}\n"
        assert process.stdout is not None
        with process.stdout:
            output = process.stdout.read().decode(errors="replace")
        status, cpu = ended(process)
        return Done(name, status, time.monotonic() - begun, cpu), output

    def _say(self, line: str, output: str = "") -> None:
        with self._printing:
            print(line, output, sep="\n" if output else "", end="" if output else "\n", flush=True)


def ended(process: subprocess.Popen[bytes]) -> tuple[int, float]:
    """Waits for a process: its exit status, and the CPU seconds of it and of what it waited for."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime
