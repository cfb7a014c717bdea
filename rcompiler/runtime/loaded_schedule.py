"""A schedule in memory as the threads of a team read it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from rcompiler.runtime import control as at
from rcompiler.runtime import tables
from rcompiler.runtime.image import LoadedImage
from rcompiler.runtime.memory import address, arena
from rcompiler.runtime.post_mortem import PostMortem, at_word
from rcompiler.runtime.program import KernelEntry
from rcompiler.runtime.thread_schedule import Stream, ThreadSchedule

_WORD = 8
_PAGE = 4096


class LoadedSchedule:
    """A schedule in memory as compiled code reads it: streams, counters, kernels.

    Attributes:
        schedule: what it is of.
        streams: words of each thread.
        events: counters, a cache line each.
        workspace: bytes that the kernels want for each EU, in whole pages: no line of one EU is
            near a line of another.
    """

    def __init__(
        self, code: LoadedImage, kernels: Sequence[KernelEntry], schedule: ThreadSchedule
    ) -> None:
        """Raises ArtifactError where a kernel is not in the image, DeviceError for no memory."""
        self.schedule, self._code = schedule, code
        self.events = arena(max(1, len(schedule.events)) * at.LINE * _WORD, "events").view(np.int64)
        self._totals = np.array([*schedule.totals, 0], np.int64)
        self._words = schedule.words
        if any(map(tables.loops, schedule.streams)):  # threads count in them
            self._words = arena(schedule.words.nbytes, "streams").view(np.int64)
            self._words[:] = schedule.words
        self.streams = [self.stream(piece) for piece in schedule.threads]
        self._stream_table = np.array([address(s) for s in self.streams], np.int64)
        self._kernel_table = np.array([*(code.function(k.name) for k in kernels), 0], np.int64)
        workspace = max((k.workspace for k in kernels), default=0)
        self.workspace = -(-workspace // _PAGE) * _PAGE

    def stream(self, piece: Stream) -> np.ndarray:
        """The words of a stream or queue that threads walk."""
        return self._words[piece.start : piece.start + len(piece.stream)]

    def write(self, control: np.ndarray) -> None:
        """Name it in a control block: the next launch runs it. No worker may run."""
        self.reset(int(control[at.EPOCH]))
        control[at.STREAMS] = address(self._stream_table)
        control[at.KERNELS] = address(self._kernel_table)
        control[at.EVENTS] = address(self.events)
        control[at.TOTALS] = address(self._totals)
        control[at.OPERANDS] = self.schedule.operands
        control[at.WORKSPACE] = self.workspace

    def reset(self, epoch: int) -> None:
        """All counters as if so many launches had run it and had gone well."""
        counters = self.events.reshape(-1, at.LINE)[:, 0]
        counters[: len(self._totals) - 1] = epoch * self._totals[:-1]
        if self._words is not self.schedule.words:
            self._words[:] = self.schedule.words  # a thread may have been left in a loop

    def post_mortem(self, positions: Sequence[int], before: int) -> PostMortem:
        """Of a launch that stopped, `before` launches after the first.

        positions: of all threads in their streams.
        """
        place = partial(at_word, self.schedule, self._words, positions)
        counts = self.events.reshape(-1, at.LINE)[: len(self.schedule.events), 0].tolist()
        return PostMortem(self.schedule, place, counts, before)
