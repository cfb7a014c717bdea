"""Bytes of four vectors are stored as one line, and are the same."""

import numpy as np
import pytest
from test_quotient import expected, quantiser, values

import rcompiler
from rcompiler.device.cpu import best_level, host_features

WIDE = best_level(host_features()) == "v4"


@pytest.mark.parametrize(("dtype", "pack"), [("uint8", "packuswb"), ("int8", "packsswb")])
@pytest.mark.parametrize("zero", [0, 100])
def test_lines_of_bytes_are_packed_in_their_order(dtype: str, pack: str, zero: int):
    scale = np.float32(0.031)
    x = values(scale, np.random.default_rng(5))[: 64 * 1000]
    compiled = rcompiler.compile_onnx(quantiser(x.size, scale, zero, dtype), eus=1)
    assert np.array_equal(compiled(x)[0], expected(x, scale, zero, dtype))
    assert (pack in compiled.stage("llvm")) == WIDE


def test_what_is_no_line_is_stored_by_itself():
    """Two vectors of a line, vectors of 8 lanes, and numbers of 16 bits."""
    for size, dtype, level in ((32, "uint8", "v4"), (256, "uint8", "v3"), (256, "int16", "v4")):
        if level == "v4" and not WIDE:
            continue
        model = quantiser(size, np.float32(0.031), 3, dtype)
        compiled = rcompiler.compile_onnx(model, target=f"cpu:{level}", eus=1)
        assert "avx512.pack" not in compiled.stage("llvm")
