"""rc-linalg-to-rtask: S1 -> S2."""

from dataclasses import dataclass

from rcompiler.passes import Element, Pipeline
from rcompiler.passes.rtask_form import RTaskForm


@dataclass(frozen=True)
class RcLinalgToRtask(Pipeline):
    """Clean up and group linalg ops into rOperators."""

    fusion: bool = True
    flat_rows: bool = False

    def passes(self) -> list[Element]:
        return ["cse", RTaskForm(self.fusion, self.flat_rows)]
