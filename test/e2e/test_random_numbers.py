"""Random operators: new numbers in each call, and the same ones after the same seed."""

import copy
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import parser

import rcompiler
from rcompiler.errors import CompilerError, InvalidModel
from rcompiler.support.random_keys import RANDOM_KEY

TARGETS = ("cpu", "cuda:emulated")
X = np.zeros((4, 64), np.float32)


def network(body: str, inputs: str = "float[4,64] x", outputs: str = "float[4,64] y"):
    head = '<ir_version: 8, opset_import: ["": 17]>'
    return parser.parse_model(f"{head} noise ({inputs}) => ({outputs}) {{ {body} }}")


NOISE = network("n = RandomNormalLike(x) y = Add(x, n)")


def compiled(model=NOISE, target="cpu", **options):
    return rcompiler.compile_onnx(model, target=target, cache=False, **options)


@pytest.fixture(scope="module", params=TARGETS)
def noise(request):
    return compiled(target=request.param)


def drawn(call, count=3):
    """Results of calls in a row, of which no two are equal."""
    found = [np.array(call()) for _ in range(count)]
    for k, one in enumerate(found):
        assert all((one != other).mean() > 0.9 for other in found[:k])
    return np.stack(found)


def test_calls_draw_numbers_of_their_own_until_the_seed_is_set_again(noise):
    rcompiler.set_seed(7)
    first = drawn(lambda: noise(X)[0])
    rcompiler.set_seed(7)
    np.testing.assert_array_equal(drawn(lambda: noise(X)[0]), first)
    rcompiler.set_seed(8)
    assert (drawn(lambda: noise(X)[0]) != first).mean() > 0.9


def test_many_calls_together_are_normal_numbers_without_a_pattern(noise):
    rcompiler.set_seed(0)
    rows = drawn(lambda: noise(X)["y"], 8).reshape(8, -1)
    assert abs(rows.mean()) < 0.1 and abs(rows.std() - 1) < 0.1  # 2048 numbers: 4.5 sigma
    assert np.abs(np.corrcoef(rows) - np.eye(8)).max() < 0.3  # of 256 numbers each: 4.8 sigma


def test_a_caller_may_give_the_key(noise):
    key = np.array([3, 0], np.uint32)
    rcompiler.set_seed(3)
    first = noise(X)[0]
    for same in (noise(X, key), noise({"x": X, RANDOM_KEY: key})):
        np.testing.assert_array_equal(same[0], first)
    assert (noise(X, np.array([3, 1], np.uint32))[0] != first).mean() > 0.9
    assert [tensor.name for tensor in noise.inputs] == ["x", RANDOM_KEY]


def test_a_binding_renews_the_key_that_it_made(noise):
    binding = noise.bind()

    def call():
        binding()
        array = binding.outputs[0]
        return array if isinstance(array, np.ndarray) else array.numpy()

    drawn(call)


def test_a_binding_to_a_key_of_the_caller_keeps_it():
    model, key = compiled(), np.array([3, 5], np.uint32)
    for inputs in ([X, key], {"x": X, RANDOM_KEY: key}):
        binding = model.bind(inputs)
        for _ in range(2):
            binding()
            np.testing.assert_array_equal(binding.outputs[0], model(X, key)[0])
        assert key.tolist() == [3, 5]
    binding = model.bind([X])
    drawn(lambda: (binding(), binding.outputs[0].copy())[1])


def test_copies_files_and_forks_draw_on(tmp_path):
    model = compiled()
    model.save(tmp_path / "noise.rcx")
    others = [copy.copy(model), rcompiler.load(tmp_path / "noise.rcx"), model]
    turns = iter(others)
    drawn(lambda: next(turns)(X)[0])


def test_nodes_with_one_seed_or_of_one_shape_differ_only_by_it():
    model = compiled(
        network(
            "a = RandomUniformLike<seed = 1.0>(x) b = RandomUniformLike<seed = 1.0>(x)"
            "c = RandomUniformLike<seed = 2.0>(x) d = RandomUniformLike(x)",
            outputs="float[4,64] a, float[4,64] b, float[4,64] c, float[4,64] d",
        )
    )
    made = model(X)
    np.testing.assert_array_equal(made["a"], made["b"])  # as onnxruntime has it
    for one, other in ("ac", "ad", "cd"):
        assert (made[one] != made[other]).mean() > 0.9
    assert (model(X)["a"] != made["a"]).mean() > 0.9


def test_every_operator_that_draws():
    model = compiled(
        network(
            "h = Add(x, x) u = Sigmoid(h) b = Bernoulli(u) "
            "m = Multinomial<sample_size = 40, dtype = 7>(h) r = RandomUniform<shape = [40]>()"
            "n = RandomNormal<shape = [40]>()",
            outputs="float[4,64] b, int64[4,40] m, float[40] r, float[40] n",
        )
    )
    first, second = model(X), model(X)
    for name, least in (("b", 0.3), ("m", 0.8), ("r", 0.9), ("n", 0.9)):
        assert (first[name] != second[name]).mean() > least, name


def test_a_model_whose_numbers_reach_no_output_takes_no_key():
    model = compiled(network("n = RandomNormalLike(x) s = Shape(n) y = Expand(x, s)"))
    assert [tensor.name for tensor in model.inputs] == ["x"]


@pytest.mark.parametrize("sizes", [[1, 2, 5, 8], range(1, 9)])
def test_several_sizes(sizes):
    open_size = network("n = RandomNormalLike(x) y = Add(x, n)", "float[N,64] x", "float[N,64] y")
    model = compiled(open_size, shapes={"N": sizes})
    for rows in (1, 2, 5, 8):
        drawn(lambda rows=rows: model(np.zeros((rows, 64), np.float32))[0])


def test_a_loop_draws_in_each_iteration():
    body = (
        "steps = Constant<value = int64 {12}>() yes = Constant<value = bool {1}>()"
        "y = Loop(steps, yes, x) <body = once (int64 i, bool go, float[4,64] a) => "
        "(bool on, float[4,64] b) { on = Identity(go) n = RandomNormalLike(a) b = Add(a, n) }>"
    )
    model = compiled(network(body))
    once, *_ = made = drawn(lambda: model(X)[0])
    assert 12**0.5 * 0.8 < made.std() < 12**0.5 * 1.2  # 12 if all iterations drew the same numbers
    assert once.shape == X.shape


def test_a_loop_that_may_end_sooner_draws_in_each_iteration():
    body = (
        "yes = Constant<value = bool {1}>()"
        "y = Loop(steps, yes, x) <body = once (int64 i, bool go, float[4,64] a) => "
        "(bool on, float[4,64] b) { on = Identity(go) n = RandomNormalLike(a) b = Add(a, n) }>"
    )
    loop = network(body, "float[4,64] x, int64 steps")
    name = loop.graph.node[1].name = "often"
    model = compiled(loop, bounds={name: 24})
    made = drawn(lambda: model(X, np.int64(20))[0])
    assert 20**0.5 * 0.8 < made.std() < 20**0.5 * 1.2


def test_state_and_random_numbers():
    walk = network("n = RandomNormalLike(x) y = Add(x, n)")
    model = compiled(walk, state={"x": "y"})
    rcompiler.set_seed(1)
    model(), model()
    after = np.array(model.state["x"])
    rcompiler.set_seed(1)
    model.reset()
    binding = model.bind()
    assert abs(after.std() - 2**0.5) < 0.3
    binding(), binding()
    assert abs(np.array(model.state["x"]).std() - 2**0.5) < 0.3


def test_parts_beside_a_function_of_python():
    cut = network("n = RandomNormalLike(x) f = own.Same(n) m = RandomNormalLike(f) y = Add(f, m)")
    cut.opset_import.append(onnx.helper.make_opsetid("own", 1))
    model = compiled(cut, fallback={"own::Same": rcompiler.Fallback(lambda x: x)})
    assert [tensor.name for tensor in model.inputs] == ["x"] and len(model.parts) == 2
    made = drawn(lambda: model(X)[0])
    assert 0.8 < made.std() / 2**0.5 < 1.2


def test_a_session_hides_the_key():
    open_rows = network("n = RandomNormalLike(x) y = Add(x, n)", "float[N,64] x", "float[N,64] y")
    for proto, sizes in ((NOISE, (4, 4, 4)), (open_rows, (4, 4, 3, 2, 5, 5, 4, 3))):
        with rcompiler.InferenceSession(proto.SerializeToString()) as session:
            assert [arg.name for arg in session.get_inputs()] == ["x"]
            feeds = [{"x": np.zeros((rows, 64), np.float32)} for rows in sizes]
            made = [session.run(None, feed)[0][:2] for feed in feeds]
            assert all((a != b).mean() > 0.9 for k, a in enumerate(made) for b in made[:k])
            binding = session.io_binding()
            binding.bind_cpu_input("x", X)
            binding.bind_output("y")

            def call(session=session, binding=binding):
                session.run_with_iobinding(binding)
                return binding.get_outputs()[0].numpy()

            drawn(call)


def test_a_process_that_sets_no_seed_begins_with_0(tmp_path):
    compiled().save(tmp_path / "noise.rcx")
    code = (
        "import sys, numpy as np, rcompiler\n"
        "model = rcompiler.load(sys.argv[1])\n"
        "print(model(np.zeros((4, 64), np.float32))[0].tobytes().hex())"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", code, tmp_path / "noise.rcx"],
            capture_output=True, text=True, check=True,
        ).stdout
        for _ in range(2)
    ]  # fmt: skip
    rcompiler.set_seed(0)
    mine = rcompiler.load(tmp_path / "noise.rcx")(X)[0].tobytes().hex()
    assert [text.strip() for text in found] == [mine, mine]


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "7", True, None])
def test_seeds_that_are_none(seed):
    with pytest.raises(CompilerError, match=r"set_seed\(.*give a whole number from 0"):
        rcompiler.set_seed(seed)


def test_an_input_that_has_the_name_of_the_key():
    taken = onnx.ModelProto()
    taken.CopyFrom(NOISE)
    taken.graph.input.append(onnx.helper.make_tensor_value_info(RANDOM_KEY, 1, [2]))
    with pytest.raises(InvalidModel, match="the input 'random key' has the name of the argument"):
        compiled(taken)
