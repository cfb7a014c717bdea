"""What became of a case: its schedule in numpy beside what ONNX expects of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from measurements import backend_coverage
from measurements._case_pool import Report, Verdict
from numpy_schedule import Results
from s4 import S4, s4_of

from rcompiler.driver import isolate

WHOLE = "whole"  # the status of a case that is right, and not all of whose bodies are tiled


@dataclass
class Schedules:
    """What compiles in place of `compile_onnx`: it makes what interprets schedules.

    Attributes:
        tasks: how many rTasks have run that are tiled bodies.
        whole: operators whose rTasks are parts of a body of the whole operator.
    """

    tasks: int = 0
    whole: set[str] = field(default_factory=set)

    def compile_onnx(
        self,
        model: Any,
        *,
        target: str,
        shapes: Mapping[str, Sequence[int]] | None = None,
        values: Mapping[str, np.ndarray] | None = None,
        cache: bool = False,
        bounds: Mapping[str, int] | None = None,
    ) -> S4:
        """As `rcompiler.compile_onnx` with these options, see there."""
        made = s4_of(model.proto(), shapes, values, target, bounds)
        return replace(made, witness=self._ran)

    def _ran(self, found: Results) -> None:
        self.tasks += found.tasks
        self.whole |= found.whole


class Judge:
    """The cases by names, for some targets. A name is that of the target, and of the case."""

    def __init__(self, targets: Sequence[str]) -> None:
        self._witness = backend_coverage.Witness()
        self._tests = {
            f"{target} {name}": test
            for target in targets
            for name, test in backend_coverage.load_tests("", self._witness, target).items()
        }

    @property
    def names(self) -> list[str]:
        """Of all cases."""
        return sorted(self._tests)

    def judged(self, name: str, report: Report = lambda _: None) -> Verdict:
        """A status of `backend_coverage`, or WHOLE.

        Its facts: how many tiled rTasks ran, and the operators of `Schedules.whole`.
        """
        schedules, compiler = Schedules(), isolate.compiler
        self._witness.report = report
        isolate.compiler = lambda: schedules.compile_onnx
        try:
            found = backend_coverage.run_test(self._tests[name], self._witness)
        finally:
            isolate.compiler = compiler
        status = WHOLE if found.status == "pass" and schedules.whole else found.status
        facts = {"tasks": schedules.tasks, "whole": sorted(schedules.whole)}
        return replace(found, status=status, facts=facts)
