"""in_turn: a line of every part in turn, and never before what it uses."""

from rcompiler.kernelgen.in_turn import in_turn


def test_a_line_of_every_part_in_turn():
    parts = [["%a = x", "%b = f %a"], ["%c = y", "%d = f %c", "%e = g %d"]]
    assert in_turn(parts) == ["%a = x", "%c = y", "%b = f %a", "%d = f %c", "%e = g %d"]


def test_what_an_earlier_part_computes_is_waited_for():
    parts = [["%a = x", "%b = f %a"], ["%c = g %b, %outside"], ["%d = y"]]
    assert in_turn(parts) == ["%a = x", "%d = y", "%b = f %a", "%c = g %b, %outside"]


def test_names_are_compared_whole():
    assert in_turn([["%v1 = x", "%v2 = f %v1"], ["%v3 = f %v20"]]) == [
        *("%v1 = x", "%v3 = f %v20", "%v2 = f %v1")
    ]


def test_loops_and_stores_keep_their_order():
    store = [["%a = x", "llvm.store %a, %p : f32, !llvm.ptr"], ["%b = y"]]
    loop = [["%a = x"], ["%r:1 = scf.for %i = %l to %h {", "  scf.yield %a", "}"]]
    for parts in (store, loop):
        assert in_turn(parts) == [line for lines in parts for line in lines]


def test_nothing_of_nothing():
    assert in_turn([]) == in_turn([[], []]) == []
