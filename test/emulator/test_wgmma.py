"""wgmma against matrix products: types, where operands lie, how shared memory holds them."""

import numpy as np
import pytest
from ptx_bench import kernel, run

from rcompiler.emulator.faults import EmulationFault
from rcompiler.emulator.machine.tensor_map import swizzled

PRELUDE = ".shared .align 1024 .b8 a[16384];\n.shared .align 1024 .b8 b[16384];\n"
MODES = {0: 0, 128: 1, 64: 2, 32: 3}
COLUMNS = 16


def packed(values, type_):
    if type_ == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype({"f16": "f2", "tf32": "f4", "s8": "i1", "u8": "u1"}[type_])


def stored(values, swizzle, turned):
    """Bytes of shared memory with the (rows, depth) matrix, and leading and stride offset."""
    rows, depth = values.shape
    width = values.dtype.itemsize
    memory = np.zeros(16384, np.uint8)
    row, k = np.arange(rows)[:, None], np.arange(depth)[None, :]
    if turned:
        # Atoms of 8 k by `swizzle` bytes of rows; then k, then the next rows.
        stride, leading = 8 * swizzle, depth // 8 * 8 * swizzle
        byte = row * width
        offset = byte // swizzle * leading + k // 8 * stride + k % 8 * swizzle + byte % swizzle
    elif swizzle:
        stride, leading = 8 * swizzle, 0
        offset = row // 8 * stride + row % 8 * swizzle + k * width
    else:
        leading, stride = 128, depth * width // 16 * 128
        byte = k * width
        offset = row // 8 * stride + byte // 16 * leading + row % 8 * 16 + byte % 16
    places = swizzled(offset + np.zeros_like(row + k), swizzle)
    for j in range(width):
        memory[places + j] = (
            np.ascontiguousarray(values).view(np.uint8).reshape(rows, depth, width)[:, :, j]
        )
    return memory, leading, stride


def program(type_, result, depth, a_parts, b_parts, swizzle, turned, left, flags, scale):
    """Loads both matrices, multiplies, and stores the accumulators of every thread."""
    registers = COLUMNS // (4 if result == "f16" else 2)
    names = [f"%d{k}" for k in range(registers)]
    described = [
        (leading >> 4) << 16 | (stride >> 4) << 32 | MODES[swizzle] << 62
        for leading, stride in (a_parts, b_parts)
    ]
    lines = [
        f".reg .b32 %d<{registers}>, %r<12>;\n.reg .b64 %at, %x, %y, %da, %db;\n.reg .pred %p;"
    ]
    lines.append("mul.wide.u32 %at, %tid, 16;")
    for source, target in (("pa", "a"), ("pb", "b")):
        lines.append(f"add.u64 %x, %{source}, %at;\nmov.u32 %r0, {target};\n"
                     "mad.lo.u32 %r0, %tid, 16, %r0;")  # fmt: skip
        for k in range(8):
            lines.append(f"ld.global.v4.u32 {{%r1, %r2, %r3, %r4}}, [%x+{2048 * k}];\n"
                         f"st.shared.v4.u32 [%r0+{2048 * k}], {{%r1, %r2, %r3, %r4}};")  # fmt: skip
    lines.append("fence.proxy.async;\nbar.sync 0;")
    for name, target, bits in zip(("%da", "%db"), "ab", described, strict=True):
        lines.append(f"mov.u64 {name}, {target};\nshr.u64 {name}, {name}, 4;\n"
                     f"or.b64 {name}, {name}, {bits};")  # fmt: skip
    one = {"f32": "0x3f800000", "f16": "0x3c003c00", "s32": "1"}[result]
    lines += [f"mov.b32 {name}, {one};" for name in names]
    operand = "%da"
    if left:
        lines.append("mul.wide.u32 %x, %tid, 16;\nadd.u64 %x, %pf, %x;\n"
                     "ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%x];")  # fmt: skip
        operand = "{%r5, %r6, %r7, %r8}"
    immediates = ", ".join(map(str, flags))
    tail = f", {immediates}" if immediates else ""
    lines.append(f"setp.ne.u32 %p, {int(scale)}, 0;\nwgmma.fence.sync.aligned;")
    lines.append(f"wgmma.mma_async.sync.aligned.m64n{COLUMNS}k{depth}.{result}.{type_}.{type_} "
                 f"{{{', '.join(names)}}}, {operand}, %db, %p{tail};")  # fmt: skip
    lines.append("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;")
    lines.append(f"mul.wide.u32 %x, %tid, {4 * registers};\nadd.u64 %x, %out, %x;")
    lines += [f"st.global.u32 [%x+{4 * k}], {name};" for k, name in enumerate(names)]
    pointers = ("pa", "pb", "pf", "out")
    return kernel("\n".join(lines), pointers=pointers, prelude=PRELUDE), registers


def gathered(out, result):
    """The (64, columns) matrix that threads hold: row 16 w + l / 4 (+ 8), columns 2 (l % 4) .."""
    number = {"f32": "f4", "f16": "f2", "s32": "i4"}[result]
    values = out.view(number).reshape(128, COLUMNS // 8, 2, 2)
    thread = np.arange(128)
    row, column = thread // 32 * 16 + thread % 32 // 4, 2 * (thread % 4)
    matrix = np.zeros((64, COLUMNS), number)
    for j in range(COLUMNS // 8):
        for h in range(2):
            for c in range(2):
                matrix[row + 8 * h, 8 * j + column + c] = values[:, j, h, c]
    return matrix


def fragment(a, per):
    """A as threads hold it: registers k of rows l / 4 + 8 (k % 2), elements from 4 per (k / 2)."""
    thread = np.arange(128)
    row, member = thread // 32 * 16 + thread % 32 // 4, thread % 4
    parts = []
    for k in range(4):
        column = (member * per)[:, None] + np.arange(per) + 4 * per * (k >> 1)
        chosen = np.ascontiguousarray(a[(row + 8 * (k & 1))[:, None], column])
        parts.append(chosen.view(np.uint32).ravel())
    return np.stack(parts, axis=1)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize(
    ("type_", "result", "swizzle", "turned"),
    [
        ("f16", "f32", 128, False),
        ("f16", "f32", 64, False),
        ("f16", "f32", 32, False),
        ("f16", "f32", 0, False),
        ("f16", "f16", 128, False),
        ("bf16", "f32", 128, False),
        ("f16", "f32", 32, True),
        ("bf16", "f32", 128, True),
        ("tf32", "f32", 128, False),
        ("s8", "s32", 128, False),
        ("u8", "s32", 64, False),
    ],
)
def test_products(type_, result, swizzle, turned, left, scale):
    r = np.random.default_rng(0)
    per = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4}[type_]
    depth = 8 * per
    low = 0 if type_ == "u8" else -3
    a, b = r.integers(low, 4, (64, depth)), r.integers(low, 4, (COLUMNS, depth))
    if turned and COLUMNS * 2 < swizzle:
        b = np.concatenate([b, np.zeros((swizzle // 2 - COLUMNS, depth), b.dtype)])
    (left_bytes, *a_parts), (right_bytes, *b_parts) = (
        stored(packed(x, type_), swizzle, turned) for x in (a, b)
    )
    flags = () if per == 4 else (1, 1)
    if type_ in ("f16", "bf16"):
        flags = (1, -1, int(turned)) if left else (1, -1, int(turned), int(turned))
    text, registers = program(
        type_, result, depth, a_parts, b_parts, swizzle, turned, left, flags, scale
    )
    held = fragment(packed(a, type_), per)
    out = run(text, left_bytes, right_bytes, held, np.zeros((128, registers), np.uint32),
              threads=128)[3]  # fmt: skip
    sign = flags[1] if flags else 1
    want = sign * (a @ b[:COLUMNS].T) + (1 if scale else 0)
    np.testing.assert_array_equal(gathered(out, result), want)


def test_operands_that_were_stored_without_a_proxy_fence():
    text, registers = program("f16", "f32", 16, (0, 1024), (0, 1024), 128, False, False,
                              (1, 1, 0, 0), True)  # fmt: skip
    arrays = [np.zeros(16384, np.uint8)] * 2 + [np.zeros((128, n), np.uint32)
                                                for n in (4, registers)]  # fmt: skip
    run(text, *arrays, threads=128)
    with pytest.raises(EmulationFault, match="missing-proxy-fence"):
        run(text.replace("fence.proxy.async;", ""), *arrays, threads=128)


def test_part_of_a_warpgroup():
    text, registers = program("f16", "f32", 16, (0, 1024), (0, 1024), 128, False, False,
                              (1, 1, 0, 0), True)  # fmt: skip
    zeros = np.zeros(16384, np.uint8)
    with pytest.raises(EmulationFault, match="partial-warp"):
        run(text, zeros, zeros, np.zeros((128, 4), np.uint32),
            np.zeros((128, registers), np.uint32), threads=96)  # fmt: skip
