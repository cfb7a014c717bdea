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
from rcompiler.runtime.gpu.driver import Argument, Driver
from rcompiler.runtime.gpu.image import GpuImage
from rcompiler.runtime.gpu.launch_controls import LaunchControls
from rcompiler.runtime.gpu.launches import KernelLaunch
from rcompiler.runtime.gpu.owned_memory import WORD, OwnedMemory
from rcompiler.runtime.gpu.tensor_maps import MapTable
from rcompiler.runtime.index_checks import IndexChecks
from rcompiler.runtime.memory import ALIGNMENT


class Bases(NamedTuple):
    """Where the tables of one set of inputs and outputs lie: addresses of memories, tensor maps."""

    addresses: int
    maps: int


class Resident:
    """Inputs and outputs of the model have places on the device, for callers that bring none.

    Attributes:
        inputs, outputs: these places, in order; states lie elsewhere, and come behind them. What
            the model says of its indices has one place, for all launches.
        failed: whether a launch went wrong: what lies on the device is of no use then.
    """

    def __init__(
        self,
        artifact: Artifact,
        image: GpuImage,
        launches: Sequence[KernelLaunch],
        driver: Driver,
        function: Any,
        limit_s: float,
    ) -> None:
        self._image, self._launches, self._driver = image, launches, driver
        self._function, self._limit_s, self._epoch = function, limit_s, 0
        self.failed = False
        memory = OwnedMemory(driver)
        self.close = weakref.finalize(self, memory.free)
        self._fixed = [memory.new(artifact.arena_bytes), memory.new(artifact.constants.size)]
        driver.write(self._fixed[1], artifact.constants)
        told = artifact.given if artifact.states else artifact.inputs
        self.inputs = [memory.new(tensor.nbytes) for tensor in told]
        self.outputs = [memory.new(tensor.nbytes) for tensor in artifact.returned]
        self._counts = [memory.new(WORD) for _ in artifact.counts]
        self._checks = IndexChecks(artifact.checks)
        answers = memory.new(self._checks.size) if self._checks else 0
        self._answers = range(answers, answers + self._checks.size, ALIGNMENT)
        self._places: list[int] = []  # what the table of base addresses holds
        written = len(artifact.outputs) + len(self._counts) + len(self._answers)
        count = len(self._fixed) + len(artifact.inputs) + written
        self._maps = MapTable(image.boxes, len(artifact.kernels), count, _operands(launches))
        self._bases = Bases(memory.zeros(count), memory.new(self._maps.bytes))
        self._controls = LaunchControls(memory, launches, limit_s)

    def launch(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """One inference with tensors at these addresses. Raises DeviceError, RangeError."""
        places = [*self._fixed, *inputs, *outputs, *self._counts, *self._answers]
        if places != self._places:
            self._write(self._bases, places)
            self._places = places
        self._run(self._start, self._bases)

    def capture(self, inputs: Sequence[int], outputs: Sequence[int]) -> tuple[Any, Bases]:
        """The launches with tensors at these addresses as a graph, and the tables that it reads,
        which the caller gives back.
        """
        places = [*self._fixed, *inputs, *outputs, *self._counts, *self._answers]
        bases = Bases(
            self._driver.allocate(len(places) * WORD), self._driver.allocate(self._maps.bytes)
        )
        self._write(bases, places)
        return self._driver.capture(partial(self._start, bases)), bases

    def rewrite(self, bases: Bases, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Let the launches of `capture` have tensors at other addresses."""
        self._write(bases, [*self._fixed, *inputs, *outputs, *self._counts, *self._answers])

    def counted(self) -> list[np.ndarray]:
        """The sizes that the model has computed in the last inference."""
        words = (np.asarray(self._driver.read(place, WORD)) for place in self._counts)
        return [word.view(np.int64).reshape(()) for word in words]

    def _write(self, bases: Bases, places: Sequence[int]) -> None:
        self._driver.write(bases.addresses, np.asarray(places, np.int64).view(np.uint8))
        self._maps.write(self._driver, bases.maps, places)

    def replay(self, graph: Any, bases: Bases) -> None:
        """One inference by `capture`. Raises DeviceError, RangeError."""
        self._run(partial(self._replay, graph), bases)

    def timed(self, graph: Any, bases: Bases, calls: int) -> float:
        """ns that so many inferences by `capture` take, by the device's clock. Raises DeviceError,
        RangeError.

        Nobody waits between them.
        """
        found: list[float] = []

        def several() -> None:
            self._replay(graph, bases)
            for _ in range(calls - 1):
                self._epoch += 1
                self._replay(graph, bases)

        self._run(lambda _: found.append(self._driver.elapsed_ns(several)), bases)
        return found[0]

    def _replay(self, graph: Any, bases: Bases) -> None:
        # Where there are several none has waits, and nothing else asks which inference it is.
        arguments = self._arguments(bases, 0) if len(self._launches) == 1 else None
        self._driver.launch_graph(graph, arguments)

    def _start(self, bases: Bases) -> None:
        threads, shared = (self._image.threads, 1, 1), self._image.shared
        for number, launch in enumerate(self._launches):
            place = (self._function, (launch.blocks, 1, 1), threads, shared)
            self._driver.launch(*place, self._arguments(bases, number), launch.cooperative)

    def _arguments(self, bases: Bases, launch: int) -> list[Argument]:
        addresses = self._controls.addresses[launch], bases.addresses, bases.maps
        return [*map(np.uint64, addresses), np.int64(self._epoch)]

    def _run(self, start: Callable[[Bases], None], bases: Bases) -> None:
        if self.failed:
            raise DeviceError("an earlier launch of the model failed; bind it again")
        self._epoch += 1
        try:
            start(bases)
            self._driver.synchronize()
        except DeviceError as error:
            self.failed = True
            waits = self._controls.failure(self._driver)
            if not waits:
                raise
            raise DeviceError(
                f"the schedule stopped: a wait took longer than {self._limit_s:g} s; {waits}"
            ) from error
        if self._checks:
            self._checks.look_at(self._driver.read(self._answers.start, self._checks.size))


def _operands(launches: Sequence[KernelLaunch]) -> Iterator[tuple[int, list[int]]]:
    """Kernel, and the memory of each operand, of all runs."""
    for thread in (thread for launch in launches for thread in launch.schedule.threads):
        for _, opcode, operands in tables.instructions(thread.stream):
            if opcode == tables.RUN:
                yield int(operands[0]), [int(word) for word in operands[5::2]]
