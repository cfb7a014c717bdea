"""A loaded model on a GPU: numpy arrays in, a list of numpy arrays out."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from rcompiler.errors import ArtifactError, DeviceError
from rcompiler.runtime import tables
from rcompiler.runtime.arguments import Parameter, arrange
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.gpu import control as at
from rcompiler.runtime.gpu.driver import Driver
from rcompiler.runtime.gpu.image import GpuImage
from rcompiler.runtime.memory import Results
from rcompiler.runtime.post_mortem import PostMortem, after_steps
from rcompiler.runtime.schedule import Schedule, combine

_WORD = 8


@dataclass(frozen=True)
class DeviceNeeds:
    """What a device must have.

    Attributes:
        chip: "sm_90a": the code runs on this kind of GPU (with an `a`: on no other).
        blocks: that run at the same time, one per EU.
        threads, shared: of a block; bytes of shared memory.
        memory: bytes for weights, temporary tensors, inputs and outputs.
    """

    chip: str
    blocks: int
    threads: int
    shared: int
    memory: int


class GpuExecutable:
    """Runs an artifact as one cooperative launch per inference.

    Weights, temporary tensors, inputs and outputs have fixed places on the device. Calls from
    several threads are safe: they run one after the other.

    Attributes:
        artifact: what is run.
        inputs, outputs: name, shape, dtype of each, in the order of the call and of the result.
        eus: blocks of the launch, all of which run at the same time.
    """

    def __init__(
        self,
        artifact: Artifact,
        open_driver: Callable[[], Driver],
        *,
        wait_limit_s: float = 2.0,
        validate: Callable[[Artifact], None] | None = None,
    ) -> None:
        """Check; the device itself is opened by the first call.

        Args:
            open_driver: gives the device, or raises DeviceError where there is none.
            wait_limit_s: a wait inside of the kernel that takes longer ends it.
            validate: the full proof (no race, no deadlock) over the artifact's programs; raises
                to refuse. Called after the structural check, before any code is loaded.

        Raises:
            ArtifactError: the artifact contradicts itself or is for another kind of device.
        """
        artifact.check()
        if not isinstance(artifact.image, GpuImage):
            raise ArtifactError(
                f"the model is compiled for '{artifact.target}', which is no GPU; compile it for "
                "a GPU"
            )
        if taken := [program.name for program in artifact.programs if program.taken_by]:
            raise ArtifactError(
                f"program '{taken[0]}' consists of queues to take, and blocks of a GPU take none; "
                "compile the model again with another policy than 'dynamic'"
            )
        if validate is not None:
            validate(artifact)
        if not 0 < wait_limit_s <= 3600:
            raise DeviceError(f"wait_limit_s={wait_limit_s!r}: give seconds above 0, at most 3600")
        self.artifact = artifact
        self.inputs, self.outputs = artifact.inputs, artifact.outputs
        self.eus = max((program.eus for program in artifact.programs), default=1)
        self._image, self._limit_s = artifact.image, wait_limit_s
        self._parameters = [Parameter(tensor, "input") for tensor in self.inputs]
        outputs = [Parameter(tensor, "output") for tensor in self.outputs]
        self._results = [Results(p.shape, p.dtype).new for p in outputs]
        self._schedule = combine(artifact.programs, self.eus)
        self._open_driver = open_driver
        self._loaded: _Loaded | None = None
        self._lock = threading.Lock()
        self._closed = False

    def __call__(self, *args: object, **kwargs: object) -> list[np.ndarray]:
        """Run one inference.

        Args: one array per input, by position or by input name, of exactly the declared shape and
            dtype.

        Returns:
            One new array per output; they are the caller's to keep and change.

        Raises:
            ShapeError: an argument is missing, unknown, twice there, or of another shape or dtype.
            DeviceError: there is no device, it cannot run the model (not enough memory, or not all
                blocks at once), the model is closed, or the schedule stopped: who waited for whom.
        """
        given = arrange(self.inputs, args, kwargs, "input")
        taken = [p.take(value)[0] for p, value in zip(self._parameters, given, strict=True)]
        with self._lock:
            device = self._ready()
            try:
                device.write(taken)
                device.launch()
                return self._read(device)
            except DeviceError:
                # Events, loops and the report are left as they were: the next call begins anew.
                self._loaded = None
                raise

    @property
    def needs(self) -> DeviceNeeds:
        """What a device must have to run the model."""
        artifact, image = self.artifact, self._image
        outer = sum(tensor.nbytes for tensor in (*self.inputs, *self.outputs))
        memory = artifact.arena_bytes + artifact.constants.size + outer
        return DeviceNeeds(image.chip, self.eus, image.threads, image.shared, memory)

    def close(self) -> None:
        """Give back the memory of the device, as also happens when the model is collected.

        Idempotent.
        """
        with self._lock:
            self._closed = True
            if self._loaded is not None:
                self._loaded.close()

    def stage(self, name: str) -> str:
        """Text of a compilation stage, when the artifact carries it (see `Artifact.stage`)."""
        return self.artifact.stage(name)

    def save(self, path: str | Path) -> None:
        """Write the artifact (see `Artifact.save`)."""
        self.artifact.save(path)

    def _ready(self) -> _Loaded:
        if self._closed:
            raise DeviceError("the model is closed; load it again")
        if self._loaded is None:
            driver = self._open_driver()
            function = _load(driver, self._image, self.eus)
            self._loaded = _Loaded(
                self.artifact, self._image, self._schedule, driver, function, self._limit_s
            )
        return self._loaded

    def _read(self, device: _Loaded) -> list[np.ndarray]:
        found = []
        for new, data in zip(self._results, device.read(), strict=True):
            array, _ = new()
            _bytes(array)[:] = data
            found.append(array)
        return found


def _load(driver: Driver, image: GpuImage, eus: int) -> object:
    """The kernel on the device, which can run `eus` blocks of it at the same time."""
    have = driver.capability
    if have < image.capability or (image.exact and have != image.capability):
        raise DeviceError(
            f"the code is for {image.chip} and {driver.name} has compute capability "
            f"{have[0]}.{have[1]}; compile the model for this device"
        )
    function = driver.function(driver.load(image.cubin or image.ptx), image.entry)
    room = driver.multiprocessors * driver.occupancy(function, image.threads, image.shared)
    if room < eus:
        raise DeviceError(
            f"the schedule needs {eus} blocks at the same time, and {driver.name} runs {room} "
            f"blocks of {image.threads} threads and {image.shared} bytes of shared memory; compile "
            f"the model with eus={room}"
        )
    return function


class _Loaded:
    """A model on a device: everything that stays where it is."""

    def __init__(
        self,
        artifact: Artifact,
        image: GpuImage,
        schedule: Schedule,
        driver: Driver,
        function: object,
        limit_s: float,
    ) -> None:
        self._image, self._schedule, self._driver = image, schedule, driver
        self._function, self._limit_s, self._epoch = function, limit_s, 0
        memory = _Memory(driver)
        self.close = weakref.finalize(self, memory.free)
        arena = memory.new(artifact.arena_bytes)
        constants = memory.new(artifact.constants.size)
        driver.write(constants, artifact.constants)
        self._inputs = [memory.new(tensor.nbytes) for tensor in artifact.inputs]
        self._outputs = [(memory.new(tensor.nbytes), tensor.nbytes) for tensor in artifact.outputs]
        places = [arena, constants, *self._inputs, *(address for address, _ in self._outputs)]
        self._bases = memory.words(places)
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

    def write(self, inputs: Sequence[np.ndarray]) -> None:
        """Copy the inputs to the device."""
        for address, array in zip(self._inputs, inputs, strict=True):
            self._driver.write(address, _bytes(array))

    def read(self) -> list[np.ndarray]:
        """uint8[bytes] of each output."""
        return [self._driver.read(address, size) for address, size in self._outputs]

    def launch(self) -> None:
        """One inference. Raises DeviceError."""
        self._epoch += 1
        arguments = [np.uint64(self._control), np.uint64(self._bases), np.int64(self._epoch)]
        grid, threads = (self._eus, 1, 1), (self._image.threads, 1, 1)
        try:
            self._driver.launch(
                self._function, grid, threads, self._image.shared, arguments, cooperative=True
            )
            self._driver.synchronize()
        except DeviceError as error:
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


def _bytes(array: np.ndarray) -> np.ndarray:
    """The memory of a C-contiguous array."""
    return array.reshape(-1).view(np.uint8)


def _meetings(schedule: Schedule) -> int:
    """Barriers of all EUs in one launch."""
    steps = tables.instructions(schedule.threads[0].stream)
    return sum(opcode == tables.BARRIER for _, opcode, _ in steps)
