"""Batches of requests of unequal lengths, packed: each request is answered as if it were alone.

What lies behind the numbers of a caller is NaN here, or the least integer: none of it may leak.
"""

import copy
import pickle

import numpy as np
import onnx
import pytest
import sized_networks
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper, parser
from onnx.reference import ReferenceEvaluator

import rcompiler
from rcompiler.errors import ArtifactError, CompilerError, RangeError, ShapeError, UnsupportedOp
from rcompiler.packed import PackedModel
from rcompiler.runtime import container, family
from rcompiler.runtime.sized_arguments import SizedCall
from rcompiler.tools import models, rc_compile, rc_run

MOST, LONGEST = 4, 12
OPTIONS = {"cache": False, "device": "default", "eus": 2}
BUCKETS = {"rows": (18, MOST * LONGEST), "seq": (LONGEST,)}

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in cast")


@pytest.fixture(autouse=True, scope="module")
def poison():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SizedCall, "beyond", np.nan)
        yield


def packed(proto, **options):
    shapes = {"batch": MOST, "seq": range(1, LONGEST + 1)}
    given = {"shapes": shapes, "packed": ("batch", "seq"), "buckets": BUCKETS, **OPTIONS, **options}
    return rcompiler.compile_onnx(proto, **given)


def check(model, proto, requests):
    """Each request against the reference, which has it alone."""
    reference = ReferenceEvaluator(proto)
    found = model(**{name: [each[name] for each in requests] for name in requests[0]})
    for number, request in enumerate(requests):
        exact = reference.run(None, {name: array[None] for name, array in request.items()})
        for outputs, alone in zip(found, exact, strict=True):
            own = outputs[number]
            alone = alone.reshape(own.shape)  # without the axis of one request
            np.testing.assert_allclose(own, alone, 2e-4, 2e-4)


def tokens(rng, length):
    mask = np.r_[1, rng.integers(0, 2, length - 1)]
    return {"ids": rng.integers(0, 50, length), "mask": mask.astype(np.int64)}


@pytest.fixture(scope="module")
def bert():
    with packed(sized_networks.bert(layers=1)) as made:
        yield made


LENGTHS = st.lists(st.integers(1, LONGEST), min_size=1, max_size=MOST)


@settings(max_examples=25)
@given(LENGTHS, st.integers(0, 9))
def test_an_encoder_answers_as_for_each_request_alone(bert, lengths, seed):
    rng = np.random.default_rng(seed)
    check(bert, sized_networks.bert(layers=1), [tokens(rng, length) for length in lengths])


def test_a_decoder_without_a_mask_of_padding():
    """Causal masks are of positions; the last token of each request is another row."""
    proto, rng = sized_networks.gpt(layers=1), np.random.default_rng(0)
    with packed(proto) as model:
        for lengths in ([12, 12, 12, 12], [1], [3, 12], [2, 1, 7, 5]):
            check(model, proto, [{"ids": rng.integers(0, 50, length)} for length in lengths])


def test_the_built_in_bert():
    sizes = {"sequence": LONGEST, "layers": 1, "hidden": 32, "heads": 4, "vocabulary": 64}
    proto, rng = models.build("bert_base", axes="dynamic", **sizes), np.random.default_rng(1)
    given = {"batch": MOST, "sequence": range(1, LONGEST + 1)}
    with rcompiler.compile_onnx(
        proto, shapes=given, packed=("batch", "sequence"), buckets={"rows": (48,)}, **OPTIONS
    ) as model:
        for lengths in ([5, 12, 1], [1, 1, 1, 1]):
            requests = [
                {
                    "input_ids": rng.integers(0, 64, n),
                    "token_type_ids": rng.integers(0, 2, n),
                    "attention_mask": np.ones(n, np.int64),
                }
                for n in lengths
            ]
            check(model, proto, requests)


# -- operators ----------------------------------------------------------------------------------
_RNG = np.random.default_rng(5)
WEIGHTS = {
    "w": _RNG.standard_normal((8, 8)).astype(np.float32),
    "v": _RNG.standard_normal(8).astype(np.float32),
    "one": np.array([1]),
    "last": np.array([-1]),
    "zero": np.array(0),
    "end": np.array([np.iinfo(np.int64).max]),
    "both": np.array([1, 2]),
    "flat": np.array([-1, 8]),
    "split": np.array([0, 0, 2, 4]),
    "whole": np.array([0, 0, 8]),
    "table": _RNG.standard_normal((16, 8)).astype(np.float32),
}
ATTENTION = """
  h = Reshape(x, split)  q = Transpose<perm=[0, 2, 1, 3]>(h)  k = Transpose<perm=[0, 2, 3, 1]>(h)
  scores = MatMul(q, k)
"""
CONTEXT = """
  context = MatMul(p, q)  rows = Transpose<perm=[0, 2, 1, 3]>(context)  y = Reshape(rows, whole)
"""
GRAPHS = {
    "one head": """(float[batch, seq, 8] y, float[batch, 8] first, float[batch, 1, 8] behind) {
      q = MatMul(x, w)  k = Transpose<perm=[0, 2, 1]>(x)  scores = MatMul(q, k)
      p = Softmax<axis=-1>(scores)  y = MatMul(p, x)
      first = Gather<axis=1>(y, zero)  behind = Slice(y, last, end, one) }""",
    "joined rows": """(float[batch, seq, 8] y) {
      joined = Reshape(x, flat)  z = Gemm<transB=1>(joined, w, v)  shape = Shape(x)
      y = Reshape(z, shape) }""",
    "sums of requests": """(float[batch, 8] y, float[batch, 8] most, float[batch, seq, 8] beside,
      float[batch, 8] mean, float[batch, 1, 1] all) {
      sum = ReduceSum<keepdims=0>(x, one)  mean = ReduceMean<keepdims=0>(x, one)
      all = ReduceMean(x, both)  most = ReduceMax<keepdims=0>(x, one)
      y = MatMul(sum, w)  apart = Unsqueeze(y, one)  beside = Add(x, apart) }""",
    "attention pooling": """(float[batch, 1, 8] y) {
      scores = MatMul(x, w)  p = Softmax<axis=1>(scores)  weighted = Mul(x, p)
      y = ReduceSum(weighted, one) }""",
    "positions": """(float[batch, seq, 8] y, int64[batch, seq] until) {
      shape = Shape(x)  n = Gather(shape, one)  scalar = Squeeze(n)  step = Squeeze(one)
      at = Range(zero, scalar, step)  places = Gather(table, at)  moved = Add(x, places)
      start = Unsqueeze(zero, none)  sizes = Slice(shape, start, two)  row = Unsqueeze(at, start)
      ids = Expand(row, sizes)  more = Gather(table, ids)  y = Mul(moved, more)
      until = CumSum(ids, step) }""",
    "a mask of all pairs": """(float[batch, seq, 8] y) {"""
    + ATTENTION
    + """sum = ReduceSum<keepdims=0>(x, last)  nought = Constant<value_float=-9.0>()
      kept = Greater(sum, nought)  apart = Unsqueeze(kept, middle)  shape = Shape(scores)
      all = Expand(apart, shape)  low = Constant<value_float=-1e9>()
      masked = Where(all, scores, low)  p = Softmax(masked)"""
    + CONTEXT
    + "}",
    "rows that are cut and joined": """(float[batch, seq, 8] y, float[batch, seq] z) {
      a, b = Split<axis=2, num_outputs=2>(x)  c = Concat<axis=-1>(b, a)
      n = LayerNormalization<axis=2>(c, v, v)  mean = ReduceMean(c, last)  y = Sub(n, mean)
      z = ReduceL2<keepdims=0>(c, last) }""",
    "axes in front": """(float[8, batch, seq] y, float[batch, seq, 4] z) {
      y = Transpose<perm=[2, 0, 1]>(x)  a = Relu(y)  b = Transpose<perm=[1, 2, 0]>(a)
      start = Constant<value_ints=[1]>()  stop = Constant<value_ints=[5]>()
      z = Slice(b, start, stop, last) }""",
}


def graph(body, inputs="float[batch, seq, 8] x"):
    proto = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> g ({inputs}) => {body}')
    weights = {**WEIGHTS, "two": np.array([2]), "none": np.array([0]), "middle": np.array([1, 2])}
    proto.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in weights.items()
    )
    return proto


def states(rng, length):
    return {"x": rng.standard_normal((length, 8)).astype(np.float32)}


@pytest.mark.parametrize("name", GRAPHS)
def test_operators(name):
    proto, rng = graph(GRAPHS[name]), np.random.default_rng(3)
    with packed(proto, buckets={"rows": (48,), "seq": (12,)}) as model:
        for lengths in ([7], [12, 1, 5], [2, 2, 9, 4]):
            requests = [states(rng, length) for length in lengths]
            reference = ReferenceEvaluator(proto)
            found = model([each["x"] for each in requests])
            for number, request in enumerate(requests):
                exact = reference.run(None, {"x": request["x"][None]})
                for tensor, outputs, alone in zip(model.outputs, found, exact, strict=True):
                    axis = 1 if tensor.name == "y" and name == "axes in front" else 0
                    alone = np.squeeze(alone, axis)
                    assert outputs[number].shape == alone.shape
                    np.testing.assert_allclose(outputs[number], alone, 1e-4, 1e-4)


@pytest.mark.parametrize("name", ["one head", "sums of requests", "a mask of all pairs"])
def test_no_request_reads_another(name):
    """The numbers of one stay the same, bit for bit, whatever the others have."""
    rng = np.random.default_rng(4)
    with packed(graph(GRAPHS[name])) as model:
        for number in range(MOST):
            requests = [states(rng, length)["x"] for length in (3, 12, 6, 5)]
            exact = [each[number].tobytes() for each in model(requests)]
            for other in range(MOST):
                if other != number:
                    requests[other][...] = np.nan if other % 2 else np.inf
            assert [each[number].tobytes() for each in model(requests)] == exact


def test_attention_has_the_room_that_a_call_needs():
    """Its groups have all, half or a quarter of their room; CPUs compute those that are chosen."""
    proto, rng = graph(GRAPHS["one head"]), np.random.default_rng(7)
    shapes = {"batch": 3, "seq": range(1, 257)}
    with packed(proto, shapes=shapes, buckets={"rows": (640,)}) as model:
        [(sizes, program)] = model.programs
        assert sizes == {"rows": (1, 640), "seq": (1, 256)}
        with pytest.raises(ShapeError, match="there is no program for rows=641"):
            model([np.zeros((n, 8), np.float32) for n in (256, 256, 129)])
        assert "rtask.guard" in program.stage("rtask")
        for lengths in ([256, 256, 128], [128, 128, 107], [64, 64, 54], [65, 1, 1], [2]):
            requests = [states(rng, length) for length in lengths]
            found = model([each["x"] for each in requests])
            for number, request in enumerate(requests):
                exact = ReferenceEvaluator(proto).run(None, {"x": request["x"][None]})
                for outputs, alone in zip(found, exact, strict=True):
                    np.testing.assert_allclose(outputs[number], alone[0], 1e-4, 1e-4)


def test_integers_are_those_of_each_request_alone():
    body = """(float[batch, seq, 8] y) {
      a = QuantizeLinear(x, scale, nought)  b = DequantizeLinear(a, scale, nought)
      weight = DequantizeLinear(bytes, scale, nought)  c = MatMul(b, weight)
      d = QuantizeLinear(c, scale, nought)  y = DequantizeLinear(d, scale, nought) }"""
    proto, rng = graph(body), np.random.default_rng(2)
    given = {
        "scale": np.float32(0.05),
        "nought": np.int8(3),
        "bytes": rng.integers(-127, 127, (8, 8)).astype(np.int8),
    }
    proto.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array), name) for name, array in given.items()
    )
    one = {"shapes": {"batch": 1, "seq": range(1, 13)}, "buckets": {"seq": (12,)}, **OPTIONS}
    with packed(proto) as model, rcompiler.compile_onnx(proto, **one) as alone:
        requests = [states(rng, length)["x"] for length in (2, 12, 7)]
        for found, request in zip(model(requests)[0], requests, strict=True):
            assert found.tobytes() == alone(request[None])[0].tobytes()


def test_what_requests_have_once():
    """An input with an axis of the requests alone, and one that all of them share."""
    body = """(float[batch, seq, 8] y, float[batch, 3] z) {
      wide = MatMul(c, to)  apart = Unsqueeze(wide, one)  moved = Add(x, apart)  y = Add(moved, s)
      z = Relu(c) }"""
    proto = graph(body, "float[batch, seq, 8] x, float[batch, 3] c, float[8] s")
    to = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(to, "to"))
    rng = np.random.default_rng(1)
    x = [rng.standard_normal((length, 8)).astype(np.float32) for length in (2, 9, 4)]
    c, s = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 3), 8))
    with packed(proto) as model:
        y, z = model(x, c, s)
        for own, one, row in zip(y, x, c @ to, strict=True):
            np.testing.assert_allclose(own, one + row + s, 1e-5, 1e-5)
        np.testing.assert_array_equal(z, np.maximum(c, 0))
        with pytest.raises(ShapeError, match=r"'c' has shape \[2, 3\] for 3 requests"):
            model(x, c[:2], s)


# -- what a model says, and files ---------------------------------------------------------------
def test_it_says_what_it_takes(bert):
    assert isinstance(bert, PackedModel)
    assert [t.sizes for t in bert.inputs] == [("seq",), ("seq",)]
    assert [t.sizes for t in bert.outputs] == [("seq", 32), ("batch", 32)]
    assert [sizes for sizes, _ in bert.programs] == [
        {"rows": (1, 18), "seq": (1, 12)},
        {"rows": (1, 48), "seq": (1, 12)},
    ]
    assert "for 'rows: 1 to 48; seq: 1 to 12'" in repr(bert)


def test_the_smallest_program_that_holds_the_rows_runs(bert):
    small, large = (model for _, model in bert.programs)
    ids = [np.zeros(9, np.int64)] * 3
    assert bert.taking(ids[:2], ids[:2]) is small
    assert bert.taking(ids, ids) is large
    rows = bert.rows([ids[0], ids[0][:4]], [ids[0], ids[0][:4]])
    assert rows["ids"].shape == (13,) and rows["lengths of requests"].tolist() == [9, 4]


def test_results_are_in_the_order_of_the_call(bert):
    rng = np.random.default_rng(6)
    requests = [tokens(rng, length) for length in (2, 11, 5)]
    hidden, pooled = bert(*([each[name] for each in requests] for name in ("ids", "mask")))
    back, other = bert(*([each[name] for each in requests[::-1]] for name in ("ids", "mask")))
    assert [each.tobytes() for each in hidden] == [each.tobytes() for each in back[::-1]]
    assert pooled.tobytes() == other[::-1].tobytes()
    assert [each.shape for each in hidden] == [(2, 32), (11, 32), (5, 32)]


def test_files_copies_and_pickles(bert, tmp_path):
    bert.save(tmp_path / "m.rcx")
    ids = [np.arange(5), np.arange(9)]
    exact = bert(ids, ids)[1].tobytes()
    for other in (
        rcompiler.load(tmp_path / "m.rcx"),
        copy.copy(bert),
        pickle.loads(pickle.dumps(bert)),
    ):
        with other:
            assert isinstance(other, PackedModel)
            assert other(ids, ids)[1].tobytes() == exact
    assert rc_run.main([str(tmp_path / "m.rcx")]) == 1


def test_a_file_that_contradicts_itself(bert, tmp_path):
    bert.save(tmp_path / "m.rcx")
    with container.reading(tmp_path / "m.rcx", True, True, None) as (header, sections, _):
        for wrong in ("yes", 2):
            header["buckets"]["packed"] = wrong
            container.write(tmp_path / "wrong.rcx", header, dict(sections))
            with pytest.raises(ArtifactError):
                family.load(tmp_path / "wrong.rcx")


def test_the_command_line(tmp_path, capsys):
    onnx.save(graph(GRAPHS["one head"]), tmp_path / "m.onnx")
    given = [str(tmp_path / "m.onnx"), "--shapes=batch=2,seq=1..4", "--packed=batch,seq"]
    assert rc_compile.main([*given, "--check"]) == 0
    assert "nodes can be compiled" in capsys.readouterr().out
    assert rc_compile.main([*given, "-o", str(tmp_path / "m.rcx")]) == 0
    with rcompiler.load(tmp_path / "m.rcx") as model:
        x = np.ones((3, 8), np.float32)
        assert [each.shape for each in model([x, x[:2]])[0]] == [(3, 8), (2, 8)]


# -- what is refused ----------------------------------------------------------------------------
def test_calls_that_do_not_fit(bert):
    ids = [np.zeros(n, np.int64) for n in (2, 3)]
    for arguments, message in (
        ((ids, ids[:1]), "'ids' has 2 requests and input 'mask' 1"),
        ((ids, ids[::-1]), "request 0 has 2 positions in input 'ids' and 3 in input 'mask'"),
        ((ids * 3, ids * 3), "6 requests; 'batch' is from 1 to 4"),
        (([], []), "0 requests; 'batch' is from 1 to 4"),
        (([np.zeros(13, np.int64)],) * 2, "request 0 has 13 positions; 'seq' is from 1 to 12"),
        (([np.zeros(0, np.int64)],) * 2, "request 0 has 0 positions"),
        ((np.zeros((2, 3), np.int64),) * 2, "'ids' is a ndarray; a packed model takes a list"),
        (([ids[0][None]], [ids[0]]), r"request 0 of input 'ids' is int64\[1, 2\]"),
        (([ids[0].astype(np.int32)], [ids[0]]), r"the model wants int64 \[seq\]"),
        ((ids,), "input 'mask' is missing"),
    ):
        with pytest.raises(ShapeError, match=message):
            bert(*arguments)
    with pytest.raises(RangeError):
        bert([np.array([50])], [np.array([1])])


REFUSED = {
    "Cast<to=1>(n)": "says seq, which each request has a number of its own for",
    "Softmax<axis=0>(x)": "it goes along the requests",
    "ReduceSum(x)": "it goes along the requests",
    "Concat<axis=1>(x, x)": "it joins what differs between calls",
    "Slice(x, none, two, one)": "it takes 0 to 2 of seq",
    "Gather<axis=1>(x, two)": "position 2 of requests from 1 on",
    "Trilu(x)": "the operator has no rule for them",
    "Transpose<perm=[1, 0, 2]>(x)": "a packed model has no result of shape",
}


@pytest.mark.parametrize("node", REFUSED)
def test_nodes_that_are_not_packed(node):
    number = "shape = Shape(x)  n = Gather(shape, one)"
    proto = graph(f"(float y) {{ {number}  y = {node} }}")
    with pytest.raises(UnsupportedOp, match=REFUSED[node]) as refused:
        packed(proto)
    assert refused.value.gap is not None


def test_options_that_do_not_fit():
    proto = graph(GRAPHS["one head"])
    for options, message in (
        ({"packed": "batch"}, "give the names of two dimensions"),
        ({"packed": ("batch", "length")}, "shapes says nothing of 'length'"),
        ({"packed": ("seq", "batch")}, "'batch' has to stand behind 'seq'"),
        ({"shapes": {"batch": 1, "seq": range(1, 9)}}, "give a number from 2 on"),
        ({"shapes": {"batch": 4, "seq": range(9)}}, "or a range from 1 on"),
        ({"shapes": {"batch": 4, "seq": range(1, 9), "x": (4, 8, 8)}}, "by the names of"),
        ({"buckets": {"tokens": (4,)}}, "give tops of 'rows' and 'seq'"),
        ({"buckets": {"rows": (64,)}}, "the last one 48"),
        ({"buckets": {"seq": (6,)}}, "the last one 12"),
    ):
        with pytest.raises(ShapeError, match=message):
            packed(proto, **options)
    for options, message in (
        ({"target": "cuda:sm_80", "device": None}, "packed is for one CPU"),
        ({"target": "cpu:v3,cpu:x86-64", "device": None}, "packed is for one CPU"),
        ({"tune": "warmup"}, "leave one of the two out"),
        ({"state": {"x": "y"}}, "leave packed or state out"),
    ):
        with pytest.raises(CompilerError, match=message):
            packed(proto, **options)
