"""The custom-wirer before traffic (Astra §4.6): plans on random inputs, within a budget.

What it measures is kept as it goes: a tuning that was interrupted goes on where it was, and a model
that was tuned once is compiled by its plan without a trial.
"""

from __future__ import annotations

import datetime
import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from rcompiler.astra import Explorer, Node, Plan, Sample, Settings
from rcompiler.astra.budget import Budget
from rcompiler.astra.explorer import CALIBRATION, CANDIDATE, DUEL, FROZEN, WARM
from rcompiler.astra.variables import WHOLE, mangled
from rcompiler.device.model import Device
from rcompiler.device.store import fingerprint
from rcompiler.driver.certified import prove
from rcompiler.driver.compilation import noted
from rcompiler.errors import CompilerError, WrongKernel
from rcompiler.frontend import Imported
from rcompiler.options import CompileOptions
from rcompiler.profiler.index import ProfileIndex, code_version
from rcompiler.profiler.records import ChosenPlan
from rcompiler.profiler.storage import NAME
from rcompiler.profiler.trials import KeptMeasurements
from rcompiler.report import Report
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.executable import Executable
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tuning import space
from rcompiler.tuning.branch import WORST, Branch
from rcompiler.tuning.space import DIMENSIONS, FUSION, MEMORY, SCHEDULE

FUSIONS: Mapping[str, Mapping[str, Any]] = {
    "fused": {},
    "unfused": {"fusion": False},
    "not joined": {"normalise": False},
    "direct": {"roots": "direct"},
}
"""Ways of fusing, the static plan's first: rOperators of one op each; products that read one
operand, and those of the steps of a recurrence, apart; convolutions as sums of all products."""

# Of the largest result, by bytes of a number: other kernels may sum in another order.
_TOLERANCE = {2: 2e-2, 4: 1e-3, 8: 1e-6}
_PAIRS = 5.0  # of a block of a race, on average (measured: 3 to 10)
_KEEP_S = 1.0
_REST_S = 0.002
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


class _Wired:
    """A plan that is loaded, on inputs of its own."""

    def __init__(self, artifact: Artifact, feeds: Mapping[str, np.ndarray], timed: bool) -> None:
        self._model = Executable(artifact, timed=timed, validate=prove)
        self._binding = self._model.bind(feeds)
        self._delay = self._model.run_delay()
        self._timed = timed

    @property
    def outputs(self) -> Sequence[np.ndarray]:
        return self._binding.outputs

    def run(self) -> tuple[float, float, Mapping[str, Sequence[object]]]:
        """ns, the share of it in which threads had no CPU, and the times of all runs if timed."""
        late, start = self._delay.ns(), time.perf_counter_ns()
        self._binding()
        ns = time.perf_counter_ns() - start
        gap = (self._delay.ns() - late) / max(ns, 1)
        return float(ns), gap, self._model.times() if self._timed else {}

    def close(self) -> None:
        self._delay.close()
        self._model.close()


class Tuning:
    """The exploration of one model on this machine.

    Attributes:
        estimate: what is left to try, and how long that takes; nothing for a model that was tuned.
        static_ms: median of some launches of the static plan.
        told: called with each step.
        tree: what is explored.
    """

    def __init__(
        self,
        imported: Imported,
        options: CompileOptions,
        base: Device,
        device: Device,
        *,
        dimensions: str = DIMENSIONS,
        seed: int = 0,
        told: Told = lambda what: None,
    ) -> None:
        """Enumerate.

        options: of the static plan; its cache folder has the index. base: the target, this
        machine; device: whose figures decide. told: called with each step.

        Raises CompilerError as compile_onnx does.
        """
        self._start = 0.0  # of the exploration
        self._options, self.told = options, told
        self._branches: dict[str, Branch] = {}
        for name in FUSIONS if "f" in dimensions else ("fused",):
            told(f"enumerate: {name}")
            self._add(name, imported, base, device, dimensions)
        choices = {name: branch.choices for name, branch in self._branches.items()}
        try:
            digest = self._branches["fused"].static.provenance["schedule"]
            self.tree: Node | None = space.tree(choices, digest)
        except ValueError:
            self.tree = None
        self._machine, self._code = fingerprint(base), code_version()
        self._space = self._digest()
        self._seed = seed
        self._made = 0.0  # seconds that compiling a plan takes
        self.static_ms = self._time_static()
        self._index = open_index(options)
        self.estimate = self._estimated()

    def _add(
        self, name: str, imported: Imported, base: Device, device: Device, dimensions: str
    ) -> None:
        """Unless this way of fusing is another one's, or slower by far by the cost model."""
        options = replace(self._options, **FUSIONS[name])
        if self._branches and options == self._options:
            return
        try:
            first = self._branches.get("fused")
            branch = Branch(imported, options, base, device, dimensions, first)
        except CompilerError:
            if not self._branches:
                raise
            return
        texts = [other.static.stages["rtask"] for other in self._branches.values()]
        if branch.static.stages["rtask"] in texts:
            return
        expected = [_makespan(other.static) for other in self._branches.values()]
        if expected and _makespan(branch.static) > WORST * expected[0]:
            return
        self._branches[name] = branch

    # -- what is explored --------------------------------------------------------------------------
    def run(self, budget_s: float) -> TunedPlan:
        """Explore until everything is settled or the budget is spent.

        A plan that cannot be compiled, stops or computes something else is dropped.
        """
        known = self._index.plan(self._space, self._machine, self._code)
        if known is not None and (plan := self._read(known)) is not None:
            return self._result(plan, known.ratio, 0, done=True)
        if self.tree is None:
            return self._result({}, 1.0, 0, done=True)
        kept = KeptMeasurements(self._index, self._machine, self._code)
        explorer = Explorer(self.tree, kept, self._static(), settings=_QUICK, budget=_unlimited())
        wires = _Wires(self, explorer)
        self._start = time.monotonic()
        try:
            wires.serve(time.monotonic() + budget_s, kept)
        finally:
            wires.close()
            kept.keep()
        if explorer.phase != FROZEN:
            return self._result({}, 1.0, wires.trials, done=False)
        chosen = self._index.choose(
            ChosenPlan(
                space=self._space,
                machine=self._machine,
                code=self._code,
                plan=json.dumps(explorer.incumbent, sort_keys=True),
                ratio=min(explorer.won, 1.0),
                date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            )
        )
        plan = self._read(chosen) or {}
        return self._result(plan, chosen.ratio if plan else 1.0, wires.trials, done=True)

    def close(self) -> None:
        """Of the index."""
        self._index.close()

    def described(self, plan: Plan) -> list[tuple[str, str]]:
        """What a plan chooses, to read."""
        return self.branch(plan).described(plan)

    def branch(self, plan: Plan) -> Branch:
        """The way of fusing that a plan takes."""
        return self._branches[plan.get(FUSION, "fused")]

    def wired(self, plan: Plan, *, timed: bool) -> _Wired:
        """A plan that is compiled, proved, and loaded. Raises CompilerError."""
        artifact = self.branch(plan).artifact(plan)
        ranges = {each.input: (each.first, each.last + 1) for each in artifact.ranges}
        feeds = random_inputs(artifact.inputs, self._seed, ranges)
        return _Wired(artifact, feeds, timed)

    def is_placement(self, plan: Plan) -> bool:
        """Whether all that it chooses is who runs what, where and when: no bit may change."""
        static: Plan = {}
        if self.tree is not None:
            self.tree.default(static)
        return all(
            name in _PLACEMENT or static.get(name) == choice for name, choice in plan.items()
        )

    def _result(self, plan: Plan, ratio: float, trials: int, *, done: bool) -> TunedPlan:
        static: Plan = {}
        if self.tree is not None:
            self.tree.default(static)
        other = {name: choice for name, choice in plan.items() if static.get(name) != choice}
        branch = self.branch(plan)
        artifact = branch.static
        if other:
            chosen = "; ".join(f"{what}: {choice}" for what, choice in branch.described(other))
            gain = f"{1 / ratio:.3f} times as fast as the static one in the final duel"
            artifact = noted(branch.artifact(plan), f"plan of an exploration, {gain}: {chosen}")
        seconds = time.monotonic() - self._start if self._start else 0.0
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

    def _static(self) -> str:
        """What the time of a segment depends on besides what is in it: how all is scheduled."""
        choices = self._branches["fused"].choices
        return f"{choices.schedules[0]}, {choices.memories[0]}"

    def _digest(self) -> str:
        """Of the choices and of what they are of; of no name, no time."""
        if self.tree is None:
            return ""
        statics = [branch.static.provenance["schedule"] for branch in self._branches.values()]
        return mangled([space.text(self.tree), *statics])

    def _time_static(self) -> float:
        """ms; compiling it again tells how long a plan takes to make."""
        self.told("launch the static plan")
        start = time.monotonic()
        wired = self.wired({}, timed=False)
        self._made = time.monotonic() - start
        try:
            wired.run()
            return median(wired.run()[0] for _ in range(9)) / 1e6
        finally:
            wired.close()

    def _estimated(self) -> Estimate:
        known = self._index.plan(self._space, self._machine, self._code) is not None
        trials = 0 if known or self.tree is None else self.tree.trials()
        if not trials:
            return Estimate(0, 0.0)
        launches = 1 + 2 * 2 * _PAIRS * 1.25  # one in five is no trial
        each = self._made + launches * self.static_ms / 1e3 + _QUICK.apart_s
        once = 2 * (_QUICK.calibration + _QUICK.duel) * 1.25 * self.static_ms / 1e3
        return Estimate(trials, trials * each + once + 2 * self._made)


class _Wires:
    """The loaded plans of an exploration: the incumbent and the candidate."""

    def __init__(self, tuning: Tuning, explorer: Explorer) -> None:
        self._tuning, self._explorer = tuning, explorer
        self._loaded: dict[tuple[str, bool], _Wired] = {}
        self._reference: list[np.ndarray] = []
        self._last: _Wired | None = None
        self.trials = 0

    def serve(self, end: float, kept: KeptMeasurements) -> None:
        """Request after request, until the explorer is done or the time is over."""
        explorer, last = self._explorer, time.monotonic()
        while explorer.phase != FROZEN and (now := time.monotonic()) < end:
            step = explorer.next(now)
            trial = step.kind in (CANDIDATE, WARM) and explorer.phase != CALIBRATION
            start = time.perf_counter_ns()
            try:
                sample = self._run(step.plan)
                if step.kind == WARM:
                    self.trials += 1
                    self._tuning.told(
                        f"{explorer.phase}, trial {self.trials} of at most "
                        f"{self._tuning.estimate.trials}"
                    )
                    self._check(step.plan)
            except CompilerError as error:
                if not trial:
                    raise
                if isinstance(error, WrongKernel):
                    warnings.warn(f"a plan was dropped: {error}", stacklevel=2)
                explorer.failed(step, float(time.perf_counter_ns() - start))
                continue
            explorer.ran(step, sample, time.monotonic())
            if now - last > _KEEP_S:
                kept.keep()
                last = now

    def close(self) -> None:
        for wired in self._loaded.values():
            wired.close()
        self._loaded.clear()

    def _run(self, plan: Plan) -> Sample:
        timed = self._explorer.phase != DUEL
        wired = self._wired(plan, timed)
        if wired is not self._last:
            # Threads of the other plan spin for a while before they sleep, in the way of these; and
            # these have slept, and their caches are the other's.
            time.sleep(_REST_S)
            wired.run()
            self._last = wired
        ns, gap, columns = wired.run()
        scopes = self._tuning.branch(plan).scopes(columns) if columns else {}
        return Sample({**scopes, WHOLE: ns}, gap)

    def _wired(self, plan: Plan, timed: bool) -> _Wired:
        key = _key(plan), timed
        if key not in self._loaded:
            incumbent = _key(self._explorer.incumbent)
            for other in [k for k in self._loaded if k[0] != incumbent or k[1] != timed]:
                self._loaded.pop(other).close()
            self._loaded[key] = self._tuning.wired(plan, timed=timed)
        return self._loaded[key]

    def _check(self, plan: Plan) -> None:
        """Compare the results of a plan with the static plan's. Raises WrongKernel."""
        timed = self._explorer.phase != DUEL
        if not self._reference:
            self._run(self._explorer.incumbent)
            own = self._wired(self._explorer.incumbent, timed)
            self._reference = [output.copy() for output in own.outputs]
            self._run(plan)
        exact = self._tuning.is_placement(plan)
        for number, (found, right) in enumerate(
            zip(self._wired(plan, timed).outputs, self._reference, strict=True)
        ):
            if not _agree(found, right, exact):
                chosen = ", ".join(f"{name}: {choice}" for name, choice in sorted(plan.items()))
                raise WrongKernel(
                    f"output {number} of plan {chosen} is not that of the static plan; this is a "
                    "defect of the compiler, report it with the model"
                )


def _agree(found: np.ndarray, right: np.ndarray, exact: bool) -> bool:
    if found.tobytes() == right.tobytes():
        return True
    if exact or right.dtype.kind not in "fV":
        return False
    one, two = found.astype(np.float64), right.astype(np.float64)
    known = np.isfinite(two)
    if not np.array_equal(known, np.isfinite(one)):
        return False
    largest = np.abs(two[known]).max(initial=0.0)
    tolerance = _TOLERANCE.get(right.dtype.itemsize, 0.0) * largest
    return bool((np.abs(one - two)[known] <= tolerance).all())


def _key(plan: Plan) -> str:
    return json.dumps(plan, sort_keys=True)


def _makespan(artifact: Artifact) -> float:
    return Report.from_json(artifact.stages["report"]).makespan_ns


def _unlimited() -> Budget:
    """There is no traffic: trials may cost what they do."""
    return Budget(share=1e12, start=1 << 62, most_ns=float("inf"))


def open_index(options: CompileOptions) -> ProfileIndex:
    """The profile index in the cache folder, in memory without one."""
    return ProfileIndex(options.cache / NAME if options.cache is not None else None)
