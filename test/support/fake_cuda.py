"""cuda.bindings.driver for tests: the same calls and results, done by the emulated device.

Host memory is this process's, device memory the emulator's. `record` lists the calls; `fail` names
a call and the result that it gives next. Values stand for handles, 0 for the success of a call.
"""

import ctypes
import sys
from types import ModuleType, SimpleNamespace

import numpy as np

from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.errors import DeviceError


class _Names:
    """An enumeration: each name gives an object that knows it, the same every time."""

    def __init__(self):
        self._made = {}

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self._made.setdefault(name, SimpleNamespace(name=name))


class Handle(int):
    """A handle that carries an object."""

    def __new__(cls, number, what=None):
        made = super().__new__(cls, number)
        made.what = what
        return made


def _values(kernel, address):
    """The bytes of each argument."""
    params = kernel.entry.params
    places = (ctypes.c_void_p * len(params)).from_address(address)
    return [ctypes.string_at(at, p.size) for at, p in zip(places, params, strict=True)]


def hide(monkeypatch):
    """Let the package be absent, also where something has imported it already."""
    for name in ("cuda", "cuda.bindings", "cuda.bindings.driver"):
        monkeypatch.setitem(sys.modules, name, None)


def installed(monkeypatch, **options):
    """A FakeCuda that `import cuda.bindings.driver` finds."""
    fake, package = FakeCuda(**options), ModuleType("cuda.bindings")
    package.driver = fake
    monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", package)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", fake)
    return fake


class FakeCuda(ModuleType):
    """The module; `emulator` is its one device."""

    CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP = 1, 2

    def __init__(self, **options):
        super().__init__("cuda.bindings.driver")
        self.emulator = EmulatedDriver(**options)
        self.record, self.fail, self.dead = [], {}, None
        self.CUresult, self.CUdevice_attribute, self.CUjit_option = _Names(), _Names(), _Names()
        self.CUfunction_attribute, self.CUpointer_attribute = _Names(), _Names()
        self.CUstreamCaptureMode = _Names()
        self.CUmemorytype = SimpleNamespace(CU_MEMORYTYPE_DEVICE=2, CU_MEMORYTYPE_HOST=1)
        self._pinned, self._handles, self._capturing, self._nodes = {}, 100, False, []
        self._pending = None

    def __getattribute__(self, name):
        found = super().__getattribute__(f"_{name}") if name.startswith("cu") else None
        if found is None:
            return super().__getattribute__(name)
        return lambda *arguments: self._called(name, found, arguments)

    def _called(self, name, function, arguments):
        self.record.append((name, arguments))
        if name in self.fail:
            return self._failed(self.fail.pop(name))
        if self.dead and name not in ("cuGetErrorString", "cuCtxPopCurrent"):
            return self._failed(self.dead)
        found = function(*arguments)
        if isinstance(found, str):
            return self._failed(found)
        values = found if isinstance(found, tuple) else () if found is None else (found,)
        return (self.CUresult.CUDA_SUCCESS, *values)

    def _failed(self, name):
        return getattr(self.CUresult, name), None

    def _handle(self, what=None):
        self._handles += 1
        return Handle(self._handles, what)

    # -- start

    def _cuInit(self, flags):
        assert flags == 0

    def _cuDriverGetVersion(self):
        return 13000

    def _cuGetErrorString(self, status):
        return f"said of {status.name}".encode()

    def _cuDeviceGetCount(self):
        return 1

    def _cuDeviceGet(self, ordinal):
        return Handle(ordinal)

    def _cuDeviceGetName(self, length, device):
        return b"fake\0".ljust(length, b"\0")

    def _cuDeviceGetAttribute(self, attribute, device):
        major, minor = self.emulator.capability
        return {
            "COMPUTE_CAPABILITY_MAJOR": major,
            "COMPUTE_CAPABILITY_MINOR": minor,
            "MULTIPROCESSOR_COUNT": self.emulator.multiprocessors,
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 << 10,
            "COOPERATIVE_LAUNCH": 1,
        }[attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    def _cuDevicePrimaryCtxRetain(self, device):
        return self._handle()

    def _cuDevicePrimaryCtxRelease(self, device):
        pass

    def _cuCtxPushCurrent(self, context):
        pass

    def _cuCtxPopCurrent(self):
        return self._handle()

    def _cuStreamCreate(self, flags):
        return self._handle()

    def _cuStreamDestroy(self, stream):
        pass

    # -- memory

    def _cuMemAlloc(self, size):
        return self.emulator.allocate(size)

    def _cuMemFree(self, address):
        self.emulator.free(address)

    def _cuMemHostAlloc(self, size, flags):
        made = ctypes.create_string_buffer(size)
        start = ctypes.addressof(made)
        device = self.emulator.map_host(size) if flags & self.CU_MEMHOSTALLOC_DEVICEMAP else 0
        self._pinned[start] = made, device
        return start

    def _cuMemHostGetDevicePointer(self, start, flags):
        return self._pinned[start][1]

    def _cuMemFreeHost(self, start):
        del self._pinned[start]

    def _cuMemcpyHtoDAsync(self, target, source, size, stream):
        self.emulator.write(target, np.frombuffer(ctypes.string_at(source, size), np.uint8))

    def _cuMemcpyDtoHAsync(self, target, source, size, stream):
        data = self.emulator.read(source, size)
        ctypes.memmove(target, data.ctypes.data, size)

    def _cuMemsetD8Async(self, address, value, size, stream):
        self.emulator.fill(address, size, value)

    def _cuPointerGetAttribute(self, attribute, address):
        if not self.emulator.holds(address):
            return "CUDA_ERROR_INVALID_VALUE"
        return 2 if attribute.name.endswith("MEMORY_TYPE") else 0

    # -- programs

    def _cuModuleLoadDataEx(self, image, count, names, values):
        assert count == len(names) == len(values)
        try:
            return self._handle(self.emulator.load(ctypes.string_at(image)))
        except DeviceError as error:
            values[0][: len(str(error))] = str(error).encode()
            return "CUDA_ERROR_INVALID_PTX"

    def _cuModuleGetFunction(self, module, name):
        try:
            return self._handle(self.emulator.function(module.what, name.decode()))
        except DeviceError:
            return "CUDA_ERROR_NOT_FOUND"

    def _cuFuncGetAttribute(self, attribute, function):
        limits = self.emulator.limits(function.what)
        return {
            "MAX_THREADS_PER_BLOCK": limits.max_threads,
            "SHARED_SIZE_BYTES": limits.static_shared,
            "NUM_REGS": limits.registers or 32,
        }[attribute.name.removeprefix("CU_FUNC_ATTRIBUTE_")]

    def _cuFuncSetAttribute(self, function, attribute, value):
        pass

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function, threads, shared):
        return self.emulator.occupancy(function.what, threads, shared)

    # -- launches

    def _cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):
        self._launch(function, (gx, gy, gz), (bx, by, bz), shared, parameters, False)

    def _cuLaunchCooperativeKernel(
        self, function, gx, gy, gz, bx, by, bz, shared, stream, parameters
    ):
        self._launch(function, (gx, gy, gz), (bx, by, bz), shared, parameters, True)

    def _launch(self, function, grid, threads, shared, parameters, cooperative):
        given = _values(function.what, parameters)
        launch = (function.what, grid, threads, shared, given, cooperative)
        if self._capturing:
            node = SimpleNamespace(kernelParams=parameters, function=function, of=launch)
            return self._nodes.append(self._handle(node))
        try:
            self.emulator.launch(*launch)
        except DeviceError:  # seen by who waits for it
            self._pending = "CUDA_ERROR_LAUNCH_FAILED"

    def _cuStreamSynchronize(self, stream):
        failed, self._pending = self._pending, None
        for made, device in self._pinned.values():
            if device:
                data = self.emulator.mapped(device, len(made))
                ctypes.memmove(made, data.ctypes.data, len(made))
        if failed:
            self.dead = failed
        return failed

    def _cuStreamBeginCapture(self, stream, mode):
        self._capturing, self._nodes = True, []

    def _cuStreamEndCapture(self, stream):
        self._capturing = False
        return self._handle(self._nodes)

    def _cuGraphGetNodes(self, graph, room):
        return [*graph.what[:room], *[None] * (room - len(graph.what))], min(room, len(graph.what))

    def _cuGraphKernelNodeGetParams(self, node):
        return SimpleNamespace(**vars(node.what))

    def _cuGraphInstantiate(self, graph, flags):
        return self._handle({int(node): node.what.of for node in graph.what})

    def _cuGraphExecKernelNodeSetParams(self, executable, node, parameters):
        (function, grid, threads, shared, _, cooperative) = executable.what[int(node)]
        given = _values(function, parameters.kernelParams)  # the driver copies them now
        executable.what[int(node)] = (function, grid, threads, shared, given, cooperative)

    def _cuGraphLaunch(self, executable, stream):
        try:
            for launch in executable.what.values():
                self.emulator.launch(*launch)
        except DeviceError:
            self._pending = "CUDA_ERROR_LAUNCH_FAILED"

    def _cuGraphExecDestroy(self, executable):
        pass

    def _cuGraphDestroy(self, graph):
        pass

    def _cuEventCreate(self, flags):
        return self._handle()

    def _cuEventDestroy(self, event):
        pass

    def _cuEventRecord(self, event, stream):
        pass

    def _cuEventSynchronize(self, event):
        pass

    def _cuEventElapsedTime(self, start, end):
        return 0.25
