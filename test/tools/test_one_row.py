"""one_row: products with one row in all forms of weights, and a decoder's layer."""

import ml_dtypes
import numpy as np
import pytest
from measurements import one_row
from measurements._decoder_step import decoder_step, one_product

import rcompiler
from rcompiler.frontend.rounded_weights import with_rounded_weights
from rcompiler.support.random_inputs import random_inputs


def test_all_forms_of_a_product_are_measured(capsys):
    assert one_row.main(["64x96", "--threads=1", "--rounds=1", "--megabytes=1"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.startswith("product")
    assert [row.split()[:2] for row in rows] == [["64x96", "1"]] * 4
    assert [row.split()[2] for row in rows] == ["f32", "bf16", "8", "4"]


def test_a_product_is_two_numbers(capsys):
    assert one_row.main(["64x", "--rounds=1"]) == 1
    assert "write DEPTHxCOLUMNS" in capsys.readouterr().err


def test_bytes_of_weights_and_their_scales():
    model = one_product(64, 32)
    assert one_row.weight_bytes(model) == 64 * 32 * 4
    assert one_row.weight_bytes(one_row.FORMS["4 bits"](model)) == 64 * 32 // 2 + 64 // 32 * 32 * 4
    assert one_row.weight_bytes(one_row.FORMS["bf16"](model)) == 64 * 32 * 2


def test_a_layer_in_bf16_is_near_to_that_in_f32():
    model = decoder_step(64, 96, 2, 5)
    exact, near = (rcompiler.compile_onnx(m, eus=1) for m in (model, one_row.in_bf16(model)))
    feeds = random_inputs(exact.inputs, 0)
    narrow = {name: array.astype(ml_dtypes.bfloat16) for name, array in feeds.items()}
    for a, b in zip(exact(feeds), near(narrow), strict=True):
        assert np.abs(a - b.astype(np.float32)).max() < 0.1 * np.abs(a).max()


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_layer_of_few_bits_is_as_onnxruntime_computes_it(bits: int, threads: int):
    onnxruntime = pytest.importorskip("onnxruntime")
    model, errors = with_rounded_weights(decoder_step(64, 96, 2, 5), bits)
    assert len(errors) == 7  # query, key, value, their output, gate, up, down
    compiled = rcompiler.compile_onnx(model, eus=threads)
    feeds = random_inputs(compiled.inputs, 0)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for got, want in zip(compiled(feeds), session.run(None, feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
