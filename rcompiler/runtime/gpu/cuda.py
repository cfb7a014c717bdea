"""A GPU by the CUDA driver, as the package cuda-bindings gives it to Python.

The package is imported here, on first use, and nowhere else. The primary context is used, which
other libraries of the process use as well, so device memory of theirs can be read in place. The
stream waits for the default stream of the process, and that for it.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcompiler.errors import DeviceError
from rcompiler.runtime.gpu import cuda_failures
from rcompiler.runtime.gpu.cuda_graph import CudaGraph, PackedArguments
from rcompiler.runtime.gpu.cuda_tensor_map import tensor_map
from rcompiler.runtime.gpu.driver import Argument, Bytes, KernelLimits, TensorTile
from rcompiler.runtime.gpu.staging import Staging, host_bytes

_LOG_BYTES = 1 << 14
_OLDEST = 12000  # the release of CUDA whose driver has all functions that are called here
_STAGING_BYTES = 8 << 20
_UNASKED_SHARED = 48 << 10  # bytes of dynamic shared memory that need no attribute


@dataclass(frozen=True, eq=False)
class _Function:
    """handle: of the driver."""

    name: str
    handle: Any


class CudaDriver:
    """A Driver of one GPU of this machine; calls from several threads are safe one after another.

    A launch that fails destroys the CUDA context: every later call but `mapped` raises, and what
    is given back is forgotten.
    """

    def __init__(self, ordinal: int = 0) -> None:
        """ordinal: which GPU of those that CUDA_VISIBLE_DEVICES leaves. Raises DeviceError."""
        self._lost = ""  # the message of the failure that destroyed the context
        self._api = _bindings()
        count = self._ask("count the GPUs", self._api.cuDeviceGetCount())
        if not 0 <= ordinal < count:
            has = f"GPUs 0 to {count - 1}" if count else "no GPU"
            raise DeviceError(
                f"there is no GPU {ordinal}: this machine has {has}; choose another device, or "
                "look at CUDA_VISIBLE_DEVICES"
            )
        self._ordinal = ordinal
        self._device = self._ask("open the GPU", self._api.cuDeviceGet(ordinal))
        named = self._ask("name the GPU", self._api.cuDeviceGetName(256, self._device))
        self._name = bytes(named).split(b"\0")[0].decode()
        of = self._attribute
        self._capability = (of("COMPUTE_CAPABILITY_MAJOR"), of("COMPUTE_CAPABILITY_MINOR"))
        self._multiprocessors = of("MULTIPROCESSOR_COUNT")
        self._most_shared = of("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        self._cooperative = bool(of("COOPERATIVE_LAUNCH"))
        retained = self._api.cuDevicePrimaryCtxRetain(self._device)
        self._context = self._ask(f"use {self._name}", retained)
        self._host: dict[int, tuple[int, int]] = {}  # device address: host address, bytes
        self._opted: dict[int, int] = {}  # function: dynamic shared memory that it may have
        with self._current("make a stream"):
            self._stream = self._ask("make a stream", self._api.cuStreamCreate(0))
            pinned = self._ask(
                "reserve page-locked memory", self._api.cuMemHostAlloc(_STAGING_BYTES, 0)
            )
        self._staging = Staging(int(pinned), _STAGING_BYTES, self._finish)
        mine = (self._api, self._device, self._context, self._stream, int(pinned))
        weakref.finalize(self, _give_back, *mine)

    @property
    def name(self) -> str:
        return self._name

    @property
    def capability(self) -> tuple[int, int]:
        return self._capability

    @property
    def multiprocessors(self) -> int:
        return self._multiprocessors

    # -- memory

    def allocate(self, size: int) -> int:
        what = f"reserve {size} bytes on {self._name}"
        with self._current(what):
            return int(self._ask(what, self._api.cuMemAlloc(max(size, 1))))

    def free(self, address: int) -> None:
        if not self._lost:
            with self._current("give memory back"):
                self._ask("give memory back", self._api.cuMemFree(address))

    def write(self, address: int, data: Bytes) -> None:
        source = np.ascontiguousarray(data).view(np.uint8).ravel()
        with self._current("copy to the device"):
            self._staging.to_device(address, source, self._copy_in)

    def read(self, address: int, size: int) -> Bytes:
        with self._current("copy from the device"):
            return self._staging.to_host(address, size, self._copy_out)

    def fill(self, address: int, size: int, value: int) -> None:
        with self._current("fill memory"):
            self._ask("fill memory", self._api.cuMemsetD8Async(address, value, size, self._stream))

    def map_host(self, size: int) -> int:
        api, what = self._api, f"reserve {size} bytes of the host that the device can write"
        flags = api.CU_MEMHOSTALLOC_DEVICEMAP | api.CU_MEMHOSTALLOC_PORTABLE
        with self._current(what):
            host = int(self._ask(what, api.cuMemHostAlloc(max(size, 1), flags)))
            host_bytes(host, size)[:] = 0
            address = int(self._ask(what, api.cuMemHostGetDevicePointer(host, 0)))
        self._host[address] = host, size
        return address

    def mapped(self, address: int, size: int) -> Bytes:
        host, have = self._host[address]
        return host_bytes(host, min(size, have)).copy()

    def unmap_host(self, address: int) -> None:
        host, _ = self._host.pop(address)
        if not self._lost:
            with self._current("give memory back"):
                self._ask("give memory back", self._api.cuMemFreeHost(host))

    def holds(self, address: int) -> bool:
        attributes, get = self._api.CUpointer_attribute, self._api.cuPointerGetAttribute
        with self._current("find an address"):
            status, where = get(attributes.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)
            if _name(status) == "CUDA_ERROR_INVALID_VALUE":  # memory that CUDA does not know
                return False
            self._ask("find an address", (status, where))
            status, kind = get(attributes.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)
            self._ask("find an address", (status, kind))
        return int(where) == self._ordinal and int(kind) == int(
            self._api.CUmemorytype.CU_MEMORYTYPE_DEVICE
        )

    def wait_for(self, stream: int) -> None:
        what = "wait for the stream of an argument"
        with self._current(what):
            self._ask(what, self._api.cuStreamSynchronize(stream))

    # -- programs

    def load(self, image: bytes) -> Any:
        api, option = self._api, self._api.CUjit_option
        code = ctypes.create_string_buffer(bytes(image))  # PTX ends with a 0
        log = bytearray(_LOG_BYTES)
        names = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        what = f"load the code on {self._name}"
        with self._current(what):
            found = api.cuModuleLoadDataEx(ctypes.addressof(code), 2, names, [log, len(log)])
            return self._ask(what, found, log.split(b"\0")[0].decode(errors="replace"))

    def function(self, module: Any, name: str) -> _Function:
        what = f"find kernel '{name}'"
        with self._current(what):
            handle = self._ask(what, self._api.cuModuleGetFunction(module, name.encode()))
        return _Function(name, handle)

    def limits(self, function: _Function) -> KernelLimits:
        attribute = self._api.CUfunction_attribute
        what = f"ask what '{function.name}' needs"

        def of(name: str) -> int:
            wanted = getattr(attribute, f"CU_FUNC_ATTRIBUTE_{name}")
            return int(self._ask(what, self._api.cuFuncGetAttribute(wanted, function.handle)))

        with self._current(what):
            return KernelLimits(
                of("MAX_THREADS_PER_BLOCK"), of("SHARED_SIZE_BYTES"), of("NUM_REGS")
            )

    def occupancy(self, function: _Function, threads: int, shared_bytes: int) -> int:
        what = f"ask how many blocks of '{function.name}' fit"
        with self._current(what):
            self._opt_in(function, shared_bytes)
            ask = self._api.cuOccupancyMaxActiveBlocksPerMultiprocessor
            return int(self._ask(what, ask(function.handle, threads, shared_bytes)))

    def tensor_map(self, tile: TensorTile) -> bytes:
        with self._current("describe a tensor"):
            return tensor_map(self._api, self._ask, tile)

    # -- launches

    def launch(
        self,
        function: _Function,
        grid: tuple[int, int, int],
        threads: tuple[int, int, int],
        shared_bytes: int,
        arguments: Sequence[Argument],
        cooperative: bool = False,
    ) -> None:
        what = f"launch '{function.name}' with {grid} blocks of {threads} threads"
        if cooperative and not self._cooperative:
            raise DeviceError(
                f"{what}: {self._name} runs no cooperative launches; take a GPU that does"
            )
        packed = PackedArguments(arguments)
        with self._current(what):
            self._opt_in(function, shared_bytes)
            place = (function.handle, *grid, *threads, shared_bytes, self._stream, packed.address)
            if cooperative:
                done = self._api.cuLaunchCooperativeKernel(*place)
            else:
                done = self._api.cuLaunchKernel(*place, 0)
            self._ask(what, done)

    def synchronize(self) -> None:
        with self._current("wait for the device"):
            self._finish()

    def capture(self, launch: Callable[[], None]) -> CudaGraph:
        with self._current("capture a launch"):
            return CudaGraph.captured(self._api, self._ask, self._stream, launch)

    def launch_graph(self, graph: CudaGraph, arguments: Sequence[Argument] | None = None) -> None:
        with self._current("launch a graph"):
            graph.start(self._api, self._ask, self._stream, arguments)

    def drop_graph(self, graph: CudaGraph) -> None:
        if not self._lost:
            with self._current("drop a graph"):
                graph.drop(self._api, self._ask)

    def elapsed_ns(self, work: Callable[[], None]) -> float:
        api, what = self._api, "measure a launch"
        with self._current(what):
            events = [self._ask(what, api.cuEventCreate(0)) for _ in range(2)]
            try:
                self._ask(what, api.cuEventRecord(events[0], self._stream))
                work()
                self._ask(what, api.cuEventRecord(events[1], self._stream))
                self._ask(what, api.cuEventSynchronize(events[1]))
                return float(self._ask(what, api.cuEventElapsedTime(*events))) * 1e6
            finally:
                for event in events:
                    api.cuEventDestroy(event)

    @property
    def real(self) -> bool:
        return True

    # -- parts

    @contextmanager
    def _current(self, what: str) -> Iterator[None]:
        """The context is that of this thread meanwhile; whose it was before gets it back."""
        if self._lost:
            raise cuda_failures.lost(what, self._lost)
        self._ask(what, self._api.cuCtxPushCurrent(self._context))
        try:
            yield
        finally:
            self._api.cuCtxPopCurrent()

    def _ask(self, what: str, result: tuple[Any, ...], log: str = "") -> Any:
        """The values of a call's result, the only one as it is. Raises DeviceError."""
        status, *values = result
        name = _name(status)
        if name != "CUDA_SUCCESS":
            error = _failure(self._api, what, status, log)
            if name in cuda_failures.FATAL and not self._lost:
                self._lost = str(error)
            raise error
        return values[0] if len(values) == 1 else tuple(values)

    def _attribute(self, name: str) -> int:
        wanted = getattr(self._api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        what = "ask what the GPU has"
        return int(self._ask(what, self._api.cuDeviceGetAttribute(wanted, self._device)))

    def _opt_in(self, function: _Function, shared_bytes: int) -> None:
        """More dynamic shared memory than kernels get unasked."""
        key = int(function.handle)
        if shared_bytes <= self._opted.get(key, _UNASKED_SHARED):
            return
        what = f"give '{function.name}' {shared_bytes} bytes of shared memory"
        if shared_bytes > self._most_shared:
            raise DeviceError(
                f"{what}: a block of {self._name} has {self._most_shared}; compile the model for "
                "this device"
            )
        size = self._api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._ask(what, self._api.cuFuncSetAttribute(function.handle, size, shared_bytes))
        self._opted[key] = shared_bytes

    def _copy_in(self, target: int, source: int, size: int) -> None:
        done = self._api.cuMemcpyHtoDAsync(target, source, size, self._stream)
        self._ask("copy to the device", done)

    def _copy_out(self, target: int, source: int, size: int) -> None:
        done = self._api.cuMemcpyDtoHAsync(target, source, size, self._stream)
        self._ask("copy from the device", done)

    def _finish(self) -> None:
        self._ask(f"run on {self._name}", self._api.cuStreamSynchronize(self._stream))


def _give_back(api: Any, device: Any, context: Any, stream: Any, pinned: int) -> None:
    """Of a driver that is gone. Results are of no interest: a lost context has nothing to give."""
    api.cuCtxPushCurrent(context)
    api.cuMemFreeHost(pinned)
    api.cuStreamDestroy(stream)
    api.cuCtxPopCurrent()
    api.cuDevicePrimaryCtxRelease(device)


def _name(status: Any) -> str:
    return str(status.name)


def _failure(api: Any, what: str, status: Any, log: str = "") -> DeviceError:
    """The error for a result that is no success, in the driver's words."""
    known, text = api.cuGetErrorString(status)
    said = bytes(text).decode() if _name(known) == "CUDA_SUCCESS" and text else "it failed"
    return cuda_failures.failure(what, _name(status), said, log)


def _bindings() -> Any:
    """cuda.bindings.driver, initialised. Raises DeviceError where there is nothing to drive."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise cuda_failures.no_package(error) from None
    try:
        status = driver.cuInit(0)[0]
    except RuntimeError as error:  # of cuda.pathfinder, which looks for the library now
        raise cuda_failures.no_driver(error) from None
    if _name(status) != "CUDA_SUCCESS":
        raise _failure(driver, "start the CUDA driver", status)
    status, version = driver.cuDriverGetVersion()
    if _name(status) != "CUDA_SUCCESS":
        raise _failure(driver, "ask the CUDA driver for its version", status)
    if version < _OLDEST:
        raise cuda_failures.old_driver(version, _OLDEST)
    return driver
