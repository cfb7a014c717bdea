"""Races in shared memory: barriers of blocks and parts of them, warps, producers and consumers."""

import pytest
from ptx_bench import kernel
from race_cases import DECLARE, MODES, execute

from rcompiler.emulator.faults import EmulationFault

IN_PLACE = """
mov.u32 %r1, s;
mad.lo.u32 %r2, %tid, 4, %r1;
xor.b32 %r3, %tid, {partner};
mad.lo.u32 %r3, %r3, 4, %r1;
st.shared.u32 [%r2], %tid;
{first}
ld.shared.u32 %r4, [%r3];
{second}
st.shared.u32 [%r2], %r4;
"""


@pytest.mark.parametrize(
    ("partner", "first", "second", "races"),
    [
        (32, "bar.sync 0;", "bar.sync 0;", False),
        (32, "bar.sync 0;", "", True),
        (32, "", "bar.sync 0;", True),
        (1, "", "", True),  # lockstep orders nothing
        (1, "bar.warp.sync 0xffffffff;", "bar.warp.sync 0xffffffff;", False),
        (1, "bar.warp.sync 0xffffffff;", "", True),
        (1, "shfl.sync.idx.b32 %r5, %tid, 0, 31, 0xffffffff;",
         "shfl.sync.idx.b32 %r5, %tid, 0, 31, 0xffffffff;", False),
        (32, "bar.warp.sync 0xffffffff;", "bar.warp.sync 0xffffffff;", True),
        (0, "", "", False),  # one thread alone
        (32, "bar.sync 5;", "barrier.cta.sync 6, 64;", False),
    ],
)  # fmt: skip
def test_shared_memory(partner, first, second, races):
    body = DECLARE + IN_PLACE.format(partner=partner, first=first, second=second)
    text = kernel(body, pointers=("data", "flags", "out"), prelude=".shared .b8 s[256];\n")
    text = text.replace(".shared .b8", ".shared .align 4 .b8")
    for mode in MODES:
        if races:
            # Another order of warps can come to what was not written yet.
            with pytest.raises(EmulationFault, match="shared-race|uninitialised-read"):
                execute(text, mode)
        else:
            execute(text, mode)


PIPE = """
mov.u32 %r1, s;
setp.lt.u32 %p, %tid, 32;
mov.u32 %r6, 0;
and.b32 %r7, %tid, 31;
mad.lo.u32 %r2, %r7, 4, %r1;
@%p bra PRODUCE;
CONSUME:
{full_wait}
ld.shared.u32 %r4, [%r2];
{empty_signal}
add.u32 %r6, %r6, 1;
setp.lt.u32 %q, %r6, 3;
@%q bra CONSUME;
bra END;
PRODUCE:
{empty_wait}
st.shared.u32 [%r2], %r6;
{full_signal}
add.u32 %r6, %r6, 1;
setp.lt.u32 %q, %r6, 3;
@%q bra PRODUCE;
END:
"""


@pytest.mark.parametrize("dropped", [None, "full", "empty"])
def test_producers_and_consumers_by_named_barriers(dropped):
    """Warp 0 fills, warp 1 empties; each arrives where the other waits."""
    parts = {
        "full_wait": "bar.sync 1, 64;", "full_signal": "bar.arrive 1, 64;",
        "empty_wait": "setp.eq.u32 %q, %r6, 0;\n@%q bra FIRST;\nbar.sync 2, 64;\nFIRST:",
        "empty_signal": "setp.eq.u32 %q, %r6, 2;\n@%q bra LAST;\nbar.arrive 2, 64;\nLAST:",
    }  # fmt: skip
    for part in parts:
        if dropped and part.startswith(dropped):
            parts[part] = ""
    text = kernel(
        DECLARE + PIPE.format(**parts),
        pointers=("data", "flags", "out"),
        prelude=".shared .align 4 .b8 s[128];\n",
    )
    for mode in MODES:
        if dropped:
            with pytest.raises(EmulationFault) as error:
                execute(text, mode, blocks=1)
            assert error.value.kind in ("shared-race", "uninitialised-read")
        else:
            execute(text, mode, blocks=1)
