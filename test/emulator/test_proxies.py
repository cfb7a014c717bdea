"""Fences between ordinary accesses, copy engines, tensor maps and products: right ones and faults.

Every program here differs from one that is right by one fence: left out, of another scope or space,
or at another place.
"""

import numpy as np
import pytest
from ptx_bench import kernel, put, run

from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.emulator.faults import EmulationFault, UnsupportedPtx
from rcompiler.emulator.settings import Checks, Limits
from rcompiler.runtime.gpu.driver import TensorTile

DECLARE = """
.reg .b64 %at, %rd<8>, %token;
.reg .b32 %r<20>, %s;
.reg .pred %p, %first;
setp.eq.u32 %first, %tid, 0;
mov.u32 %s, s;
mov.u32 %r10, bar;
mul.wide.u32 %at, %tid, 4;
"""
PRELUDE = ".shared .align 1024 .b8 s[4096];\n.shared .align 8 .b8 bar[16];\n"
MODES = [{}, {"interleave": True, "seed": 1}]
PUBLISH = "fence.mbarrier_init.release.cluster;"
ZEROS = np.zeros(64, np.uint32)


def module(body, **more):
    return kernel(DECLARE + body, prelude=PRELUDE, **{"pointers": ("in", "out"), **more})


def driver_of(mode, **checks):
    return EmulatedDriver(limits=Limits(patience=50), checks=Checks(**checks), **mode)


def check(text, kind, *arrays, threads=64, want=None, extra=lambda driver: (), **checks):
    """The program is right (kind: None) and gives `want`, or it does that, in every order."""
    for mode in MODES:
        driver = driver_of(mode, **checks)
        if kind is None:
            out = run(text, *arrays, threads=threads, driver=driver, extra=extra(driver))[-1]
            np.testing.assert_array_equal(out, want)
            continue
        with pytest.raises(EmulationFault) as error:
            run(text, *arrays, threads=threads, driver=driver, extra=extra(driver))
        assert error.value.kind == kind, str(error.value)


# -- what threads have stored, and engines read

SPACES = [("", ""), (".global", "shared"), (".shared::cta", "global"),
          (".shared::cluster", "global")]  # fmt: skip
# An engine copies 64 words to shared memory; every thread waits, and gives what it finds there.
COPIED_AND_READ = """\
mbarrier.arrive.expect_tx.shared.b64 %token, [%r10], 256;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%s], [%in], 256, [%r10];
OTHERS:
L:
mbarrier.try_wait.parity.shared.b64 %p, [%r10], 0;
@!%p bra L;
mad.lo.u32 %r1, %tid, 4, %s;
ld.shared.u32 %r2, [%r1];
add.u64 %at, %out, %at;
st.global.u32 [%at], %r2;
"""
FROM_GLOBAL = (
    """
add.u64 %rd0, %in, %at;
st.global.u32 [%rd0], %tid;
{fence}
@%first mbarrier.init.shared.b64 [%r10], 1;
@%first fence.mbarrier_init.release.cluster;
bar.sync 0;
@!%first bra OTHERS;
{late}
"""
    + COPIED_AND_READ
)
FROM_SHARED = """
mad.lo.u32 %r1, %tid, 4, %s;
st.shared.u32 [%r1], %tid;
{fence}
bar.sync 0;
@!%first bra END;
{late}
cp.async.bulk.global.shared::cta.bulk_group [%out], [%s], 256;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
END:
"""


@pytest.mark.parametrize("place", ["fence", "late"])
@pytest.mark.parametrize(("space", "missing"), SPACES)
@pytest.mark.parametrize(("name", "body"), [("global", FROM_GLOBAL), ("shared", FROM_SHARED)])
def test_proxy_fences_are_of_a_space(name, body, space, missing, place):
    """Of the thread that stored, or of the one that has the engine read, behind the barrier."""
    fences = {"fence": "", "late": "", place: f"fence.proxy.async{space};"}
    kind = "missing-proxy-fence" if name == missing else None
    check(module(body.format(**fences)), kind, ZEROS, ZEROS, want=np.arange(64))


@pytest.mark.parametrize("fence", ["fence.proxy.async;", "fence.proxy.async.shared::cta;", ""])
def test_engines_write_over_what_threads_have_stored(fence):
    over = f"mad.lo.u32 %r1, %tid, 4, %s;\nst.shared.u32 [%r1], 7;\n{fence}\n"
    body = over + FROM_GLOBAL.format(fence="fence.proxy.async.global;", late="")
    check(module(body), None if fence else "missing-proxy-fence", ZEROS, ZEROS, want=np.arange(64))


@pytest.mark.parametrize("body", [FROM_GLOBAL, FROM_SHARED])
@pytest.mark.parametrize("fence", ["", "fence.proxy.alias;", "fence.acq_rel.sys;"])
def test_other_fences_are_none_between_proxies(body, fence):
    text = module(body.format(fence=fence, late=""))
    check(text, "missing-proxy-fence", ZEROS, ZEROS)


@pytest.mark.parametrize("body", [FROM_GLOBAL, FROM_SHARED])
def test_a_proxy_fence_before_the_store_is_none(body):
    text = module("fence.proxy.async;\n" + body.format(fence="", late=""))
    check(text, "missing-proxy-fence", ZEROS, ZEROS)


@pytest.mark.parametrize("fence", ["fence.proxy.texture;", "fence.proxy.async::generic.acquire;",
                                   "fence.proxy.tensormap::generic.release;"])  # fmt: skip
def test_fences_that_nobody_knows(fence):
    with pytest.raises(UnsupportedPtx):
        run(module(fence), ZEROS, ZEROS)


# -- mbarriers on which engines count

BULK = (
    """
{before}
@%first mbarrier.init.shared.b64 [%r10], 1;
{own}
bar.sync 0;
{behind}
@!%first bra OTHERS;
"""
    + COPIED_AND_READ
)
FILLED = np.arange(64, dtype=np.uint32)


@pytest.mark.parametrize(
    "fence",
    ["fence.mbarrier_init.release.cluster;", "fence.acq_rel.cluster;", "fence.release.gpu;",
     "fence.sc.sys;", "membar.gl;", "barrier.cluster.arrive;\nbarrier.cluster.wait;"],
)  # fmt: skip
@pytest.mark.parametrize("place", ["own", "behind"])
def test_mbarriers_are_published_to_the_cluster(fence, place):
    body = BULK.format(**{"before": "", "own": "", "behind": "", place: fence})
    check(module(body), None, FILLED, ZEROS, want=FILLED)


@pytest.mark.parametrize(
    "places",
    [{}, {"own": "fence.acq_rel.cta;"}, {"own": "fence.proxy.async;"}, {"before": PUBLISH},
     {"own": "fence.acquire.cluster;"}],
    ids=str,
)  # fmt: skip
def test_mbarriers_that_are_not_published(places):
    text = module(BULK.format(**{"before": "", "own": "", "behind": "", **places}))
    check(text, "missing-init-fence", FILLED, ZEROS)
    check(text, None, FILLED, ZEROS, want=FILLED, published_mbarriers=False)


def test_mbarriers_of_threads_need_the_barrier_alone():
    body = """
    @%first mbarrier.init.shared.b64 [%r10], 64;
    bar.sync 0;
    mbarrier.arrive.shared.b64 %token, [%r10];
    L:
    mbarrier.try_wait.parity.shared.b64 %p, [%r10], 0;
    @!%p bra L;
    """
    check(module(body), None, ZEROS, ZEROS, want=ZEROS)


def test_mbarriers_lie_where_nobody_reads():
    body = """
    ld.shared.u32 %r1, [%r10];
    {barrier}
    @%first mbarrier.init.shared.b64 [%r10], 64;
    bar.sync 0;
    mbarrier.arrive.shared.b64 %token, [%r10];
    """
    for barrier, kind in (("bar.sync 0;", None), ("", "shared-race")):
        text = module(
            "@%first st.shared.u64 [%r10], 0;\nbar.sync 0;\n" + body.format(barrier=barrier)
        )
        check(text, kind, ZEROS, ZEROS, want=ZEROS)


CLUSTER = """
mad.lo.u32 %r1, %tid, 4, %s;
st.shared.u32 [%r1], %tid;
barrier.cluster.arrive{order}.aligned;
{wait}
xor.b32 %r2, %tid, 33;
mad.lo.u32 %r1, %r2, 4, %s;
ld.shared.u32 %r3, [%r1];
add.u64 %at, %out, %at;
st.global.u32 [%at], %r3;
{end}
"""
WAIT_ALL = "barrier.cluster.wait.aligned;"


@pytest.mark.parametrize(
    ("order", "wait", "end", "kind"),
    [
        ("", WAIT_ALL, "", None),
        (".release", "barrier.cluster.wait.acquire.aligned;", "", None),
        (".relaxed", WAIT_ALL, "", "shared-race"),
        ("", "", WAIT_ALL, "shared-race"),
        ("", WAIT_ALL, WAIT_ALL, "barrier-misuse"),
        ("", "barrier.cluster.arrive;", "", "barrier-misuse"),
    ],
)
def test_barriers_of_the_cluster(order, wait, end, kind):
    """A cluster is one block here."""
    text = module(CLUSTER.format(order=order, wait=wait, end=end))
    check(text, kind, ZEROS, ZEROS, want=np.arange(64) ^ 33)


def test_barriers_of_the_cluster_that_not_all_reach():
    body = """
    setp.lt.u32 %p, %tid, 32;
    @%p bra END;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    END:
    """
    check(module(body), "barrier-deadlock", ZEROS, ZEROS)


# -- tensor maps

BOX = """
{before}
@%first mbarrier.init.shared.b64 [%r10], 1;
@%first fence.mbarrier_init.release.cluster;
{map}
bar.sync 0;
@!%first bra OTHERS;
{own}
mbarrier.arrive.expect_tx.shared.b64 %token, [%r10], 256;
cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
    [%s], [%rd2, {{0, 0}}], [%r10];
OTHERS:
L:
mbarrier.try_wait.parity.shared.b64 %p, [%r10], 0;
@!%p bra L;
mad.lo.u32 %r1, %tid, 4, %s;
ld.shared.u32 %r2, [%r1];
add.u64 %at, %out, %at;
st.global.u32 [%at], %r2;
"""
ACQUIRE = "fence.proxy.tensormap::generic.acquire.{scope} [%rd2], 128;"
BOX_PARTS = {"before": "", "map": "", "own": ""}


def map_of(driver):
    """A tensor map of the numbers 0 to 63."""
    return driver.tensor_map(TensorTile(put(driver, FILLED), 4, (8, 8), (32,), (8, 8)))


def map_in_memory(driver, copies=2):
    data = np.frombuffer(map_of(driver), np.uint8)
    return np.uint64(put(driver, np.concatenate([data] * copies)))


def boxes(parts, kind, address="ld.param.u64 %rd2, [map];", extra=map_in_memory):
    body = address + BOX.format(**{**BOX_PARTS, **parts})
    bytes_ = 8 if extra is map_in_memory else 128
    param = ".param .u64 map" if bytes_ == 8 else ".param .align 64 .b8 map[128]"
    text = module(body, pointers=("out",), scalars=param)
    check(text, kind, ZEROS, want=FILLED, extra=lambda driver: (extra(driver),))


@pytest.mark.parametrize("place", ["own", "map"])
def test_maps_in_global_memory_are_acquired(place):
    """By the thread that uses them, or by others in front of a barrier."""
    boxes({place: ACQUIRE.format(scope="sys")}, None)


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"own": ACQUIRE.format(scope="gpu")},  # the host has written it
        {"own": ACQUIRE.format(scope="sys").replace("[%rd2]", "[%rd2+128]")},
        {"own": "fence.proxy.async;\nfence.acq_rel.sys;"},
        {"own": "fence.proxy.tensormap::generic.release.sys;"},
    ],
    ids=str,
)
def test_maps_that_were_not_acquired(parts):
    boxes(parts, "missing-map-fence")


def test_maps_that_other_threads_acquire_later():
    late = BOX.replace("OTHERS:", "OTHERS:\n" + ACQUIRE.format(scope="sys"))
    body = "ld.param.u64 %rd2, [map];" + late.format(**BOX_PARTS)
    text = module(body, pointers=("out",), scalars=".param .u64 map")
    check(text, "missing-map-fence", ZEROS, extra=lambda driver: (map_in_memory(driver),))


WRITE = """
setp.lt.u32 %p, %tid, 32;
add.u64 %rd3, %rd2, %at;
@%p ld.global.u32 %r5, [%rd3+128];
@%p st.global.u32 [%rd3], %r5;
{release}
bar.sync 0;
"""
RELEASE = "fence.proxy.tensormap::generic.release.{scope};"


@pytest.mark.parametrize(
    ("release", "acquire", "kind"),
    [
        (RELEASE.format(scope="cta"), ACQUIRE.format(scope="cta"), None),
        (RELEASE.format(scope="gpu"), ACQUIRE.format(scope="gpu"), None),
        ("", ACQUIRE.format(scope="gpu"), "missing-map-fence"),
        (RELEASE.format(scope="gpu"), "", "missing-map-fence"),
        (ACQUIRE.format(scope="sys") + RELEASE.format(scope="sys"), "", "missing-map-fence"),
    ],
)
def test_maps_that_threads_write(release, acquire, kind):
    parts = {"before": WRITE.format(release=release), "own": acquire}
    body = "ld.param.u64 %rd2, [map];" + BOX.format(**{**BOX_PARTS, **parts})
    text = module(body, pointers=("out",), scalars=".param .u64 map")
    check(text, kind, ZEROS, want=FILLED, extra=lambda driver: (map_in_memory(driver),))


@pytest.mark.parametrize(
    "address",
    [
        "mov.b64 %rd2, map;\ncvta.param.u64 %rd2, %rd2;",
        "mov.b32 %r7, map;\ncvt.u64.u32 %rd2, %r7;\ncvta.param.u64 %rd2, %rd2;",
        "mov.b64 %rd2, map+128;\nadd.u64 %rd2, %rd2, -128;\ncvta.param.u64 %rd2, %rd2;",
    ],
)
def test_maps_that_are_parameters_need_no_fence(address):
    """Addresses of parameters fit 32 bits until they are made generic."""
    boxes({}, None, address, map_of)


def test_an_address_of_a_parameter_is_no_generic_one():
    boxes({}, "out-of-bounds", "mov.b64 %rd2, map;", map_of)


def test_parameters_are_read_at_their_addresses():
    body = """
    mov.b32 %r7, word;
    cvt.u64.u32 %rd2, %r7;
    ld.param.u32 %r1, [%rd2];
    cvta.param.u64 %rd3, %rd2;
    ld.u32 %r2, [%rd3];
    add.u32 %r1, %r1, %r2;
    add.u64 %at, %out, %at;
    st.global.u32 [%at], %r1;
    """
    text = module(body, pointers=("out",), scalars=".param .u32 word")
    check(text, None, ZEROS, want=np.full(64, 42), extra=lambda driver: (np.uint32(21),))


# -- registers of products

DECLARE_PRODUCT = """
.reg .b64 %d, %at;
.reg .b32 %acc<16>, %a<4>, %other<8>, %r<4>;
.reg .pred %p;
mov.u64 %d, s;
shr.u64 %d, %d, 4;
or.b64 %d, %d, 4611686293372403712;
mul.wide.u32 %at, %tid, 4;
mov.u32 %r0, s;
mad.lo.u32 %r0, %tid, 4, %r0;
"""
ZERO = "".join(f"st.shared.u32 [%r0+{512 * k}], 0;\n" for k in range(16))
SUMS = "".join(f"mov.b32 %acc{k}, 0;\n" for k in range(16)) + "mov.b32 %other0, 0;\n"
FACTORS = "".join(f"mov.b32 %a{k}, 0;\n" for k in range(4))
READY = DECLARE_PRODUCT + ZERO + SUMS + FACTORS + "fence.proxy.async;\nbar.sync 0;\n"
FENCE = "wgmma.fence.sync.aligned;\n"
WAIT = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
STORE = "add.u64 %at, %out, %at;\nst.global.u32 [%at], %acc0;\n"


def product(columns=16, registers=False):
    sums = ", ".join(f"%acc{k}" for k in range(columns // 2))
    left, turned = ("{%a0, %a1, %a2, %a3}", "0") if registers else ("%d", "0, 0")
    return (
        f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16 {{{sums}}}, {left}, %d, 1, "
        f"1, 1, {turned};\n"
    )


def products(body, kind):
    text = kernel(READY + body + WAIT + STORE, prelude=".shared .align 1024 .b8 s[8192];\n")
    check(text, kind, np.zeros(128, np.uint32), threads=128, want=np.zeros(128))


@pytest.mark.parametrize(
    "body",
    [
        FENCE + product(),
        FENCE + product() + product(),
        FENCE + product(registers=True),
        FENCE + "mov.b32 %acc3, %other0;\n" + product(),  # a copy: one register for both
        FENCE + product() + WAIT + "add.u32 %other1, %acc0, 1;\n" + FENCE + product(),
        FENCE + product(8) + FENCE + product(16),
        FENCE + "mov.b32 %a0, 0;\n" + product(),  # no register of that product
    ],
)
def test_products_behind_their_fence(body):
    products(body, None)


@pytest.mark.parametrize(
    "body",
    [
        product(),
        FENCE + "mov.b32 %acc3, 0;\n" + product(),
        FENCE + "mov.b32 %other0, 0;\nmov.b32 %acc3, %other0;\n" + product(),
        FENCE + "mov.b32 %a2, 0;\n" + product(registers=True),
        FENCE + product() + WAIT + "add.u32 %other1, %acc0, 1;\n" + product(),
        FENCE + product(8) + product(16),
        "setp.lt.u32 %p, %tid, 1;\n" + FENCE + "@%p mov.b32 %acc3, 0;\n" + product(),
    ],
)
def test_products_without_their_fence(body):
    products(body, "missing-wgmma-fence")
