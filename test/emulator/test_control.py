"""Branches, calls, special registers, the parser's scopes."""

import numpy as np
import pytest
from ptx_bench import HEAD, kernel, run

from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.emulator.faults import UnsupportedPtx
from rcompiler.emulator.translate.emitter import SPECIALS
from rcompiler.errors import DeviceError

WORDS = np.arange(32, dtype=np.uint32)
STORE = "mul.wide.u32 %at, %tid, 4;\nadd.u64 %at, %out, %at;\nst.global.u32 [%at], %r0;\n"
AT = ".reg .b64 %at;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n.reg .pred %p, %q;\n"
ZEROS = np.zeros(32, np.uint32)


def test_loops_of_different_lengths():
    """Collatz steps of every thread's number."""
    body = (
        AT
        + """
    add.u32 %r1, %tid, 1;
    mov.u32 %r0, 0;
    LOOP:
    setp.eq.u32 %p, %r1, 1;
    @%p bra DONE;
    and.b32 %r2, %r1, 1;
    setp.eq.u32 %q, %r2, 0;
    @%q bra EVEN;
    mad.lo.u32 %r1, %r1, 3, 1;
    bra.uni NEXT;
    EVEN: shr.u32 %r1, %r1, 1;
    NEXT:
    add.u32 %r0, %r0, 1;
    bra LOOP;
    DONE:
    """
    )
    steps = []
    for n in range(1, 33):
        steps.append(0)
        while n != 1:
            n = 3 * n + 1 if n % 2 else n // 2
            steps[-1] += 1
    assert run(kernel(body + STORE), ZEROS)[0].tolist() == steps


def test_branch_by_index():
    body = (
        AT
        + """
    and.b32 %r1, %tid, 3;
    $list: .branchtargets A, B, C, A;
    brx.idx %r1, $list;
    A: mov.u32 %r0, 100; bra END;
    B: mov.u32 %r0, 200; bra END;
    C: mov.u32 %r0, 300;
    END:
    """
    )
    assert run(kernel(body + STORE), ZEROS)[0].tolist() == [100, 200, 300, 100] * 8


def test_guarded_exit_and_return():
    body = (
        AT
        + """
    mov.u32 %r0, 7;
    setp.lt.u32 %p, %tid, 5;
    @%p exit;
    setp.ge.u32 %p, %tid, 10;
    @%p ret;
    """
    )
    assert run(kernel(body + STORE), ZEROS)[0].tolist() == [0] * 5 + [7] * 5 + [0] * 22


FUNCTIONS = """
.func (.param .b32 result) square(.param .b32 number)
{
    .reg .b32 %r<3>;
    ld.param.b32 %r0, [number];
    mul.lo.u32 %r1, %r0, %r0;
    st.param.b32 [result], %r1;
    ret;
}
.func (.param .b32 result) outer(.param .b32 number, .param .align 8 .b8 pair[16])
{
    .reg .b32 %r<5>;
    .reg .b64 %rd<3>;
    .reg .pred %p;
    ld.param.b32 %r0, [number];
    ld.param.v2.b64 {%rd0, %rd1}, [pair];
    cvt.u32.u64 %r3, %rd1;
    setp.gt.u32 %p, %r0, 9;
    @%p bra BIG;
    {
    .param .b32 a;
    .param .b32 r;
    st.param.b32 [a], %r0;
    call.uni (r), square, (a);
    ld.param.b32 %r1, [r];
    }
    add.u32 %r1, %r1, %r3;
    st.param.b32 [result], %r1;
    ret;
    BIG:
    st.param.b32 [result], 1000;
    ret;
}
"""


def test_calls():
    body = (
        AT
        + """
    setp.eq.u32 %p, %tid, 31;
    mov.u32 %r0, 5;
    @%p bra OVER;
    {
    .param .b32 a;
    .param .align 8 .b8 b[16];
    .param .b32 r;
    cvt.u64.u32 %rd0, %tid;
    st.param.b32 [a], %tid;
    st.param.b64 [b], 3;
    st.param.b64 [b+8], %rd0;
    call (r), outer, (a, b);
    ld.param.b32 %r0, [r];
    }
    OVER:
    """
    )
    got = run(kernel(body + STORE, prelude=FUNCTIONS), ZEROS)[0]
    assert got.tolist() == [n * n + n for n in range(10)] + [1000] * 21 + [5]


def test_recursion_and_unknown_functions_are_refused():
    loop = ".func f(.param .b32 a)\n{\n{ .param .b32 x;\ncall f, (x);\n}\nret;\n}\n"
    body = "{ .param .b32 x;\nst.param.b32 [x], 1;\ncall f, (x);\n}\n"
    with pytest.raises(UnsupportedPtx, match="recursive"):
        run(kernel(body, prelude=loop), ZEROS)
    with pytest.raises(UnsupportedPtx, match="does not define"):
        run(kernel(body, prelude=".extern .func f(.param .b32 a);\n"), ZEROS)
    with pytest.raises(UnsupportedPtx, match="indirect"):
        run(kernel(".reg .b64 %f;\ncall %f;\n"), ZEROS)


def test_special_registers():
    body = (
        AT
        + """
    .reg .b32 %s<12>;
    mov.u32 %s0, %tid.y;
    mov.u32 %s1, %ctaid.x;
    mov.u32 %s2, %ctaid.y;
    mov.u32 %s3, %ntid.x;
    mov.u32 %s4, %nctaid.y;
    mov.u32 %s5, %laneid;
    mov.u32 %s6, %warpid;
    mov.u32 %s7, %lanemask_lt;
    mad.lo.u32 %r1, %s0, %s3, %tid;
    mad.lo.u32 %r2, %s2, 2, %s1;
    mad.lo.u32 %r2, %r2, 48, %r1;
    mul.wide.u32 %at, %r2, 16;
    add.u64 %at, %out, %at;
    mad.lo.u32 %r3, %s2, 10, %s1;
    mad.lo.u32 %r3, %s4, 100, %r3;
    st.global.v4.u32 [%at], {%r3, %s5, %s6, %s7};
    """
    )
    got = run(kernel(body), np.zeros((6, 48, 4), np.uint32), threads=(8, 6, 1), blocks=(2, 3, 1))[0]
    assert got[:, 0, 0].tolist() == [300, 301, 310, 311, 320, 321]
    assert got[0, :, 1].tolist() == [*range(32), *range(16)]
    assert got[5, :, 2].tolist() == [0] * 32 + [1] * 16
    assert got[0, :33, 3].tolist() == [*((1 << k) - 1 for k in range(32)), 0]


def test_clocks_go_on():
    body = (
        AT
        + """
    mov.u64 %rd0, %globaltimer;
    mov.u64 %rd1, %clock64;
    nanosleep.u32 100;
    mov.u64 %rd2, %globaltimer;
    setp.gt.u64 %p, %rd2, %rd0;
    selp.b32 %r0, 1, 0, %p;
    """
    )
    assert (run(kernel(body + STORE), ZEROS)[0] == 1).all()


def test_moves_between_registers_of_different_sizes():
    body = (
        AT
        + """
    .reg .b16 %h<4>;
    mov.b32 %r1, 0x00020001;
    mov.b32 {%h0, %h1}, %r1;
    mov.b64 %rd0, {%r1, %tid};
    mov.b64 {_, %r2}, %rd0;
    mov.b32 %r3, {%h1, %h0};
    add.u32 %r0, %r2, %r3;
    """
    )
    np.testing.assert_array_equal(run(kernel(body + STORE), ZEROS)[0], WORDS + 0x00010002)


def test_numbers_have_bases():
    body = AT + "mov.u32 %r0, 010;\nadd.u32 %r0, %r0, 0x10;\nadd.u32 %r0, %r0, -1;\n"
    assert (run(kernel(body + STORE), ZEROS)[0] == 23).all()


def test_names_belong_to_their_braces():
    body = (
        AT
        + """
    mov.u32 %r0, 0;
    { .reg .pred p; .reg .b32 t; mov.u32 t, 1; setp.eq.u32 p, t, 1;
      @p bra OUT; trap; OUT: add.u32 %r0, %r0, t; }
    { .reg .pred p; .reg .b32 t; mov.u32 t, 2; setp.eq.u32 p, t, 2;
      @p bra OUT; trap; OUT: add.u32 %r0, %r0, t; }
    """
    )
    assert (run(kernel(body + STORE), ZEROS)[0] == 3).all()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("frobnicate.u32 %tid, %tid;", "unknown instruction 'frobnicate'"),
        ("add.rn.u32 %tid, %tid, 1;", "unknown modifier '.rn'"),
        ("add.u31 %tid, %tid, 1;", "type"),
        ("add.u32 %tid, %tid;", "2 operands"),
        ("add.u32 %tid, %nothing, 1;", "unknown special register '%nothing'"),
        ("bra NOWHERE;", "unknown label"),
        ("mov.u32 %tid, %tid.w;", "unknown special register"),
        ("L: L: ret;", "twice"),
        (".reg .b7 %x;", "registers of type"),
        (".reg .b32 %x<999999999>;", "too many registers"),
        ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%tid}, {%tid}, {%tid}, {%tid};",
         "unknown shape"),
        ("mov.u32 %tid, 08;", "'08' is no number"),
        ("setp.eq.u32 %tid, 1;", "wrong number of operands"),
        ("add.f32 %tid, %tid, 1;", "integer where a floating-point"),
        ("setp.zz.u32 %tid, %tid, 1;", "unknown comparison"),
        ("ld.global.u32 %tid, %tid;", "must be an address"),
        ("ld.global.v2.u32 {%tid}, [%out];", "another length"),
        ("cp.async.ca.shared.global [%out], [%out], 5;", "another size"),
        ("mov.u32 %tid, 1 ~ 2;", "unexpected character"),
    ],
)  # fmt: skip
def test_errors_name_the_line(body, words):
    text = kernel(body)
    line = text.split("\n").index(body) + 1
    with pytest.raises(UnsupportedPtx, match=words) as error:
        run(text, ZEROS)
    assert error.value.line == line
    assert f"line {line}" in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + ".visible .entry k(", "ends too early"),
        (HEAD + ".visible .entry k() { ret; ", "ends too early"),
        (HEAD + "garbage", "not expected"),
        (".version 8.6\n.target hopper\n", "unknown target"),
        (HEAD + ".global .b32 x = ;", "expected a integer"),
        (HEAD + ".global .align 3 .b32 x;", "size or alignment"),
        (HEAD + ".global .b8 x[99999999999];", "size or alignment"),
    ],
)
def test_text_that_is_no_ptx(text, words):
    with pytest.raises(UnsupportedPtx, match=words):
        EmulatedDriver().load(text.encode())


def test_generated_code_holds_no_text_of_the_module():
    """What a stranger may name is not what Python executes."""
    names = ["__import__", "os", "system", "exec", "eval", "__class__"]
    text = kernel(
        """
    .reg .b32 %__class__;
    .reg .b64 %at, %eval;
    mov.u64 %eval, os;
    mov.u32 %__class__, %laneid;
    ld.global.u32 %__class__, [%eval];
    exec:
    add.u32 %__class__, %__class__, 1;
    st.global.u32 [%eval], %__class__;
    { .param .b32 __import__; st.param.b32 [__import__], 1; call system, (__import__); }
    """,
        prelude=".global .align 4 .u32 os = 3;\n.func system(.param .b32 x)\n{\nret;\n}\n",
    )
    driver = EmulatedDriver()
    made = driver.function(driver.load(text.encode()), "k")
    for number in range(made.blocks):
        for full in (False, True):
            source, constants = made.source(number, full)
            assert not any(name in source for name in names)
            assert all(isinstance(v, np.generic) or v in SPECIALS for v in constants.values())


def test_every_prefix_of_a_module_is_refused_or_read():
    text = kernel(AT + STORE, prelude=FUNCTIONS)
    for end in range(0, len(text), 7):
        try:
            EmulatedDriver().load(text[:end].encode())
        except DeviceError:
            pass


@pytest.mark.parametrize("seed", range(4))
def test_warps_that_part_wait_for_their_threads_each(seed):
    """Lanes that skip a store come to the next exchange first, in every warp at another time."""
    body = (
        AT
        + """
    mov.u32 %r0, %tid;
    mov.u32 %r1, 0;
    and.b32 %r2, %tid, 31;
    setp.gt.u32 %p, %r2, 7;
    bra LOOP;
    NEXT: add.u32 %r1, %r1, 1;
    setp.ge.u32 %q, %r1, 20;
    @%q bra DONE;
    LOOP: shfl.sync.bfly.b32 %r0, %r0, 16, 31, -1;
    @%p bra NEXT;
    """
        + STORE
        + "bra NEXT;\nDONE:"
    )
    driver = EmulatedDriver(multiprocessors=1, interleave=True, seed=seed)
    out = run(kernel(body), np.zeros(256, np.uint32), threads=256, driver=driver)[0]
    lanes = np.arange(256, dtype=np.uint32)
    assert np.array_equal(out, np.where(lanes % 32 < 8, lanes, 0))


@pytest.mark.parametrize(
    "read", ["mov.u32 %r0, %r5;", "@%q mov.u32 %r0, 1;", "ld.global.u32 %r0, [%rd3];"]
)
def test_a_register_that_nothing_writes_is_refused(read):
    """A device gives it what was there before."""
    with pytest.raises(UnsupportedPtx, match="nothing writes"):
        run(kernel(AT + "mov.u32 %r0, 0;\n" + read + STORE), ZEROS)
