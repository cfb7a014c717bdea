"""A machine that others use, without a clock: CPUs on which busy processes and a model take turns.

As a system with fair turns does it: who shares a CPU gets turns of some milliseconds; a thread that
slept gets its CPU at once, most times; a lone caller is moved to a CPU that nobody uses.
"""

import random
from dataclasses import dataclass

from rcompiler.runtime.pace import LaunchMode, Pace

MS = 1_000_000
_TURN = 2 * MS, 4 * MS  # ns, the shortest and the longest
_SPIN = MS // 3  # ns that a thread waits for another before it sleeps
_AT_ONCE = 0.7  # share of the times that a thread which wakes up is let in before a turn is over
_NOISE = 0.02


@dataclass
class _Cpu:
    others: int  # busy processes on it
    ours: bool = True
    until: float = 0.0


class Machine:
    """Runs launches of a model of so many ns on one thread, one after the other."""

    def __init__(self, one: float, busy: int, seed: int = 0, cpus: int = 2) -> None:
        self.one, self.now, self._awake = one, 0.0, False
        self._random = random.Random(f"{one} {busy} {seed}")
        self._cpus = [_Cpu(0) for _ in range(cpus)]
        self.set_busy(busy)

    def set_busy(self, busy: int) -> None:
        """From now on there are so many busy processes."""
        first = self._random.randrange(len(self._cpus))
        for number, cpu in enumerate(self._cpus):
            cpu.others = (busy + (number - first) % len(self._cpus)) // len(self._cpus)

    def together(self) -> tuple[int, int]:
        """ns of a launch on all CPUs: by the clock, and those that the caller had its CPU."""
        if not self._awake:
            for cpu in self._cpus[1:]:
                self._begin(cpu, ours=True)
        self._awake = True
        return self._run(self._cpus, self.one / len(self._cpus))

    def alone(self) -> tuple[int, int]:
        """The same on the caller's thread."""
        self._awake = False
        free = [cpu for cpu in self._cpus if not cpu.others]
        return self._run(free[:1] or self._cpus[:1], self.one)

    def _run(self, cpus: list[_Cpu], work: float) -> tuple[int, int]:
        work *= 1 + self._random.uniform(0, _NOISE)
        start, had = self.now, 0.0
        while work > 0:
            self._turn()
            away = [cpu for cpu in cpus if not cpu.ours]
            if away:
                had += self._wait(cpus, max(cpu.until for cpu in away))
                continue
            step = min([work, *(cpu.until - self.now for cpu in cpus if cpu.others)])
            self.now, work, had = self.now + step, work - step, had + step
        return int(self.now - start), int(had)

    def _wait(self, cpus: list[_Cpu], until: float) -> float:
        """For CPUs that others have. Who waits long sleeps, and others begin a turn on its CPU."""
        spun = min(until - self.now, _SPIN) if cpus[0].ours else 0.0
        for cpu in cpus:
            if cpu.ours and cpu.others and until - self.now > _SPIN:
                self._begin(cpu, ours=self._random.random() < _AT_ONCE, at=until)
        self.now = until
        return spun

    def _turn(self) -> None:
        for cpu in self._cpus:
            while cpu.until <= self.now:
                number = self._random.randrange(cpu.others + 1) if cpu.ours else 0
                ours = not cpu.others or (not cpu.ours and number == 0)
                self._begin(cpu, ours, max(cpu.until, self.now - _TURN[1]))

    def _begin(self, cpu: _Cpu, ours: bool, at: float | None = None) -> None:
        cpu.ours = ours
        cpu.until = (self.now if at is None else at) + self._random.uniform(*_TURN)


def run(pace: Pace, machine: Machine, count: int) -> tuple[list[LaunchMode], list[int]]:
    """So many launches: what each was, and its ns by the clock."""
    steps, walls = [], []
    for _ in range(count):
        steps.append(pace.step())
        alone = steps[-1] is LaunchMode.ALONE
        wall, cpu = machine.alone() if alone else machine.together()
        if steps[-1] is not LaunchMode.PLAIN:
            pace.took(wall, cpu)
        walls.append(wall)
    return steps, walls
