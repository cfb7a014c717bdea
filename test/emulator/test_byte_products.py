"""mma.sync of bytes: every sign, sums that wrap, and which thread has which byte, by hand."""

import numpy as np
import pytest
from ptx_bench import kernel, run

from rcompiler.errors import DeviceError

REGISTERS = {"a": 4, "b": 2, "c": 4}  # of a thread, of m16n8k32


def multiplied(types: str, a, b, c, modifier: str = "") -> np.ndarray:
    """The sums, i4 [4, 32 lanes], of registers u4 [count, 32 lanes]; types: as "u8.s8"."""
    given = np.concatenate([np.asarray(x).view(np.uint32).reshape(-1, 32) for x in (a, b, c)])
    body = ".reg .b64 %at, %to;\n.reg .b32 %a<4>, %b<2>, %c<4>, %d<4>;\n"
    body += "mul.wide.u32 %to, %tid, 4;\nadd.u64 %at, %in, %to;\nadd.u64 %to, %out, %to;\n"
    names = [f"%{name}{k}" for name, count in REGISTERS.items() for k in range(count)]
    for k, name in enumerate(names):
        body += f"ld.global.u32 {name}, [%at+{128 * k}];\n"
    lists = [f"{{{', '.join(names[start:end])}}}" for start, end in ((0, 4), (4, 6), (6, 10))]
    form = f"m16n8k32.row.col{modifier}.s32.{types}.s32"
    body += f"mma.sync.aligned.{form} {{%d0, %d1, %d2, %d3}}, {', '.join(lists)};\n"
    for k in range(4):
        body += f"st.global.u32 [%to+{128 * k}], %d{k};\n"
    out = np.zeros((4, 32), np.int32)
    return run(kernel(body, pointers=("in", "out")), given, out)[1]


def zeros() -> dict[str, np.ndarray]:
    return {name: np.zeros((count, 32), np.uint32) for name, count in REGISTERS.items()}


@pytest.mark.parametrize(
    ("types", "sum_"),
    [
        ("u8.s8", 32 * 255 * -128),
        ("s8.s8", 32 * -1 * -128),
        ("u8.u8", 32 * 255 * 128),
        ("s8.u8", 32 * -1 * 128),
    ],
)
def test_each_factor_has_its_own_sign(types, sum_):
    """0xFF is 255 or -1, 0x80 is 128 or -128."""
    registers = zeros()
    registers["a"][:], registers["b"][:] = 0xFFFFFFFF, 0x80808080
    registers["c"][:] = 7
    assert (multiplied(types, **registers) == sum_ + 7).all()


def test_sums_wrap():
    """2^31 - 1 + 32 * 255 * 127 is 32 * 255 * 127 - 1 above the least number."""
    registers = zeros()
    registers["a"][:], registers["b"][:], registers["c"][:] = 0xFFFFFFFF, 0x7F7F7F7F, 2**31 - 1
    assert (multiplied("u8.s8", **registers) == -(2**31) + 32 * 255 * 127 - 1).all()
    registers["a"][:], registers["b"][:], registers["c"][:] = 0x7F7F7F7F, 0x80808080, 1 << 31
    assert (multiplied("s8.s8", **registers) == 2**31 - 32 * 127 * 128).all()


def test_sums_that_saturate_are_refused():
    """Nothing here makes them: they would not be those of a CPU."""
    with pytest.raises(DeviceError, match="unknown"):
        multiplied("u8.s8", **zeros(), modifier=".satfinite")


@pytest.mark.parametrize("columns", [40, 56, 200])
def test_warpgroups_multiply_bytes_in_16_columns_at_a_time(columns):
    """PTX ISA, "wgmma.mma_async": n of bytes is 8, 24 or a multiple of 16."""
    sums = ", ".join(f"%d{k}" for k in range(columns // 2))
    body = f".reg .b32 %d<{columns // 2}>;\n.reg .b64 %a, %b;\n.reg .pred %p;\n"
    form = f"m64n{columns}k32.s32.u8.s8"
    body += "mov.b64 %a, 0;\nmov.b64 %b, 0;\nsetp.eq.u32 %p, %tid, %tid;\n"
    body += "".join(f"mov.b32 %d{k}, 0;\n" for k in range(columns // 2))
    body += f"wgmma.mma_async.sync.aligned.{form} {{{sums}}}, %a, %b, %p;\n"
    with pytest.raises(DeviceError, match="unknown shape"):
        run(kernel(body), np.zeros(1, np.int32), threads=128)


def test_which_thread_has_which_byte():
    """Element (9, 21) of A times (21, 5) of B is added to (9, 5).

    Row 9 is the second of those 8 rows further down, and step 21 is byte 1 of the second four of
    the later 16: lane 1 * 4 + 1, register 3. Column 5: lane 5 * 4 + 1, register 1. The sum of row
    9 and column 5, an odd one of the third pair: lane 1 * 4 + 2, register 3.
    """
    registers = zeros()
    registers["a"][3, 5], registers["b"][1, 21] = 200 << 8, (256 - 3) << 8
    sums = multiplied("u8.s8", **registers)
    assert sums[3, 6] == -600 and np.count_nonzero(sums) == 1
