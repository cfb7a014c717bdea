"""Where the threads of a block wait for each other between the stages of a task."""

from __future__ import annotations

from rcompiler.kernelgen.simt.emitter import SimtEmitter
from rcompiler.kernelgen.stages import Stage
from rcompiler.kernelgen.target import Meeting


class BlockMeeting(Meeting):
    """Barriers. Stages that do not depend on each other are computed side by side."""

    def __init__(self, emitter: SimtEmitter) -> None:
        self._e = emitter
        self._apart: list[Stage] = []  # those that were written since the last barrier

    def begin(self) -> None:
        """Some thread may still read the tiles of the step or task before."""
        self._meet()
        self._e.taken = 0

    def before(self, stage: Stage) -> None:
        """What it waits for must be there."""
        if any(stage.waits_for(other) for other in self._apart):
            self._meet()
        self._apart.append(stage)

    def before_results(self) -> None:
        """Results read any stage."""
        self._meet()

    def end(self) -> None:
        """Outside of stages groups take register tiles by their numbers."""
        self._e.taken = None

    def _meet(self) -> None:
        """What stages have kept so far is there for all threads."""
        self._e.barrier()
        self._apart = []
