"""A model on a device: its code, and all of its memory that stays where it is."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rcompiler.errors import DeviceError
from rcompiler.runtime import tables
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.gpu import control as at
from rcompiler.runtime.gpu.driver import Argument, Driver
from rcompiler.runtime.gpu.image import GpuImage
from rcompiler.runtime.gpu.tensor_maps import MapTable
from rcompiler.runtime.post_mortem import PostMortem, after_steps
from rcompiler.runtime.schedule import Schedule

_WORD = 8


def load_kernel(driver: Driver, image: GpuImage, eus: int) -> Any:
    """The kernel on the device, which can run `eus` blocks of it at the same time.

    Raises DeviceError where it cannot.
    """
    have = driver.capability
    if have < image.capability or (image.exact and have != image.capability):
        raise DeviceError(
            f"the code is for {image.chip} and {driver.name} has compute capability "
            f"{have[0]}.{have[1]}; compile the model for this device"
        )
    # Machine code runs on its own generation only, and the emulated device reads none.
    ready = driver.real and image.cubin and have[0] == image.capability[0]
    function = driver.function(driver.load(image.cubin if ready else image.ptx), image.entry)
    room = driver.multiprocessors * driver.occupancy(function, image.threads, image.shared)
    if room < eus:
        raise DeviceError(
            f"the schedule needs {eus} blocks at the same time, and {driver.name} runs {room} "
            f"blocks of {image.threads} threads and {image.shared} bytes of shared memory; compile "
            f"the model with eus={room}"
        )
    return function


class Bases(NamedTuple):
    """Where the tables of one set of inputs and outputs lie: addresses of memories, tensor maps."""

    addresses: int
    maps: int


class Resident:
    """Inputs and outputs of the model have places on the device, for callers that bring none.

    Attributes:
        inputs, outputs: these places, in order.
        failed: whether a launch went wrong: what lies on the device is of no use then.
    """

    def __init__(
        self,
        artifact: Artifact,
        image: GpuImage,
        schedule: Schedule,
        driver: Driver,
        function: Any,
        limit_s: float,
    ) -> None:
        self._image, self._schedule, self._driver = image, schedule, driver
        self._function, self._limit_s, self._epoch = function, limit_s, 0
        self.failed = False
        memory = _Memory(driver)
        self.close = weakref.finalize(self, memory.free)
        self._fixed = [memory.new(artifact.arena_bytes), memory.new(artifact.constants.size)]
        driver.write(self._fixed[1], artifact.constants)
        self.inputs = [memory.new(tensor.nbytes) for tensor in artifact.inputs]
        self.outputs = [memory.new(tensor.nbytes) for tensor in artifact.outputs]
        self._places: list[int] = []  # what the table of base addresses holds
        count = len(self._fixed) + len(self.inputs) + len(self.outputs)
        self._maps = MapTable(image.boxes, len(artifact.kernels), count, _operands(schedule))
        self._bases = Bases(memory.zeros(count), memory.new(self._maps.bytes))
        self._eus, counters = len(schedule.threads), len(schedule.events) + 1
        self._report_bytes = (at.REPORT_STEPS + self._eus + counters) * _WORD
        self._report = memory.mapped(self._report_bytes)
        control = {
            "WORDS": memory.words(schedule.words),
            "STARTS": memory.words([piece.start for piece in schedule.threads]),
            "EVENTS": memory.zeros(counters * at.LINE),
            "COUNTERS": counters,
            "TOTALS": memory.words([*schedule.totals, 0]),
            "STEPS": memory.zeros(self._eus),
            "EUS": self._eus,
            "MEETINGS": _meetings(schedule),
            "LIMIT": int(limit_s * 1e9),
            "REPORT": self._report,
        }
        self._control = memory.words([control[name] for name in at.FIELDS])

    def launch(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """One inference with tensors at these addresses. Raises DeviceError."""
        places = [*self._fixed, *inputs, *outputs]
        if places != self._places:
            self._write(self._bases, places)
            self._places = places
        self._run(self._start, self._bases)

    def capture(self, inputs: Sequence[int], outputs: Sequence[int]) -> tuple[Any, Bases]:
        """The launch with tensors at these addresses as a graph, and the tables that it reads,
        which the caller gives back.
        """
        places = [*self._fixed, *inputs, *outputs]
        bases = Bases(
            self._driver.allocate(len(places) * _WORD), self._driver.allocate(self._maps.bytes)
        )
        self._write(bases, places)
        return self._driver.capture(partial(self._start, self._arguments(bases))), bases

    def _write(self, bases: Bases, places: Sequence[int]) -> None:
        self._driver.write(bases.addresses, np.asarray(places, np.int64).view(np.uint8))
        self._maps.write(self._driver, bases.maps, places)

    def replay(self, graph: Any, bases: Bases) -> None:
        """One inference by `capture`. Raises DeviceError."""
        self._run(partial(self._driver.launch_graph, graph), bases)

    def _arguments(self, bases: Bases) -> list[Argument]:
        addresses = self._control, bases.addresses, bases.maps
        return [*map(np.uint64, addresses), np.int64(self._epoch)]

    def _start(self, arguments: Sequence[Argument]) -> None:
        grid, threads = (self._eus, 1, 1), (self._image.threads, 1, 1)
        shared = self._image.shared
        self._driver.launch(self._function, grid, threads, shared, arguments, cooperative=True)

    def _run(self, start: Callable[[Sequence[Argument]], None], bases: Bases) -> None:
        if self.failed:
            raise DeviceError("an earlier launch of the model failed; bind it again")
        self._epoch += 1
        try:
            start(self._arguments(bases))
            self._driver.synchronize()
        except DeviceError as error:
            self.failed = True
            report = self._driver.mapped(self._report, self._report_bytes).view(np.int64)
            if not report[0]:
                raise
            raise DeviceError(self._post_mortem(report)) from error

    def _post_mortem(self, report: np.ndarray) -> str:
        """Who waited for whom, as the kernel wrote it down."""
        schedule = self._schedule
        steps = report[at.REPORT_STEPS :][: self._eus].tolist()
        counts = report[at.REPORT_STEPS + self._eus :].tolist()
        place = partial(after_steps, schedule, steps)
        found = PostMortem(schedule, place, counts, int(report[at.REPORT_BEFORE]))
        waits = found.waits()
        if int(report[at.REPORT_EVENT]) == at.ON_ALL:
            missing = int(report[at.REPORT_TARGET]) - counts[-1]
            waits.append(found.at_barrier(int(report[at.REPORT_EU]), missing))
        shown = "; ".join(waits[:4])
        return (
            f"the schedule stopped: a wait took longer than {self._limit_s:g} s; {shown}; this is "
            "a defect of the schedule: compile again"
        )


class _Memory:
    """What a model has on the device."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._addresses: list[int] = []
        self._mapped: list[int] = []

    def new(self, size: int) -> int:
        """Address of `size` bytes."""
        address = self._driver.allocate(max(size, 1))
        self._addresses.append(address)
        return address

    def words(self, numbers: Sequence[int] | np.ndarray) -> int:
        """Address of these 64-bit words."""
        array = np.ascontiguousarray(numbers, np.int64)
        address = self.new(array.nbytes)
        if array.size:
            self._driver.write(address, array.view(np.uint8))
        return address

    def zeros(self, count: int) -> int:
        """Address of so many 64-bit words, all 0."""
        return self.words(np.zeros(count, np.int64))

    def mapped(self, size: int) -> int:
        """Address of bytes that the host sees even when a launch has failed."""
        address = self._driver.map_host(size)
        self._mapped.append(address)
        return address

    def free(self) -> None:
        """Give everything back."""
        for address in self._addresses:
            self._driver.free(address)
        for address in self._mapped:
            self._driver.unmap_host(address)
        self._addresses, self._mapped = [], []


def _meetings(schedule: Schedule) -> int:
    """Barriers of all EUs in one launch."""
    steps = tables.instructions(schedule.threads[0].stream)
    return sum(opcode == tables.BARRIER for _, opcode, _ in steps)


def _operands(schedule: Schedule) -> Iterator[tuple[int, list[int]]]:
    """Kernel, and the memory of each operand, of all runs."""
    for thread in schedule.threads:
        for _, opcode, operands in tables.instructions(thread.stream):
            if opcode == tables.RUN:
                yield int(operands[0]), [int(word) for word in operands[5::2]]
