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
# Words of the control block that name a schedule.
_OWN = np.array([at.STREAMS, at.KERNELS, at.EVENTS, at.TOTALS, at.OPERANDS, at.WORKSPACE, at.FPU])


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
        self,
        code: LoadedImage,
        kernels: Sequence[KernelEntry],
        schedule: ThreadSchedule,
        *,
        flushes: bool = False,
    ) -> None:
        """flushes: its kernels take denormal numbers for zeros.

        Raises ArtifactError where a kernel is not in the image, DeviceError for no memory.
        """
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
        # what `write` and `reset` take at each launch of models that take turns
        self._counters = self.events.reshape(-1, at.LINE)[: len(self._totals) - 1, 0]
        read = (self._stream_table, self._kernel_table, self.events, self._totals)
        fpu = at.FPU_FLUSH if flushes else 0
        own = [*map(address, read), schedule.operands, self.workspace, fpu]
        self._own = np.array(own, np.int64)

    def stream(self, piece: Stream) -> np.ndarray:
        """The words of a stream or queue that threads walk."""
        return self._words[piece.start : piece.start + len(piece.stream)]

    def write(self, control: np.ndarray) -> None:
        """Name it in a control block: the next launch runs it. No worker may run."""
        self.reset(int(control[at.EPOCH]))
        control[_OWN] = self._own

    def reset(self, epoch: int) -> None:
        """All counters as if so many launches had run it and had gone well."""
        np.multiply(self._totals[:-1], epoch, out=self._counters)
        if self._words is not self.schedule.words:
            self._words[:] = self.schedule.words  # a thread may have been left in a loop

    def post_mortem(self, positions: Sequence[int], before: int) -> PostMortem:
        """Of a launch that stopped, `before` launches after the first.

        positions: of all threads in their streams.
        """
        place = partial(at_word, self.schedule, self._words, positions)
        counts = self.events.reshape(-1, at.LINE)[: len(self.schedule.events), 0].tolist()
        return PostMortem(self.schedule, place, counts, before)
