"""rc-connect-operators: S2 -> S2."""

from dataclasses import dataclass

from rcompiler.options import Precision
from rcompiler.passes import Pipeline
from rcompiler.passes.rtask_defer_normalisation import RTaskDeferNormalisation
from rcompiler.passes.rtask_stage_rows import RTaskStageRows
from rcompiler.passes.rtask_stitch import RTaskStitch


@dataclass(frozen=True)
class RcConnectOperators(Pipeline):
    """Keep tiles on chip from one rOperator to the next, and order what is in between."""

    device: str = "cpu"
    precision: Precision = "f32"

    def text(self) -> str:
        stitch = RTaskStitch(self.device, self.precision)
        return f"{stitch},{RTaskDeferNormalisation()},{RTaskStageRows()}"
