"""The emulated device as a driver: limits, refusals, occupancy; its interface is the runtime's."""

import numpy as np
import pytest
from ptx_bench import HEAD, kernel, run

from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.emulator.faults import UnsupportedPtx
from rcompiler.errors import DeviceError
from rcompiler.runtime.gpu.driver import Driver, KernelLimits

TEXT = kernel("", attributes=".maxntid 256, 1, 1\n.maxnreg 64", prelude="")
SHARED = ".shared .align 16 .b8 s[4096];\n"


def function_of(driver, text=TEXT):
    return driver.function(driver.load(text.encode()), "k")


def test_it_is_a_driver():
    driver: Driver = EmulatedDriver(capability=(8, 0), multiprocessors=108)
    assert (driver.name, driver.capability, driver.multiprocessors) == ("emulated", (8, 0), 108)
    driver.synchronize()


def test_limits_of_kernels():
    driver = EmulatedDriver()
    assert driver.limits(function_of(driver)) == KernelLimits(256, 0, 64)
    text = kernel("mov.u32 %tid, s;\n", prelude=SHARED)
    assert driver.limits(function_of(driver, text)) == KernelLimits(1024, 4096, None)


@pytest.mark.parametrize(
    ("capability", "threads", "shared", "blocks"),
    [
        ((9, 0), 256, 0, 4),  # 64 registers of 256 threads: 4 blocks
        ((9, 0), 128, 0, 8),
        ((9, 0), 32, 0, 32),
        ((9, 0), 256, 100 * 1024, 2),
        ((9, 0), 256, 227 * 1024, 1),
        ((9, 0), 256, 228 * 1024, 0),
        ((8, 0), 256, 163 * 1024, 1),
        ((8, 0), 256, 164 * 1024, 0),
        ((8, 6), 1024, 0, 1),
        ((9, 0), 1025, 0, 0),
    ],
)
def test_occupancy(capability, threads, shared, blocks):
    driver = EmulatedDriver(capability=capability)
    text = TEXT.replace("sm_90a", "sm_80")
    assert driver.occupancy(function_of(driver, text), threads, shared) == blocks


def launched(driver, text=TEXT, grid=(1, 1, 1), threads=(32, 1, 1), shared=0, arguments=None,
             cooperative=False):  # fmt: skip
    function = function_of(driver, text)
    arguments = [np.uint64(driver.allocate(256))] if arguments is None else arguments
    driver.launch(function, grid, threads, shared, arguments, cooperative)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"threads": (512, 1, 1)}, "at most 256"),
        ({"threads": (16, 17, 1)}, "272 threads"),
        ({"threads": (0, 1, 1)}, "a launch of"),
        ({"grid": (0, 1, 1)}, "a launch of"),
        ({"shared": 232449}, "does not fit"),
        ({"shared": -1}, "a launch of"),
        ({"grid": (9, 1, 1), "threads": (256, 1, 1), "cooperative": True}, "only 8 run at once"),
        ({"arguments": []}, "1 parameters, and 0 were given"),
        ({"arguments": [np.uint32(0)]}, "has 8 bytes, and 4 were given"),
        ({"arguments": [b"abc"]}, "has 8 bytes, and 3 were given"),
    ],
)
def test_launches_that_are_refused(more, words):
    with pytest.raises(DeviceError, match=words):
        launched(EmulatedDriver(multiprocessors=2), **more)


def test_cooperative_launches_that_fit():
    launched(EmulatedDriver(multiprocessors=2), grid=(8, 1, 1), threads=(256, 1, 1),
             cooperative=True)  # fmt: skip
    launched(EmulatedDriver(multiprocessors=2), grid=(80, 1, 1), threads=(256, 1, 1))


def test_more_blocks_than_run_at_once():
    """Every block adds to one word, and waits for nobody."""
    text = kernel("red.global.add.u32 [%out], 1;\n")
    for mode in ({}, {"interleave": True, "seed": 4}):
        out = run(text, np.zeros(1, np.uint32), threads=33, blocks=(5, 4, 3),
                  driver=EmulatedDriver(multiprocessors=1, **mode))[0]  # fmt: skip
        assert out[0] == 33 * 60


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda d: d.allocate(-1), "-1 bytes"),
        (lambda d: d.free(12), "not the address"),
        (lambda d: d.free(d.allocate(64) + 4), "not the address"),
        (lambda d: d.read(d.allocate(64), 65), "lie in no allocation"),
        (lambda d: d.write(d.allocate(4), np.zeros(2, np.float64)), "lie in no allocation"),
        (lambda d: d.fill(5, 1, 0), "lie in no allocation"),
        (lambda d: d.allocate(1 << 40), "do not fit"),
        (lambda d: d.function(d.load(TEXT.encode()), "nothing"), "has no kernel 'nothing'"),
        (lambda d: d.load(TEXT.replace("sm_90a", "sm_100").encode()), "compute capability"),
        (lambda d: EmulatedDriver(capability=(5, 0)), "not emulated"),
        (lambda d: EmulatedDriver(multiprocessors=0), "0 multiprocessors"),
    ],
)
def test_wrong_use(act, words):
    with pytest.raises(DeviceError, match=words):
        act(EmulatedDriver())


def test_images_that_are_no_text():
    with pytest.raises(UnsupportedPtx, match="not text"):
        EmulatedDriver().load(b"\x7fELF\xff\xfe")


def test_too_much_static_shared_memory():
    text = kernel("mov.u32 %tid, s;\n", prelude=".shared .b8 s[49153];\n")
    with pytest.raises(DeviceError, match="49153 bytes of static shared"):
        function_of(EmulatedDriver(), text)


def test_the_same_seed_is_the_same_order():
    """Blocks take tickets from a counter: who comes first depends on the order alone."""
    text = kernel("""
    .reg .b32 %r<4>;
    .reg .b64 %at;
    mov.u32 %r0, %ctaid.x;
    bar.sync 0;
    atom.global.add.u32 %r1, [%out], 1;
    bar.sync 0;
    mul.wide.u32 %at, %r1, 4;
    add.u64 %at, %out, %at;
    st.global.u32 [%at+4], %r0;
    """)

    def tickets(seed):
        driver = EmulatedDriver(interleave=True, seed=seed)
        return run(text, np.zeros(9, np.uint32), threads=1, blocks=8, driver=driver)[0].tolist()

    orders = {tuple(tickets(seed)) for seed in range(5)}
    assert len(orders) > 1
    assert tickets(3) == tickets(3)


def test_memory_grows():
    driver = EmulatedDriver(memory_bytes=1 << 24)
    first = driver.allocate(100)
    driver.fill(first, 100, 9)
    second = driver.allocate(1 << 23)
    driver.fill(second, 1 << 23, 1)
    assert (driver.read(first, 100) == 9).all()
    assert driver.read(second + (1 << 23) - 1, 1)[0] == 1


def test_an_empty_kernel_of_another_capability():
    launched(EmulatedDriver(capability=(8, 0)), TEXT.replace("sm_90a", "sm_80"))
    assert HEAD in TEXT
