"""What the kernel reads of its launches and writes of them, on the device; see `control`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate

import numpy as np

from rcompiler.runtime import tables
from rcompiler.runtime.gpu import control as at
from rcompiler.runtime.gpu.driver import Driver
from rcompiler.runtime.gpu.launches import KernelLaunch
from rcompiler.runtime.gpu.owned_memory import WORD, OwnedMemory, behind_one_another
from rcompiler.runtime.post_mortem import PostMortem, after_steps
from rcompiler.runtime.thread_schedule import ThreadSchedule

_REPORT = "report it with the model"


class LaunchControls:
    """The control words of each launch: it has streams, counters and a report of its own.

    Attributes:
        addresses: of the control words of each launch, in order.
    """

    def __init__(
        self, memory: OwnedMemory, launches: Sequence[KernelLaunch], limit_s: float
    ) -> None:
        """limit_s: how long a wait may take."""
        self._launches = launches
        schedules = [launch.schedule for launch in launches]
        counters = [len(schedule.events) + 1 for schedule in schedules]
        self._sizes = [
            at.REPORT_STEPS + launch.blocks + count
            for launch, count in zip(launches, counters, strict=True)
        ]
        self._reports = memory.mapped(self._report_bytes)
        starts = [[piece.start for piece in schedule.threads] for schedule in schedules]
        control = {
            "WORDS": memory.parts(schedule.words for schedule in schedules),
            "STARTS": memory.parts(starts),
            "EVENTS": memory.parts(np.zeros(count * at.LINE, np.int64) for count in counters),
            "COUNTERS": counters,
            "TOTALS": memory.parts([*schedule.totals, 0] for schedule in schedules),
            "STEPS": memory.parts(np.zeros(launch.blocks, np.int64) for launch in launches),
            "EUS": [launch.blocks for launch in launches],
            "MEETINGS": [_meetings(schedule) for schedule in schedules],
            "LIMIT": [int(limit_s * 1e9)] * len(launches),
            "REPORT": behind_one_another(self._reports, self._sizes),
        }
        self.addresses = memory.parts(zip(*(control[name] for name in at.FIELDS), strict=True))

    @property
    def _report_bytes(self) -> int:
        return sum(self._sizes) * WORD

    def failure(self, driver: Driver) -> str:
        """Who waited for whom, as the kernel of a launch wrote it down, and what to do about it;
        "" if none has.
        """
        reports = driver.mapped(self._reports, self._report_bytes).view(np.int64)
        ends = accumulate(self._sizes)
        for launch, size, end in zip(self._launches, self._sizes, ends, strict=True):
            if reports[end - size]:
                return _post_mortem(launch.schedule, reports[end - size : end])
        return ""


def _post_mortem(schedule: ThreadSchedule, report: np.ndarray) -> str:
    eus = len(schedule.threads)
    steps = report[at.REPORT_STEPS :][:eus].tolist()
    counts = report[at.REPORT_STEPS + eus :].tolist()
    place = partial(after_steps, schedule, steps)
    found = PostMortem(schedule, place, counts, int(report[at.REPORT_BEFORE]))
    eu, event = int(report[at.REPORT_EU]), int(report[at.REPORT_EVENT])
    if event == at.ON_BOXES:
        return f"{found.at_boxes(eu)}: a defect of the compiler or of the device; {_REPORT}"
    waits = found.waits()
    if event == at.ON_ALL:
        waits.append(found.at_barrier(eu, int(report[at.REPORT_TARGET]) - counts[-1]))
    return f"{'; '.join(waits[:4])}; this is a defect of the schedule: compile again"


def _meetings(schedule: ThreadSchedule) -> int:
    """Barriers of all EUs in one launch."""
    steps = tables.instructions(schedule.threads[0].stream)
    return sum(opcode == tables.BARRIER for _, opcode, _ in steps)
