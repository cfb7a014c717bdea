"""Request by request: which plan is next, what its times prove, and when it is over (Astra §4).

Work-conserving: every request runs one plan once, and its answer is an answer. The explorer runs
nothing itself and has no clock; whoever serves asks `next`, runs that plan, and tells `ran` or
`failed`:

    step = explorer.next(now)
    try:
        answer, sample = run(step.plan)
        explorer.ran(step, sample, now)
    except Stopped as error:                  # only a candidate may stop
        explorer.failed(step, error.scope)
        answer, _ = run(explorer.incumbent)

First the incumbent is raced against itself, which tells how noisy the machine is; then the trials
of the tree, each in a race against the incumbent; last the final duel: what the tree has found must
win over the plan that served meanwhile, or that one stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

from rcompiler.astra.budget import Budget
from rcompiler.astra.drift import Drift
from rcompiler.astra.measurements import Measurements
from rcompiler.astra.race import Race, Ratios, Rules, floor, quartile
from rcompiler.astra.separation import check_separation
from rcompiler.astra.tree import Node
from rcompiler.astra.variables import WHOLE, Plan

SERVE, INCUMBENT, CANDIDATE, WARM = "serve", "incumbent", "candidate", "warm"
CALIBRATION, EXPLORATION, DUEL, FROZEN = "calibration", "exploration", "duel", "frozen"


@dataclass(frozen=True)
class Step:
    """What the next request runs.

    kind: SERVE, the incumbent, of which nothing is asked; INCUMBENT and CANDIDATE, one of a pair;
    WARM, the first run of a candidate, whose time does not count: caches and pages are not its own
    yet.
    """

    plan: Plan
    kind: str


@dataclass(frozen=True)
class Sample:
    """What was seen of a request.

    scopes: ns of each scope, WHOLE among them. gap: share of that time in which threads that could
    have run had no CPU. anchor: time of a fixed piece of work just now, in times of what it usually
    takes here; 1 where it was not tried.
    """

    scopes: Mapping[str, float]
    gap: float = 0.0
    anchor: float = 1.0


@dataclass(frozen=True)
class Settings:
    """What counts as proved.

    Attributes:
        rules: of the races of candidates; their margin is at least twice the noise of the machine.
        calibration: pairs of the incumbent with itself before anything is tried.
        duel: pairs of the final duel; duel_margin: what has to be won there.
        apart_s: seconds between the two blocks of a race.
        gap: samples that lacked a CPU for a larger share of their time do not count; anchor: nor do
            those on a machine that is so much faster or slower than usual.
        kept: of the last `watched` pairs at least this share must count, or exploration pauses for
            `pause` requests, and each time twice as long, up to `longest_pause`.
    """

    rules: Rules = field(default_factory=Rules)
    calibration: int = 16
    duel: int = 50
    duel_margin: float = 0.01
    apart_s: float = 1.0
    gap: float = 0.03
    anchor: float = 0.05
    watched: int = 50
    kept: float = 0.2
    pause: int = 64
    longest_pause: int = 4096


class Explorer:
    """Explores a tree of plans while it serves.

    Attributes:
        incumbent: the plan that serves; what exploration found, once it is over.
        phase: CALIBRATION, EXPLORATION, DUEL or FROZEN.
        tried: pairs that were run; believed: those that counted.
    """

    def __init__(
        self,
        tree: Node,
        times: Measurements,
        environment: str,
        *,
        settings: Settings | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Begin with the first choices of the tree, the static plan.

        Args:
            tree: of one bucket of shapes.
            times: what is known, and becomes known.
            environment: machine, version of the code, bucket: part of every key.
            settings, budget: see there.

        Raises:
            ValueError: the tree tries at once what cannot be told apart.
        """
        check_separation(tree)
        self.incumbent: Plan = {}
        tree.default(self.incumbent)
        self.tried = self.believed = 0
        self._tree, self._times = tree, times
        self._machine, self._epoch = environment, 0
        self._settings, self._budget = settings or Settings(), budget or Budget()
        self._usual: deque[float] = deque(maxlen=9)  # ns of the incumbent lately ...
        self._tries: deque[float] = deque(maxlen=9)  # ... and of the candidate
        self._gate: deque[bool] = deque(maxlen=self._settings.watched)
        self._pause, self._next_pause = 0, self._settings.pause
        self._drift: Drift | None = None
        self._second: Step | None = None  # of the pair that has begun
        self._pair: dict[str, Sample] = {}
        self._candidate, self._plan = self.incumbent, dict[str, str]()
        self._begin()

    # -- what is next ------------------------------------------------------------------------------
    def next(self, now: float) -> Step:
        """What the next request shall run. now: seconds of a clock that never goes back."""
        if self._second is not None:
            second, self._second = self._second, None
            return second
        if not self._may_try(now):
            return Step(self.incumbent, SERVE)
        if self._cold:
            return Step(self._candidate, WARM)
        pair = [Step(self.incumbent, INCUMBENT), Step(self._candidate, CANDIDATE)]
        if self.tried % 2:
            pair.reverse()
        self._pair.clear()
        first, self._second = pair
        return first

    def _may_try(self, now: float) -> bool:
        if self.phase == FROZEN:
            return False
        if self._pause > 0:
            self._pause -= 1
            return False
        return now >= self._not_before and self._budget.admits()

    def trials_left(self) -> int:
        """At most so many candidates, if nothing is known; each takes `requests_a_trial`."""
        return 0 if self.phase == FROZEN else self._tree.trials()

    def requests_a_trial(self) -> int:
        """Requests that a trial takes at most on a quiet machine, without those between them."""
        return 1 + 2 * 2 * self._settings.rules.most

    # -- what was seen -----------------------------------------------------------------------------
    def ran(self, step: Step, sample: Sample, now: float) -> None:
        """A request has run; now: as for `next`."""
        ns = sample.scopes[WHOLE]
        other = step.plan is not self.incumbent
        usual = median(self._usual) if other and self._usual else ns
        self._budget.served(ns, usual, trial=step.kind in (CANDIDATE, WARM))
        (self._tries if other else self._usual).append(ns)
        if step.kind == WARM:
            self._cold = False
        elif step.kind != SERVE:
            self._pair[step.kind] = sample
            if len(self._pair) == 2:
                self._judge(now)
        elif self._drift and sample.gap <= self._settings.gap:
            if self._drift.add(ns / sample.anchor):
                self._reopen()

    def failed(self, step: Step, scope: str | None = None) -> None:
        """A candidate has stopped or thrown: it is never tried again.

        scope: where, if that is known; otherwise nothing that it tried is tried again.

        Raises:
            ValueError: it was no candidate.
        """
        if step.kind not in (CANDIDATE, WARM) or self.phase == CALIBRATION:
            raise ValueError("a plan that serves has failed")
        self._second = None
        if self.phase == DUEL:
            self._freeze(self.incumbent)
            return
        self._tree.fail(self._candidate, self._times, self._environment, scope)
        self._next_trial()

    def _judge(self, now: float) -> None:
        one, two = self._pair[INCUMBENT], self._pair[CANDIDATE]
        self._pair.clear()
        self.tried += 1
        counts = all(
            sample.gap <= self._settings.gap and abs(sample.anchor - 1) <= self._settings.anchor
            for sample in (one, two)
        )
        self._gate.append(counts)
        if not counts:
            self._perhaps_pause()
            return
        self.believed += 1
        ratios = {scope: two.scopes[scope] / ns for scope, ns in one.scopes.items()}
        if self.phase == EXPLORATION:
            self._explored(ratios, now)
            return
        self._ratios.append(ratios)
        if self.phase == CALIBRATION:
            self._calibrated(one)
        elif len(self._ratios) == self._settings.duel:
            self._decided()

    def _perhaps_pause(self) -> None:
        """The machine is not ours alone at the moment."""
        gate, settings = self._gate, self._settings
        if len(gate) == settings.watched and sum(gate) < settings.kept * settings.watched:
            self._pause, self._next_pause = (
                self._next_pause,
                min(2 * self._next_pause, settings.longest_pause),
            )
            gate.clear()

    # -- phases ------------------------------------------------------------------------------------
    def _begin(self) -> None:
        self._environment = f"{self._machine} {self._epoch}" if self._epoch else self._machine
        self.phase = CALIBRATION
        self._second, self._pair = None, {}
        self._ratios: list[Ratios] = []
        self._scopes: dict[str, list[float]] = {}
        self._cold, self._not_before = False, 0.0
        self._candidate = self.incumbent
        if self._is_known():
            self._end_tree()

    def _is_known(self) -> bool:
        """Whether all times of the tree are there already: nothing has to be tried."""
        self._plan = {}
        self._tree.settle(self._plan, self._times, self._environment)
        return self._tree.done

    def _calibrated(self, incumbent: Sample) -> None:
        for scope, ns in incumbent.scopes.items():
            self._scopes.setdefault(scope, []).append(ns)
        if len(self._ratios) < self._settings.calibration:
            return
        rules = self._settings.rules
        margin = min(max(rules.margin, 2 * floor(self._ratios)), 0.5)
        self._rules = Rules(rules.least, rules.most, margin)
        self._reference = {scope: quartile(found) for scope, found in self._scopes.items()}
        self._next_trial()

    def _next_trial(self) -> None:
        """The next one that has to be run. The incumbent itself needs no race."""
        while not self._is_known():
            self.phase, self._candidate = EXPLORATION, dict(self._plan)
            self._tree.propose(self._candidate)
            if self._candidate != self.incumbent:
                self._race, self._cold = Race(self._rules), True
                return
            self._observe(lambda scope: (1.0, 1.0))
        self._end_tree()

    def _explored(self, ratios: Ratios, now: float) -> None:
        self._race.add(ratios)
        if self._race.between:
            self._not_before = now + self._settings.apart_s
        if self._race.done:
            self._observe(self._race.runs)
            self._next_trial()

    def _observe(self, runs: Callable[[str], tuple[float, float]]) -> None:
        found = {
            scope: [ratio * ns for ratio in runs(scope)] for scope, ns in self._reference.items()
        }
        self._tree.observe(self._candidate, found, self._times, self._environment)

    def _end_tree(self) -> None:
        self._tree.propose(self._plan)
        if self._plan == self.incumbent:
            self._freeze(self.incumbent)
            return
        self.phase, self._candidate, self._cold = DUEL, dict(self._plan), True
        self._ratios = []
        self._tries.clear()

    def _decided(self) -> None:
        """Of the final duel: what is hardly better is not worth a change."""
        ratios = [pair[WHOLE] for pair in self._ratios]
        wins = max(quartile(ratios), median(ratios)) < 1 - self._settings.duel_margin
        self._freeze(self._candidate if wins else self.incumbent)

    def _freeze(self, plan: Plan) -> None:
        if plan != self.incumbent:
            self._usual = self._tries.copy()
        self.phase, self.incumbent, self._ratios = FROZEN, plan, []
        self._drift = Drift(median(self._usual)) if self._usual else None

    def _reopen(self) -> None:
        """Times of the machine as it was are no times of the machine as it is."""
        self._epoch += 1
        self._drift = None
        self._tree.reset()
        self._begin()
