"""rc-linalg-to-rtask: S1 -> S2."""

from dataclasses import dataclass

from rcompiler.passes import Element, Pipeline
from rcompiler.passes.rtask_form import RTaskForm


@dataclass(frozen=True)
class RcLinalgToRtask(Pipeline):
    """Clean up and group linalg ops into rOperators.

    Attributes:
        fusion: group ops beyond views.
        flat_rows: the rows of a pointwise convolution stay one behind the other, since vectors run
            along all of them (on a CPU); a pad that parts them is an rOperator of its own then, or
            goes with what reads it.
        apart: what matters only under a condition stays apart from what matters under another, or
            always.
    """

    fusion: bool = True
    flat_rows: bool = False
    apart: bool = False

    def passes(self) -> list[Element]:
        return ["cse", RTaskForm(self.fusion, self.flat_rows, self.apart)]
