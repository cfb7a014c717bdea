"""The emulated device."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rcompiler.emulator.faults import UnsupportedPtx
from rcompiler.emulator.machine import schedule
from rcompiler.emulator.machine.launch import Launch
from rcompiler.emulator.machine.memory import DeviceMemory
from rcompiler.emulator.machine.tensor_map import pack
from rcompiler.emulator.numbers.tensor_core import tensor_core
from rcompiler.emulator.occupancy import blocks_per_multiprocessor, multiprocessor
from rcompiler.emulator.ptx.parser import parse
from rcompiler.emulator.ptx.syntax import Module, Variable
from rcompiler.emulator.settings import Checks, Limits
from rcompiler.emulator.translate.kernel import Kernel
from rcompiler.emulator.translate.layout import GLOBAL
from rcompiler.errors import DeviceError
from rcompiler.runtime.gpu.driver import Argument, Bytes, KernelLimits, TensorTile

_STATIC_SHARED = 48 * 1024


@dataclass(frozen=True, eq=False)
class LoadedModule:
    """addresses: of its variables in global and constant memory."""

    module: Module
    addresses: dict[str, int]


@dataclass(frozen=True, eq=False)
class CapturedLaunch:
    """What `EmulatedDriver.launch` takes; place: grid, threads, and bytes of shared memory."""

    function: Kernel
    place: tuple[tuple[int, int, int], tuple[int, int, int], int]
    arguments: Sequence[Argument]
    cooperative: bool


class EmulatedDriver:
    """A GPU that is emulated: a Driver that finds faults.

    seed, interleave: with `interleave` the blocks of every launch advance in an order that `seed`
    makes, else together, which is fast. checks: what to look for. limits: of one launch.
    memory_bytes: of the device.
    """

    def __init__(
        self,
        *,
        capability: tuple[int, int] = (9, 0),
        multiprocessors: int = 132,
        seed: int = 0,
        interleave: bool = False,
        checks: Checks | None = None,
        limits: Limits | None = None,
        memory_bytes: int = 1 << 32,
    ) -> None:
        if multiprocessors < 1:
            raise DeviceError(f"a device of {multiprocessors} multiprocessors")
        self._sm, self._tensor_core = multiprocessor(capability), tensor_core(capability)
        self._capability, self._multiprocessors = capability, multiprocessors
        self._order = random.Random(seed) if interleave else None
        self._checks, self._limits = checks or Checks(), limits or Limits()
        self._memory = DeviceMemory(memory_bytes)
        self._captured: list[CapturedLaunch] | None = None  # instead of launching
        self._clock = 1  # ns since the device began; never 0, which kernels take for "not set"

    @property
    def name(self) -> str:
        return "emulated"

    @property
    def capability(self) -> tuple[int, int]:
        return self._capability

    @property
    def multiprocessors(self) -> int:
        return self._multiprocessors

    @property
    def real(self) -> bool:
        return False

    # -- memory

    def allocate(self, size: int) -> int:
        if size < 0:
            raise DeviceError(f"an allocation of {size} bytes")
        return self._memory.allocate(size).start + GLOBAL

    def free(self, address: int) -> None:
        self._memory.free(address)

    def write(self, address: int, data: Bytes) -> None:
        source = np.ascontiguousarray(data).view(np.uint8).ravel()
        where = self._memory.host_range(address, source.size)
        self._memory.bytes[where], self._memory.written[where] = source, 1

    def read(self, address: int, size: int) -> Bytes:
        return self._memory.bytes[self._memory.host_range(address, size)].copy()

    def fill(self, address: int, size: int, value: int) -> None:
        where = self._memory.host_range(address, size)
        self._memory.bytes[where], self._memory.written[where] = value, 1

    # Memory of the host is memory like any other here: an emulated launch that fails loses nothing.
    def map_host(self, size: int) -> int:
        address = self.allocate(size)
        self.fill(address, size, 0)
        return address

    def mapped(self, address: int, size: int) -> Bytes:
        return self.read(address, size)

    def unmap_host(self, address: int) -> None:
        self.free(address)

    def holds(self, address: int) -> bool:
        return self._memory.find(address) is not None

    def wait_for(self, stream: int) -> None:
        """There is no other stream."""

    # -- programs

    def load(self, image: bytes) -> LoadedModule:
        """image: PTX. Raises UnsupportedPtx if it is none, DeviceError if for another target."""
        try:
            module = parse(image.rstrip(b"\0").decode())
        except UnicodeDecodeError as error:
            raise UnsupportedPtx(f"the image is not text: {error}") from None
        if module.target > self._capability:
            raise DeviceError(
                f"the module is for compute capability {module.target}, and the device has "
                f"{self._capability}. Compile for the device, or emulate another one"
            )
        return LoadedModule(module, self._place(module))

    def _place(self, module: Module) -> dict[str, int]:
        """Give the module's variables memory and their initial values."""
        placed = {
            v.name: self._memory.allocate(v.size, f"variable '{v.name}'", v.space == "const")
            for v in module.variables.values()
            if v.space in ("global", "const")
        }
        addresses = {name: made.start + GLOBAL for name, made in placed.items()}
        for name, made in placed.items():
            data = self._initial(module.variables[name], addresses)
            self._memory.bytes[made.start : made.start + made.size] = np.frombuffer(data, np.uint8)
            self._memory.written[made.start : made.start + made.size] = 1
        return addresses

    def _initial(self, variable: Variable, addresses: dict[str, int]) -> bytes:
        data = bytearray(variable.initial or bytes(variable.size))
        for offset, name, addend in variable.pointers:
            if name not in addresses or offset + 8 > len(data):
                raise UnsupportedPtx(f"'{variable.name}' holds the address of unknown '{name}'")
            data[offset : offset + 8] = (addresses[name] + addend).to_bytes(8, "little")
        return bytes(data)

    def function(self, module: LoadedModule, name: str) -> Kernel:
        entry = module.module.functions.get(name)
        if entry is None or not entry.entry or not entry.defined:
            known = ", ".join(f.name for f in module.module.functions.values() if f.entry)
            raise DeviceError(f"the module has no kernel '{name}'; it has: {known or 'none'}")
        kernel = Kernel(module.module, entry, module.addresses)
        if kernel.layout.static_shared > _STATIC_SHARED:
            raise DeviceError(
                f"'{name}' has {kernel.layout.static_shared} bytes of static shared memory, and "
                f"{_STATIC_SHARED} are allowed. Use dynamic shared memory"
            )
        return kernel

    def limits(self, function: Kernel) -> KernelLimits:
        return KernelLimits(
            function.entry.threads or self._sm.block_threads,
            function.layout.static_shared,
            function.entry.register_limit,
        )

    def occupancy(self, function: Kernel, threads: int, shared_bytes: int) -> int:
        return blocks_per_multiprocessor(
            self._sm,
            threads,
            function.layout.static_shared + shared_bytes,
            function.entry.register_limit,
        )

    def tensor_map(self, tile: TensorTile) -> bytes:
        return pack(tile)

    # -- launches

    def launch(
        self,
        function: Kernel,
        grid: tuple[int, int, int],
        threads: tuple[int, int, int],
        shared_bytes: int,
        arguments: Sequence[Argument],
        cooperative: bool = False,
    ) -> None:
        """Runs the kernel to its end; raises EmulationFault for what it does wrong."""
        if self._captured is not None:
            place = (grid, threads, shared_bytes)
            return self._captured.append(CapturedLaunch(function, place, arguments, cooperative))
        resident = self._resident(function, grid, threads, shared_bytes, cooperative)
        launch = Launch(
            function,
            self._memory,
            grid,
            threads,
            shared_bytes,
            _pack_arguments(function, arguments),
            self._checks,
            self._limits,
            self._multiprocessors,
            self._tensor_core,
            self._clock,
        )
        with np.errstate(all="ignore"):
            try:
                schedule.run(launch, resident, self._order)
            finally:
                self._clock = launch.clock

    def _resident(
        self, function: Kernel, grid: tuple[int, int, int], threads: tuple[int, int, int],
        shared_bytes: int, cooperative: bool,
    ) -> int:  # fmt: skip
        """Blocks that run at once; DeviceError where a driver refuses the launch."""
        count = threads[0] * threads[1] * threads[2]
        if min(*grid, *threads) < 1 or shared_bytes < 0:
            raise DeviceError(f"'{function.name}': a launch of {grid} blocks of {threads} threads")
        if count > self.limits(function).max_threads:
            raise DeviceError(
                f"'{function.name}': {count} threads in a block, and at most "
                f"{self.limits(function).max_threads} are allowed"
            )
        resident = self._multiprocessors * self.occupancy(function, count, shared_bytes)
        if resident == 0:
            raise DeviceError(
                f"'{function.name}': a block of {count} threads with "
                f"{function.layout.static_shared + shared_bytes} bytes of shared memory does not "
                f"fit on a multiprocessor, which has {self._sm.block_shared} bytes for one"
            )
        blocks = grid[0] * grid[1] * grid[2]
        if cooperative and blocks > resident:
            raise DeviceError(
                f"'{function.name}': a cooperative launch of {blocks} blocks, and only {resident} "
                "run at once. Use fewer blocks, or less shared memory or threads in each"
            )
        return resident

    def synchronize(self) -> None:
        """Launches are done when they return."""

    def capture(self, launch: Callable[[], None]) -> list[CapturedLaunch]:
        found: list[CapturedLaunch] = []
        self._captured = found
        try:
            launch()
        finally:
            self._captured = None
        return found

    def launch_graph(
        self, graph: list[CapturedLaunch], arguments: Sequence[Argument] | None = None
    ) -> None:
        if arguments is not None and len(graph) != 1:
            raise DeviceError(f"new arguments for a graph of {len(graph)} launches; give it none")
        for each in graph:
            given = each.arguments if arguments is None else arguments
            self.launch(each.function, *each.place, given, each.cooperative)

    def drop_graph(self, graph: list[CapturedLaunch]) -> None:
        """Nothing is kept."""

    def elapsed_ns(self, work: Callable[[], None]) -> float:
        """By the clock that kernels see, which counts instructions."""
        start = self._clock
        work()
        return float(self._clock - start)


def _pack_arguments(function: Kernel, arguments: Sequence[Argument]) -> bytes:
    params = function.entry.params
    if len(params) != len(arguments):
        raise DeviceError(
            f"'{function.name}' has {len(params)} parameters, and {len(arguments)} were given"
        )
    data = bytearray(function.layout.argument_bytes)
    for param, argument in zip(params, arguments, strict=True):
        given = argument if isinstance(argument, bytes) else argument.tobytes()
        if len(given) != param.size:
            raise DeviceError(
                f"'{function.name}': parameter '{param.name}' has {param.size} bytes, and "
                f"{len(given)} were given"
            )
        offset = function.layout.arguments[param]
        data[offset : offset + param.size] = given
    return bytes(data)
