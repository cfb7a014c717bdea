"""rc-tile-threads: S3 -> S3, and S4 -> S4."""

from dataclasses import dataclass

from rcompiler.passes import Element, Pipeline
from rcompiler.passes.roller_tidy_tasks import RollerTidyTasks
from rcompiler.passes.roller_tile_tasks import RollerTileTasks
from rcompiler.passes.roller_tile_threads import RollerTileThreads


@dataclass(frozen=True)
class RcTileThreads(Pipeline):
    """Make the body of rKernels for GPUs that of one rTask, shared out to the threads of a block.

    Of those whose threads keep no operands of products in memory for others, and no stage over one
    that it reads; the others stay bodies of whole operators.
    """

    def passes(self) -> list[Element]:
        return [RollerTileTasks(by_threads=True), RollerTileThreads(), RollerTidyTasks()]
