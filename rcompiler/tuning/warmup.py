"""The custom-wirer before traffic (Astra §4.6): plans on random inputs, within a budget.

What it measures is kept as it goes: a tuning that was interrupted goes on where it was, and a model
that was tuned once is compiled by its plan without a trial.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

from rcompiler.astra import Explorer, Node, Plan, Settings
from rcompiler.astra.budget import Budget
from rcompiler.astra.explorer import CALIBRATION, CANDIDATE, DUEL, FROZEN, WARM
from rcompiler.astra.variables import mangled
from rcompiler.device.store import fingerprint
from rcompiler.driver.compilation import noted
from rcompiler.errors import CompilerError, DroppedPlanWarning, WrongKernel
from rcompiler.model import REPORT
from rcompiler.options import CompileOptions
from rcompiler.profiler.index import ProfileIndex, code_version
from rcompiler.profiler.records import ChosenPlan
from rcompiler.profiler.storage import NAME
from rcompiler.profiler.trials import KeptMeasurements
from rcompiler.report import Report
from rcompiler.runtime.artifact import Artifact
from rcompiler.tuning import space
from rcompiler.tuning.branch import WORST, Branch, Subject
from rcompiler.tuning.launches import Columns, LaunchedPlan, Launches
from rcompiler.tuning.space import FUSION, MEMORY, SCHEDULE

_AS_ASKED = "as asked"  # the static plan's way of fusing
FUSIONS: Mapping[str, tuple[str, Any, Any]] = {
    "unfused": ("fusion", True, False),
    "not joined": ("normalise", True, False),
    "direct": ("roots", "auto", "direct"),
}
"""Other ways: an option, and its value instead of its default; what was asked for is kept.

rOperators of one op each; products that read one operand, and those of the steps of a recurrence,
apart; convolutions as sums of all products."""

_PAIRS = 5.0  # of a block of a race, on average (measured: 3 to 10)
_KEEP_S = 1.0
_QUICK = Settings(calibration=8, duel=30, apart_s=0.3, pause=8, longest_pause=64)
_PLACEMENT = (SCHEDULE, MEMORY)  # variables that change no bit

Told = Callable[[str], None]


class TunedPlan(NamedTuple):
    """What a tuning has ended with.

    artifact: the model by the plan. plan: its choices that are not the static plan's. ratio: its
    time in times of the static plan's, as the final duel had it; 1 for the static plan. trials:
    that were run now. seconds: that they took. done: whether the tree is explored;
    otherwise the budget was spent, and the artifact is the static plan's.
    """

    artifact: Artifact
    plan: Plan
    ratio: float
    trials: int
    seconds: float
    done: bool


@dataclass(frozen=True)
class Estimate:
    """Before a tuning. trials: at most; seconds: what they take on a quiet machine."""

    trials: int
    seconds: float


class Tuning:
    """The exploration of one model on this machine.

    Attributes:
        estimate: what is left to try, and how long that takes; nothing for a model that was tuned.
        static_ms: median of some launches of the static plan.
        told: called with each step.
        tree: what is explored.
    """

    def __init__(self, subject: Subject, *, seed: int = 0, told: Told = lambda what: None) -> None:
        """Enumerate. seed: of the inputs. told: called with each step.

        Raises CompilerError as compile_onnx does.
        """
        self.told, self._seed = told, seed
        told(f"enumerate: {_AS_ASKED}")
        first = Branch(subject)
        self._branches = {_AS_ASKED: first}
        for name in FUSIONS if "f" in subject.dimensions else ():
            told(f"enumerate: {name}")
            self._add(name, subject, first)
        choices = {name: branch.choices for name, branch in self._branches.items()}
        try:
            self.tree: Node | None = space.tree(choices, first.static.provenance["schedule"])
        except ValueError:  # nothing can be chosen
            self.tree = None
        self._static: Plan = {}
        if self.tree is not None:
            self.tree.default(self._static)
        self._place = self._digest(), fingerprint(subject.base), code_version()
        self._index = open_index(subject.options)
        self.estimate, self.static_ms = self._estimated()

    def _add(self, name: str, subject: Subject, first: Branch) -> None:
        """Unless this way of fusing is another one's, or slower by far by the cost model."""
        option, default, value = FUSIONS[name]
        if getattr(subject.options, option) != default:
            return
        options = replace(subject.options, **{option: value})
        try:
            branch = Branch(replace(subject, options=options), first)
        except CompilerError:  # the graph cannot be compiled so
            return
        texts = [other.static.stages["rtask"] for other in self._branches.values()]
        far = WORST * _makespan(first.static)
        if branch.static.stages["rtask"] not in texts and _makespan(branch.static) <= far:
            self._branches[name] = branch

    # -- what is explored --------------------------------------------------------------------------
    def run(self, budget_s: float) -> TunedPlan:
        """Explore until everything is settled or the budget is spent.

        A plan that cannot be compiled, stops or computes something else is dropped. Raises
        CompilerError where the static plan does not run.
        """
        start = time.monotonic()
        known = self._index.plan(*self._place)
        if known is not None and (plan := self._read(known)) is not None:
            return self._result(plan, known.ratio, 0, start)
        if self.tree is None:
            return self._result({}, 1.0, 0, start)
        kept = KeptMeasurements(self._index, *self._place[1:])
        first = self._branches[_AS_ASKED].choices
        # what the time of a segment depends on besides what is in it
        scheduled = f"{first.schedules[0]}, {first.memories[0]}"
        explorer = Explorer(self.tree, kept, scheduled, settings=_QUICK, budget=_unlimited())
        try:
            trials = self._serve(explorer, start + budget_s, kept)
        finally:
            kept.keep()
        if explorer.phase != FROZEN:
            return self._result({}, 1.0, trials, start, done=False)
        found = json.dumps(explorer.incumbent, sort_keys=True)
        chosen = self._index.choose(self._place, found, min(explorer.won, 1.0))
        return self._result(self._read(chosen) or {}, chosen.ratio, trials, start)

    def _serve(self, explorer: Explorer, end: float, kept: KeptMeasurements) -> int:
        """Launch after launch, until the explorer is done or the time is over; how many plans were
        tried."""
        trials, last = 0, time.monotonic()
        launches = Launches(self._static, self._launched, self._scopes)
        try:
            while explorer.phase != FROZEN and (now := time.monotonic()) < end:
                step, begun = explorer.next(now), time.perf_counter_ns()
                trial = step.kind in (CANDIDATE, WARM) and explorer.phase != CALIBRATION
                how: Any = {"serving": explorer.incumbent, "timed": explorer.phase != DUEL}
                try:
                    sample = launches.sample(step.plan, **how)
                    if step.kind == WARM:
                        trials += 1
                        most = self.estimate.trials
                        self.told(f"{explorer.phase}, trial {trials} of at most {most}")
                        launches.check(step.plan, **how, exact=self._is_placement(step.plan))
                except CompilerError as error:
                    if not trial:
                        raise
                    if isinstance(error, WrongKernel):
                        what = f"a plan was dropped: {error}"
                        warnings.warn(what, DroppedPlanWarning, stacklevel=3)
                    explorer.failed(step, float(time.perf_counter_ns() - begun))
                    continue
                explorer.ran(step, sample, time.monotonic())
                if now - last > _KEEP_S:
                    kept.keep()
                    last = now
        finally:
            launches.close()
        return trials

    def close(self) -> None:
        """Of the index."""
        self._index.close()

    def described(self, plan: Plan) -> list[tuple[str, str]]:
        """What a plan chooses, to read."""
        return self.branch(plan).described(plan)

    def branch(self, plan: Plan) -> Branch:
        """The way of fusing that a plan takes."""
        return self._branches[plan.get(FUSION, _AS_ASKED)]

    def _launched(self, plan: Plan, timed: bool) -> LaunchedPlan:
        return LaunchedPlan(self.branch(plan).artifact(plan), self._seed, timed=timed)

    def _scopes(self, plan: Plan, columns: Columns) -> Mapping[str, float]:
        return self.branch(plan).scopes(columns)

    def _is_placement(self, plan: Plan) -> bool:
        """Whether all that it chooses is who runs what, where and when: no bit may change."""
        return all(
            name in _PLACEMENT or self._static.get(name) == choice for name, choice in plan.items()
        )

    def _result(
        self, plan: Plan, ratio: float, trials: int, start: float, *, done: bool = True
    ) -> TunedPlan:
        other = {name: choice for name, choice in plan.items() if self._static.get(name) != choice}
        branch = self.branch(plan)
        artifact = branch.static
        if other:
            chosen = "; ".join(f"{what}: {choice}" for what, choice in branch.described(other))
            gain = f"{1 / ratio:.3f} times as fast as the static one in the final duel"
            artifact = noted(branch.artifact(plan), f"plan of an exploration, {gain}: {chosen}")
        seconds = time.monotonic() - start
        return TunedPlan(artifact, other, ratio if other else 1.0, trials, seconds, done)

    def _read(self, chosen: ChosenPlan) -> Plan | None:
        """What an index says, if it is a plan of this tree."""
        assert self.tree is not None
        legal = {v.name: v.choices for v in self.tree.variables()}
        try:
            found = json.loads(chosen.plan)
            right = all(choice in legal[name] for name, choice in found.items())
        except (ValueError, KeyError, TypeError, AttributeError):
            right = False
        return dict(found) if right else None

    def _digest(self) -> str:
        """Of the choices and of what they are of; of no name, no time."""
        if self.tree is None:
            return ""
        statics = [branch.static.provenance["schedule"] for branch in self._branches.values()]
        return mangled([space.text(self.tree), *statics])

    def _estimated(self) -> tuple[Estimate, float]:
        """What is left to try, and ms of the static plan, which is made once more to see how long
        that takes."""
        self.told("launch the static plan")
        start = time.monotonic()
        own = self._launched(self._static, False)
        made = time.monotonic() - start
        try:
            own.run()
            static_ms = median(own.run()[0] for _ in range(9)) / 1e6
        finally:
            own.close()
        known = self._index.plan(*self._place) is not None
        trials = 0 if known or self.tree is None else self.tree.trials()
        if not trials:
            return Estimate(0, 0.0), static_ms
        launches = 1 + 2 * 2 * _PAIRS * 1.25  # one in five is no trial
        each = made + launches * static_ms / 1e3 + _QUICK.apart_s
        once = 2 * (_QUICK.calibration + _QUICK.duel) * 1.25 * static_ms / 1e3
        return Estimate(trials, trials * each + once + 2 * made), static_ms


def _makespan(artifact: Artifact) -> float:
    return Report.from_json(artifact.stages[REPORT]).makespan_ns


def _unlimited() -> Budget:
    """There is no traffic: trials may cost what they do."""
    return Budget(share=1e12, start=1 << 62, most_ns=float("inf"))


def open_index(options: CompileOptions) -> ProfileIndex:
    """The profile index in the cache folder, in memory without one."""
    return ProfileIndex(options.cache / NAME if options.cache is not None else None)
