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
    """What compiles in place of `compile_onnx`: it makes what interprets schedules for a target.

    Attributes:
        tasks: how many rTasks have run that are tiled bodies.
        whole: operators whose rTasks are parts of a body of the whole operator.
    """

    target: str
    tasks: int = 0
    whole: set[str] = field(default_factory=set)

    def compile_onnx(
        self,
        model: Any,
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        values: Mapping[str, np.ndarray] | None = None,
        bounds: Mapping[str, int] | None = None,
        **_: Any,
    ) -> S4:
        """As `rcompiler.compile_onnx` with these options, see there; others change no schedule."""
        made = s4_of(model.proto(), shapes, values, self.target, bounds)
        return replace(made, witness=self._ran)

    def _ran(self, found: Results) -> None:
        self.tasks += found.tasks
        self.whole |= found.whole


class Judge:
    """The cases by names."""

    def __init__(self) -> None:
        self._witness = backend_coverage.Witness()
        self._tests = backend_coverage.load_tests("", self._witness)

    @property
    def names(self) -> list[str]:
        """Of all cases."""
        return sorted(self._tests)

    def judged(self, name: str, target: str, report: Report = lambda _: None) -> Verdict:
        """A status of `backend_coverage`, or WHOLE, of a case for a target.

        Its facts: how many tiled rTasks ran, and the operators of `Schedules.whole`.
        """
        schedules, compiler = Schedules(target), isolate.compiler
        self._witness.report = report
        isolate.compiler = lambda: schedules.compile_onnx
        try:
            found = backend_coverage.run_test(self._tests[name], self._witness)
        finally:
            isolate.compiler = compiler
        status = WHOLE if found.status == "pass" and schedules.whole else found.status
        facts = {"tasks": schedules.tasks, "whole": sorted(schedules.whole)}
        return replace(found, status=status, facts=facts)
