"""Where the threads of a block meet between the stages of a task, see `roller-tile-threads`.

gpu.barrier            // some thread may still read what the task before has kept
stage 0, stage 1       // side by side
gpu.barrier            // stage 2 reads stage 0, or is kept where that or what it reads is
stage 2
gpu.barrier
results
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import gpu

from rcompiler.linalg.kept_stages import kept_bytes, sources_of


@dataclass
class _Block:
    """What was put into shared memory in a block since its last barrier: the stages, and of each
    the bytes of it and of those that it reads.
    """

    stages: list[ir.Value] = field(default_factory=list)
    touched: list[tuple[int, int]] = field(default_factory=list)

    def meet(self) -> None:
        """A barrier at the insertion point."""
        gpu.BarrierOp()
        self.stages, self.touched = [], []


class Barriers:
    """The barriers of one body, put in front of its stages and results in their order."""

    def __init__(self) -> None:
        self._blocks: dict[ir.Block, _Block] = {}

    def before_stage(self, op: ir.Operation) -> None:
        """At the insertion point, if the stage that is written there waits for any."""
        block = self._blocks.get(op.block)
        sources = sources_of(op)
        if block is None:
            block = self._blocks[op.block] = _Block()
            block.meet()
        elif any(source.result in block.stages for source in sources) or any(
            start < kept_bytes(op)[1] and kept_bytes(op)[0] < end for start, end in block.touched
        ):
            block.meet()
        block.stages.append(op.result)
        block.touched += [kept_bytes(each) for each in (op, *sources)]

    def before_results(self, block: ir.Block) -> None:
        """At the insertion point, if stages were written in that block that none has met behind."""
        found = self._blocks.get(block)
        if found is not None and found.stages:
            found.meet()
