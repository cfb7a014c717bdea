"""Loads, stores, atomics and memory spaces."""

import numpy as np
import pytest
from ptx_bench import HEAD, kernel, run

from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.emulator.faults import EmulationFault

WORDS = np.arange(32, dtype=np.uint32)


def at(name, size=4):
    """Code: %at is the address of the thread's element of an array."""
    return f"mul.wide.u32 %at, %tid, {size};\nadd.u64 %at, %{name}, %at;\n"


AT = ".reg .b64 %at;\n.reg .b32 %r<8>;\n.reg .b16 %h<4>;\n.reg .b64 %rd<8>;\n.reg .pred %p;\n"


def test_vectors():
    data = np.arange(128, dtype=np.uint32)
    body = AT + at("in", 16) + "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%at];\n"
    body += at("out", 16) + "st.global.v4.u32 [%at], {%r3, %r2, %r1, %r0};\n"
    out = run(kernel(body, pointers=("in", "out")), data, np.zeros_like(data))[1]
    np.testing.assert_array_equal(out, data.reshape(32, 4)[:, ::-1].ravel())


def test_bytes_are_extended_by_their_type():
    data = np.array([1, 127, 128, 255], np.uint8)
    body = AT + "add.u64 %at, %in, 2;\nld.global.s8 %r0, [%at];\nld.global.u8 %r1, [%at+1];\n"
    body += "ld.global.s8 %h0, [%at+-2];\ncvt.s32.s16 %r2, %h0;\n"
    body += "st.global.v2.u32 [%out], {%r0, %r1};\nst.global.u32 [%out+8], %r2;\n"
    out = run(kernel(body, pointers=("in", "out")), data, np.zeros(3, np.int32), threads=1)[1]
    assert out.tolist() == [-128, 255, 1]


@pytest.mark.parametrize("hints", ["", ".L1::no_allocate", ".ca", ".L1::evict_last.L2::128B"])
def test_hints_change_nothing(hints):
    body = AT + at("in") + f"ld.global{hints}.b32 %r0, [%at];\nprefetch.global.L2 [%at];\n"
    body += at("out") + "st.global.b32 [%at], %r0;\n"
    out = run(kernel(body, pointers=("in", "out")), WORDS, np.zeros_like(WORDS))[1]
    np.testing.assert_array_equal(out, WORDS)


def test_shared_memory_static_and_dynamic():
    prelude = ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 4 .b8 fixed[128];\n"
    body = (
        AT
        + """
    mov.u32 %r0, fixed;
    mov.u32 %r1, dynamic;
    shl.b32 %r2, %tid, 2;
    add.u32 %r3, %r0, %r2;
    st.shared.u32 [%r3], %tid;
    add.u32 %r4, %r1, %r2;
    mul.lo.u32 %r5, %tid, 10;
    st.shared.u32 [%r4], %r5;
    bar.sync 0;
    xor.b32 %r2, %r2, 4;
    add.u32 %r3, %r0, %r2;
    add.u32 %r4, %r1, %r2;
    cvt.u64.u32 %rd0, %r3;
    cvta.shared.u64 %rd0, %rd0;
    ld.u32 %r6, [%rd0];
    ld.shared.u32 %r7, [%r4];
    add.u32 %r6, %r6, %r7;
    """
    )
    body += at("out") + "st.global.u32 [%at], %r6;\n"
    out = run(kernel(body, prelude=prelude), np.zeros(32, np.uint32), shared=128)[0]
    np.testing.assert_array_equal(out, 11 * (WORDS ^ 1))


def test_local_memory_is_everybodys_own():
    body = (
        AT
        + """
    .local .align 16 .b8 depot[32];
    .reg .b64 %SP, %SPL;
    mov.u64 %SPL, depot;
    cvta.local.u64 %SP, %SPL;
    st.local.u32 [%SPL+4], %tid;
    st.u32 [%SP+8], 7;
    ld.u32 %r0, [%SP+4];
    ld.local.u32 %r1, [%SPL+8];
    add.u32 %r0, %r0, %r1;
    """
    )
    out = run(kernel(body + at("out") + "st.global.u32 [%at], %r0;\n"), np.zeros(32, np.uint32))[0]
    np.testing.assert_array_equal(out, WORDS + 7)


def test_variables_of_the_module():
    prelude = """
    .const .align 4 .u32 table[4] = {10, 20, 30, 40};
    .global .align 4 .f32 scale = 0f3F000000;
    .visible .global .align 8 .u64 pointer = generic(table);
    .global .align 4 .b8 counter[4];
    """
    body = (
        AT
        + """
    mov.u64 %rd0, table;
    and.b32 %r0, %tid, 3;
    mul.wide.u32 %rd1, %r0, 4;
    add.u64 %rd0, %rd0, %rd1;
    ld.const.u32 %r1, [%rd0];
    ld.global.u64 %rd2, [pointer];
    ld.u32 %r2, [%rd2+4];
    add.u32 %r1, %r1, %r2;
    ld.global.b32 %r3, [scale];
    add.u32 %r1, %r1, %r3;
    atom.global.add.u32 %r4, [counter], 1;
    """
    )
    out = run(
        kernel(body + at("out") + "st.global.u32 [%at], %r1;\n", prelude=prelude),
        np.zeros(32, np.uint32),
    )[0]
    want = np.array([10, 20, 30, 40] * 8, np.uint32) + np.uint32(20) + np.uint32(0x3F000000)
    np.testing.assert_array_equal(out, want)


def test_parameters_by_value():
    text = kernel(
        AT
        + """
    mov.u64 %rd0, block;
    cvta.param.u64 %rd1, %rd0;
    ld.u32 %r0, [%rd1+4];
    ld.param.u32 %r1, [block+8];
    ld.param.v2.u32 {%r2, %r3}, [block];
    ld.param.u16 %h0, [small];
    cvt.u32.u16 %r4, %h0;
    st.global.v4.u32 [%out], {%r0, %r1, %r2, %r4};
    """,
        scalars=".param .align 8 .b8 block[12], .param .u16 small",
    )
    block = np.array([5, 6, 7], np.uint32).tobytes()
    out = run(text, np.zeros(4, np.uint32), threads=1, extra=(block, np.uint16(9)))[0]
    assert out.tolist() == [6, 7, 5, 9]


@pytest.mark.parametrize(
    ("operation", "type_", "start", "after", "before"),
    [
        ("add", "u32", 5, 5 + 496, None),
        ("add", "s32", -5, 491, None),
        ("max", "s32", 7, 31, None),
        ("min", "u32", 7, 0, None),
        ("and", "b32", 31, 0, None),
        ("or", "b32", 32, 63, None),
        ("xor", "b32", 1, 1, None),
        ("exch", "b32", 1, 31, [1, *range(31)]),
        ("inc", "u32", 0, None, None),
    ],
)
def test_atomics_on_one_word(operation, type_, start, after, before):
    """Threads take turns in the order of their numbers."""
    body = AT + f"atom.global.{operation}.{type_} %r0, [%in], %tid;\n"
    body += at("out") + "st.global.u32 [%at], %r0;\n"
    word = np.array([start], np.int32).view(np.uint32)
    word, old = run(kernel(body, pointers=("in", "out")), word, np.zeros(32, np.uint32))
    if after is not None:
        assert word.view(np.int32)[0] == after
    if before:
        assert old.tolist() == before


def test_atomics_of_other_types():
    body = (
        AT
        + """
    .reg .f32 %f;
    mov.f32 %f, 0f3F000000;
    red.global.add.f32 [%in], %f;
    mov.b32 %r0, 0x3C003800;
    red.global.add.noftz.f16x2 [%in+4], %r0;
    cvt.u64.u32 %rd0, %tid;
    atom.global.max.u64 %rd1, [%in+8], %rd0;
    atom.global.cas.b32 %r1, [%in+16], 3, 9;
    """
    )
    start = np.zeros(5, np.uint32)
    start[4] = 3
    words = run(kernel(body, pointers=("in",)), start)[0]
    assert words[:1].view(np.float32)[0] == 16
    assert words[1:2].view(np.float16).tolist() == [16, 32]
    assert words[2:].tolist() == [31, 0, 9]


def test_shared_atomics_by_generic_addresses():
    prelude = ".shared .align 4 .b8 sum[4];\n"
    body = (
        AT
        + """
    mov.u64 %rd0, sum;
    cvta.shared.u64 %rd0, %rd0;
    setp.eq.u32 %p, %tid, 0;
    @%p st.shared.u32 [sum], 0;
    bar.sync 0;
    atom.add.u32 %r0, [%rd0], %tid;
    bar.sync 0;
    ld.shared.u32 %r1, [sum];
    """
    )
    out = run(
        kernel(body + at("out") + "st.global.u32 [%at], %r1;\n", prelude=prelude),
        np.zeros(64, np.uint32),
        threads=64,
    )[0]
    assert (out == 64 * 63 // 2).all()


def test_spaces_of_addresses():
    prelude = ".shared .align 4 .b8 s[4];\n"
    body = (
        AT
        + """
    mov.u64 %rd0, s;
    cvta.shared.u64 %rd0, %rd0;
    isspacep.shared %p, %rd0;
    selp.b32 %r0, 1, 0, %p;
    isspacep.global %p, %out;
    selp.b32 %r1, 1, 0, %p;
    isspacep.local %p, %out;
    selp.b32 %r2, 1, 0, %p;
    st.global.v2.u32 [%out], {%r0, %r1};
    st.global.u32 [%out+8], %r2;
    """
    )
    out = run(kernel(body, prelude=prelude), np.zeros(3, np.uint32), threads=1)[0]
    assert out.tolist() == [1, 1, 0]


def test_memory_of_the_driver():
    driver = EmulatedDriver(memory_bytes=1 << 22)
    first, second = driver.allocate(100), driver.allocate(1 << 20)
    assert first % 256 == second % 256 == 0
    driver.fill(first, 100, 7)
    driver.write(first + 10, np.arange(5, dtype=np.uint8))
    assert driver.read(first, 16).tolist() == [7] * 10 + [0, 1, 2, 3, 4, 7]
    driver.free(first)
    driver.free(second)
    again = driver.allocate(1 << 20)  # freed memory is taken again
    assert again == first
    assert driver.read(again, 0).size == 0


def test_empty_module():
    driver = EmulatedDriver()
    module = driver.load(HEAD.encode())
    assert module.addresses == {}


# The first two words of four have values.
TWO_WORDS = (
    AT
    + """
    .shared .align 16 .b8 s[16];
    mov.u32 %r4, s;
    st.shared.v2.u32 [%r4], {1, 2};
"""
)


@pytest.mark.parametrize("mask, kind", [("0xfff", None), ("0xff0f", "uninitialised-read")])
def test_bytes_that_a_load_does_not_use(mask, kind):
    """The last word of the vector has no value; LLVM says whether it counts, of that load alone."""
    body = (
        TWO_WORDS
        + """
    st.shared.u32 [%r4+8], 3;
    """
        + f'.pragma "used_bytes_mask {mask}";\nld.shared.v4.u32 {{%r0, %r1, %r2, %r3}}, [%r4];\n'
        + "add.u32 %r0, %r0, %r2;\nst.global.u32 [%out], %r0;\n"
    )
    text = kernel(body)
    if kind is None:
        assert run(text, np.zeros(1, np.uint32), threads=1)[0].tolist() == [4]
        text = text.replace("add.u32", "ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%r4];\nadd.u32")
    with pytest.raises(EmulationFault, match="uninitialised-read"):
        run(text, np.zeros(1, np.uint32), threads=1)


@pytest.mark.parametrize("reads, kind", [("%r2", None), ("%r3", "uninitialised-read")])
def test_words_that_nobody_reads_do_not_count(reads, kind):
    """Before PTX 8.3 LLVM does not say which: it is seen by who reads the registers."""
    body = (
        TWO_WORDS
        + """
    st.shared.u32 [%r4+8], 3;
    ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%r4];
    """
        + f"add.u32 %r0, %r0, {reads};\nst.global.u32 [%out], %r0;\n"
    )
    if kind is None:
        assert run(kernel(body), np.zeros(1, np.uint32), threads=1)[0].tolist() == [4]
        return
    with pytest.raises(EmulationFault, match=kind):
        run(kernel(body), np.zeros(1, np.uint32), threads=1)


def test_a_word_that_others_write_beside_those_that_a_load_uses():
    body = (
        AT
        + """
    .shared .align 16 .b8 s[16];
    mov.u32 %r4, s;
    setp.eq.u32 %p, %tid, 0;
    mov.u32 %r5, 0;
    @%p st.shared.v4.u32 [%r4], {5, 6, 7, 8};
    bar.sync 0;
    @!%p st.shared.u32 [%r4+12], 9;
    .pragma "used_bytes_mask 0xfff";
    @%p ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%r4];
    @%p st.global.u32 [%out], %r0;
    """
    )
    text = kernel(body)
    assert run(text, np.zeros(1, np.uint32), threads=33)[0].tolist() == [5]
    with pytest.raises(EmulationFault, match="shared-race"):
        run(text.replace("0xfff", "0xffff"), np.zeros(1, np.uint32), threads=33)
