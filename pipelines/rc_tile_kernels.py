"""rc-tile-kernels: S3 -> S3, and S4 -> S4."""

from dataclasses import dataclass

from rcompiler.passes import Element, Pipeline
from rcompiler.passes.roller_tidy_tasks import RollerTidyTasks
from rcompiler.passes.roller_tile_reductions import RollerTileReductions
from rcompiler.passes.roller_tile_registers import RollerTileRegisters
from rcompiler.passes.roller_tile_tasks import RollerTileTasks


@dataclass(frozen=True)
class RcTileKernels(Pipeline):
    """Make the body of every rKernel that of one rTask, tiled down to registers."""

    def passes(self) -> list[Element]:
        return [
            RollerTileTasks(),
            RollerTileReductions(),
            RollerTileRegisters(),
            RollerTidyTasks(),
        ]
