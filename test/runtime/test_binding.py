"""runtime/binding.py: fixed memory gives the same results, wrong memory is refused, threads."""

import gc
import os

import ml_dtypes
import numpy as np
import pytest
import small_models as sm

from rcompiler.errors import DeviceError, ShapeError
from rcompiler.runtime.artifact import Program, Tensor
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.memory import aligned_empty
from rcompiler.runtime.tables import CONSTANTS, EXTERNAL

X = np.linspace(-3, 3, sm.N, dtype=np.float32)
F32 = np.dtype(np.float32)


def model(eus: int = 1) -> Executable:
    return Executable(sm.artifact([sm.two_steps(eus)]), eus)


@pytest.mark.parametrize("eus", [1, 2])
def test_every_call_reads_and_writes_the_same_arrays(eus: int):
    run = model(eus)
    binding = run.bind()
    assert not binding.inputs[0].any() and not binding.outputs[0].any()
    (y,) = binding.outputs
    for factor in range(5):
        binding.inputs[0][...] = factor * X
        assert binding() is None
        assert np.array_equal(y, run(factor * X)[0])


def test_arrays_of_the_caller_in_order_or_by_name():
    run = model()
    x, y = X.copy(), aligned_empty((sm.N,), F32)
    for binding in (run.bind([x], [y]), run.bind({"x": x}, {"y": y}), run.bind((x,), outputs=(y,))):
        assert binding.inputs[0] is x and binding.outputs[0] is y
        x += 1
        binding()
        assert np.array_equal(y, sm.expected(x))
    frozen = X.copy()
    frozen.flags.writeable = False
    binding = run.bind([frozen])
    binding()
    assert np.array_equal(binding.outputs[0], sm.expected(X))


def test_other_bindings_and_calls_do_not_disturb():
    run = model(2)
    first, second = run.bind([X]), run.bind([2 * X])
    first()
    second()
    third = run(3 * X)[0]
    for binding, factor in ((first, 1), (second, 2)):
        assert np.array_equal(binding.outputs[0], sm.expected(factor * X))
    assert np.array_equal(third, sm.expected(3 * X))


def odd_array() -> np.ndarray:
    return np.frombuffer(bytearray(4 * sm.N + 1), np.uint8)[1:].view(np.float32)


def frozen_output() -> np.ndarray:
    y = aligned_empty((sm.N,), F32)
    y.flags.writeable = False
    return y


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ([], None, "input 'x' is missing; the inputs are: x"),
        ([X, X], None, "2 arguments for 1 inputs"),
        ({"z": X}, None, "no input 'z'"),
        (X, None, "the inputs are a ndarray; give a list of arrays or a dict"),
        ([list(X)], None, "input 'x' is a list; memory to be bound is a numpy array"),
        ([X[:-1]], None, r"input 'x' has shape \[63\], the model wants \[64\]"),
        ([X.astype(np.float64)], None, "input 'x' is float64, the model wants float32"),
        ([np.repeat(X, 2)[::2]], None, "input 'x' is not C-contiguous"),
        ([odd_array()], None, "input 'x' does not start at a multiple of 4 bytes"),
        ([X], [], "output 'y' is missing; the outputs are: y"),
        ([X], {"x": X}, "no output 'x'; the outputs are: y"),
        ([X], [aligned_empty((sm.N + 16,), F32)[1:-15]], "'y' does not start at a multiple of 64"),
        ([X], [frozen_output()], "output 'y' is read-only"),
        ([X], [X.reshape(8, 8)], "output 'y' has shape"),
    ],
)
def test_wrong_arrays_are_refused_by_name(inputs, outputs, message: str):
    with pytest.raises(ShapeError, match=message):
        model().bind(inputs, outputs)


def test_results_in_the_memory_of_inputs_are_refused():
    both = aligned_empty((2 * sm.N,), F32)
    with pytest.raises(ShapeError, match="output 'y' shares memory with 'x'"):
        model().bind([both[sm.N - 1 : -1]], [both[: sm.N]])
    model().bind([both[sm.N :]], [both[: sm.N]])()


def test_a_closed_model_says_so():
    run = model(2)
    binding = run.bind([X])
    binding()
    run.close()
    with pytest.raises(DeviceError, match="closed"):
        binding()


def test_a_binding_keeps_its_model_and_arrays():
    binding = model(2).bind([X.copy()])
    gc.collect()
    binding()
    assert np.array_equal(binding.outputs[0], sm.expected(X))


def test_many_threads_on_bindings_of_one_model():
    run = model(2)
    wrong = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).normal(size=sm.N).astype(np.float32)
        binding = run.bind([x])
        for step in range(100):
            x += step
            binding()
            if not np.array_equal(binding.outputs[0], sm.expected(x)):
                wrong.append(seed)

    sm.in_threads(4, work)
    assert not wrong


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_goes_on_with_its_copy():
    binding = model(2).bind([X.copy()])
    binding()
    child = os.fork()
    if not child:
        binding.inputs[0][...] = 5 * X
        binding()
        os._exit(0 if np.array_equal(binding.outputs[0], sm.expected(5 * X)) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(binding.outputs[0], sm.expected(X))


@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_numbers_of_four_bits_are_filled_up_at_every_call(name: str):
    # Four "numbers" make a float that the kernel multiplies by 1: shows the bytes that it read.
    tensor = Tensor("x", (4 * sm.N,), name)
    step = ("run", sm.SCALE, 0, sm.N, 1, [(EXTERNAL, 0), (CONSTANTS, 0), (EXTERNAL + 1, 0)])
    program = Program("main", (sm.stream_of(step),), (), (("op",),))
    ones = np.ones(sm.N, np.float32)
    run = Executable(sm.artifact([program], inputs=(tensor,), constants=ones))
    dirty = np.full(4 * sm.N, 0x97, np.uint8)  # 7 with bits above that mean nothing
    x = dirty.view(getattr(ml_dtypes, name))
    clean = np.full(sm.N, 0x07070707, np.uint32).view(np.float32)
    assert np.array_equal(run(x)[0], clean)
    binding = run.bind([x])
    for _ in range(2):
        dirty[...] = 0x97
        binding()
        assert np.array_equal(binding.outputs[0], clean)
        assert (dirty == 0x97).all()
