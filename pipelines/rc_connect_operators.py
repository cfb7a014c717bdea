"""rc-connect-operators: S2 -> S2."""

from dataclasses import dataclass

from rcompiler.passes import Element, Pipeline
from rcompiler.passes.rtask_defer_normalisation import RTaskDeferNormalisation
from rcompiler.passes.rtask_stage_rows import RTaskStageRows
from rcompiler.passes.rtask_stitch import RTaskStitch


@dataclass(frozen=True)
class RcConnectOperators(Pipeline):
    """Keep tiles on chip from one rOperator to the next, and order what is in between."""

    def passes(self) -> list[Element]:
        return [RTaskStitch(), RTaskDeferNormalisation(), RTaskStageRows()]
