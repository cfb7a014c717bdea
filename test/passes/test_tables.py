"""_tables.dense_array: inline constants as the bytes that kernels read."""

import ml_dtypes
import numpy as np
import pytest
from torch_mlir import ir

from rcompiler.passes.schedule.tables import dense_array

MANY = list(range(150))
CASES = {
    "dense<[[1.0, -2.5, 0x7FC0], [0xFF80, 0.1, 3.0e38]]> : tensor<2x3xbf16>": np.array(
        [[1, -2.5, np.nan], [-np.inf, 0.1, 3e38]], ml_dtypes.bfloat16
    ),
    f"dense<[{', '.join(f'{n}.0' for n in MANY)}]> : tensor<150xbf16>": np.array(
        MANY, ml_dtypes.bfloat16
    ),
    "dense<1.5> : tensor<2xbf16>": np.array([1.5, 1.5], ml_dtypes.bfloat16),
    "dense<[-1.0, 0x7C00]> : tensor<2xf16>": np.array([-1, np.inf], np.float16),
    "dense<true> : tensor<2xi1>": np.array([True, True]),
    "dense<[true, false]> : tensor<2xi1>": np.array([True, False]),
    "dense<-1> : tensor<2x1xi64>": np.array([[-1], [-1]]),
    "dense<[-1, 5]> : tensor<2xi8>": np.array([-1, 5], np.int8),
    "dense<> : tensor<0xf32>": np.zeros(0, np.float32),
}


@pytest.mark.parametrize("text", CASES, ids=[c.rpartition("tensor")[2] for c in CASES])
def test_elements(text: str):
    with ir.Context():
        found = dense_array(ir.DenseElementsAttr(ir.Attribute.parse(text)))
    assert found.dtype == CASES[text].dtype
    assert found.shape == CASES[text].shape
    assert found.tobytes() == CASES[text].tobytes()
