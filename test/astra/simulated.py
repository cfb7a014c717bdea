"""Devices whose times are formulas, and noise that is drawn from a seed: no clock anywhere."""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from rcompiler.astra import Explorer, Measurements, Node, Plan, Sample, Step
from rcompiler.astra.explorer import FROZEN, SERVE
from rcompiler.astra.measurements import Known
from rcompiler.astra.variables import WHOLE

ENVIRONMENT = "machine"
Times = Callable[[Plan], Mapping[str, float]]


def explore(
    tree: Node, device: Times, times: Measurements, margin: float = 0.0
) -> tuple[Plan, int]:
    """Settle a tree without noise: the plan that it pins, and how many plans were run."""
    known = Known(times, ENVIRONMENT, margin=margin)
    trials, plan = 0, dict[str, str]()
    tree.settle(plan, known)
    while not tree.done:
        tree.propose(plan)
        assert {*tree.names(plan)} == {*plan}  # of the branches that it takes, and no others
        runs = {scope: (ns, ns) for scope, ns in device(plan).items()}
        assert tree.judged() <= {*runs}
        trials += 1
        tree.observe(plan, runs, known)
        plan = {}
        tree.settle(plan, known)
    tree.propose(plan)
    return plan, trials


@dataclass
class Server:
    """Serves requests on a simulated device with an explorer.

    noise: (scopes, random) -> a sample of them; fails: plans that stop.
    """

    explorer: Explorer
    device: Times
    noise: Callable[[Mapping[str, float], random.Random], Sample]
    seed: int = 0
    fails: Callable[[Plan], str | None] = lambda plan: None
    now: float = 0.0
    served: list[Step] = field(default_factory=list)
    failures: int = 0
    total: float = 0.0  # ns of all requests
    usual: float = 0.0  # what the static plan would have taken, under the same noise

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.static = dict(self.explorer.incumbent)

    def serve(self, requests: int, *, until_frozen: bool = True) -> int:
        """How many were served before the plan was frozen."""
        for number in range(requests):
            if until_frozen and self.explorer.phase == FROZEN:
                return number
            self.request()
        return requests

    def request(self) -> None:
        step = self.explorer.next(self.now)
        plan = dict(step.plan)
        self.served.append(Step(plan, step.kind))
        state = self.random.getstate()
        self.usual += self.noise(self.device(self.static), self.random).scopes[WHOLE]
        self.random.setstate(state)
        sample = self.noise(self.device(plan), self.random)
        self._spend(sample.scopes[WHOLE])
        if (scope := self.fails(plan)) is None:
            self.explorer.ran(step, sample, self.now)
        else:  # the answer still comes
            assert step.kind != SERVE
            self.failures += 1
            self.explorer.failed(step, sample.scopes[WHOLE], scope or None)
            self._spend(self.noise(self.device(self.explorer.incumbent), self.random).scopes[WHOLE])
        assert step.plan == plan  # nobody has changed it

    def _spend(self, ns: float) -> None:
        self.total += ns
        self.now += ns / 1e9


def quiet(scopes: Mapping[str, float], random: random.Random) -> Sample:
    return Sample(scopes)


def jitter(share: float) -> Callable[[Mapping[str, float], random.Random], Sample]:
    """Times that are a little longer, each by itself."""

    def noise(scopes: Mapping[str, float], random: random.Random) -> Sample:
        return Sample({scope: ns * (1 + share * random.random()) for scope, ns in scopes.items()})

    return noise


def neighbours(scopes: Mapping[str, float], random: random.Random) -> Sample:
    """Two bursty programs: half of all launches lose a CPU for a while, which shows in their gap;
    others have colder caches, which does not."""
    late = random.random() < 0.5
    lost = random.uniform(0.05, 3.0) if late else 0.0
    cold = random.choice((0.0, 0.0, 0.02, 0.06)) + 0.02 * random.random()
    gap = lost / (1 + lost + cold) if late else 0.01 * random.random()
    return Sample({scope: ns * (1 + cold + lost) for scope, ns in scopes.items()}, gap)


def summed(scopes: Mapping[str, float]) -> dict[str, float]:
    """With the whole of them."""
    return {**scopes, WHOLE: sum(scopes.values())}


def names(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{number}" for number in range(count))


def kinds(steps: Iterable[Step]) -> dict[str, int]:
    found: dict[str, int] = {}
    for step in steps:
        found[step.kind] = found.get(step.kind, 0) + 1
    return found
