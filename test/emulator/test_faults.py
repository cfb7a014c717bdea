"""Every kind of fault: a kernel that has it and is reported, and its mended twin that is not."""

import numpy as np
import pytest
from ptx_bench import get, kernel, put, run

from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.emulator.faults import KINDS, EmulationFault
from rcompiler.emulator.settings import Checks, Limits
from rcompiler.errors import DeviceError

AT = ".reg .b64 %at, %rd<8>;\n.reg .b32 %r<20>;\n.reg .pred %p, %q;\n"
OUT = "mul.wide.u32 %at, %tid, 4;\nadd.u64 %at, %out, %at;\n"
STORE = OUT + "st.global.u32 [%at], %r0;\n"
SHARED = ".shared .align 16 .b8 s[1024];\n"
MINE = "mov.u32 %r1, s;\nmad.lo.u32 %r2, %tid, 4, %r1;\n"
WORDS = np.arange(64, dtype=np.uint32)

# kind -> (what is wrong, what is right, where the fault is, keywords of run)
CASES = {
    "out-of-bounds": (
        "ld.global.u32 %r0, [%at+256];", "ld.global.u32 %r0, [%at+0];", OUT, {},
    ),
    "misaligned": (
        "ld.global.v2.u32 {%r0, %r3}, [%rd0+4];", "ld.global.v2.u32 {%r0, %r3}, [%rd0+8];",
        "mov.u64 %rd0, %out;\n", {"after": "bar.sync 0;\n"},
    ),
    "uninitialised-read": (
        "mov.u32 %r3, 0;", "st.shared.u32 [%r2], %tid;",
        MINE, {"after": "ld.shared.u32 %r0, [%r2];\n"},
    ),
    "read-only-write": (
        "st.global.u32 [table], 1;", "ld.const.u32 %r0, [table];",
        "mov.u32 %r0, 0;\n", {"prelude": ".const .align 4 .u32 table[1] = {3};\n"},
    ),
    "barrier-deadlock": (
        "@%p bar.sync 0;", "bar.sync 0;", "setp.lt.u32 %p, %tid, 32;\nmov.u32 %r0, 0;\n", {},
    ),
    "barrier-misuse": (
        "bar.sync 1, 32;", "bar.sync 1, 64;", "mov.u32 %r0, 0;\n", {},
    ),
    "shared-race": (
        "bar.warp.sync 0xffffffff;", "bar.sync 0;",
        MINE + "st.shared.u32 [%r2], %tid;\nxor.b32 %r3, %tid, 32;\nmad.lo.u32 %r3, %r3, 4, %r1;\n",
        {"after": "ld.shared.u32 %r0, [%r3];\n", "line": "ld.shared.u32 %r0, [%r3];"},
    ),
    "late-async-copy": (
        "cp.async.wait_group 1;", "cp.async.wait_group 0;",
        MINE + "cvt.u64.u32 %rd1, %tid;\nshl.b64 %rd1, %rd1, 2;\nadd.u64 %rd1, %out, %rd1;\n"
        "cp.async.ca.shared.global [%r2], [%rd1], 4;\ncp.async.commit_group;\n",
        {"after": "bar.sync 0;\nld.shared.u32 %r0, [%r2];\nbar.sync 0;\n",
         "line": "ld.shared.u32 %r0, [%r2];"},
    ),
    "nc-load": (
        "ld.global.nc.u32 %r0, [%at];", "ld.global.u32 %r0, [%at];",
        OUT + "st.global.u32 [%at], %tid;\n", {},
    ),
    "partial-warp": (
        "@%p shfl.sync.bfly.b32 %r0, %tid, 1, 31, 0xffffffff;",
        "shfl.sync.bfly.b32 %r0, %tid, 1, 31, 0xffffffff;",
        "setp.ne.u32 %p, %tid, 7;\n", {},
    ),
    "trap": ("@%p trap;", "@!%q trap;", "setp.eq.u32 %p, %tid, 3;\nsetp.le.u32 %q, %tid, 99;\n"
             "mov.u32 %r0, 1;\n", {}),
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("interleave", [False, True])
def test_reported_and_not(kind, interleave):
    wrong, right, before, more = CASES[kind]
    after = more.get("after", "")

    def text(code):
        body = AT + before + code + "\n" + after + STORE
        return kernel(body, prelude=SHARED + more.get("prelude", ""))

    def driver():
        return EmulatedDriver(interleave=interleave, seed=3)

    run(text(right), WORDS, threads=64, driver=driver())
    with pytest.raises(EmulationFault) as error:
        run(text(wrong), WORDS, threads=64, driver=driver())
    fault = error.value
    assert fault.kind == kind, str(fault)
    assert fault.block == (0, 0, 0)
    line = more.get("line") or (after.strip() if kind == "uninitialised-read" else wrong)
    assert fault.instruction == line
    assert text(wrong).split("\n")[fault.line - 1] == line
    assert kind in str(fault) and line in str(fault)


def test_the_kinds_are_all_tested():
    fences = {kind for kind in KINDS if kind.endswith("-fence")}  # test_proxies.py
    assert set(CASES) | {"global-race", "timeout"} | fences == set(KINDS)


def test_out_of_bounds_names_the_allocation():
    body = AT + OUT + "setp.eq.u32 %p, %tid, 33;\n@%p st.global.u32 [%at+124], %tid;\n"
    driver = EmulatedDriver()
    address = put(driver, WORDS)
    with pytest.raises(EmulationFault) as error:
        function = driver.function(driver.load(kernel(body).encode()), "k")
        driver.launch(function, (1, 1, 1), (64, 1, 1), 0, [np.uint64(address)])
    assert error.value.thread == (33, 0, 0)
    assert error.value.address == address + 33 * 4 + 124
    assert f"behind allocation 1, 256 bytes at {address:#x}" in error.value.allocation


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("ld.global.u32 %r0, [0];", "before all allocations"),
        ("ld.u32 %r0, [8];", "no memory at all"),
        ("st.shared.u32 [s+1024], %tid;", "1024 bytes of shared memory"),
        ("mov.u64 %rd0, -4;\nld.shared.u32 %r0, [%rd0];", "1024 bytes of shared memory"),
        ("ld.local.u32 %r0, [%rd1];", "0 bytes of local memory"),
    ],
)
def test_other_memories(code, words):
    body = AT + "mov.u64 %rd1, 0;\nmov.u32 %r5, s;\n" + code
    with pytest.raises(EmulationFault, match=words) as error:
        run(kernel(body, prelude=SHARED), WORDS)
    assert error.value.kind == "out-of-bounds"


def test_freed_memory_is_out_of_bounds():
    driver = EmulatedDriver()
    address = put(driver, WORDS)
    driver.free(address)
    function = driver.function(driver.load(kernel(AT + "mov.u32 %r0, 0;\n" + STORE).encode()), "k")
    with pytest.raises(EmulationFault, match="out-of-bounds"):
        driver.launch(function, (1, 1, 1), (1, 1, 1), 0, [np.uint64(address)])


def test_uninitialised_global_memory():
    driver = EmulatedDriver()
    text = kernel(AT + OUT + "ld.global.u32 %r0, [%at];\n" + "st.global.u32 [%at], %r0;\n")
    function = driver.function(driver.load(text.encode()), "k")
    address = driver.allocate(256)
    with pytest.raises(EmulationFault, match="uninitialised-read"):
        driver.launch(function, (1, 1, 1), (64, 1, 1), 0, [np.uint64(address)])
    driver.fill(address, 256, 0)
    driver.launch(function, (1, 1, 1), (64, 1, 1), 0, [np.uint64(address)])
    relaxed = EmulatedDriver(checks=Checks(uninitialised=False))
    function = relaxed.function(relaxed.load(text.encode()), "k")
    relaxed.launch(function, (1, 1, 1), (64, 1, 1), 0, [np.uint64(relaxed.allocate(256))])


@pytest.mark.parametrize("interleave", [False, True])
@pytest.mark.parametrize("wait", ["nanosleep.u32 64;", ""])
def test_a_wait_for_ever_is_a_timeout(interleave, wait):
    body = (
        AT
        + f"""
    LOOP:
    {wait}
    ld.acquire.gpu.global.u32 %r0, [%out+8];
    setp.lt.u32 %p, %r0, 3;
    @%p bra LOOP;
    """
    )
    driver = EmulatedDriver(interleave=interleave, limits=Limits(patience=50))
    with pytest.raises(EmulationFault) as error:
        run(kernel(body), WORDS, threads=64, blocks=3, driver=driver, cooperative=True)
    assert error.value.kind == "timeout"
    assert "ld.acquire" in error.value.instruction
    assert error.value.address is not None and error.value.address % 256 == 8
    assert "allocation 1" in error.value.allocation


def test_a_bounded_wait_runs_out_by_itself():
    """The kernel's own clock goes on while nobody does anything, so its trap is reached."""
    body = (
        AT
        + """
    mov.u64 %rd0, %globaltimer;
    LOOP:
    mov.u64 %rd1, %globaltimer;
    sub.u64 %rd1, %rd1, %rd0;
    setp.gt.u64 %q, %rd1, 2000000000;
    @%q trap;
    ld.acquire.gpu.global.u32 %r0, [%out];
    setp.ne.u32 %p, %r0, 77;
    @%p bra LOOP;
    """
    )
    for interleave in (False, True):
        with pytest.raises(EmulationFault) as error:
            run(kernel(body), WORDS, blocks=2, driver=EmulatedDriver(interleave=interleave))
        assert error.value.kind == "trap"


def test_an_endless_loop_is_a_timeout():
    driver = EmulatedDriver(limits=Limits(steps=1000))
    with pytest.raises(EmulationFault, match="timeout"):
        run(kernel("LOOP:\nadd.u32 %tid, %tid, 1;\nbra LOOP;\n"), WORDS, driver=driver)


def test_faults_name_block_and_thread():
    body = (
        AT
        + """
    mov.u32 %r3, %ctaid.y;
    mov.u32 %r4, %tid.y;
    setp.eq.u32 %p, %tid, 5;
    setp.eq.and.u32 %p, %r4, 3, %p;
    setp.eq.and.u32 %p, %r3, 1, %p;
    @%p trap;
    """
    )
    with pytest.raises(EmulationFault) as error:
        run(kernel(body), WORDS, threads=(8, 8, 1), blocks=(1, 2, 1))
    assert (error.value.block, error.value.thread) == ((0, 1, 0), (5, 3, 0))


def test_results_before_a_fault_stay():
    driver = EmulatedDriver()
    text = kernel(AT + "mov.u32 %r0, 5;\n" + STORE + "trap;\n")
    function = driver.function(driver.load(text.encode()), "k")
    address = put(driver, WORDS)
    with pytest.raises(DeviceError):
        driver.launch(function, (1, 1, 1), (64, 1, 1), 0, [np.uint64(address)])
    assert (get(driver, address, WORDS) == 5).all()
