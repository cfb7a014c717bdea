"""in_turn: a line of every part in turn, and never before what it uses."""

from rcompiler.kernelgen.in_turn import in_turn


def chain(name: str, count: int, first: str = "x") -> list[str]:
    """`count` lines, each of which waits for the one before."""
    names = [f"%{name}{k}" for k in range(count)]
    return [f"{n} = f {before}" for n, before in zip(names, [first, *names], strict=False)]


def test_a_line_of_every_part_in_turn():
    a, b = chain("a", 10), chain("b", 12)
    both = [line for pair in zip(a, b, strict=False) for line in pair]
    assert in_turn([a, b]) == [*both, *b[10:]]


def test_short_parts_are_left_alone():
    a, b = chain("a", 9), [*chain("b", 9), "%c = y"]
    assert in_turn([a, b]) == a + b


def test_what_an_earlier_part_computes_is_waited_for():
    a, b = chain("a", 10), chain("b", 2, first="%a4")
    assert in_turn([a, b, ["%c = y"]]) == [a[0], "%c = y", *a[1:5], b[0], a[5], b[1], *a[6:]]


def test_names_are_compared_whole():
    a, b = chain("a", 12), chain("b", 1, first="%a111")
    assert in_turn([a, b])[:2] == [a[0], b[0]]


def test_loops_and_stores_keep_their_order():
    store = [[*chain("a", 10), "llvm.store %a9, %p : f32, !llvm.ptr"], chain("b", 10)]
    loop = [chain("a", 10), ["%r:1 = scf.for %i = %l to %h {", "  scf.yield %a0", "}"]]
    for parts in (store, loop):
        assert in_turn(parts) == [line for lines in parts for line in lines]


def test_nothing_of_nothing():
    assert in_turn([]) == in_turn([[], []]) == []
