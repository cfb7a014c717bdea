"""Caches that are state: a call writes what is new into them, and copies nothing."""

import numpy as np
import pytest
from decoders import decoder
from onnx import parser
from onnx.reference import ReferenceEvaluator
from recrafted import rewrite, rewrite_facts

import rcompiler
from rcompiler.driver.from_schedule import schedule_artifact
from rcompiler.errors import InvalidModel, RangeError, ScheduleError

TARGETS = ("cpu", "cuda:emulated")
CACHES = {"past.*": "present.*", "pos": "new_pos"}
RANDOM = np.random.default_rng(0)
FORMS = {
    "TensorScatter": """
    <ir_version: 11, opset_import: ["": 24]>
    g (float[2,4,ROOM,8] k, float[2,4,2,8] x, int64[2] at) => (float[2,4,ROOM,8] kn) {
      kn = TensorScatter<axis=2>(k, x, at)
    }
    """,
    "TensorScatter, circular": """
    <ir_version: 11, opset_import: ["": 24]>
    g (float[1,ROOM,8] k, float[1,3,8] x, int64[1] at) => (float[1,ROOM,8] kn) {
      kn = TensorScatter<axis=1, mode="circular">(k, x, at)
    }
    """,
    "ScatterND": """
    <ir_version: 10, opset_import: ["": 21]>
    g (float[ROOM,8] k, float[2,8] x, int64[2,1] at) => (float[ROOM,8] kn) {
      kn = ScatterND(k, at, x)
    }
    """,
    "ScatterND, sums": """
    <ir_version: 10, opset_import: ["": 21]>
    g (float[ROOM,8] k, float[2,8] x, int64[2,1] at) => (float[ROOM,8] kn) {
      kn = ScatterND<reduction="add">(k, at, x)
    }
    """,
    "ScatterElements": """
    <ir_version: 10, opset_import: ["": 21]>
    g (float16[2,ROOM,8] k, float16[2,1,8] x, int64[2,1,8] at) => (float16[2,ROOM,8] kn) {
      kn = ScatterElements<axis=1>(k, at, x)
    }
    """,
}


def compiled(form, state=None, *, room=16, target="cpu", **options):
    proto = parser.parse_model(FORMS[form].replace("ROOM", str(room)))
    state = {"k": "kn"} if state is None else state
    options = {"eus": 2, "cache": False} | options
    return proto, rcompiler.compile_onnx(proto, state=state, target=target, **options)


def kernel_ns(model):
    return sum(op.estimated_ns for op in model.report().operators)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", TARGETS)
def test_a_part_is_replaced_in_place(form, target):
    proto, model = compiled(form, target=target)
    assert model.report().note == "state updated in place: k"
    kinds = {tensor.name: tensor for tensor in model.inputs}
    cache = RANDOM.standard_normal(model.state.tensors[0].shape)
    cache = cache.astype(model.state.tensors[0].dtype)
    model.reset({"k": cache})
    oracle = ReferenceEvaluator(proto)
    for call in range(3):
        x = RANDOM.standard_normal(kinds["x"].shape).astype(kinds["x"].dtype)
        at = RANDOM.integers(0, 14, kinds["at"].shape)
        at.reshape(-1)[0] = [0, 13, 14][call]
        (cache,) = oracle.run(None, {"k": cache, "x": x, "at": at})
        assert model(x=x, at=at) == []
        np.testing.assert_allclose(model.state["k"], cache, rtol=1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_written_does_not_grow_with_the_cache(form):
    """By the text of the kernels and by what they are expected to take."""
    small, large, copying = (
        compiled(form, state, room=room, device="default")[1]
        for state, room in ((None, 16), (None, 4096), ({}, 4096))
    )
    assert kernel_ns(large) < 1.01 * kernel_ns(small) < kernel_ns(copying) / 20
    assert "rtask.updates" in large.stage("rtask") and "updates = " in large.stage("schedule")
    assert "rtask.updates" not in copying.stage("rtask")


def test_tasks_share_out_what_is_written():
    """Several tasks: each begins with its own part of the last value, which nobody else writes."""
    proto = parser.parse_model("""
    <ir_version: 11, opset_import: ["": 24]>
    g (float[1,12,1024,64] k, float[1,12,16,64] x, int64[1] at) => (float[1,12,1024,64] kn) {
      kn = TensorScatter<axis=2>(k, x, at)
    }
    """)
    model = rcompiler.compile_onnx(proto, state={"k": "kn"}, eus=2, cache=False, device="default")
    assert model.report().operators[-1].tasks > 1
    assert model.report().note == "state updated in place: k"
    x = RANDOM.standard_normal((1, 12, 16, 64)).astype(np.float32)
    model(x=x, at=np.int64([7]))
    assert np.array_equal(model.state["k"][:, :, 7:23], x)
    assert not model.state["k"][:, :, 23:].any()


INSIDE = """
    <ir_version: 11, opset_import: ["": 24, "own": 1]>
    g (float[1,64,8] k, float[1,1,8] x, int64[1] at) => (float[1,64,8] kn, float[1,8] y) {
      kn, y = own.Step (READS)
    }
    <domain: "own", opset_import: ["": 24]>
    Written (past, new, at) => (written) {
      written = TensorScatter<axis=1>(past, new, at)
    }
    <domain: "own", opset_import: ["": 24, "own": 1]>
    Step (k, other, x, at) => (n, y) {
      n = own.Written (k, x, at)
      axes = Constant<value_ints = [1]>()
      s = ReduceSum<keepdims=0>(n, axes)
      t = ReduceSum<keepdims=0>(other, axes)
      y = Add(s, t)
    }
"""


@pytest.mark.parametrize(("reads", "updated"), [("k, x, x, at", True), ("k, k, x, at", False)])
def test_a_function_updates_a_cache_that_nothing_else_reads(reads, updated):
    proto = parser.parse_model(INSIDE.replace("READS", reads))
    model = rcompiler.compile_onnx(proto, state={"k": "kn"}, eus=1, cache=False)
    assert ("rtask.updates" in model.stage("rtask")) == updated
    oracle, k = ReferenceEvaluator(proto), np.zeros((1, 64, 8), np.float32)
    for place in (3, 0, 63):
        x = RANDOM.standard_normal((1, 1, 8)).astype(np.float32)
        k, y = oracle.run(None, {"k": k, "x": x, "at": np.int64([place])})
        np.testing.assert_allclose(model(x, np.int64([place]))["y"], y, rtol=1e-5, atol=1e-5)
    assert np.array_equal(model.state["k"], k)


def test_a_step_of_a_decoder_updates_the_buffers_that_past_and_present_share():
    proto = parser.parse_model("""
    <ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
    g (float[1,1,12] q, float[1,1,12] k, float[1,1,12] v, float[1,3,9,4] pk, float[1,3,9,4] pv,
       int32[1] n) => (float[1,1,12] y, float[1,3,9,4] nk, float[1,3,9,4] nv) {
      y, nk, nv = com.microsoft.DecoderMaskedMultiHeadAttention
        <num_heads=3, past_present_share_buffer=1>(q, k, v, , , pk, pv, n)
    }
    """)
    model = rcompiler.compile_onnx(proto, state={"p*": "n*"}, eus=1, cache=False)
    assert model.report().note == "state updated in place: pk, pv"
    q, k, v = (RANDOM.standard_normal((1, 1, 12)).astype(np.float32) for _ in "qkv")
    np.testing.assert_allclose(model(q, k, v, np.int32([0]))["y"], v, rtol=1e-6)
    model(q, k, v, np.int32([4]))
    assert np.array_equal(model.state["pk"][0, :, [0, 4]], k.reshape(1, 3, 4).repeat(2, 0))
    assert np.count_nonzero(model.state["pv"]) == 2 * v.size


def test_a_cache_that_something_else_reads_is_not_updated():
    proto = parser.parse_model("""
    <ir_version: 11, opset_import: ["": 24]>
    g (float[1,16,8] k, float[1,1,8] x, int64[1] at) => (float[1,16,8] kn, float[1,16,8] old) {
      kn = TensorScatter<axis=1>(k, x, at)
      old = Neg(k)
    }
    """)
    model = rcompiler.compile_onnx(proto, state={"k": "kn"}, eus=2, cache=False)
    assert "rtask.updates" not in model.stage("rtask")
    k, x = (RANDOM.standard_normal((1, n, 8)).astype(np.float32) for n in (16, 1))
    model.reset({"k": k})
    assert np.array_equal(model(x, np.int64([3]))["old"], -k)
    k[0, 3] = x[0, 0]
    assert np.array_equal(model.state["k"], k)


def test_places_outside_of_a_cache_are_refused_before_anything_is_written():
    _, model = compiled("TensorScatter")
    x = np.ones((2, 4, 2, 8), np.float32)
    with pytest.raises(RangeError, match="index 15"):
        model(x, np.int64([0, 15]))
    assert not model.state["k"].any() and not model.state.lost


def test_no_operator_copies_a_cache():
    """What is temporary takes less than one of the caches does, all of it together."""
    proto = decoder(room=512, by_hand=True)
    model = rcompiler.compile_onnx(proto, state=CACHES, eus=2, cache=False, device="default")
    assert model.report().arena_bytes < model.state.tensors[1].nbytes / 4
    assert "in place: past.0.k, past.0.v, past.1.k, past.1.v" in model.report().note


@pytest.mark.parametrize(
    ("target", "by_hand"), [("cpu", False), ("cpu", True), ("cuda:emulated", False)]
)
def test_a_decoder_generates(target, by_hand):
    """Token by token what the reference computes, which is handed its caches."""
    proto = decoder(by_hand=by_hand)
    model = rcompiler.compile_onnx(proto, state=CACHES, target=target, eus=2, cache=False)
    assert [t.name for t in model.inputs] == ["ids"]
    assert [t.name for t in model.outputs] == ["logits"]
    assert "in place: past.0.k, past.0.v, past.1.k, past.1.v" in model.report().note
    oracle, names = ReferenceEvaluator(proto), [output.name for output in proto.graph.output]
    feeds = {name: np.zeros_like(value) for name, value in model.state.items()}
    feeds["ids"] = np.int64([[3]])
    for _ in range(20 if target == "cpu" else 3):
        wanted = dict(zip(names, oracle.run(None, feeds), strict=True))
        (logits,) = model(feeds["ids"])
        np.testing.assert_allclose(logits, wanted["logits"], rtol=1e-4, atol=1e-5)
        feeds |= {f"past.{n[8:]}": wanted[n] for n in names if n.startswith("present")}
        feeds |= {"pos": wanted["new_pos"], "ids": logits.argmax(axis=-1)}
    for name, value in model.state.items():
        np.testing.assert_allclose(value, feeds[name], rtol=1e-4, atol=1e-5)


def test_a_prompt_and_its_continuation_share_the_caches():
    prefill, decode = (
        rcompiler.compile_onnx(decoder(n), state=CACHES, eus=1, cache=False) for n in (4, 1)
    )
    ids = np.int64([[3, 1, 4, 1]])
    single = [decode(ids[:, i : i + 1])["logits"] for i in range(4)]
    last = dict(decode.state)
    decode.share_state(prefill)
    np.testing.assert_allclose(
        prefill(ids)["logits"][:, -1], single[-1][:, 0], rtol=1e-3, atol=1e-4
    )
    for name, value in decode.state.items():
        np.testing.assert_allclose(value, last[name], rtol=1e-3, atol=1e-4)
    following = decode(np.int64([[5]]))["logits"]
    decode.reset(last)
    np.testing.assert_allclose(decode(np.int64([[5]]))["logits"], following, rtol=1e-3, atol=1e-4)


# -- what somebody changed -----------------------------------------------------------------------
def test_an_edited_text_keeps_the_rest_in_place():
    text = compiled("ScatterND", eus=1)[1].stage("schedule")
    schedule_artifact(text, {})
    with pytest.raises(ScheduleError, match="writes a part of ScatterND_0 and leaves the rest"):
        schedule_artifact(text.replace(" over 2", ""), {})
    with pytest.raises(InvalidModel, match="'updates' is .*, by its body"):
        schedule_artifact(text.replace("updates = array<i64: 0, 0>, ", ""), {})
    with pytest.raises(InvalidModel, match="'updates' is|'in_place' is"):
        schedule_artifact(text.replace("} {rtask.updates}", "}"), {})
    begin = "iter_args(%arg4 = %arg0) -> (tensor<16x8xf32>)"
    assert text.count(begin) == 1
    other = text.replace(begin, begin.replace("%arg0", "%other"))
    other = other.replace(
        "  %0 = scf.for", "  %other = tensor.empty() : tensor<16x8xf32>\n  %0 = scf.for"
    )
    with pytest.raises(InvalidModel, match="begins with a tensor that is no operand"):
        schedule_artifact(other, {})


def test_a_file_that_says_that_the_rest_lies_elsewhere_is_refused(tmp_path):
    compiled("ScatterND")[1].save(tmp_path / "m.rcx")
    rewrite(tmp_path / "m.rcx", lambda header: header["states"][0].__setitem__(2, 0))
    with pytest.raises(ScheduleError, match="a part of a result is written"):
        rcompiler.load(tmp_path / "m.rcx")


def test_a_file_that_says_that_all_is_written_is_believed_as_its_code_is(tmp_path):
    """What code does is believed; what is read is memory of the model all the same."""
    _, model = compiled("ScatterND")
    model.save(tmp_path / "m.rcx")
    rewrite_facts(tmp_path / "m.rcx", lambda code: code["boxes"][0][3][0].pop())
    rcompiler.load(tmp_path / "m.rcx")
