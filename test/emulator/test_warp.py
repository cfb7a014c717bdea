"""Instructions of whole warps, tensor cores among them."""

import numpy as np
import pytest
from ptx_bench import kernel, run

LANE = np.arange(32, dtype=np.uint32)
AT = ".reg .b64 %at;\n.reg .b32 %r<40>;\n.reg .b64 %rd<8>;\n.reg .pred %p, %q;\n"
STORE = "mul.wide.u32 %at, %tid, 8;\nadd.u64 %at, %out, %at;\nst.global.v2.u32 [%at], {%r0, %r1};\n"


def pairs(code, threads=32):
    """%r0 and %r1 of every thread."""
    out = run(kernel(AT + "mov.u32 %r1, 0;\n" + code + STORE),
              np.zeros((threads, 2), np.uint32), threads=threads)[0]  # fmt: skip
    return out[:, 0], out[:, 1]


@pytest.mark.parametrize(
    ("form", "source", "valid"),
    [
        ("bfly.b32 %r0|%p, %tid, 5, 31", LANE ^ 5, LANE >= 0),
        ("down.b32 %r0|%p, %tid, 3, 31", np.where(LANE < 29, LANE + 3, LANE), LANE < 29),
        ("up.b32 %r0|%p, %tid, 3, 0", np.where(LANE >= 3, LANE - 3, LANE), LANE >= 3),
        ("idx.b32 %r0|%p, %tid, 9, 31", np.full(32, 9), LANE >= 0),
        # Segments of 8 lanes: c = 0x1807.
        ("idx.b32 %r0|%p, %tid, 2, 0x1807", LANE // 8 * 8 + 2, LANE >= 0),
        ("down.b32 %r0|%p, %tid, 3, 0x1807", np.where(LANE % 8 < 5, LANE + 3, LANE), LANE % 8 < 5),
    ],
)
def test_shuffles(form, source, valid):
    code = f"shfl.sync.{form}, 0xffffffff;\nselp.b32 %r1, 1, 0, %p;\n"
    got, good = pairs(code)
    np.testing.assert_array_equal(got, source)
    np.testing.assert_array_equal(good, valid)


def test_shuffles_among_some_lanes():
    code = """
    mov.u32 %r0, 99;
    setp.lt.u32 %p, %tid, 16;
    @%p bra LOW;
    shfl.sync.bfly.b32 %r0, %tid, 1, 31, 0xffff0000;
    bra END;
    LOW:
    shfl.sync.bfly.b32 %r0, %tid, 2, 31, 0x0000ffff;
    END:
    """
    np.testing.assert_array_equal(pairs(code)[0], np.where(LANE < 16, LANE ^ 2, LANE ^ 1))


def test_votes():
    code = """
    setp.lt.u32 %p, %tid, 12;
    vote.sync.ballot.b32 %r0, %p, 0xffffffff;
    vote.sync.any.pred %q, %p, 0xffffffff;
    selp.b32 %r2, 1, 0, %q;
    vote.sync.all.pred %q, %p, 0xffffffff;
    selp.b32 %r3, 2, 0, %q;
    vote.sync.uni.pred %q, %p, 0xffffffff;
    selp.b32 %r4, 4, 0, %q;
    or.b32 %r1, %r2, %r3;
    or.b32 %r1, %r1, %r4;
    """
    ballot, others = pairs(code)
    assert set(ballot.tolist()) == {0xFFF}
    assert set(others.tolist()) == {1}


def test_match_reduce_elect_and_active():
    code = """
    and.b32 %r2, %tid, 3;
    match.any.sync.b32 %r0, %r2, 0xffffffff;
    match.all.sync.b32 %r1|%p, %r2, 0xffffffff;
    """
    same, everybody = pairs(code)
    np.testing.assert_array_equal(same, np.uint32(0x11111111) << (LANE & 3))
    assert (everybody == 0).all()
    code = "redux.sync.{} %r0, %r2, 0xffffffff;\n"
    minus = "sub.u32 %r2, %tid, 4;\n"
    for name, want in {"add.u32": 496 - 128, "max.s32": 27, "min.s32": -4, "max.u32": -1,
                       "or.b32": -1, "and.b32": 0, "xor.b32": 0}.items():  # fmt: skip
        assert set(pairs(minus + code.format(name))[0].view(np.int32).tolist()) == {want}, name
    code = """
    elect.sync %r0|%p, 0xffffffff;
    selp.b32 %r2, 1, 0, %p;
    activemask.b32 %r3;
    shr.u32 %r3, %r3, 31;
    add.u32 %r1, %r2, %r3;
    """
    leader, rest = pairs(code)
    assert (leader == 0).all() and rest.tolist() == [2] + [1] * 31


@pytest.mark.parametrize(
    ("form", "some", "every"), [("popc.u32", 40, 64), ("and.pred", 0, 1), ("or.pred", 1, 1)]
)
def test_barriers_that_reduce(form, some, every):
    into = "%r0" if "popc" in form else "%q"
    fetch = "" if "popc" in form else "selp.u32 %r{0}, 1, 0, %q;\n"
    code = f"""
    setp.lt.u32 %p, %tid, 40;
    bar.red.{form} {into}, 0, %p;
    {fetch.format(0)}
    setp.lt.u32 %p, %tid, 64;
    barrier.cta.red.{form} {into.replace("0", "1")}, 1, 64, %p;
    {fetch.format(1)}
    """
    got = pairs(code, threads=64)
    assert set(got[0].tolist()) == {some} and set(got[1].tolist()) == {every}


def matrix_rows(count):
    """Code: 16-byte row `tid` of shared memory s holds in[8 tid..8 tid + 7]; %r0: its address."""
    return f"""
    mov.u32 %r20, s;
    mul.wide.u32 %at, %tid, 16;
    add.u64 %at, %in, %at;
    ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%at];
    mad.lo.u32 %r0, %tid, 16, %r20;
    setp.lt.u32 %p, %tid, {8 * count};
    @%p st.shared.v4.u32 [%r0], {{%r4, %r5, %r6, %r7}};
    bar.sync 0;
    """


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_and_stmatrix(count, trans):
    registers = ", ".join(f"%r{8 + k}" for k in range(count))
    flag = ".trans" if trans else ""
    body = (
        AT
        + matrix_rows(count)
        + f"""
    ldmatrix.sync.aligned.m8n8.x{count}{flag}.shared.b16 {{{registers}}}, [%r0];
    mul.wide.u32 %at, %tid, {4 * count};
    add.u64 %at, %out, %at;
    """
    )
    vector = f".v{count}" if count > 1 else ""
    body += f"st.global{vector}.u32 [%at], {{{registers}}};\n"
    body += f"""bar.sync 0;
    stmatrix.sync.aligned.m8n8.x{count}{flag}.shared.b16 [%r0], {{{registers}}};
    bar.sync 0;
    ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [%r0];
    mul.wide.u32 %at, %tid, 16;
    add.u64 %at, %back, %at;
    @%p st.global.v4.u32 [%at], {{%r4, %r5, %r6, %r7}};
    """
    body = body.replace("mov.u32 %r20, s;", "mov.u32 %r20, s;\n", 1)
    if count < 4:  # lanes without a row of their own still need an address
        body = body.replace("bar.sync 0;\n", f"@!%p mov.u32 %r0, %r20;\nbar.sync 0;\n{''}", 1)
    data = np.arange(256, dtype=np.uint16)
    text = kernel(body, pointers=("in", "out", "back"), prelude=".shared .align 16 .b8 s[512];\n")
    _, got, back = run(text, data, np.zeros((32, count), np.uint32), np.zeros_like(data))
    matrices = data.reshape(4, 8, 8)[:count]
    want = matrices.transpose(0, 2, 1) if trans else matrices
    # Lane l holds elements 2 (l % 4) and the next one of row l / 4.
    want = np.ascontiguousarray(want).view(np.uint32).reshape(count, 32).T
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(back[: 64 * count], data[: 64 * count])


def fragments(a, b, c, per, depth):
    """Registers of mma.sync by the tables of the PTX manual, section 9.7.14."""
    lane = np.arange(32)
    g, t = lane // 4, lane % 4
    elements = np.arange(per)
    left = [a[(g + 8 * (k & 1))[:, None], (t * per)[:, None] + elements + 4 * per * (k >> 1)]
            for k in range(depth // (2 * per))]  # fmt: skip
    right = [b[(t * per)[:, None] + elements + 4 * per * k, g[:, None]]
             for k in range(depth // (4 * per))]  # fmt: skip
    third = [c[g + row, 2 * t + column] for row in (0, 8) for column in (0, 1)]
    return left, right, third


CASES = [("f16", "f32", 16), ("f16", "f32", 8), ("f16", "f16", 16), ("bf16", "f32", 16),
         ("tf32", "f32", 8), ("tf32", "f32", 4), ("s8", "s32", 32), ("u8", "s32", 16)]  # fmt: skip


@pytest.mark.parametrize(("type_", "result", "depth"), CASES)
def test_mma(type_, result, depth):
    r = np.random.default_rng(0)
    per = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4}[type_]
    low = 0 if type_ == "u8" else -4
    a, b = (r.integers(low, 5, shape) for shape in ((16, depth), (depth, 8)))
    c = r.integers(-4, 5, (16, 8))

    def bits(values):
        if type_ == "f16":
            return values.astype(np.float16)
        if type_ == "bf16":
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return values.astype({"tf32": np.float32, "s8": np.int8, "u8": np.uint8}[type_])

    number = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[result]
    left, right, third = fragments(bits(a), bits(b), c.astype(number), per, depth)
    packed = [np.ascontiguousarray(x).view(np.uint32).reshape(32) for x in (*left, *right)]
    if result == "f16":
        third = [np.stack(third[2 * k : 2 * k + 2], axis=1) for k in range(2)]
    packed += [np.ascontiguousarray(x).view(np.uint32).reshape(32) for x in third]
    names = [f"%r{k}" for k in range(len(packed))]
    body = AT + "mul.wide.u32 %at, %tid, 4;\nadd.u64 %at, %in, %at;\n"
    for k, name in enumerate(names):
        body += f"ld.global.u32 {name}, [%at+{128 * k}];\n"
    cut = len(left), len(left) + len(right)
    groups = [names[: cut[0]], names[cut[0] : cut[1]], names[cut[1] :]]
    lists = [f"{{{', '.join(group)}}}" for group in groups]
    outputs = [f"%r{30 + k}" for k in range(len(groups[2]))]
    form = f"m16n8k{depth}.row.col.{result}.{type_}.{type_}.{result}"
    body += f"mma.sync.aligned.{form} {{{', '.join(outputs)}}}, {', '.join(lists)};\n"
    body += "mul.wide.u32 %at, %tid, 4;\nadd.u64 %at, %out, %at;\n"
    for k, name in enumerate(outputs):
        body += f"st.global.u32 [%at+{128 * k}], {name};\n"
    got = run(kernel(body, pointers=("in", "out")), np.stack(packed),
              np.zeros((len(outputs), 32), np.uint32))[1]  # fmt: skip
    want = (a @ b + c).astype(number)
    _, _, parts = fragments(bits(a), bits(b), want, per, depth)
    if result == "f16":
        parts = [np.stack(parts[2 * k : 2 * k + 2], axis=1) for k in range(2)]
    for k, part in enumerate(parts):
        np.testing.assert_array_equal(got[k].view(number), np.ravel(part))
