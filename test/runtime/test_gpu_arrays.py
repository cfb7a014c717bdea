"""Models on a GPU: arguments and results on the device, graphs, failures; on the emulated device,
by itself and behind the CUDA driver.
"""

import ctypes
import gc
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from fake_cuda import hide, installed
from onnx import helper

import rcompiler
from rcompiler.driver import gpu_devices
from rcompiler.errors import DeviceError, ShapeError
from rcompiler.model import GpuModel
from rcompiler.runtime.gpu.arrays import DeviceArray

X = np.random.default_rng(0).standard_normal((5, 24)).astype(np.float32)


@pytest.fixture(scope="module", params=["rammer", "base"])
def artifact(request):
    """y = relu(x) + 1, z = exp(x); by rammer one launch, by base one for each of the two."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Add", ["r", "one"], ["y"]),
        helper.make_node("Exp", ["x"], ["z"]),
    ]
    tensor, real = helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    outputs = [tensor(name, real, [5, 24]) for name in ("y", "z")]
    one = helper.make_tensor("one", real, [], [1.0])
    graph = helper.make_graph(nodes, "g", [tensor("x", real, [5, 24])], outputs, [one])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    policy = request.param
    compiled = rcompiler.compile_onnx(made, target="cuda:emulated", policy=policy).artifact
    assert len(compiled.programs) == (2 if policy == "base" else 1)
    return compiled


@pytest.fixture(params=["emulated", "cuda"])
def model(request, artifact, monkeypatch):
    if request.param == "cuda":
        installed(monkeypatch, capability=(8, 0), multiprocessors=4)
        monkeypatch.setattr(gpu_devices, "EMULATED", "none")
    made = GpuModel(artifact)
    yield made
    made.close()


def check(y, z, x=X):
    np.testing.assert_array_equal(y, np.maximum(x, 0) + 1)
    np.testing.assert_allclose(z, np.exp(x), rtol=1e-6)


def shown(array, **changes):
    """Another library's object, with the CUDA array interface only."""
    return SimpleNamespace(
        __cuda_array_interface__=array.__cuda_array_interface__ | changes, kept=array
    )


class Capsules:
    """Another library's object, with DLPack only."""

    class _Tensor(ctypes.Structure):
        _fields_ = [
            ("data", ctypes.c_uint64),
            ("device", ctypes.c_int32 * 2),
            ("ndim", ctypes.c_int32),
            ("dtype", ctypes.c_uint8 * 2),
            ("lanes", ctypes.c_uint16),
            ("shape", ctypes.c_void_p),
            ("strides", ctypes.c_void_p),
            ("byte_offset", ctypes.c_uint64),
        ]

    def __init__(self, array, offset=0, dtype=(2, 32), lanes=1, strides=None):
        self.array, rank = array, len(array.shape)
        self._shape = (ctypes.c_int64 * rank)(*array.shape)
        self._strides = (ctypes.c_int64 * rank)(*(strides or ()))
        at = ctypes.addressof
        self._tensor = self._Tensor(
            array.address - offset, (2, 0), rank, dtype, lanes, at(self._shape),
            at(self._strides) if strides else None, offset,
        )  # fmt: skip

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream=None):
        assert stream == 1
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self._tensor), b"dltensor", None)


def test_arrays_of_the_host(model):
    for x in (X, -X, X):
        check(*model(x), x)


def test_results_stay_on_the_device_and_are_read_there(model):
    y, z = model.on_device(X)
    assert isinstance(y, DeviceArray) and y.__cuda_array_interface__["data"] == (y.address, False)
    check(y.numpy(), z.numpy())
    again = model.on_device(y)
    check(*(array.numpy() for array in again), y.numpy())
    check(y.numpy(), z.numpy())  # nobody wrote to them
    check(*model(x=y), y.numpy())
    check(*model(X))


@pytest.mark.parametrize("wrap", [shown, lambda a: shown(a, stream=1), Capsules,
                                  lambda a: Capsules(a, 64, strides=(24, 1))])  # fmt: skip
def test_arrays_of_other_libraries_are_read_in_place(model, wrap):
    y, _ = model.on_device(X)
    check(*model(wrap(y)), y.numpy())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda a: shown(a, shape=(24, 5)), r"shape \[24, 5\], the model wants \[5, 24\]"),
        (lambda a: shown(a, typestr="<i4"), "is int32, the model wants float32"),
        (lambda a: shown(a, strides=(4, 20)), "is not C-contiguous"),
        (lambda a: shown(a, data=(a.address + 4, False)), "at a multiple of 16 bytes"),
        (lambda a: Capsules(a, dtype=(4, 16)), "is bfloat16, the model wants float32"),
        (lambda a: Capsules(a, lanes=4), "cannot be read: its elements are vectors of 4"),
        (lambda a: Capsules(a, dtype=(3, 64)), "cannot be read: 3"),
        (lambda a: Capsules(a, strides=(1, 5)), "is not C-contiguous"),
    ],
)
def test_unusable_arrays_are_refused(model, make, message):
    y, _ = model.on_device(X)
    with pytest.raises(ShapeError, match=message):
        model(make(y))


def test_arrays_of_another_device_are_refused(model):
    y, _ = model.on_device(X)
    with pytest.raises(DeviceError, match="argument 'x' does not lie on .*; copy it there"):
        model(shown(y, data=(1 << 20, False)))


def test_a_binding_launches_a_graph(model):
    binding = model.bind()
    binding()
    check(*(array.numpy() for array in binding.outputs), np.zeros_like(X))
    for x in (X, -X):
        binding.inputs[0].write(x)
        binding()
        check(*(array.numpy() for array in binding.outputs), x)
        check(*model(2 * x), 2 * x)  # between the calls of the binding
    with pytest.raises(ShapeError, match="takes no float64"):
        binding.inputs[0].write(X.astype(np.float64))


def test_a_binding_of_given_arrays(model):
    y, _ = model.on_device(X)
    for given in ([y], {"x": shown(y)}):
        binding = model.bind(given)
        binding()
        check(*(array.numpy() for array in binding.outputs), y.numpy())
    with pytest.raises(ShapeError, match="input 'x' lies on the host"):
        model.bind([X])
    with pytest.raises(ShapeError, match="input 'x' is missing"):
        model.bind([])


def test_closed_models_refuse_and_arrays_stay(model):
    y, _ = model.on_device(X)
    binding = model.bind()
    model.close()
    for call in (binding, lambda: model(X), lambda: model.on_device(X), model.bind):
        with pytest.raises(DeviceError, match="closed"):
            call()
    np.testing.assert_array_equal(y.numpy(), np.maximum(X, 0) + 1)
    del y, binding
    gc.collect()


def test_wrong_arguments_need_no_device(artifact, monkeypatch):
    monkeypatch.setattr(gpu_devices, "EMULATED", "none")
    hide(monkeypatch)
    model = GpuModel(artifact)
    with pytest.raises(ShapeError, match="input 'x' has shape"):
        model(X[:2])
    with pytest.raises(DeviceError, match="cuda-bindings cannot be imported"):
        model(X)


def test_the_emulated_device_recovers_from_a_failed_launch(artifact):
    model = GpuModel(artifact)
    binding = model.bind()
    driver, real = model._driver, model._driver.launch

    def failing(*arguments, **more):
        driver.launch = real
        raise DeviceError("failed")

    driver.launch = failing
    with pytest.raises(DeviceError, match="failed"):
        model(X)
    with pytest.raises(DeviceError, match="bind it again"):
        binding()
    check(*model(X))
