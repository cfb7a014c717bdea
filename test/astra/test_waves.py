"""rKernels of the ops of one wave, which share EUs: which mode of the tree finds good ones.

Waves are simulated: tasks of all ops, the longest first, each to the EU that is free first. Tiles
of five sizes: larger ones are more efficient, and make fewer and longer tasks. As in the notes to
Astra, §3 E3.
"""

import heapq
import random
from itertools import product
from statistics import mean

import pytest
from simulated import explore, names

from rcompiler.astra import Leaf, Measurements, Parallel, Prefix, Variable
from rcompiler.astra.separation import check_separation

SCALES = names("x", 5)
WAVES = 100


class Wave:
    """A few ops with work, and how efficient their tiles are."""

    def __init__(self, seed: int, eus: int, ops: int) -> None:
        rng = random.Random(seed)
        self.eus, self.names = eus, names("o", ops)
        self._tasks: dict[tuple[str, str], list[float]] = {}
        for name in self.names:
            work, largest = rng.uniform(50, 400), rng.uniform(10, 60)
            gains = sorted(rng.uniform(0.55, 1.0) for _ in SCALES)
            for number, scale in enumerate(SCALES):
                size = largest / 2 ** (len(SCALES) - 1 - number)
                count = max(1, round(work / size))
                self._tasks[name, scale] = [work / count / gains[number]] * count

    def __call__(self, plan) -> dict[str, float]:
        tasks = [task for name in self.names for task in self._tasks[name, plan[name]]]
        free = [0.0] * self.eus
        for task in sorted(tasks, reverse=True):
            heapq.heappush(free, heapq.heappop(free) + task)
        return {"wave": max(free)}

    def rammer(self) -> dict[str, str]:
        """The first plan, by Rammer's rule (§4): the fastest of each op if they do not fill the EUs
        together, otherwise the better of all fastest and all most efficient ones."""
        fast = {n: min(SCALES, key=lambda s: self._alone(n, s)) for n in self.names}
        if sum(len(self._tasks[n, fast[n]]) for n in self.names) < self.eus:
            return fast
        efficient = {n: min(SCALES, key=lambda s: sum(self._tasks[n, s])) for n in self.names}
        return min(fast, efficient, key=lambda plan: self(plan)["wave"])

    def _alone(self, name: str, scale: str) -> float:
        count = len(self._tasks[name, scale])
        return self._tasks[name, scale][0] * -(-count // self.eus)

    def variables(self) -> list[Variable]:
        """The choice of the rule first; each knows those before it."""
        rule = self.rammer()
        found: list[Variable] = []
        for name in self.names:
            order = tuple(sorted(SCALES, key=lambda scale: scale != rule[name]))
            context = tuple(variable.name for variable in found)
            found.append(Variable(name, order, "wave", context))
        return found

    def best(self) -> float:
        plans = product(SCALES, repeat=len(self.names))
        return min(self(dict(zip(self.names, plan, strict=True)))["wave"] for plan in plans)


def ratio(wave: Wave, tree) -> float:
    plan, _ = explore(tree, wave, Measurements())
    return wave(plan)["wave"] / wave.best()


@pytest.mark.parametrize("eus", [2, 8])
def test_a_prefix_inside_of_a_wave_is_near_the_best(eus):
    waves = [Wave(seed, eus, 2 + seed % 3) for seed in range(WAVES)]
    found = [ratio(wave, Prefix(*map(Leaf, wave.variables()))) for wave in waves]
    assert mean(found) <= 1.05 and max(found) <= 1.30
    rule = mean(wave(wave.rammer())["wave"] / wave.best() for wave in waves)
    assert mean(found) < rule


def test_a_second_sweep_is_never_worse():
    for seed in range(30):
        wave = Wave(seed, 8, 3)
        once = wave.variables()
        twice = [
            Variable(v.name, v.choices, v.scope, tuple(n for n in wave.names if n != v.name))
            for v in once
        ]
        both = ratio(wave, Prefix(*map(Leaf, once), *map(Leaf, twice)))
        assert both <= ratio(wave, Prefix(*map(Leaf, once))) + 1e-9


def test_parallel_inside_of_a_wave_is_refused():
    variables = [Variable(name, SCALES, "wave") for name in names("o", 3)]
    with pytest.raises(ValueError, match="make them a prefix"):
        check_separation(Parallel(*map(Leaf, variables)))
