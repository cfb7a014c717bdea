"""Loops of more iterations than are written out: their body is a function that is called."""

import numpy as np
import pytest
from onnx import helper, numpy_helper, parser

import rcompiler
from rcompiler.errors import RangeError, UnsupportedOp
from rcompiler.frontend import import_onnx, loop

X = np.float32([1, 2])
HEAD = '<ir_version: 10, opset_import: ["": 21]>\n'
BODY = """<body = b (int64 i, bool c, float[2] a) => (bool d, float[2] e, float[3] r) {
  d = Identity(c) half = Constant<value = float {0.5}>() less = Mul(a, half)
  number = Cast<to = 1>(i) more = Add(less, number) e = Add(more, x)
  axis = Constant<value_ints = [0]>() row = Unsqueeze(number, axis) r = Concat<axis = 0>(row, e)
}>"""


def network(inputs, loop, before="", scans=True):
    outputs = "float[2] y, float[N, 3] z" if scans else "float[2] y"
    text = f"g ({inputs}) => ({outputs}) {{ yes = Constant<value = bool {{1}}>() {before} {loop} }}"
    made = parser.parse_model(HEAD + text)
    next(node for node in made.graph.node if node.op_type == "Loop").name = "again"
    return made


def constant(trips, scans=True, start="x"):
    before = f"n = Constant<value = int64 {{{trips}}}>()"
    if start == "k":
        before += " k = Constant<value_floats = [1.0, 2.0]>()"
    outputs = "y, z" if scans else "y"
    return network("float[2] x", f"{outputs} = Loop(n, yes, {start}) {BODY}", before, scans)


def counted():
    return network("float[2] x, int64 n", f"y, z = Loop(n, yes, x) {BODY}")


def ended():
    body = BODY.replace("d = Identity(c)", "")
    body = body.replace("\n}>", " top = ReduceMax<keepdims = 0>(e) d = Less(top, limit) }>")
    return network("float[2] x, float limit", f'y, z = Loop("", yes, x) {body}')


def right(trips, limit=np.inf):
    a, rows = X, []
    for i in range(trips):
        a = a * np.float32(0.5) + np.float32(i) + X
        rows.append([i, *a])
        if not a.max() < limit:
            break
    return a, np.reshape(np.float32(rows), (-1, 3))


def same(found, wanted):
    for got, each in zip(found, wanted, strict=False):
        assert got.shape == each.shape
        np.testing.assert_allclose(got, each, rtol=1e-6)


@pytest.fixture(params=["cpu", "cuda:emulated"])
def compiled(request, monkeypatch):
    """Models whose loops are long from 21 iterations on."""
    monkeypatch.setattr(loop, "MAX_TRIPS", 20)
    options = {"target": request.param, "eus": 2, "cache": False}
    return lambda made, **more: rcompiler.compile_onnx(made, **options, **more)


@pytest.mark.parametrize("start", ["x", "k"])
@pytest.mark.parametrize("scans", [False, True])
def test_a_constant_trip_count(compiled, scans, start):
    same(compiled(constant(40, scans, start))(X), right(40))


def test_constants_that_it_begins_with_are_handed_to_the_function():
    """No iteration is written out for them."""
    assert str(import_onnx(constant(5000, start="k"))).count("func.call") == 1
    assert "/0" not in import_onnx(constant(5000, start="k")).module_text


def test_a_first_iteration_that_hands_on_another_type(compiled):
    body = """<body = b (int64 i, bool c, float[v] a) => (bool d, float[w] e) {
      d = Identity(c) half = Constant<value = float {0.5}>() less = Mul(a, half)
      e = Add(less, x) }>"""
    before = "n = Constant<value = int64 {40}>() one = Constant<value_floats = [1.0]>()"
    made = network("float[2] x", f"y = Loop(n, yes, one) {body}", before, False)
    np.testing.assert_allclose(compiled(made)(X)[0], 2 * X, rtol=1e-6)


def test_a_trip_count_that_a_call_gives(compiled):
    model = compiled(counted(), bounds={"again": 40})
    for trips in (0, 1, 2, 3, 17, 40):
        same(model(X, np.array(trips)), right(trips))
    with pytest.raises(RangeError, match="'again' may go on to iteration 41, .* at most 40"):
        model(X, np.array(41))


def test_a_condition_that_ends_it(compiled):
    model = compiled(ended(), bounds={"again": 40})
    for limit in (0, 4, 20, 60):
        same(model(X, np.float32(limit)), right(40, limit))
    with pytest.raises(RangeError, match="'again' may go on to iteration 41"):
        model(X, np.float32(1e6))


def test_code_does_not_grow(compiled):
    made = [compiled(constant(n, False)).artifact.image for n in (40, 80)]
    texts = [getattr(image, "ptx", None) or image.content for image in made]
    assert len(texts[0]) == pytest.approx(len(texts[1]), abs=60)  # digits


@pytest.mark.parametrize("scans", [False, True])
def test_what_a_front_end_writes_does_not_grow(scans):
    texts = [str(import_onnx(constant(n, scans))) for n in (5000, 100_000)]
    assert abs(len(texts[1]) - len(texts[0])) < 60  # digits


def test_what_is_too_long_says_why(monkeypatch):
    monkeypatch.setattr(loop, "MAX_TRIPS", 20)
    growing = """<body = b (int64 i, bool c, float[w] a) => (bool d, float[v] e) {
      d = Identity(c) e = Concat<axis = 0>(a, x) }>"""
    made = network(
        "float[2] x", f"y = Loop(n, yes, x) {growing}", "n = Constant<value = int64 {40}>()", False
    )
    del made.graph.output[:]
    made.graph.output.append(helper.make_tensor_value_info("y", 1, None))
    with pytest.raises(UnsupportedOp, match="40 iterations; .* other types than it gets"):
        import_onnx(made)
    with pytest.raises(UnsupportedOp, match="up to 200000 times, and 131072 are the most"):
        import_onnx(counted(), limits={"again": 200_000})


def recurrence(steps, lengths):
    names = ["x", "w", "r", "", "lens" if lengths else ""]
    draw = np.random.default_rng(0).normal
    weights = {
        "w": draw(size=(1, 64, 4)).astype("f4"),
        "r": draw(size=(1, 64, 16)).astype("f4"),
        "lens": np.array([7], np.int32),
    }
    graph = helper.make_graph(
        [helper.make_node("LSTM", names, ["", "h"], hidden_size=16)],
        "g",
        [helper.make_tensor_value_info("x", 1, [steps, 1, 4])],
        [helper.make_tensor_value_info("h", 1, [1, 1, 16])],
        [numpy_helper.from_array(each, name) for name, each in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_steps_of_a_recurrence():
    texts = [str(import_onnx(recurrence(n, False))) for n in (5000, 100_000)]
    assert abs(len(texts[1]) - len(texts[0])) < 200
    with pytest.raises(UnsupportedOp, match="5000 time steps would be unrolled"):
        import_onnx(recurrence(5000, True))
    with pytest.raises(UnsupportedOp, match="it has 200000 time steps"):
        import_onnx(recurrence(200_000, False))
