"""Emitter: where an op is written, and that nothing is written twice."""

from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.linalg.affine import LANE, Linear


def text(e: Emitter) -> str:
    return "\n".join(e.text())


def test_invariant_ops_leave_the_loop():
    e = Emitter(8, has_fma=True)

    def body(i, _):
        e.pure("use.outer %x", ["%x"])
        e.pure(f"use.inner {e.index(i)}", [e.index(i)])

    e.loop(Linear(0), Linear(4), 1, [], body)
    lines = e.text()
    loop = next(k for k, line in enumerate(lines) if "scf.for" in line)
    outer, inner = (
        next(k for k, line in enumerate(lines) if word in line) for word in ("outer", "inner")
    )
    assert outer < loop < inner


def test_equal_ops_are_written_once():
    e = Emitter(8, has_fma=True)
    first = e.constant(1.5, "f32", 8)
    assert e.constant(1.5, "f32", 8) == first
    assert e.index(Linear(3, (("%a", 2),))) == e.index(Linear(3, (("%a", 2),)))
    assert text(e).count("arith.muli") == 1


def test_an_op_of_one_loop_is_not_known_in_the_next():
    e = Emitter(8, has_fma=True)
    for _ in range(2):
        e.loop(Linear(0), Linear(4), 1, [], lambda i, _: e.pure("f %x", ["%x"], least_depth=1))
    assert text(e).count("f %x") == 2


def test_loops_of_no_and_one_iteration_are_not_written():
    e = Emitter(8, has_fma=True)
    seen = []
    one = e.constant(1, "i64")
    assert e.loop(Linear(3), Linear(3), 1, [one], lambda i, c: seen.append(i)) == [one]
    e.loop(Linear(3), Linear(4), 1, [], lambda i, _: seen.append(i))
    assert seen == [Linear(3)]
    assert "scf.for" not in text(e)


def test_a_loop_of_nothing_is_not_written():
    e = Emitter(8, has_fma=True)
    e.loop(Linear(0), Linear(4), 1, [], lambda i, _: e.pure("f %x", ["%x"]))
    assert e.text()[-1].endswith("f %x") and "scf.for" not in text(e)


def test_a_guarded_load_stays_behind_its_guard():
    e = Emitter(8, has_fma=True)
    zero = e.constant(0.0, "f32")
    e.branch("%c", lambda: [e.load("%p", "f32", Linear(), 0, readonly=True)], lambda: [zero])
    lines = e.text()
    assert lines.index(next(x for x in lines if "scf.if" in x)) < next(
        k for k, x in enumerate(lines) if "llvm.load" in x
    )


def test_code_at_an_outer_depth_precedes_the_loop():
    e = Emitter(8, has_fma=True)

    def body(i, _):
        e.at_depth(0, lambda: e.line("early"))
        e.line("late")
        assert e.is_known("key") is False
        e.remember("key", 1)
        assert e.at_depth(0, lambda: (e.is_known("key"), e.recall("key"))) == (True, None)

    e.loop(Linear(0), Linear(4), 1, [], body)
    assert text(e).index("early") < text(e).index("scf.for") < text(e).index("late")
    assert not e.is_known("key")


def test_literals_are_exact():
    e = Emitter(8, has_fma=True)
    for value, element in [(0.1, "f32"), (1e300, "f32"), (0.1, "bf16"), (-1, "i8"), (200, "i8")]:
        e.constant(value, element)
    assert [line.split("constant ")[1] for line in e.text()] == [
        "0x3DCCCCCD : f32", "0x7F800000 : f32", "0x3DCD : bf16", "-1 : i8", "-56 : i8"
    ]  # fmt: skip


def test_lanes_of_an_index():
    e = Emitter(4, has_fma=True)
    value = e.materialise(Linear.of("%i") + Linear.of(LANE, 3), 4)
    assert value.type == "vector<4xi64>"
    assert "dense<[0, 3, 6, 9]>" in text(e)


def test_an_address_is_known_without_a_look_at_its_terms(monkeypatch):
    e = Emitter(8, has_fma=True)
    asked: list[str] = []
    pure = e.pure
    monkeypatch.setattr(e, "pure", lambda text, *rest: asked.append(text) or pure(text, *rest))
    terms = Linear.of("%i", 12) + Linear.of("%j")
    first = e.address("%p", "f32", terms)
    assert (e.address("%p", "f32", terms), e.index(terms)) == (first, e.index(terms))
    asked.clear()
    assert (e.address("%p", "f32", terms), e.index(terms)) == (first, e.index(terms))
    assert not asked
    e.address("%p", "f32", terms + 5)
    assert len(asked) == 1  # the constant distance


def test_offsets_of_a_register_tile_are_added_up_once(monkeypatch):
    start = Linear.of("%task", 4) + 2
    buffer = Buffer("%p", (6, 8), "f32", True, (start, Linear()))
    row, column = Linear.of("%i", 4) + Linear.of("%task", 4), Linear.of(LANE)
    sums: list[Linear] = []
    weighted = Linear.weighted

    def counted(*arguments):
        sums.append(weighted(*arguments))
        return sums[-1]

    monkeypatch.setattr(Linear, "weighted", staticmethod(counted))
    found = [buffer.offset([row + k, column + n]) for k in (0, 1) for n in (0, 4)]
    assert found == [Linear.of("%i", 32) + Linear.of(LANE) + k for k in (-16, -12, -8, -4)]
    assert {buffer.stride([row, column]), found[0].stride} == {1}
    assert len(sums) == 2  # the start of the buffer, and one for all positions


def test_a_far_displacement_is_a_value():
    """The text of llvm.getelementptr has numbers of 32 bits."""
    e = Emitter(8, has_fma=True)
    for count in ((1 << 31) - 1, -(1 << 31)):
        assert f"%p[{count}] : (!llvm.ptr) ->" in text_of_address(e, count)
    for count in (1 << 31, -(1 << 31) - 1):
        assert "%p[%" in text_of_address(e, count) and f"constant {count} : i64" in text(e)


def text_of_address(e: Emitter, count: int) -> str:
    e.address("%p", "i8", Linear(count))
    return e.text()[-1]
