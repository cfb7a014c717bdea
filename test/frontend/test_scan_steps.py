"""Scans of many positions: one function of a step, or written out, as onnxruntime computes them."""

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser

import rcompiler
from rcompiler.frontend import import_onnx

onnxruntime = pytest.importorskip("onnxruntime")
rng = np.random.default_rng(0)


def f(*shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) * 0.2).astype(np.float32)


def scan(
    body: str,
    rows: int = 20,
    width: int = 16,
    how: str = "",
    results: str = "float[4, {w}] h, float[{n}, 4, {w}] y",
    named: str = "h, y",
    shape: str = "{n}, 4, {w}",
) -> ModelProto:
    """A Scan of x with the state h0, whose body reads the weights w of the graph around it."""
    sizes = {"n": rows, "w": width}
    return parser.parse_model(f"""
      <ir_version: 10, opset_import: ["": 21]>
      g (float[{shape.format(**sizes)}] x, float[4, {width}] h0, float[{width}, {width}] w)
        => ({results.format(**sizes)}) {{
        {named} = Scan <num_scan_inputs: int = 1, {how} body = step
          (float[4, {width}] h, float[4, {width}] xt) => (float[4, {width}] after, {body}
        }}> (h0, x)
      }}""")


PLAIN = """float[4, {w}] yt) {{
    product = MatMul (h, w)
    sum = Add (product, xt)
    after = Tanh (sum)
    yt = Mul (sum, sum)"""
IDENTITIES = """float[4, {w}] yt) {{
    after = MatMul (xt, w)
    yt = Identity (h)"""


def check(model: ModelProto, rows: int = 20, width: int = 16, axis: int = 0) -> None:
    x = np.ascontiguousarray(np.moveaxis(f(rows, 4, width), 0, axis))
    fed = {"x": x, "h0": f(4, width), "w": f(width, width)}
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = session.run(None, fed)
    for got, want in zip(rcompiler.compile_onnx(model, eus=1)(**fed), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def is_a_loop(model: ModelProto) -> bool:
    return "scf.for" in import_onnx(model).module_text


def plain(**more: object) -> ModelProto:
    return scan(PLAIN.format(w=more.get("width", 16)), **more)


@pytest.mark.parametrize("body", [PLAIN, IDENTITIES])
def test_a_step_is_a_function(body: str):
    model = scan(body.format(w=16))
    assert is_a_loop(model)
    check(model)


def test_its_text_does_not_grow_with_the_steps():
    short, long = (len(import_onnx(plain(rows=rows)).module_text) for rows in (20, 200))
    assert long < 1.1 * short


BACKWARD = "scan_input_directions: ints = [1], scan_output_directions: ints = [1],"
SECOND = "scan_input_axes: ints = [1], scan_output_axes: ints = [1],"


@pytest.mark.parametrize("kind", ["bool", "int8", "int64", "float16", "double"])
def test_rows_of_other_types(kind: str):
    """What is carried and scanned, of five numbers a row, and a number of each position."""
    to = {"bool": 9, "int8": 3, "int64": 7, "float16": 10, "double": 11}[kind]
    model = parser.parse_model(f"""
      <ir_version: 10, opset_import: ["": 21]>
      g (float[20, 5] given) => (float[5] last, float[20, 5] y, {kind}[20] z) {{
        x = Cast <to: int = {to}> (given)
        h0 = Cast <to: int = {to}> (start)
        h, rows, z = Scan <num_scan_inputs: int = 1, body = step ({kind}[5] h, {kind}[5] xt)
          => ({kind}[5] after, {kind}[5] yt, {kind} zt) {{
            same = Equal (h, xt)
            after = Where (same, xt, h)
            yt = Where (same, h, xt)
            two = Constant <value = int64 {{2}}> ()
            zt = Gather (yt, two)
          }}> (h0, x)
        last = Cast <to: int = 1> (h)
        y = Cast <to: int = 1> (rows)
      }}""")
    model.graph.initializer.append(numpy_helper.from_array(np.float32([1, 0, 2, 1, 3]), "start"))
    given = rng.integers(0, 4, (20, 5)).astype(np.float32)
    type_ = {"float16": np.float16, "double": np.float64}.get(kind, kind)
    h, rows = np.array([1, 0, 2, 1, 3]).astype(type_), []
    for x in given.astype(type_):
        rows.append(np.where(h == x, h, x))
        h = np.where(h == x, x, h)
    assert is_a_loop(model)
    last, y, z = rcompiler.compile_onnx(model, eus=1)(given=given)
    np.testing.assert_array_equal(last, h.astype(np.float32))
    np.testing.assert_array_equal(y, np.array(rows, np.float32))
    np.testing.assert_array_equal(z, np.array(rows)[:, 2])


def test_rows_of_parts_of_lines():
    """Are filled up: of what is scanned, and of results."""
    model = plain(width=3)
    assert is_a_loop(model)
    check(model, width=3)


def test_other_axes_and_directions():
    backward = plain(how=BACKWARD)
    second = plain(how=SECOND, shape="4, {n}, {w}", results="float[4, {w}] h, float[4, {n}, {w}] y")
    last = plain(
        how=SECOND.replace("[1]", "[-1]"),
        shape="4, {w}, {n}",
        results="float[4, {w}] h, float[4, {w}, {n}] y",
    )
    for model, axis in ((backward, 0), (second, 1), (last, 2)):
        assert is_a_loop(model)
        check(model, axis=axis)


def test_several_results_and_a_constant_state():
    body = """float[4, 16] yt, float[4, 16] zt, float[16] kt) {
        product = MatMul (h, w)
        sum = Add (product, xt)
        after = Tanh (sum)
        yt = Identity (after)
        zt = Mul (sum, sum)
        axis = Constant <value_ints = [0]> ()
        kt = ReduceSum <keepdims: int = 0> (xt, axis)"""
    results = "float[4, {w}] h, float[{n}, 4, {w}] y, float[{n}, 4, {w}] z, float[{n}, 16] k"
    model = scan(body, results=results, named="h, y, z, k")
    assert is_a_loop(model)
    check(model)
    zeros = numpy_helper.from_array(np.zeros((4, 16), np.float32), "zeros")
    model.graph.initializer.append(zeros)
    model.graph.node[0].input[0] = "zeros"
    assert is_a_loop(model)
    check(model)


WRITTEN_OUT = {
    "few positions": plain(rows=8),
    "the other way round": plain(how=BACKWARD.split(", scan_output")[0] + ","),
}


@pytest.mark.parametrize("form", WRITTEN_OUT)
def test_what_is_written_out(form: str):
    model = WRITTEN_OUT[form]
    assert not is_a_loop(model)
    sizes = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    check(model, sizes[0], sizes[2])


COUNTER = """
  <ir_version: 10, opset_import: ["": 21]>
  g (float[20, 16] x, float[24, 16] table) => (float[20, 16] y) {
    zero = Constant <value = int64 {0}> ()
    last, y = Scan <num_scan_inputs: int = 1, body = step (int64 i, float[16] xt)
      => (int64 next, float[16] yt) {
        one = Constant <value = int64 {1}> ()
        next = Add (i, one)
        row = Gather (table, %s)
        yt = Add (xt, row)
      }> (zero, x)
  }
"""


@pytest.mark.parametrize("index", ["next", "i"])
def test_a_body_that_counts_its_positions(index: str):
    """Written out the numbers are constants, of which no index has to be looked at."""
    model = parser.parse_model(COUNTER % index)
    assert not is_a_loop(model)
    fed = {"x": f(20, 16), "table": f(24, 16)}
    first = index == "next"
    wanted = fed["x"] + fed["table"][first : 20 + first]
    np.testing.assert_array_equal(rcompiler.compile_onnx(model, eus=1)(**fed)[0], wanted)


def test_a_scan_in_a_step_of_another():
    model = parser.parse_model("""
      <ir_version: 10, opset_import: ["": 21]>
      g (float[20, 16, 16] x, float[16] h0) => (float[16] h) {
        h = Scan <num_scan_inputs: int = 1, body = outer (float[16] h, float[16, 16] xt)
          => (float[16] after) {
            after = Scan <num_scan_inputs: int = 1, body = inner (float[16] g, float[16] xs)
              => (float[16] more) {
                sum = Add (g, xs)
                more = Tanh (sum)
              }> (h, xt)
          }> (h0, x)
      }""")
    fed = {"x": f(20, 16, 16), "h0": f(16)}
    h = fed["h0"]
    for row in fed["x"].reshape(-1, 16):
        h = np.tanh(h + row)
    (got,) = rcompiler.compile_onnx(model, eus=1)(**fed)
    np.testing.assert_allclose(got, h, rtol=1e-5, atol=1e-5)


VIEWS = {
    "whole": "after = Min (h, xt)",
    "parts": """a, b = Split <axis = 0, num_outputs = 2> (h)
        c = Tanh (a)
        d = Add (b, c)
        both = Concat <axis = 0> (d, c)
        after = Add (both, xt)""",
}


@pytest.mark.parametrize("target", ["cpu", "cuda:emulated"])
@pytest.mark.parametrize("width", [5, 64])  # 64: its elements are an array beside the text
@pytest.mark.parametrize("form", VIEWS)
@pytest.mark.parametrize("constant", ["h0", "x"])
@pytest.mark.filterwarnings("error::rcompiler.errors.OptionalPassWarning")
def test_steps_view_a_constant(constant: str, form: str, width: int, target: str):
    """What the loop begins with, where those behind view what a step before made; or its rows."""
    row = f"float[2, {width}]"
    model = parser.parse_model(f"""
      <ir_version: 10, opset_import: ["": 21]>
      g (float[16, 2, {width}] x, {row} h0) => (float[16, 2, {width}] y) {{
        last, y = Scan <num_scan_inputs: int = 1, body = step
          ({row} h, {row} xt) => ({row} after, {row} yt) {{
            {VIEWS[form]}
            yt = Add (after, xt)
          }}> (h0, x)
      }}""")
    feeds = {"x": f(16, 2, width), "h0": f(2, width)}
    model.graph.initializer.append(numpy_helper.from_array(feeds.pop(constant), constant))
    (named,) = [each for each in model.graph.input if each.name == constant]
    model.graph.input.remove(named)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (got,) = rcompiler.compile_onnx(model, target=target, cache=False)(**feeds)
    np.testing.assert_allclose(got, session.run(None, feeds)[0], rtol=1e-4, atol=1e-4)
