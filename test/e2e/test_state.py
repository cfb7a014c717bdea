"""State between calls: as if it were handed from call to call, on CPU and GPU."""

import copy
import os
import pickle
import threading

import numpy as np
import pytest
from onnx import parser
from recrafted import rewrite

import rcompiler
from rcompiler.driver.from_schedule import schedule_artifact
from rcompiler.errors import (
    ArtifactError,
    BusyError,
    CompilerError,
    DeviceError,
    InvalidModel,
    RangeError,
    ScheduleError,
    ShapeError,
)
from rcompiler.model import model_of
from rcompiler.rammer.schedule import POLICIES

TARGETS = ("cpu", "cuda:emulated")
RNN = """
<ir_version: 8, opset_import: ["": 17]>
g (float[4,8] x, float[4,8] h, int64[1] n, float[8,8] w)
  => (float[4,8] hn, float[4,8] y, int64[1] m) {
  one = Constant<value = int64[1] {1}>()
  m = Add(n, one)
  a = MatMul(h, w)
  b = Add(a, x)
  hn = Tanh(b)
  y = MatMul(hn, w)
}
"""
IN_PLACE = """
<ir_version: 8, opset_import: ["": 17]>
g (float[5,4] table, int64[2] ids, float[4,8] h) => (float[2,4] rows, float[4,8] hn) {
  one = Constant<value = int64[1] {1}>()
  at = Add(ids, one)
  rows = Gather(table, at)
  hn = Exp(h)
}
"""
STATE = {"h": "hn", "n": "m"}
RANDOM = np.random.default_rng(0)
W = RANDOM.standard_normal((8, 8)).astype(np.float32) / 4
XS = RANDOM.standard_normal((5, 4, 8)).astype(np.float32)


def compiled(text=RNN, state=None, **options):
    proto = parser.parse_model(text)
    return rcompiler.compile_onnx(
        proto, state=STATE if state is None else state, **{"eus": 2, "cache": False} | options
    )


def expected(h=None):
    """y and h of each call."""
    h = np.zeros((4, 8), np.float32) if h is None else h
    found = []
    for x in XS:
        h = np.tanh(h @ W + x)
        found.append((h @ W, h))
    return found


def goes_on(run, state, begin=None):
    """Whether calls leave in a state what the next ones read."""
    for count, (x, (y, h)) in enumerate(zip(XS, expected(begin), strict=True), 1):
        np.testing.assert_allclose(run(x), y, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(state["h"], h, rtol=1e-4, atol=1e-5)
        assert state["n"] == count


@pytest.fixture(scope="module", params=TARGETS)
def model(request):
    return compiled(target=request.param)


def test_inputs_and_outputs_vanish(model):
    assert [t.name for t in model.inputs] == ["x", "w"]
    assert [t.name for t in model.outputs] == ["y"]
    assert [(t.name, t.shape, t.dtype) for t in model.state.tensors] == [
        ("h", (4, 8), "float32"),
        ("n", (1,), "int64"),
    ]
    assert "state 'h'" in repr(model) and "h" in model.state and len(model.state) == 2
    note = model.report().note
    assert "state updated in place: n" in note
    assert "state double-buffered: h, as operator MatMul_2 reads it while it writes" in note


def test_calls_go_on(model, tmp_path):
    model.reset()
    goes_on(lambda x: model(x, W)["y"], model.state)
    h = RANDOM.standard_normal((4, 8)).astype(np.float32)
    model.reset({"h": h})
    goes_on(lambda x: model(x, W)["y"], model.state, h)
    kept = dict(model.state)
    model.save(tmp_path / "m.rcx")
    for other in (rcompiler.load(tmp_path / "m.rcx"), copy.copy(model)):
        assert not other.state["h"].any()  # a model of its own begins at the start
        goes_on(lambda x, other=other: other(x, W)["y"], other.state)
    other.reset(kept)
    assert np.array_equal(other(XS[0], W)["y"], model(XS[0], W)["y"])


def test_a_pickled_model_begins_at_the_start():
    model = compiled()
    model(XS[0], W)
    other = pickle.loads(pickle.dumps(model))
    goes_on(lambda x: other(x, W)["y"], other.state)
    with pytest.raises(CompilerError, match=r"dict\(state\)"):
        pickle.dumps(model.state)
    with pytest.raises(CompilerError, match="reset"):
        pickle.dumps(model.fork())


def test_bindings_go_on(model):
    model.reset()
    binding = model.bind()
    on_host = isinstance(binding.inputs[0], np.ndarray)

    def put(place, values):
        if on_host:
            place[...] = values
        else:
            place.write(values)

    def run(x):
        put(binding.inputs[0], x)
        binding()
        return np.array(binding.outputs[0] if on_host else binding.outputs[0].numpy())

    put(binding.inputs[1], W)
    goes_on(run, model.state)
    # calls and bindings share the state
    before = model.state["n"]
    model(XS[0], W)
    run(XS[0])
    assert model.state["n"] == before + 2


def test_sessions_have_states_of_their_own(model):
    model.reset()
    model(XS[0], W)
    fork = model.fork()
    assert fork.state["n"] == 1 and np.array_equal(fork.state["h"], model.state["h"])
    assert np.array_equal(fork(XS[1], W)["y"], model(XS[1], W)["y"])
    fork.reset()
    goes_on(lambda x: fork(x, W)["y"], fork.state)
    assert model.state["n"] == 2
    again = fork.fork()
    binding = again.bind()
    binding()
    assert (again.state["n"], fork.state["n"]) == (6, 5)
    assert [t.name for t in fork.inputs] == ["x", "w"] and len(fork.outputs) == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_keep_state(policy):
    model = compiled(policy=policy)
    goes_on(lambda x: model(x, W)["y"], model.state)
    assert "state updated in place: n" in model.report().note


def test_a_model_for_several_cpus_keeps_state(tmp_path):
    compiled(target="cpu:x86-64,cpu:v3").save(tmp_path / "m.rcx")
    model = rcompiler.load(tmp_path / "m.rcx")
    goes_on(lambda x: model(x, W)["y"], model.state)


def test_states_without_elements_and_without_axes():
    text = """
    <ir_version: 8, opset_import: ["": 17]>
    g (float[2] x, float[0,3] none, float sum) => (float[0,3] still, float total) {
      still = Neg(none)
      part = ReduceSum<keepdims=0>(x)
      total = Add(sum, part)
    }
    """
    model = compiled(text, {"none": "still", "sum": "total"})
    for _ in range(3):
        assert model(np.float32([1, 2])) == []
    assert model.state["sum"] == 9 and model.state["sum"].shape == ()
    assert model.state["none"].shape == (0, 3)


def test_threads_take_turns():
    model = compiled(eus=1)
    forks = [model.fork() for _ in range(4)]
    threads = [threading.Thread(target=lambda f=f: [f(XS[0], W) for _ in range(20)]) for f in forks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {int(f.state["n"][0]) for f in forks} == {20} and not model.state["n"].any()
    assert len({f.state["h"].tobytes() for f in forks}) == 1


SUMS = """
<ir_version: 8, opset_import: ["": 17]>
g (float[ROWS,8] x, float[1,8] h) => (float[ROWS,8] y, float[1,8] last) {
  axes = Constant<value = int64[1] {0}>()
  sum = ReduceSum(x, axes)
  last = Add(h, sum)
  y = Add(x, h)
}
"""


def test_models_share_a_state():
    """One for three rows at once, and one for a row at a time: what one leaves the other reads."""
    many, one = (compiled(SUMS.replace("ROWS", rows), {"h": "last"}) for rows in "31")
    one.share_state(many)
    x = XS[0][:3]
    many(x)
    (y,) = one(x[:1])
    np.testing.assert_allclose(y, x[:1] + x.sum(axis=0), rtol=1e-5)
    np.testing.assert_allclose(many.state["h"][0], x.sum(axis=0) + x[0], rtol=1e-5)
    fork = many.fork()
    one.share_state(fork)
    one.reset()
    assert many.state["h"].any() and not fork.state["h"].any()
    with pytest.raises(ShapeError, match="of this one is h"):
        one.share_state(compiled())
    other = compiled(SUMS.replace("ROWS", "2").replace("[1,8]", "[2,8]"), {"h": "last"})
    with pytest.raises(ShapeError, match=r"float32\[1, 8\] in one model and float32\[2, 8\]"):
        one.share_state(other)


def test_models_share_states_that_they_have_in_different_orders():
    """One of the two is in place, and one has two buffers."""
    one, other = (
        compiled(RNN.replace("float[4,8] h, int64[1] n", order))
        for order in ("float[4,8] h, int64[1] n", "int64[1] n, float[4,8] h")
    )
    assert [*other.state] == [*reversed([*one.state])]
    other.share_state(one)
    turns = iter([other, one, other, other, one])
    goes_on(lambda x: next(turns)(x, W)["y"], one.state)


def test_models_on_different_devices_share_nothing():
    one, other, third = (compiled(target=target) for target in (*TARGETS, TARGETS[1]))
    for mine, theirs in ((one, other), (other, one), (other, third)):
        with pytest.raises(DeviceError, match=f"lies {theirs.state.place}, out of reach"):
            mine.share_state(theirs)


def test_a_recurrent_network_goes_on():
    """20 chunks of a sequence give what one call gives."""
    form = """
    <ir_version: 8, opset_import: ["": 17]>
    g (float[STEPS,1,6] x, float[1,1,8] h, float[1,1,8] c, float[1,32,6] w, float[1,32,8] r)
      => (float[STEPS,1,1,8] y, float[1,1,8] hn, float[1,1,8] cn) {
      none = Constant<value = int32[1] {STEPS}>()
      y, hn, cn = LSTM<hidden_size=8>(x, w, r, , , h, c)
    }
    """.replace("none = Constant<value = int32[1] {STEPS}>()", "")
    random = np.random.default_rng(1)
    x, w, r = (
        random.standard_normal(s).astype(np.float32) / 2
        for s in ((60, 1, 6), (1, 32, 6), (1, 32, 8))
    )
    whole = compiled(form.replace("STEPS", "60"), {})
    zeros = np.zeros((1, 1, 8), np.float32)
    y, h, c = whole(x, zeros, zeros, w, r)
    parts = compiled(form.replace("STEPS", "3"), {"h": "hn", "c": "cn"})
    chunks = [parts(x[i : i + 3], w, r)["y"] for i in range(0, 60, 3)]
    np.testing.assert_allclose(np.concatenate(chunks), y, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(parts.state["h"], h, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(parts.state["c"], c, rtol=1e-5, atol=1e-6)


# -- what goes wrong -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("state", "kind", "words"),
    [
        ({"past.*": "present.*"}, ShapeError, "no such input; it has: x, h, n, w"),
        ({"h": "other"}, ShapeError, "no output 'other' for input 'h'"),
        ({"*": "*n"}, ShapeError, "no output 'xn'"),
        ({"h*": "hn"}, CompilerError, r"another number of '\*'"),
        ({"h": "hn", "x": "hn"}, CompilerError, "'hn' is to be the next value of input 'h' and"),
        ({"h": "hn", "h*": "y*"}, CompilerError, "'h' is to become output 'hn' and output 'y'"),
        ({"h": "m"}, ShapeError, r"'h' is float32 \[4, 8\], and output 'm' int64 \[1\]"),
        ({"w": "hn"}, ShapeError, r"'w' is float32 \[8, 8\]"),
        ([("h", "hn")], CompilerError, "give a dict"),
        ({"h": 3}, CompilerError, "give a dict"),
    ],
)
def test_states_that_are_none(state, kind, words):
    with pytest.raises(kind, match=words):
        compiled(state=state)


def test_options_that_do_not_fit_state():
    with pytest.raises(ShapeError, match="no such input"):
        compiled(values={"h": np.zeros((4, 8), np.float32)})
    for tune in ("warmup", "online"):
        with pytest.raises(CompilerError, match="no two calls are alike"):
            compiled(tune=tune)


def test_arguments_that_are_state(model):
    with pytest.raises(ShapeError, match="no input 'h'"):
        model(XS[0], W, h=np.zeros((4, 8), np.float32))
    with pytest.raises(ShapeError, match="3 arguments for 2 inputs"):
        model(XS[0], W, np.zeros((4, 8), np.float32))


def test_values_that_do_not_fit(model):
    model.reset({"n": [4]})
    for bad, words in (
        ({"h": np.zeros(3, np.float32)}, "state 'h' has shape"),
        ({"h": np.zeros((4, 8))}, "state 'h' is float64"),
        ({"other": 1}, "no state 'other'; there are: h, n"),
        ([1], "list is no dict"),
    ):
        with pytest.raises(ShapeError, match=words):
            model.reset(bad)
    assert model.state["n"] == 4  # nothing was changed
    with pytest.raises(ShapeError, match="no state 'z'"):
        model.state["z"]
    with pytest.raises(ShapeError, match="state 'n' is float64"):
        model.state["n"] = np.zeros(1)
    model.state["n"] = np.int64([7])
    model(XS[0], W)
    assert model.state["n"] == 8 and not model.state.lost


def test_models_without_state():
    model = compiled("""
    <ir_version: 8, opset_import: ["": 17]>
    g (float[4] x) => (float[4] y) { y = Exp(x) }
    """, {})  # fmt: skip
    assert len(model.state) == 0 and dict(model.state) == {}
    model.reset()
    with pytest.raises(ShapeError, match="there are: none"):
        model.reset({"x": 1})
    assert np.array_equal(model.fork()(XS[0, 0, :4])["y"], model(XS[0, 0, :4])["y"])


@pytest.mark.parametrize("target", TARGETS)
def test_a_call_that_fails_loses_what_it_may_have_written(target):
    model = compiled(IN_PLACE, {"h": "hn"}, target=target)
    assert "in place: h" in model.report().note
    table, good = np.zeros((5, 4), np.float32), np.int64([0, 1])
    model(table, good)
    with pytest.raises(ShapeError):  # before it begins
        model(table, np.int64([1]))
    assert (model.state["h"] == 1).all()
    fork = model.fork()
    with pytest.raises(RangeError):
        model(table, np.int64([0, 7]))
    assert "RangeError" in model.state.lost and repr(model.state).startswith("<lost")
    for use in (lambda: model(table, good), lambda: model.state["h"], model.fork, model.bind()):
        with pytest.raises(DeviceError, match=r"state is lost.*begin again with reset\(\)"):
            use()
    fork(table, good)  # has its own
    model.reset(dict(fork.state))
    model(table, good)
    np.testing.assert_allclose(model.state["h"], np.exp(np.exp(1.0)), rtol=1e-5)


def test_a_call_that_fails_leaves_two_buffers_alone():
    text = IN_PLACE.replace("hn = Exp(h)", "r = Transpose<perm=[1,0]>(h)\n  hn = Reshape(r, shape)")
    text = text.replace("one = ", "shape = Constant<value = int64[2] {4,8}>()\n  one = ")
    model = compiled(text, {"h": "hn"})
    assert "double-buffered: h" in model.report().note
    h = RANDOM.standard_normal((4, 8)).astype(np.float32)
    model.reset({"h": h})
    table = np.zeros((5, 4), np.float32)
    with pytest.raises(RangeError):
        model(table, np.int64([0, 7]))
    assert np.array_equal(model.state["h"], h) and not model.state.lost
    model(table, np.int64([0, 1]))
    assert np.array_equal(model.state["h"], h.T.reshape(4, 8))


@pytest.mark.parametrize("target", TARGETS)
def test_states_that_are_indices_are_looked_at_before_a_call(target):
    text = """
    <ir_version: 8, opset_import: ["": 17]>
    g (float[5,4] table, int64[1] at) => (float[1,4] row, int64[1] next) {
      one = Constant<value = int64[1] {1}>()
      next = Add(at, one)
      row = Gather(table, at)
    }
    """
    model = compiled(text, {"at": "next"}, target=target)
    table = np.arange(20, dtype=np.float32).reshape(5, 4)
    for i in range(5):
        assert np.array_equal(model(table)["row"][0], table[i])
    with pytest.raises(RangeError, match="state 'at' has the index 5"):
        model(table)
    assert model.state["at"] == 5 and not model.state.lost
    with pytest.raises(RangeError, match="index 9"):
        model.reset({"at": np.int64([9])})
    model.reset()
    assert np.array_equal(model(table)["row"][0], table[0])


def test_a_forked_child_has_a_state_of_its_own():
    model = compiled(IN_PLACE, {"h": "hn"}, eus=1)
    arguments = np.zeros((5, 4), np.float32), np.int64([0, 1])
    model(*arguments)
    child = os.fork()
    if not child:  # which ends here, whatever happens
        right = (model.state["h"] == 1).all()
        model(*arguments)
        os._exit(0 if right and model.state["h"].max() > 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (model.state["h"] == 1).all()


def test_a_child_that_was_forked_in_a_call_has_lost_the_state(monkeypatch):
    model = compiled(IN_PLACE, {"h": "hn"})
    run = model.held().state.step

    def forked(*given):
        monkeypatch.setattr("rcompiler.support.this_process.getpid", lambda: -1)
        with pytest.raises(DeviceError, match="forked while it ran"):
            model.state["h"]
        model.reset()
        assert not model.state["h"].any()

    state, held = model.state, model.held()
    run(held._parameters, [0], [True], forked)
    assert state.lost == ""


def test_a_call_inside_of_a_call_with_the_state_is_refused():
    """As by a signal handler: it would read and write what the call around it goes on with."""
    model = compiled(IN_PLACE, {"h": "hn"})
    run = model.held().state.step
    state, held = model.state, model.held()

    def interrupted(*_):
        for touch in (lambda: held.step(lambda *_: None), state.reset, lambda: state["h"]):
            with pytest.raises(BusyError):
                touch()

    run(held._parameters, [0], [True], interrupted)
    assert not state["h"].any()


def test_a_closed_model_keeps_its_state():
    model = compiled(IN_PLACE, {"h": "hn"})
    model(np.zeros((5, 4), np.float32), np.int64([0, 1]))
    model.close()
    with pytest.raises(DeviceError, match="closed"):
        model(np.zeros((5, 4), np.float32), np.int64([0, 1]))
    assert (model.state["h"] == 1).all()


# -- what is decided is in the text and the file -------------------------------------------------
def test_the_text_says_which_states_are_in_place():
    model = compiled(eus=1)
    text = model.stage("schedule")
    assert text.count(" over 3") == 1 and 'attributes {state = "n"}' in text
    again = model_of(schedule_artifact(text, model.constants()))
    assert again.artifact.states == model.artifact.states
    goes_on(lambda x: again(x, W)["y"], again.state)
    apart = model_of(schedule_artifact(text.replace(" over 3", ""), model.constants()))
    assert not any(state.in_place for state in apart.artifact.states)
    goes_on(lambda x: apart(x, W)["y"], apart.state)


def test_an_edited_text_is_proved():
    text = compiled(eus=1).stage("schedule")
    lines = text.splitlines()
    [line] = [line for line in lines if line.startswith("  output 1 ")]
    assert "double_buffered" in text
    with pytest.raises(ScheduleError, match="in place, writes"):
        schedule_artifact(text.replace(line, f"{line} over 2"), {})
    with pytest.raises(InvalidModel, match="not the next and the last value of one state"):
        schedule_artifact(text.replace(" over 3", " over 2"), {})
    with pytest.raises(InvalidModel, match="one of each of the same state"):
        schedule_artifact(text.replace('state = "n"', 'state = "k"', 1), {})


@pytest.mark.parametrize(
    ("states", "kind", "words"),
    [
        ([[2, 1, 1], [3, 2, 1]], ScheduleError, "may touch bytes"),
        ([[3, 2, 1], [2, 1, 0]], ArtifactError, "not the last of its inputs"),
        ([[2, 1, 0]], ArtifactError, "not the last of its inputs"),
        ([[0, 0, 0], [1, 1, 0], [2, 2, 0], [3, 3, 0]], ArtifactError, "not the last"),
        ([[2, 1]], ArtifactError, "m.rcx"),
        ([["2", 1, 0]], ArtifactError, "m.rcx"),
        (7, ArtifactError, "m.rcx"),
    ],
)
def test_a_file_that_says_something_else_is_refused(tmp_path, states, kind, words):
    compiled().save(tmp_path / "m.rcx")

    def change(header):
        assert [own[:2] for own in header["states"]] == [[2, 1], [3, 2]]
        header["states"] = states

    rewrite(tmp_path / "m.rcx", change)
    with pytest.raises(kind, match=words):
        rcompiler.load(tmp_path / "m.rcx")
