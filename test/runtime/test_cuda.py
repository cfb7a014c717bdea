"""The CUDA driver of the runtime, over a stand-in for cuda.bindings.driver, and without one."""

import gc
import importlib.util
import re

import numpy as np
import pytest
from fake_cuda import FakeCuda, hide, installed

from rcompiler.errors import DeviceError
from rcompiler.runtime.gpu.cuda import CudaDriver
from rcompiler.runtime.gpu.driver import Driver, KernelLimits, TensorTile

# y[i] += a of 32 threads; a is passed by value
PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 y, .param .f32 a)
{
  .reg .b32 %r<3>; .reg .f32 %f<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [y];
  ld.param.f32 %f1, [a];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f2, [%rd3];
  add.rn.f32 %f3, %f2, %f1;
  st.global.f32 [%rd3], %f3;
  ret;
}
.visible .entry stop(.param .u64 y)
{
  .reg .b32 %r<2>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [y];
  mov.u32 %r1, 7;
  st.relaxed.sys.global.u32 [%rd1], %r1;
  fence.acq_rel.sys;
  trap;
}
"""


@pytest.fixture
def cuda(monkeypatch):
    return installed(monkeypatch, multiprocessors=4)


def started(driver, value, cooperative=False):
    """32 numbers on the device, to which a launch has added."""
    numbers = np.arange(32, dtype=np.float32)
    address = driver.allocate(numbers.nbytes)
    driver.write(address, numbers.view(np.uint8))
    function = driver.function(driver.load(PTX), "add")
    arguments = [np.uint64(address), np.float32(value)]
    driver.launch(function, (1, 1, 1), (32, 1, 1), 0, arguments, cooperative)
    return address, function


@pytest.mark.parametrize("cooperative", [False, True])
def test_a_launch_computes(cuda, cooperative):
    driver: Driver = CudaDriver()
    assert (driver.name, driver.capability, driver.multiprocessors) == ("fake", (9, 0), 4)
    assert driver.real
    address, function = started(driver, 0.5, cooperative)
    driver.synchronize()
    found = driver.read(address, 128).view(np.float32)
    np.testing.assert_array_equal(found, np.arange(32) + 0.5)
    assert driver.limits(function) == KernelLimits(1024, 0, 32)
    assert driver.occupancy(function, 128, 0) == 16
    driver.fill(address, 128, 0)
    assert not driver.read(address, 128).any()
    driver.free(address)
    wanted = "cuLaunchCooperativeKernel" if cooperative else "cuLaunchKernel"
    assert wanted in [name for name, _ in cuda.record]


def test_a_graph_takes_other_arguments_each_time(cuda):
    driver = CudaDriver()
    address, function = started(driver, 1.0)

    def launch(value):
        arguments = [np.uint64(address), np.float32(value)]
        driver.launch(function, (1, 1, 1), (32, 1, 1), 0, arguments, True)

    graph = driver.capture(lambda: launch(4.0))
    for value in (2.0, 3.0):
        driver.launch_graph(graph, [np.uint64(address), np.float32(value)])
    driver.synchronize()
    assert driver.read(address, 4).view(np.float32)[0] == 6.0  # what is captured was not launched
    driver.drop_graph(graph)
    assert driver.elapsed_ns(lambda: launch(0.0)) == 250_000


def test_a_graph_of_several_launches_is_launched_at_once(cuda):
    driver = CudaDriver()
    address, function = started(driver, 1.0)

    def launches(count):
        for k in range(count):
            arguments = [np.uint64(address), np.float32(10**k)]
            driver.launch(function, (1, 1, 1), (32, 1, 1), 0, arguments)

    for count, total in ((3, 112.0), (2, 123.0), (0, 123.0)):
        graph = driver.capture(lambda count=count: launches(count))
        started_before = [name for name, _ in cuda.record].count("cuGraphLaunch")
        driver.launch_graph(graph)
        driver.synchronize()
        assert driver.read(address, 4).view(np.float32)[0] == total
        assert [name for name, _ in cuda.record].count("cuGraphLaunch") == started_before + 1
        with pytest.raises(DeviceError, match="new arguments are for one launch"):
            driver.launch_graph(graph, [np.uint64(address), np.float32(1.0)])
        driver.drop_graph(graph)


def test_large_copies_go_in_pieces(cuda):
    driver = CudaDriver()
    data = np.arange(20 << 20, dtype=np.uint64).view(np.uint8)[: (20 << 20) + 3]
    address = driver.allocate(data.size)
    driver.write(address, data)
    np.testing.assert_array_equal(driver.read(address, data.size), data)
    copies = [arguments[2] for name, arguments in cuda.record if name == "cuMemcpyHtoDAsync"]
    assert copies == [8 << 20, 8 << 20, (4 << 20) + 3]


def test_more_shared_memory_is_asked_for_once(cuda):
    driver = CudaDriver()
    function = driver.function(driver.load(PTX), "add")
    for _ in range(2):
        driver.occupancy(function, 32, 100 << 10)
    assert [name for name, _ in cuda.record].count("cuFuncSetAttribute") == 1
    with pytest.raises(DeviceError, match=r"262144 bytes of shared memory: .* has 232448; compile"):
        driver.occupancy(function, 32, 256 << 10)


def test_after_a_trap_only_mapped_memory_is_left(cuda):
    driver = CudaDriver()
    told, kept = driver.map_host(8), driver.allocate(8)
    assert driver.mapped(told, 8).view(np.int64) == 0
    function = driver.function(driver.load(PTX), "stop")
    driver.launch(function, (1, 1, 1), (1, 1, 1), 0, [np.uint64(told)])
    with pytest.raises(DeviceError, match=r"run on fake: .*LAUNCH_FAILED\); the CUDA context is"):
        driver.synchronize()
    assert driver.mapped(told, 8).view(np.int64) == 7
    with pytest.raises(DeviceError, match=r"copy from .* earlier launch .* in a new process; of"):
        driver.read(kept, 8)
    driver.free(kept)
    driver.unmap_host(told)
    del driver
    gc.collect()


@pytest.mark.parametrize(
    ("call", "result", "message"),
    [
        ("cuInit", "CUDA_ERROR_NO_DEVICE", "start the CUDA driver: .* with an NVIDIA GPU"),
        ("cuDevicePrimaryCtxRetain", "CUDA_ERROR_DEVICE_UNAVAILABLE", "use fake: .* exclusive use"),
        ("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", "reserve 128 bytes on fake: .* smaller model"),
        ("cuModuleLoadDataEx", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "load the code .* update the"),
        ("cuModuleGetFunction", "CUDA_ERROR_NOT_FOUND", "find kernel 'add': said of .*NOT_FOUND"),
        ("cuLaunchKernel", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "launch 'add' .* more registers"),
    ],
)
def test_failures_say_what_was_done_and_what_to_do(cuda, call, result, message):
    cuda.fail[call] = result
    with pytest.raises(DeviceError, match=message):
        started(CudaDriver(), 1.0)


def test_the_log_of_the_ptx_compiler_is_in_the_message(cuda):
    with pytest.raises(DeviceError, match=r"INVALID_PTX\): .*nonsense.*; a defect of the compiler"):
        CudaDriver().load(b".version 8.0\n.target sm_80\n.address_size 64\nnonsense;\n")


def test_absent_devices(cuda):
    with pytest.raises(DeviceError, match="there is no GPU 3: this machine has GPUs 0 to 0"):
        CudaDriver(3)


def test_without_a_package(monkeypatch):
    hide(monkeypatch)
    with pytest.raises(DeviceError, match=r"cuda-bindings .* .pip install 'cuda-bindings>=13,<14'"):
        CudaDriver()


def test_without_a_driver(cuda, monkeypatch):
    class DynamicLibNotFoundError(RuntimeError):
        """As in cuda.pathfinder."""

    def absent(flags):
        raise DynamicLibNotFoundError('"cuda" can only be found via system search.')

    monkeypatch.setattr(cuda, "_cuInit", absent)
    with pytest.raises(DeviceError, match=r"no usable NVIDIA driver \(\"cuda\" can .*emulated"):
        CudaDriver()


def test_addresses_of_others(cuda):
    driver = CudaDriver()
    address = driver.allocate(64)
    assert driver.holds(address) and not driver.holds(4096)
    driver.wait_for(1)
    assert cuda.record[-2][0] == "cuStreamSynchronize"


def test_tensor_maps_of_impossible_elements(cuda):
    with pytest.raises(DeviceError, match="elements of 3 bytes"):
        CudaDriver().tensor_map(TensorTile(0, 3, (1,), (), (1,)))


def test_what_stands_in_is_like_the_package():
    """Names, and numbers of arguments."""
    if importlib.util.find_spec("cuda") is None:
        pytest.skip("cuda-bindings is not installed")
    from cuda.bindings import driver

    for name, function in vars(FakeCuda).items():
        if name.startswith("_cu"):
            real = getattr(driver, name[1:])
            signature = re.match(r"\w+\((.*)\)", real.__doc__ or "")
            assert signature is not None, name
            text = re.sub(r"\[[^\]]*(\[[^\]]*\][^\]]*)*\]", "", signature[1])
            wanted = len([part for part in text.split(",") if part.strip()])
            assert function.__code__.co_argcount - 1 == wanted, (name, signature[1])
