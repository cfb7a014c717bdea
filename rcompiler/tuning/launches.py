"""Plans that are loaded and launched in turn, on random inputs, and whose results are compared."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rcompiler.astra import Plan, Sample
from rcompiler.astra.variables import WHOLE
from rcompiler.driver.certified import prove
from rcompiler.errors import WrongKernel
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.plans import PATIENCE_S
from rcompiler.support.random_inputs import random_inputs

Columns = Mapping[str, Sequence[object]]  # of the times of all runs, see `Executable.times`

_REST_S = 0.002  # threads that wait for their next launch spin for a tenth of that
# Of the largest result, by bytes of a number: other kernels may sum in another order.
_TOLERANCE = {2: 2e-2, 4: 1e-3, 8: 1e-6}


class LaunchedPlan:
    """A plan with threads, memory and inputs of its own."""

    def __init__(self, artifact: Artifact, seed: int, *, timed: bool) -> None:
        """Prove it, load it, and draw its inputs.

        timed: note when each run of rTasks begins and ends. Raises CompilerError.
        """
        ranges = {each.input: (each.first, each.last + 1) for each in artifact.ranges}
        feeds = random_inputs(artifact.given, seed, ranges)
        self._timed = timed
        self._model = Executable(artifact, timed=timed, validate=prove, wait_limit_s=PATIENCE_S)
        self._binding = self._model.bind(feeds)
        self._delay = self._model.run_delay()

    @property
    def outputs(self) -> Sequence[np.ndarray]:
        """Of the last launch."""
        return self._binding.outputs

    def run(self) -> tuple[float, float, Columns]:
        """ns, the share of it in which threads had no CPU, and the times of all runs if timed."""
        late, start = self._delay.ns(), time.perf_counter_ns()
        self._binding()
        ns = time.perf_counter_ns() - start
        gap = (self._delay.ns() - late) / max(ns, 1)
        return float(ns), gap, self._model.times() if self._timed else {}

    def close(self) -> None:
        """Its threads end."""
        self._delay.close()
        self._model.close()


class Launches:
    """Of two plans by turns: one that serves and one that is tried.

    Results are those of the plan that is launched first, the static one: within what another order
    of sums may change, or bit by bit.
    """

    def __init__(
        self,
        static: Plan,
        make: Callable[[Plan, bool], LaunchedPlan],
        scopes: Callable[[Plan, Columns], Mapping[str, float]],
    ) -> None:
        """make: loads a plan, timed or not; scopes: ns of each scope of a plan."""
        self._static, self._make, self._scopes = static, make, scopes
        self._loaded: dict[tuple[str, bool], LaunchedPlan] = {}
        self._right: list[np.ndarray] = []
        self._last: LaunchedPlan | None = None

    def sample(self, plan: Plan, *, serving: Plan, timed: bool) -> Sample:
        """Launch a plan. serving: the one that stays loaded. Raises CompilerError."""
        own = self._plan(plan, serving, timed)
        if own is not self._last:
            # Threads of the other plan spin for a while before they sleep, in the way of these; and
            # these have slept, and their caches are the other's.
            time.sleep(_REST_S)
            own.run()
            self._last = own
        ns, gap, columns = own.run()
        return Sample({**(self._scopes(plan, columns) if columns else {}), WHOLE: ns}, gap)

    def check(self, plan: Plan, *, serving: Plan, timed: bool, exact: bool) -> None:
        """Compare the results of a plan with the static plan's. exact: bit by bit.

        Raises WrongKernel.
        """
        if not self._right:
            self.sample(self._static, serving=serving, timed=timed)
            own = self._plan(self._static, serving, timed)
            self._right = [output.copy() for output in own.outputs]
            self.sample(plan, serving=serving, timed=timed)
        outputs = self._plan(plan, serving, timed).outputs
        for number, (found, right) in enumerate(zip(outputs, self._right, strict=True)):
            if not agree(found, right, exact):
                chosen = ", ".join(f"{name}: {choice}" for name, choice in sorted(plan.items()))
                raise WrongKernel(
                    f"output {number} of plan {chosen} is not that of the static plan; this is a "
                    "defect of the compiler, report it with the model"
                )

    def close(self) -> None:
        """Of all plans."""
        for own in self._loaded.values():
            own.close()
        self._loaded.clear()

    def _plan(self, plan: Plan, serving: Plan, timed: bool) -> LaunchedPlan:
        key = _key(plan), timed
        if key not in self._loaded:
            kept = _key(serving), timed
            for other in [each for each in self._loaded if each != kept]:
                self._loaded.pop(other).close()
            self._loaded[key] = self._make(plan, timed)
        return self._loaded[key]


def agree(found: np.ndarray, right: np.ndarray, exact: bool) -> bool:
    """Whether results are equal, or as good: of floats, within a tolerance of the largest one.

    exact: only equal bits are.
    """
    if found.tobytes() == right.tobytes():
        return True
    if exact or right.dtype.kind not in "fV":
        return False
    one, two = found.astype(np.float64), right.astype(np.float64)
    known = np.isfinite(two)
    if not np.array_equal(known, np.isfinite(one)):
        return False
    tolerance = _TOLERANCE.get(right.dtype.itemsize, 0.0) * np.abs(two[known]).max(initial=0.0)
    return bool((np.abs(one - two)[known] <= tolerance).all())


def _key(plan: Plan) -> str:
    return json.dumps(plan, sort_keys=True)
