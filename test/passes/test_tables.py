"""Signatures of schedules, and inline constants as the bytes that kernels read."""

import ml_dtypes
import numpy as np
import pytest
from torch_mlir import ir

from rcompiler.errors import InvalidModel
from rcompiler.linalg.dense import dense_array
from rcompiler.passes.schedule.tables import _signature

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


SIGNATURES = [
    ("type = tensor<2xf32>", "type = memref<2xf32>", "is the type of a tensor, not memref<2xf32>"),
    ("type = tensor<2xf32>", 'type = "tensor"', "is the type of a tensor, not tensor"),
    ('name = "i"', 'name = "i", indices = {first = 0, last = true, reader = "n"}', "two integers"),
    ('name = "i"', 'name = "i", indices = {first = 0, last = 1}', "two integers and a string"),
]


@pytest.mark.parametrize(("old", "new", "message"), SIGNATURES)
def test_signatures_that_are_none(old: str, new: str, message: str):
    text = '[{dtype = "float32", name = "i", type = tensor<2xf32>}]'
    with ir.Context():
        [found] = _signature(ir.Attribute.parse(text), [])
        assert (found.name, found.shape, found.bytes) == ("i", (2,), 8)
        with pytest.raises(InvalidModel, match=message):
            _signature(ir.Attribute.parse(text.replace(old, new)), [])
