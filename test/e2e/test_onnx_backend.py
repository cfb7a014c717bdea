"""The standard ONNX backend interface, and a cross-section of the standard cases through it.

All of them: pytest -m slow test/e2e/test_onnx_backend.py
"""

import json

import numpy as np
import onnx
import pytest
from levels import LOWER
from measurements import backend_coverage
from onnx import TensorProto, helper, numpy_helper

from rcompiler import onnx_backend
from rcompiler.errors import CompilerError, DeviceError, InvalidModel, ShapeError, UnsupportedOp
from rcompiler.tools import models

TARGETS = ("cpu", *LOWER)
# One or a few cases of every kind of operator; these pass.
SUBSET = (
    "test_(abs|add|add_bcast|and2d|argmax_default_axis_random|averagepool_2d_pads"
    "|basic_conv_with_padding|batchnorm_epsilon|cast_FLOAT_to_FLOAT16|clip|concat_2d_axis_1"
    "|conv_with_strides_padding|convtranspose|cumsum_1d|div_uint8|dropout_default|equal|erf"
    "|expand_dim_changed|flatten_axis2|gather_1|gemm_all_attributes|globalaveragepool|gru_defaults"
    "|hardswish|layer_normalization_2d_axis1|logsoftmax_axis_2|lstm_defaults|matmul_3d"
    "|max_example|maxpool_2d_ceil|mod_mixed_sign_int32|nllloss_NC|onehot_with_axis|pad|pow"
    "|quantizelinear|reduce_mean_keepdims_random|relu|reshape_reordered_all_dims"
    "|resize_upsample_scales_nearest|rnn_seq_length|scatter_elements_with_axis|sigmoid|slice"
    "|softmax_axis_1|split_equal_parts_2d|squeeze|sub_uint8|tile|top_k|transpose_all_permutations_3"
    "|trilu_lower|unsqueeze_axis_1|where_example|Conv2d_groups|Linear|GLU|sign_model)_cpu$"
)


def reshape_model(shape=("batch", 3)) -> onnx.ModelProto:
    """y = reshape(x, s): the values of s are needed to compile."""
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape),
         helper.make_tensor_value_info("s", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def test_prepare_and_run():
    prepared = onnx_backend.prepare(models.build("two_branch"))
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    (first,) = prepared.run([x])
    (second,) = prepared.run({"input": x})
    (third,) = prepared.run(x)
    assert first.shape == (4, 8)
    assert first.tobytes() == second.tobytes() == third.tobytes()
    assert prepared.run([x]).output.tobytes() == first.tobytes()


def test_shapes_and_values_may_change_from_run_to_run():
    prepared = onnx_backend.prepare(reshape_model())
    for rows, target in [(2, (3, 2)), (2, (1, 6)), (4, (6, 2))]:
        x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        (y,) = prepared.run([x, np.array(target)])
        np.testing.assert_array_equal(y, x.reshape(target))


def test_given_weights_replace_those_of_the_model():
    model = reshape_model()
    model.graph.initializer.append(numpy_helper.from_array(np.array([2, 3]), "s"))
    prepared, x = onnx_backend.prepare(model), np.zeros((2, 3), np.float32)
    assert [y.shape for y in prepared.run([x])] == [(2, 3)]
    for shape in [(3, 2), (1, 6)]:
        assert [y.shape for y in prepared.run([x, np.array(shape)])] == [shape]


def test_run_node():
    x = np.float32([[1, -2], [-3, 4]])
    node = helper.make_node("Relu", ["x"], ["y"])
    np.testing.assert_array_equal(onnx_backend.run_node(node, [x])[0], np.maximum(x, 0))
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    (y,) = onnx_backend.run_node(node, [x, np.array([4])], opset_version=14)
    assert y.shape == (4,)
    info = [(np.dtype("float32"), (2, 2))]
    (y,) = onnx_backend.run_node(helper.make_node("Add", ["x", "b"], ["y"]), [x, x], "CPU", info)
    np.testing.assert_array_equal(y, x + x)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: onnx_backend.prepare(reshape_model(), "TPU"), DeviceError, "'TPU' is not"),
        (lambda: onnx_backend.prepare(reshape_model()).run([]), ShapeError, "'x' is missing"),
        (lambda: onnx_backend.prepare(reshape_model()).run([1] * 3), ShapeError, "the model has 2"),
        (lambda: onnx_backend.prepare(reshape_model()).run({"z": 1}), ShapeError, "no input 'z'"),
        (lambda: onnx_backend.prepare(reshape_model()).run([None, [1]]), ShapeError, "no array"),
        (lambda: onnx_backend.run_node(helper.make_node("Nop", ["x"], ["y"]), [np.ones(1)]),
         InvalidModel, "node 'Nop' is not valid"),
        (lambda: onnx_backend.run_node(helper.make_node("Add", ["x", "z"], ["y"]), [np.ones(1)]),
         ShapeError, "1 arrays for 2 inputs"),
        (lambda: onnx_backend.run_node(helper.make_node("StringSplit", ["x"], ["y", "n"]),
                                       [np.array(["a b"], object)]), UnsupportedOp, "string"),
    ],
)  # fmt: skip
def test_errors_are_compiler_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
    assert issubclass(error, CompilerError)


def test_devices_and_compatibility():
    assert onnx_backend.supports_device("CPU") and onnx_backend.supports_device("CPU:0")
    assert not onnx_backend.supports_device("nonsense")
    assert onnx_backend.is_compatible(models.build("two_branch"))
    assert onnx_backend.is_compatible(reshape_model())
    unknown = models.build("two_branch")
    unknown.graph.node[0].op_type = "Unheard"
    assert not onnx_backend.is_compatible(unknown)


def counts_of(tmp_path, *options):
    file = tmp_path / "coverage.json"
    backend_coverage.main([*options, f"--json={file}"])
    return json.loads(file.read_text())


@pytest.mark.parametrize("target", LOWER)
def test_cross_section(tmp_path, target):
    """Those of this CPU are all of the cases, which `tools/bench backend_coverage` runs."""
    record = counts_of(tmp_path, f"--only={SUBSET}", f"--target={target}")
    assert record["target"] == target
    failed = [(c["case"], c["reason"]) for c in record["cases"] if c["status"] != "pass"]
    assert len(record["cases"]) > 50 and not failed


def test_random_cases_are_refused_with_operator_and_reason(tmp_path):
    record = counts_of(tmp_path, "--only=test_bernoulli|test_dropout_default_cpu")
    found = {c["case"]: c for c in record["cases"]}
    assert found.pop("test_dropout_default")["status"] == "pass"
    assert len(found) == 6
    for case in found.values():
        assert case["status"] == "refused" and "random numbers" in case["reason"]
        assert case["subject"] in ("Bernoulli", "RandomUniformLike")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_wrong_and_nothing_crashes(tmp_path, target):
    record = counts_of(tmp_path, f"--target={target}")
    failed = [
        (c["case"], c["reason"]) for c in record["cases"] if c["status"] in ("wrong", "crash")
    ]
    assert len(record["cases"]) > 2000 and not failed
