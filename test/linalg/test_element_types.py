"""The table of element types, by what numpy and MLIR say of each."""

import numpy as np
import pytest
from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.linalg.element_types import BITS, dtype_of, element_name, item_bytes, numpy_type


@pytest.mark.parametrize("element", BITS)
def test_an_element_takes_as_many_bytes_as_its_array(element: str):
    with ir.Context():
        type_ = ir.Type.parse(element)
        assert element_name(type_) == element
        assert BITS[element] == type_.width
        assert numpy_type(type_) == dtype_of(element)
    assert item_bytes(element) == np.zeros(1, dtype_of(element)).nbytes
    assert item_bytes(element) == max(8, BITS[element]) // 8


@pytest.mark.parametrize(
    "text, name",
    [("si8", "si8"), ("ui16", "ui16"), ("vector<8xf32>", "f32"), ("vector<2x4xi8>", "i8")],
)
def test_signs_are_named_and_vectors_are_not(text, name):
    with ir.Context():
        assert element_name(ir.Type.parse(text)) == name


def test_an_index_is_an_integer_that_no_tensor_holds():
    with ir.Context():
        index = ir.IndexType.get()
        assert element_name(index) == "i64"
        assert numpy_type(index) is None


def test_a_type_of_part_of_a_byte_has_no_arrays():
    with pytest.raises(CompilerError, match="no arrays of element type i4"):
        dtype_of("i4")
