"""Who writes the bytes of a value, where steps write rows of one tensor."""

from rammer_cases import kernel

from rcompiler.rammer.graph import Graph, Operator, Value

ROW = 64


def rows(count):
    """An operator for each row of a tensor, and values that view some of its bytes."""
    one, two = kernel("one", (16,), (1,), "w"), kernel("two", (32,), (1,), "w")
    values = [Value("x", ROW, "input", index=0), Value("all", count * ROW)]
    values += [Value(f"r{i}", ROW, alias_of="all", alias_offset=i * ROW) for i in range(count)]
    values += [Value("part", 2 * ROW, alias_of="all", alias_offset=3 * ROW)]
    values += [Value("y", 2 * ROW, "output", index=0)]
    order = [*range(0, count, 2), *range(1, count, 2)]  # the bytes are not in the order of writers
    operators = [Operator(f"o{i}", ("one",), ("x",), (f"r{i}",)) for i in order]
    operators.append(Operator("last", ("two",), ("part",), ("y",)))
    return Graph(tuple(operators), tuple(values), (one, two))


def test_writers_of_a_part_are_those_of_its_bytes():
    graph = rows(8)
    assert [op for op, _ in graph.writers_of("part")] == ["o3", "o4"]
    assert [op for op, _ in graph.writers_of("r7")] == ["o7"]
    assert [op for op, _ in graph.writers_of("all")] == [f"o{i}" for i in range(8)]
    assert graph.writers_of("x") == ()


def test_predecessors_are_in_the_order_of_the_graph():
    graph = rows(8)
    assert graph.predecessors["last"] == ("o4", "o3")
    assert graph.followers["o3"] == ("last",)
    assert graph.predecessors["o0"] == ()


def test_a_value_without_bytes_has_no_writers():
    graph = rows(8)
    nothing = Value("nothing", 0, alias_of="all", alias_offset=ROW)
    more = Graph(graph.operators, (*graph.values, nothing), graph.kernels)
    assert more.writers_of("nothing") == ()


def test_the_home_of_a_value_is_that_of_the_output_among_its_views():
    graph = rows(8)
    assert graph.homes["x"] == ("input", 0)
    assert graph.homes["y"] == ("output", 0)
    assert graph.homes["all"] == ("temp", -1)
    shown = Value("shown", 8 * ROW, "output", "all", 1)
    assert Graph(graph.operators, (*graph.values, shown), graph.kernels).homes["all"] == (
        "output",
        1,
    )
