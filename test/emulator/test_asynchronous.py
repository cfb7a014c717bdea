"""Asynchronous copies: cp.async, mbarriers, bulk copies, wgmma's operands."""

import numpy as np
import pytest
from ptx_bench import get, kernel, put, run

from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.emulator.faults import EmulationFault
from rcompiler.emulator.machine.tensor_map import swizzled
from rcompiler.emulator.settings import Limits
from rcompiler.errors import DeviceError
from rcompiler.runtime.gpu.driver import TensorTile

DECLARE = """
.reg .b64 %at, %rd<8>, %token;
.reg .b32 %r<20>, %s;
.reg .pred %p, %q, %first;
setp.eq.u32 %first, %tid, 0;
mov.u32 %s, s;
"""
PRELUDE = ".shared .align 1024 .b8 s[4096];\n.shared .align 8 .b8 bar[16];\n"
POINTERS = ("in", "out")
MODES = [{}, {"interleave": True, "seed": 1}]


def module(body):
    return kernel(DECLARE + body, pointers=POINTERS, prelude=PRELUDE)


def fault_of(text, *arrays, kinds, **more):
    for mode in MODES:
        with pytest.raises(EmulationFault) as error:
            run(text, *arrays, driver=EmulatedDriver(limits=Limits(patience=50), **mode), **more)
        assert error.value.kind in kinds, str(error.value)


COPY = """
mad.lo.u32 %r1, %tid, 16, %s;
mul.wide.u32 %at, %tid, 16;
add.u64 %rd0, %in, %at;
{copy}
{wait}
bar.sync 0;
xor.b32 %r2, %tid, 33;
mad.lo.u32 %r1, %r2, 16, %s;
ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [%r1];
add.u64 %rd1, %out, %at;
st.global.v4.u32 [%rd1], {{%r4, %r5, %r6, %r7}};
"""
WAITS = ["cp.async.commit_group;\ncp.async.wait_group 0;", "cp.async.wait_all;",
         "cp.async.commit_group;\ncp.async.commit_group;\ncp.async.wait_group 1;"]  # fmt: skip


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("form", ["cg", "ca", "cg.shared::cta", "cg.L2::128B"])
def test_copies(form, wait):
    form = form.replace(".L2", ".shared.global.L2") if "L2" in form else form
    form = (
        form if "global" in form else f"{form}.global" if "cta" in form else f"{form}.shared.global"
    )
    data = np.arange(256, dtype=np.uint32)
    text = module(COPY.format(copy=f"cp.async.{form} [%r1], [%rd0], 16;", wait=wait))
    out = run(text, data, np.zeros_like(data), threads=64)[1]
    np.testing.assert_array_equal(out.reshape(64, 4), data.reshape(64, 4)[np.arange(64) ^ 33])


def test_copies_that_fill_with_zeros():
    copy = """
    and.b32 %r8, %tid, 1;
    mul.lo.u32 %r8, %r8, 12;
    cp.async.cg.shared.global [%r1], [%rd0], 16, %r8;"""
    data = np.arange(1, 257, dtype=np.uint32)
    out = run(module(COPY.format(copy=copy, wait=WAITS[1])), data, np.zeros_like(data), threads=64)
    want = data.reshape(64, 4).copy()
    want[0::2], want[1::2, 3] = 0, 0
    np.testing.assert_array_equal(out[1].reshape(64, 4), want[np.arange(64) ^ 33])


@pytest.mark.parametrize(
    ("wait", "kinds"),
    [
        ("", {"late-async-copy"}),
        ("cp.async.commit_group;", {"late-async-copy"}),
        ("cp.async.commit_group;\ncp.async.wait_group 1;", {"late-async-copy"}),
        ("cp.async.wait_group 0;", {"late-async-copy"}),  # nothing was committed
    ],
)
def test_copies_nobody_waits_for(wait, kinds):
    data = np.arange(256, dtype=np.uint32)
    text = module(COPY.format(copy="cp.async.cg.shared.global [%r1], [%rd0], 16;", wait=wait))
    fault_of(text, data, np.zeros_like(data), kinds=kinds, threads=64)


def test_waiting_is_everybodys_own():
    """A thread's wait says nothing of another thread's copies without a barrier."""
    data = np.arange(256, dtype=np.uint32)
    text = module(COPY.format(copy="cp.async.cg.shared.global [%r1], [%rd0], 16;", wait=WAITS[1]))
    kinds = {"shared-race", "late-async-copy", "uninitialised-read"}
    text = text.replace("bar.sync 0;", "")
    fault_of(text, data, np.zeros_like(data), kinds=kinds, threads=64)


def test_copying_over_what_others_read():
    copy = "cp.async.cg.shared.global [%r1], [%rd0], 16;"
    again = f"mad.lo.u32 %r1, %tid, 16, %s;\n{copy}\ncp.async.wait_all;\n"
    body = COPY.format(copy=copy, wait=WAITS[1])
    data = np.arange(256, dtype=np.uint32)
    run(module(body + "bar.sync 0;\n" + again), data, np.zeros_like(data), threads=64)
    fault_of(module(body + again), data, np.zeros_like(data),
             kinds={"shared-race", "late-async-copy"}, threads=64)  # fmt: skip


INIT = """
mov.u32 %r10, bar;
@%first mbarrier.init.shared.b64 [%r10], {count};
@%first fence.mbarrier_init.release.cluster;
bar.sync 0;
"""
TRY = """
{label}:
mbarrier.try_wait.parity.shared.b64 %p, [%r10], {parity};
@!%p bra {label};
"""


def test_mbarriers_order_threads():
    body = INIT.format(count=32) + """
    mad.lo.u32 %r1, %tid, 4, %s;
    setp.lt.u32 %q, %tid, 32;
    @!%q bra WAIT;
    st.shared.u32 [%r1], %tid;
    {arrive}
    bra END;
    """ + TRY.format(label="WAIT", parity=0) + """
    ld.shared.u32 %r2, [%r1+-128];
    mul.wide.u32 %at, %tid, 4;
    add.u64 %at, %out, %at;
    st.global.u32 [%at+-128], %r2;
    END:
    """  # fmt: skip
    right = body.replace("{arrive}", "mbarrier.arrive.shared.b64 %token, [%r10];")
    zeros = np.zeros(32, np.uint32)
    for mode in MODES:
        out = run(module(right), zeros, zeros, threads=64, driver=EmulatedDriver(**mode))[1]
        assert out.tolist() == list(range(32))
    fault_of(module(right.replace("@!%p bra WAIT;", "")), zeros, zeros, threads=64,
             kinds={"shared-race", "uninitialised-read"})  # fmt: skip
    fault_of(module(right.replace("bar.sync 0;", "")), zeros, zeros, threads=64,
             kinds={"shared-race", "barrier-misuse"})  # fmt: skip
    early = body.replace("{arrive}", "").replace(
        "st.shared.u32 [%r1], %tid;",
        "mbarrier.arrive.shared.b64 _, [%r10];\nst.shared.u32 [%r1], %tid;",
    )
    fault_of(module(early), zeros, zeros, threads=64,
             kinds={"shared-race", "uninitialised-read"})  # fmt: skip
    fault_of(module(body.replace("{arrive}", "")), zeros, zeros, threads=64, kinds={"timeout"})
    often = body.replace("{arrive}", "mbarrier.arrive.shared.b64 %token, [%r10], 5;")
    fault_of(module(often), zeros, zeros, threads=64, kinds={"barrier-misuse"})


def test_a_phase_knows_of_those_that_ended_it():
    """The third warp arrives, too, but the phase does not need it."""
    body = """
    mad.lo.u32 %r1, %tid, 4, %s;
    and.b32 %r3, %tid, 31;
    setp.eq.u32 %p, %r3, 0;
    setp.ge.u32 %q, %tid, 96;
    @%q bra WAIT;
    st.shared.u32 [%r1], %tid;
    bar.warp.sync 0xffffffff;
    @%p mbarrier.arrive.shared.b64 _, [%r10];
    bra END;
    """ + TRY.format(label="WAIT", parity=0) + """
    ld.shared.u32 %r2, [%r1+-128];
    END:
    """  # fmt: skip
    zeros = np.zeros(32, np.uint32)
    for mode in MODES:
        run(module(INIT.format(count=3) + body), zeros, zeros, threads=128,
            driver=EmulatedDriver(**mode))  # fmt: skip
    fault_of(module(INIT.format(count=2) + body), zeros, zeros, threads=128,
             kinds={"shared-race", "uninitialised-read"})  # fmt: skip


def test_copies_that_arrive_at_mbarriers():
    body = INIT.format(count=64) + COPY.format(
        copy="cp.async.cg.shared.global [%r1], [%rd0], 16;",
        wait="cp.async.mbarrier.arrive.noinc.shared.b64 [%r10];" + TRY.format(label="L", parity=0),
    ).replace("bar.sync 0;", "")
    data = np.arange(256, dtype=np.uint32)
    for mode in MODES:
        out = run(module(body), data, np.zeros_like(data), threads=64,
                  driver=EmulatedDriver(**mode))[1]  # fmt: skip
        np.testing.assert_array_equal(out.reshape(64, 4), data.reshape(64, 4)[np.arange(64) ^ 33])
    fault_of(module(body.replace("@!%p bra L;", "")), data, np.zeros_like(data), threads=64,
             kinds={"late-async-copy"})  # fmt: skip


BULK = INIT.format(count=1) + """
@!%first bra OTHERS;
mbarrier.arrive.expect_tx.shared.b64 %token, [%r10], {bytes};
{copy}
OTHERS:
""" + TRY.format(label="L", parity=0) + """
mad.lo.u32 %r1, %tid, 4, %s;
ld.shared.u32 %r2, [%r1];
{after}
mul.wide.u32 %at, %tid, 4;
add.u64 %at, %out, %at;
st.global.u32 [%at], %r2;
"""  # fmt: skip
ROW = ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
       "[%s], [%in], 256, [%r10];")  # fmt: skip


def test_bulk_copies():
    data, zeros = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    text = module(BULK.format(bytes=256, copy=ROW, after=""))
    for mode in MODES:
        out = run(text, data, zeros, threads=64, driver=EmulatedDriver(**mode))[1]
        np.testing.assert_array_equal(out, data)
    fault_of(text.replace("@!%p bra L;", ""), data, zeros, threads=64, kinds={"late-async-copy"})
    short = module(BULK.format(bytes=272, copy=ROW, after=""))
    fault_of(short, data, zeros, threads=64, kinds={"timeout"})
    odd = module(BULK.format(bytes=256, copy=ROW.replace("[%s]", "[%s+8]"), after=""))
    fault_of(odd, data, zeros, threads=64, kinds={"misaligned"})
    beyond = module(BULK.format(bytes=512, copy=ROW.replace("256", "512"), after=""))
    fault_of(beyond, data, zeros, threads=64, kinds={"out-of-bounds"})


def test_bulk_copies_back():
    body = """
    mad.lo.u32 %r1, %tid, 4, %s;
    st.shared.u32 [%r1], %tid;
    fence.proxy.async;
    {barrier}
    @!%first bra END;
    cp.async.bulk.global.shared::cta.bulk_group [%out], [%s], 256;
    cp.async.bulk.commit_group;
    {wait}
    st.shared.u32 [%s], 7;
    END:
    """
    zeros = np.zeros(64, np.uint32)
    right = {"barrier": "bar.sync 0;", "wait": "cp.async.bulk.wait_group.read 0;"}
    for mode in MODES:
        out = run(module(body.format(**right)), zeros, zeros, threads=64,
                  driver=EmulatedDriver(**mode))[1]  # fmt: skip
        assert out.tolist() == list(range(64))
    fault_of(module(body.format(**{**right, "barrier": ""})), zeros, zeros, threads=64,
             kinds={"shared-race", "uninitialised-read"})  # fmt: skip
    fault_of(module(body.format(**right).replace("fence.proxy.async;", "")), zeros, zeros,
             threads=64, kinds={"missing-proxy-fence"})  # fmt: skip
    late = (
        body.format(**right)
        .replace("fence.proxy.async;", "")
        .replace("cp.async.bulk.global", "fence.proxy.async;\ncp.async.bulk.global")
    )  # the thread that has the engine read may fence for all whom it is behind
    run(module(late), zeros, zeros, threads=64)
    # Unread by then: the store would be copied. One thread did both, so it is no race of two.
    tile = body.format(**{**right, "wait": ""}).replace("st.shared.u32 [%s], 7;", "")
    out = run(module(tile), zeros, zeros, threads=64)[1]
    assert out.tolist() == list(range(64))  # the end of the kernel waits


def test_a_thread_may_not_write_what_an_engine_reads_for_it():
    body = """
    mad.lo.u32 %r1, %tid, 4, %s;
    st.shared.u32 [%r1], %tid;
    fence.proxy.async;
    bar.sync 0;
    @!%first bra END;
    cp.async.bulk.global.shared::cta.bulk_group [%out], [%s], 256;
    cp.async.bulk.commit_group;
    {wait}
    st.shared.u32 [%s], 7;
    END:
    """
    zeros = np.zeros(64, np.uint32)
    wait = "cp.async.bulk.wait_group.read 0;"
    run(module(body.format(wait=wait)), zeros, zeros, threads=64)
    fault_of(module(body.format(wait="")), zeros, zeros, threads=64, kinds={"shared-race"})


TILE = ("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%s], [%rd2, {%r11, %r12}], [%r10];")  # fmt: skip


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("corner", [(0, 0), (8, 3), (-4, 14)])
def test_boxes_of_tensors(swizzle, corner):
    """Row y of the box lies where the pattern puts it, and zeros outside of the tensor."""
    width = {0: 16, 32: 16, 64: 32, 128: 64}[swizzle]
    height = 64 // (width // 2) * 2
    tensor = np.arange(1, 16 * 80 + 1, dtype=np.uint16).reshape(16, 80)
    body = f"""
    mov.u64 %rd2, map;
    cvta.param.u64 %rd2, %rd2;
    mov.u32 %r11, {corner[0]};
    mov.u32 %r12, {corner[1]};
    """ + BULK.format(bytes=width * height * 2, copy=TILE, after="")  # fmt: skip
    count = width * height // 2
    text = kernel(DECLARE + body, pointers=POINTERS, prelude=PRELUDE,
                  scalars=".param .align 64 .b8 map[128]")  # fmt: skip
    for mode in MODES:
        driver = EmulatedDriver(**mode)
        address = put(driver, tensor)
        tile = TensorTile(address, 2, (80, 16), (160,), (width, height), swizzle)
        out = run(text, tensor, np.zeros(count, np.uint32), threads=count, driver=driver,
                  extra=(driver.tensor_map(tile),))[1].view(np.uint16)  # fmt: skip
        padded = np.zeros((64, 160), np.uint16)
        padded[16:32, 32:112] = tensor
        x, y = corner[0] + 32, corner[1] + 16
        want = padded[y : y + height, x : x + width].ravel()
        places = swizzled(np.arange(width * height, dtype=np.int64) * 2, swizzle) // 2
        np.testing.assert_array_equal(out[places], want)


def test_swizzle_patterns():
    """128 bytes: chunk c of 16 bytes of row r lies at chunk c ^ (r % 8); 64: c ^ (r / 2 % 4)."""
    offsets = np.arange(0, 1024, 16, dtype=np.int64)
    row, chunk = offsets // 128, offsets % 128 // 16
    np.testing.assert_array_equal(swizzled(offsets, 128), row * 128 + (chunk ^ row) * 16)
    row, chunk = offsets // 64, offsets % 64 // 16
    np.testing.assert_array_equal(swizzled(offsets, 64), row * 64 + (chunk ^ (row // 2 % 4)) * 16)
    row, chunk = offsets // 32, offsets % 32 // 16
    np.testing.assert_array_equal(swizzled(offsets, 32), row * 32 + (chunk ^ (row // 4 % 2)) * 16)
    np.testing.assert_array_equal(swizzled(offsets, 0), offsets)


def test_boxes_back():
    body = """
    mov.u64 %rd2, map;
    cvta.param.u64 %rd2, %rd2;
    mad.lo.u32 %r1, %tid, 4, %s;
    st.shared.u32 [%r1], %tid;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%first bra END;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd2, {2, 1}], [%s];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    END:
    """
    text = kernel(DECLARE + body, pointers=POINTERS, prelude=PRELUDE,
                  scalars=".param .align 64 .b8 map[128]")  # fmt: skip
    driver = EmulatedDriver()
    tensor = np.zeros((4, 8), np.uint32)
    address = put(driver, tensor)
    tile = driver.tensor_map(TensorTile(address, 4, (8, 4), (32,), (8, 4)))
    run(text, tensor, tensor, threads=32, driver=driver, extra=(tile,))
    want = np.zeros((8, 16), np.uint32)
    want[1:5, 2:10] = np.arange(32).reshape(4, 8)
    np.testing.assert_array_equal(get(driver, address, tensor), want[:4, :8])


@pytest.mark.parametrize(
    "tile",
    [
        TensorTile(8, 4, (8, 4), (32,), (8, 4)),
        TensorTile(256, 4, (8, 4), (24,), (8, 4)),
        TensorTile(256, 4, (8, 4), (32,), (8,)),
        TensorTile(256, 4, (8, 4), (32,), (2, 4)),
        TensorTile(256, 4, (8, 4), (32,), (16, 4), 32),
        TensorTile(256, 3, (8, 4), (32,), (8, 4)),
        TensorTile(256, 4, (8, 4), (32,), (8, 300)),
        TensorTile(256, 4, (8, 4), (32,), (8, 4), 48),
    ],
)
def test_tensor_maps_that_no_engine_takes(tile):
    with pytest.raises(DeviceError):
        EmulatedDriver().tensor_map(tile)
