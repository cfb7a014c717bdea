"""Networks whose activations are quantised while they run, as onnxruntime's tools write them."""

import numpy as np
import pytest

import rcompiler
from rcompiler.tools import models

pytest.importorskip("onnxruntime", reason="its tools quantise the network")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """The file of one BERT layer with weights of 8 bits."""
    from onnx import save
    from onnxruntime.quantization import QuantType, quantize_dynamic

    folder = tmp_path_factory.mktemp("bert")
    network = models.build(
        "bert_base", layers=1, hidden=64, heads=4, sequence=16, vocabulary=100, seed=3
    )
    save(network, folder / "f32.onnx")
    quantize_dynamic(folder / "f32.onnx", folder / "int8.onnx", weight_type=QuantType.QInt8)
    return folder / "int8.onnx"


@pytest.mark.parametrize("eus", [1, 2])
def test_bert(bert, eus):
    import onnxruntime

    random = np.random.default_rng(0)
    feeds = {
        "input_ids": random.integers(0, 100, (1, 16)),
        "token_type_ids": random.integers(0, 2, (1, 16)),
        "attention_mask": np.int64([[1] * 13 + [0] * 3]),
    }
    reference = onnxruntime.InferenceSession(bert, providers=["CPUExecutionProvider"])
    compiled = rcompiler.compile_onnx(bert, eus=eus)
    text = compiled.stage("linalg")
    assert "i8" in text and "i32" in text, "nothing is quantised"
    for got, expected in zip(compiled(**feeds), reference.run(None, feeds), strict=True):
        # a sum near the middle of two steps of 1/255 may be rounded to either
        np.testing.assert_allclose(got, expected, atol=0.02)
        assert np.abs(got - expected).mean() < 1e-3


@pytest.mark.parametrize("target", ["cpu", "cuda:emulated"])
@pytest.mark.parametrize("numbers", [[0, 0, 0], [1e-44, 0, 0], [-3, 0, 6]])
def test_a_scale_is_never_zero(target, numbers):
    """Of zeros it is 1, as in onnxruntime; by the letter of ONNX zeros are divided by 0."""
    import onnxruntime
    from onnx import TensorProto, helper

    kinds = {"q": TensorProto.UINT8, "scale": TensorProto.FLOAT, "zero": TensorProto.UINT8}
    graph = helper.make_graph(
        [helper.make_node("DynamicQuantizeLinear", ["x"], [*kinds])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)
    x = np.float32(numbers)
    found = rcompiler.compile_onnx(model, target=target)(x)
    if x[0] == np.float32(1e-44):  # its 255th part is 0, too, which onnxruntime divides by
        expected = [np.zeros(3, np.uint8), np.float32(1), np.uint8(0)]
    else:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        expected = session.run(None, {"x": x})
    for got, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, right)
