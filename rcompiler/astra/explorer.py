"""Request by request: which plan is next, what its times prove, and when it is over (Astra §4).

Work-conserving: every request runs one plan once, and its answer is an answer. The explorer runs
nothing itself and has no clock; whoever serves asks `next`, runs that plan, and tells `ran` or
`failed`, one request after the other:

    step = explorer.next(now)
    try:
        answer, sample = run(step.plan)
        explorer.ran(step, sample, now)
    except Stopped as error:                  # only a candidate may stop
        explorer.failed(step, error.ns, error.scope)
        answer, _ = run(explorer.incumbent)

First the incumbent is raced against itself, which tells how noisy the machine is; then the trials
of the tree, each in a race against the incumbent; last the final duel: what the tree has found must
win over the plan that served meanwhile, or that one stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from rcompiler.astra.budget import Budget
from rcompiler.astra.drift import Drift
from rcompiler.astra.measurements import Known, Measurements
from rcompiler.astra.node import Node, noted
from rcompiler.astra.race import Race, Ratios, Rules, noise_floor, quartile
from rcompiler.astra.separation import check_separation
from rcompiler.astra.variables import WHOLE, Plan, mangled

SERVE, INCUMBENT, CANDIDATE, WARM = "serve", "incumbent", "candidate", "warm"
CALIBRATION, EXPLORATION, DUEL, FROZEN = "calibration", "exploration", "duel", "frozen"
_MOST_PATIENCE = 64


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

    scopes: ns of each scope, WHOLE among them; less than one counts as one. gap: share of that time
    in which threads that could have run had no CPU. anchor: time of a fixed piece of work just now,
    in times of what it usually takes here; 1 where it was not tried.
    """

    scopes: Mapping[str, float]
    gap: float = 0.0
    anchor: float = 1.0


@dataclass(frozen=True)
class Settings:
    """What counts as proved.

    Attributes:
        rules: of the races of candidates.
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
        tried: pairs that were run; believed: those that counted. settled: trials that are over.
        budget: what trials have cost.
        won: the time of the incumbent in times of the static plan's, as the final duel had it.
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
            environment: a part of every key: the bucket, and machine and version of the code where
                `times` are not kept apart by them.
            settings, budget: see there.

        Raises:
            ValueError: the tree tries at once what cannot be told apart.
        """
        check_separation(tree)
        self.incumbent: Plan = {}
        tree.default(self.incumbent)
        self.tried = self.believed = self.settled = 0
        self.won = 1.0
        self._tree, self._times, self._environment = tree, times, environment
        self._settings, self.budget = settings or Settings(), budget or Budget()
        self._usual: deque[float] = deque(maxlen=9)  # ns of the incumbent lately
        self._gate: deque[bool] = deque(maxlen=self._settings.watched)
        self._pause, self._next_pause = 0, self._settings.pause
        self._drift, self._patience = Drift(), 1
        self._noise: dict[str, float] = {}
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
            return Step(dict(self._candidate), WARM)
        pair = [Step(self.incumbent, INCUMBENT), Step(dict(self._candidate), CANDIDATE)]
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
        return now >= self._not_before and self.budget.admits()

    def most_requests(self) -> int:
        """Requests that all trials and the duel take at most where nothing is known and the machine
        is quiet, without those between them."""
        settings = self._settings
        each = 1 + 2 * 2 * settings.rules.most
        return self._tree.trials() * each + 2 * settings.calibration + 1 + 2 * settings.duel

    # -- what was seen -----------------------------------------------------------------------------
    def ran(self, step: Step, sample: Sample, now: float) -> None:
        """A request has run; now: as for `next`."""
        ns = max(sample.scopes[WHOLE], 1.0)
        trial = step.kind in (CANDIDATE, WARM)
        other = trial and self.phase != CALIBRATION
        usual = median(self._usual) if other and self._usual else ns
        self.budget.served(ns, usual, trial=trial)
        if not other:
            self._usual.append(ns)
        if step.kind == WARM:
            self._cold = False
        elif step.kind != SERVE:
            self._pair[step.kind] = sample
            if len(self._pair) == 2:
                self._judge(now)
        elif self.phase == FROZEN and sample.gap <= self._settings.gap:
            if self._drift.add(ns / sample.anchor):
                self._reopen()

    def served(self, requests: int) -> None:
        """So many requests have run the incumbent, and nobody looked: they took what is usual."""
        if requests and self._usual:
            self.budget.served(requests * median(self._usual), 0.0, trial=False, requests=requests)

    def lost(self, ns: float) -> None:
        """A request took so much longer than its plan, for the sake of a trial."""
        self.budget.served(ns, 0.0, trial=True, requests=0)

    def failed(self, step: Step, ns: float, scope: str | None = None) -> None:
        """A candidate has stopped or thrown: it is never tried again.

        Args:
            step: what was run.
            ns: that are lost, which the budget pays.
            scope: where, if that is known; otherwise nothing that it tried is tried again.

        Raises:
            ValueError: it was no candidate.
        """
        if step.kind not in (CANDIDATE, WARM) or self.phase == CALIBRATION:
            raise ValueError("a plan that serves has failed")
        self.budget.served(ns, 0.0, trial=True)
        self._second = None
        self._pair.clear()
        if self.phase == DUEL:
            self._times.fail(self._duel_key())
            self._freeze(self.incumbent)
            return
        known = self._known()
        if not self._tree.fail(dict(self._candidate), known, scope):
            # of a scope that was settled before: it stops beside what is tried now
            self._tree.fail(dict(self._candidate), known, None)
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
        self._perhaps_pause()
        if not counts:
            return
        self.believed += 1
        # A scope of another branch has no time in the incumbent: it is a part of its whole.
        whole = one.scopes[WHOLE]
        ratios = {
            scope: max(ns, 1.0) / max(one.scopes.get(scope, whole), 1.0)
            for scope, ns in two.scopes.items()
        }
        if self.phase == EXPLORATION:
            self._explored(ratios, now)
            return
        self._ratios.append(ratios)
        if self.phase == CALIBRATION and len(self._ratios) == self._settings.calibration:
            self._noise = noise_floor(self._ratios)
            self._next_trial()
        elif self.phase == DUEL and len(self._ratios) == self._settings.duel:
            self._decided()

    def _perhaps_pause(self) -> None:
        """The machine is not ours alone at the moment."""
        gate, settings = self._gate, self._settings
        if len(gate) < settings.watched:
            return
        if sum(gate) >= 2 * settings.kept * settings.watched:
            self._next_pause = settings.pause
        elif sum(gate) < settings.kept * settings.watched:
            self._pause = self._next_pause
            self._next_pause = min(2 * self._next_pause, settings.longest_pause)
            gate.clear()

    # -- phases ------------------------------------------------------------------------------------
    def _begin(self) -> None:
        self.phase, self._candidate = CALIBRATION, self.incumbent
        self._second = None
        self._pair.clear()
        self._ratios: list[Ratios] = []
        self._noise = {}
        self._cold, self._not_before = False, 0.0
        if self._is_known():
            self._end_tree()

    def _known(self) -> Known:
        """Times are ratios to the incumbent: what it chose is a part of their keys."""
        margin = self._settings.rules.margin
        return Known(self._times, self._environment, self.incumbent, margin)

    def _is_known(self) -> bool:
        """Whether all times of the tree are there already: nothing has to be tried."""
        self._plan = {}
        self._tree.settle(self._plan, self._known())
        return self._tree.done

    def _next_trial(self) -> None:
        """The next one that has to be run. The incumbent itself needs no race."""
        while not self._is_known():
            self.phase, self._candidate = EXPLORATION, dict(self._plan)
            self._tree.propose(self._candidate)
            scopes = self._tree.judged()
            if self._candidate != self.incumbent:
                self._race = Race(self._settings.rules, scopes, self._noise)
                self._cold = True
                return
            self._observe(dict.fromkeys(scopes, (1.0, 1.0)))
        self._end_tree()

    def _explored(self, ratios: Ratios, now: float) -> None:
        self._race.add({scope: ratios.get(scope, ratios[WHOLE]) for scope in self._race.scopes})
        if self._race.between:
            self._not_before = now + self._settings.apart_s
        if self._race.done:
            self._observe({scope: self._race.runs(scope) for scope in self._race.scopes})
            self._next_trial()

    def _observe(self, runs: Mapping[str, tuple[float, float]]) -> None:
        self.settled += 1
        self._tree.observe(dict(self._candidate), runs, self._known())

    def _end_tree(self) -> None:
        self._tree.propose(self._plan)
        self._candidate, self._ratios = dict(self._plan), []
        if self._candidate == self.incumbent or self._tree.hopeless:
            self._freeze(self.incumbent)
            return
        self.phase, self._cold = DUEL, True
        known = self._times.trusted(self._duel_key())
        if known is not None:  # it was fought before
            self._end_duel(known)

    def _duel_key(self) -> str:
        items = [text for item in sorted(self._candidate.items()) for text in item]
        return mangled([self._known().beside(WHOLE, ()), "duel", *items])

    def _decided(self) -> None:
        """Of the final duel: what is hardly better is not worth a change."""
        ratios = [pair[WHOLE] for pair in self._ratios]
        halves = ratios[: len(ratios) // 2], ratios[len(ratios) // 2 :]
        runs = [max(quartile(half), median(half)) for half in halves]
        self._end_duel(noted(self._duel_key(), runs, self._known()))

    def _end_duel(self, ratio: float) -> None:
        wins = ratio < 1 - self._settings.duel_margin
        self.won *= ratio if wins else 1.0
        self._freeze(self._candidate if wins else self.incumbent)

    def _freeze(self, plan: Plan) -> None:
        if plan != self.incumbent:
            self._usual.clear()
        self.phase, self.incumbent, self._ratios = FROZEN, plan, []
        self._drift = Drift(self._patience)

    def _reopen(self) -> None:
        """Times of the machine as it was are no times of the machine as it is."""
        self._patience = min(2 * self._patience, _MOST_PATIENCE)
        self._times.forget()
        self._tree.reset()
        self._begin()
