"""Races between blocks and inside of them: the synchronisation forms that order, and what lacks."""

import numpy as np
import pytest
from ptx_bench import kernel, run
from race_cases import DECLARE, FIRST_ONLY, MODES, SIGNAL, WAIT, execute

from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.emulator.faults import EmulationFault
from rcompiler.emulator.settings import Checks


def hand_over(*, before="bar.sync 0;", signal=SIGNAL, wait=WAIT, after="bar.sync 0;",
              write="st.global.u32 [%at], %r3;", read="ld.global.u32 %r4, [%at];",
              everybody=False):  # fmt: skip
    """Block 0 writes data[tid] and signals; block 1 waits, reads data[63 - tid], writes out."""
    if not everybody:
        signal = FIRST_ONLY.format("SIGNALLED", signal)
        wait = FIRST_ONLY.format("WAITED", wait)
    return kernel(
        f"""{DECLARE}
    @!%zero bra CONSUME;
    add.u32 %r3, %tid, 100;
    {write}
    {before}
    {signal}
    bra END;
    CONSUME:
    {wait}
    {after}
    sub.u32 %r5, 63, %tid;
    mul.wide.u32 %at, %r5, 4;
    add.u64 %at, %data, %at;
    {read}
    mul.wide.u32 %mine, %tid, 4;
    add.u64 %mine, %out, %mine;
    st.global.u32 [%mine], %r4;
    END:
    """,
        pointers=("data", "flags", "out"),
    )


RIGHT = {
    "as we do it": {},
    "fence.release": {"signal": SIGNAL.replace("acq_rel", "release")},
    "fence.sc": {"signal": SIGNAL.replace("acq_rel", "sc")},
    "membar": {"signal": SIGNAL.replace("fence.acq_rel.gpu", "membar.gl")},
    "system scope": {"signal": SIGNAL.replace("gpu", "sys")},
    "red": {"signal": "fence.acq_rel.gpu;\nred.relaxed.gpu.global.add.u32 [%flags], 1;\n"},
    "red.release": {"signal": "red.release.gpu.global.add.u32 [%flags], 1;\n"},
    "atom.acq_rel": {"signal": "atom.acq_rel.gpu.global.add.u32 %r1, [%flags], 1;\n"},
    "st.release": {"signal": "st.release.gpu.global.u32 [%flags], 1;\n"},
    "fence and st.relaxed": {"signal": "fence.acq_rel.gpu;\nst.relaxed.gpu.u32 [%flags], 1;\n"},
    "exchange": {"signal": "fence.acq_rel.gpu;\natom.exch.b32 %r1, [%flags], 1;\n"},
    "relaxed spin, then a fence": {
        "wait": WAIT.replace("acquire", "relaxed") + "fence.acq_rel.gpu;\n"
    },
    "volatile spin, then a fence": {
        "wait": WAIT.replace("ld.acquire.gpu", "ld.volatile") + "membar.gl;\n"
    },
    "spin by atomics": {
        "wait": WAIT.replace("ld.acquire.gpu.global.u32 %r2, [%flags];",
                             "atom.acquire.gpu.or.b32 %r2, [%flags], 0;")
    },
    "named barriers": {"before": "barrier.sync 3, 64;", "after": "bar.sync 2, 64;"},
    "every thread for itself": {
        "before": "", "everybody": True, "after": "",
        "wait": WAIT.replace("%r2, 1", "%r2, 64"),
    },
}  # fmt: skip
WRONG = {
    "no wait": {"wait": ""},
    "one look instead of a wait": {"wait": WAIT.replace("@%q bra SPIN;", "")},
    "no fence": {"signal": SIGNAL.replace("fence.acq_rel.gpu;", "")},
    "a fence of the block": {"signal": SIGNAL.replace("gpu", "cta")},
    "an acquiring fence": {"signal": SIGNAL.replace("acq_rel", "acquire")},
    "relaxed spin": {"wait": WAIT.replace("acquire", "relaxed")},
    "acquire of the block": {"wait": WAIT.replace("gpu", "cta")},
    "no barrier before the signal": {"before": ""},
    "no barrier after the wait": {"after": ""},
    "warps alone before the signal": {"before": "bar.warp.sync 0xffffffff;"},
    "half a barrier before the signal": {
        "before": "setp.lt.u32 %p, %tid, 32;\n@%p bar.sync 1, 32;",
    },
    "fence after the signal": {"signal": "\n".join(reversed(SIGNAL.strip().split("\n")))},
    "release that another store ends": {
        "signal": SIGNAL + "st.relaxed.gpu.u32 [%flags+4], 1;\n",
        "wait": "ld.acquire.gpu.global.u32 %r2, [%flags+8];",
    },
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", RIGHT)
def test_forms_that_order(name, mode):
    out = execute(hand_over(**RIGHT[name]), mode)[2]
    np.testing.assert_array_equal(out, 163 - np.arange(64))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WRONG)
def test_what_does_not(name, mode):
    with pytest.raises(EmulationFault) as error:
        execute(hand_over(**WRONG[name]), mode)
    fault = error.value
    assert fault.kind == "global-race", str(fault)
    assert fault.other is not None
    assert {fault.block, fault.other.block} == {(0, 0, 0), (1, 0, 0)}
    accesses = {fault.instruction.split(" ")[0], fault.other.instruction.split(" ")[0]}
    assert accesses == {"st.global.u32", "ld.global.u32"}


def test_a_count_that_is_too_small_is_found_by_some_order_of_warps():
    """64 threads signal one by one, and 32 are waited for: the other warp may be late."""
    short = {**RIGHT["every thread for itself"], "wait": WAIT.replace("%r2, 1", "%r2, 32")}
    found = 0
    for seed in range(20):
        try:
            execute(hand_over(**short), {"interleave": True, "seed": seed})
        except EmulationFault as fault:
            found += fault.kind == "global-race"
    assert found


def several_producers(producers, awaited):
    """Blocks 0.. write one part each and signal; the last block waits for some and reads all."""
    return kernel(
        f"""{DECLARE}
    setp.eq.u32 %p, %block, {producers};
    @%p bra CONSUME;
    mad.lo.u32 %r3, %block, 64, %tid;
    mul.wide.u32 %at, %r3, 4;
    add.u64 %at, %data, %at;
    st.global.u32 [%at], %r3;
    bar.sync 0;
    {FIRST_ONLY.format("SIGNALLED", SIGNAL)}
    bra END;
    CONSUME:
    {FIRST_ONLY.format("WAITED", WAIT.replace("%r2, 1", f"%r2, {awaited}"))}
    bar.sync 0;
    mov.u32 %r5, 0;
    SUM:
    ld.global.u32 %r4, [%at];
    add.u32 %r6, %r6, %r4;
    add.u64 %at, %at, 256;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %q, %r5, {producers};
    @%q bra SUM;
    END:
    """,
        pointers=("data", "flags", "out"),
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("producers", [2, 3, 20])
def test_counts_that_are_too_small(producers, mode):
    """Found even where all producers had signalled by then: a waiter sees the values one by one."""
    driver = EmulatedDriver(multiprocessors=4, **mode)
    arrays = [np.zeros(n, np.uint32) for n in (64 * producers, 8, 8)]
    run(several_producers(producers, producers), *arrays, threads=64, blocks=producers + 1,
        driver=driver)  # fmt: skip
    with pytest.raises(EmulationFault, match="global-race"):
        run(several_producers(producers, producers - 1), *arrays, threads=64,
            blocks=producers + 1, driver=driver)  # fmt: skip


def test_races_need_not_be_looked_for():
    text = hand_over(**WRONG["no fence"])
    execute(text, {}, checks=Checks(races=False))


def test_order_is_handed_on():
    """Block 0 tells block 1, which tells block 2: what block 0 did is known there."""
    body = f"""{DECLARE}
    mul.wide.u32 %mine, %block, 4;
    add.u64 %mine, %flags, %mine;
    @!%zero bra WAITING;
    st.global.u32 [%at], %tid;
    bra.uni TELL;
    WAITING:
    @!%first bra WAITED;
    SPIN: ld.acquire.gpu.u32 %r2, [%mine+-4];
    setp.eq.u32 %q, %r2, 0;
    @%q bra SPIN;
    WAITED: bar.sync 0;
    setp.ne.u32 %p, %block, 2;
    @%p bra TELL;
    ld.global.u32 %r4, [%at];
    sub.u64 %at, %at, %data;
    add.u64 %at, %at, %out;
    st.global.u32 [%at], %r4;
    TELL: bar.sync 0;
    @!%first bra END;
    fence.acq_rel.gpu;
    red.relaxed.gpu.add.u32 [%mine], 1;
    END:"""
    text = kernel(body, pointers=("data", "flags", "out"))
    for mode in MODES:
        assert execute(text, mode, blocks=3)[2].tolist() == list(range(64))
    broken = text.replace("ld.acquire", "ld.relaxed")
    for mode in MODES:
        with pytest.raises(EmulationFault, match="global-race"):
            execute(broken, mode, blocks=3)


def two_rounds(wait):
    """Block 0 writes, block 1 reads, block 0 writes again: if it waited for the reads."""
    back = FIRST_ONLY.format(
        "BACK", WAIT.replace("SPIN", "AGAIN").replace("[%flags]", "[%flags+4]")
    )
    return kernel(
        f"""{DECLARE}
    @!%zero bra CONSUME;
    st.global.u32 [%at], %tid;
    bar.sync 0;
    {FIRST_ONLY.format("A", SIGNAL)}
    {back if wait else ""}
    bar.sync 0;
    st.global.u32 [%at], %tid;
    bra END;
    CONSUME:
    {FIRST_ONLY.format("B", WAIT)}
    bar.sync 0;
    ld.global.u32 %r4, [%at];
    bar.sync 0;
    {FIRST_ONLY.format("C", SIGNAL.replace("[%flags]", "[%flags+4]"))}
    END:
    """,
        pointers=("data", "flags", "out"),
    )


@pytest.mark.parametrize("mode", MODES)
def test_writes_wait_for_reads(mode):
    execute(two_rounds(True), mode)
    with pytest.raises(EmulationFault, match="global-race"):
        execute(two_rounds(False), mode)


def test_blocks_that_write_one_word():
    body = DECLARE + "@%first st.global.u32 [%data], %block;\n"
    with pytest.raises(EmulationFault, match="global-race"):
        execute(kernel(body, pointers=("data", "flags", "out")), {})
    body = DECLARE + "@%first red.global.add.u32 [%data], %block;\n"
    data = execute(kernel(body, pointers=("data", "flags", "out")), {}, blocks=4)[0]
    assert data[0] == 6


def test_a_weak_access_beside_an_atomic_one():
    body = (
        DECLARE
        + """
    @%zero atom.global.add.u32 %r1, [%data], 1;
    @!%zero ld.global.u32 %r1, [%data];
    """
    )
    with pytest.raises(EmulationFault, match="global-race"):
        execute(kernel(body, pointers=("data", "flags", "out")), {})


@pytest.mark.parametrize("type_", ["u8", "u16"])
def test_neighbours_in_a_word_do_not_race(type_):
    body = (
        DECLARE
        + f"""
    mad.lo.u32 %r1, %block, 64, %tid;
    mul.wide.u32 %at, %r1, {int(type_[1:]) // 8};
    add.u64 %at, %data, %at;
    .reg .b16 %h;
    cvt.u16.u32 %h, %r1;
    st.global.{type_} [%at], %h;
    """
    )
    data = execute(kernel(body, pointers=("data", "flags", "out")), {})[0]
    assert data.view(f"u{int(type_[1:]) // 8}")[:100].tolist() == list(range(100))


def test_all_threads_storing_one_value_is_no_race_and_different_ones_are():
    body = DECLARE + "mov.u32 %r1, 5;\nst.global.u32 [%data], {};\n"
    text = kernel(body.format("%r1"), pointers=("data", "flags", "out"))
    execute(text, {}, blocks=1)
    with pytest.raises(EmulationFault, match="different values by one instruction"):
        text = kernel(body.format("%tid"), pointers=("data", "flags", "out"))
        execute(text, {}, blocks=1)


def test_read_only_loads_of_what_another_block_writes():
    text = hand_over(read="ld.global.nc.u32 %r4, [%at];")
    for mode in MODES:
        with pytest.raises(EmulationFault, match="nc-load"):
            execute(text, mode)


TICKET = """
mad.lo.u32 %r3, %block, 64, %tid;
mul.wide.u32 %at, %r3, 4;
add.u64 %at, %data, %at;
st.global.u32 [%at], %r3;
bar.sync 0;
@!%first bra TAKEN;
{fence}
atom.global.add.u32 %r1, [%flags], 1;
{second}
setp.eq.u32 %q, %r1, 3;
selp.u32 %r1, 1, 0, %q;
st.shared.u32 [s], %r1;
TAKEN:
bar.sync 0;
ld.shared.u32 %r1, [s];
setp.eq.u32 %q, %r1, 0;
@%q bra END;
mul.wide.u32 %at, %tid, 4;
add.u64 %mine, %out, %at;
add.u64 %at, %data, %at;
mov.u32 %r5, 0;
mov.u32 %r6, 0;
SUM:
ld.global.u32 %r4, [%at];
add.u32 %r6, %r6, %r4;
add.u64 %at, %at, 256;
add.u32 %r5, %r5, 1;
setp.lt.u32 %q, %r5, 4;
@%q bra SUM;
st.global.u32 [%mine], %r6;
END:
"""


def ticket(fence="fence.acq_rel.gpu;", second="fence.acq_rel.gpu;"):
    """Split-K: the block that is last adds up what all have written."""
    body = DECLARE + TICKET.format(fence=fence, second=second)
    prelude = ".shared .align 4 .b8 s[4];\n"
    return kernel(body, pointers=("data", "flags", "out"), prelude=prelude)


@pytest.mark.parametrize("mode", MODES)
def test_the_last_block_reads_all(mode):
    def execute_ticket(text):
        arrays = [np.zeros(n, np.uint32) for n in (256, 8, 64)]
        return run(text, *arrays, threads=64, blocks=4, driver=EmulatedDriver(**mode))[2]

    want = 4 * np.arange(64) + 64 * 6
    np.testing.assert_array_equal(execute_ticket(ticket()), want)
    for broken in ({"fence": ""}, {"second": ""}):
        with pytest.raises(EmulationFault, match="global-race"):
            execute_ticket(ticket(**broken))


GRID = """
mul.wide.u32 %mine, %block, 256;
add.u64 %at, %at, %mine;
mov.u32 %r6, 0;
ROUND:
st.global.u32 [%at], %r6;
add.u32 %r6, %r6, 1;
{barrier}
add.u32 %r7, %block, %r6;
and.b32 %r7, %r7, 3;
mul.wide.u32 %rd0, %r7, 256;
mul.wide.u32 %rd1, %tid, 4;
add.u64 %rd0, %rd0, %rd1;
add.u64 %rd0, %rd0, %data;
ld.global.u32 %r4, [%rd0];
{again}
setp.lt.u32 %p, %r6, 3;
@%p bra ROUND;
"""
MEET = """
bar.sync 0;
@!%first bra MET{0};
fence.acq_rel.gpu;
atom.global.add.u32 %r1, [%flags+{1}], 1;
shl.b32 %r8, %r6, 2;
SPIN{0}:
ld.acquire.gpu.global.u32 %r2, [%flags+{1}];
setp.lt.u32 %q, %r2, %r8;
@%q bra SPIN{0};
MET{0}:
bar.sync 0;
"""


@pytest.mark.parametrize("mode", MODES)
def test_barriers_of_the_whole_grid(mode):
    def text(again):
        body = DECLARE + GRID.format(barrier=MEET.format("A", 0), again=again)
        return kernel(body, pointers=("data", "flags", "out"))

    arrays = [np.zeros(n, np.uint32) for n in (256, 8, 64)]
    run(text(MEET.format("B", 4)), *arrays, threads=64, blocks=4, cooperative=True,
        driver=EmulatedDriver(**mode))  # fmt: skip
    with pytest.raises(EmulationFault, match="global-race"):
        run(text(""), *arrays, threads=64, blocks=4, cooperative=True,
            driver=EmulatedDriver(**mode))  # fmt: skip
