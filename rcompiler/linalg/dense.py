"""The elements of constants that stand in the text of a module."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
from torch_mlir import ir

from rcompiler.linalg.element_types import dtype_of


def dense_array(attribute: ir.DenseElementsAttr) -> np.ndarray:
    """The elements as stored at run time: C order, i1 as one byte."""
    type_ = ir.RankedTensorType(attribute.type)
    element, shape = str(type_.element_type), tuple(type_.shape)
    if attribute.is_splat:
        scalar = attribute.get_splat_value()
        if element[0] != "i":
            return np.full(shape, ir.FloatAttr(scalar).value, dtype_of(element))
        bits = int(element[1:])
        number = ir.IntegerAttr(scalar).value & ((1 << bits) - 1)
        return np.full(shape, number, f"uint{max(bits, 8)}").view(dtype_of(element))
    if element == "bf16":
        return _bfloat16(attribute).reshape(shape)
    array = np.ascontiguousarray(np.array(attribute))
    return array.astype(dtype_of(element), copy=False).reshape(shape)


def _bfloat16(attribute: ir.DenseElementsAttr) -> np.ndarray:
    """The bindings give no access to the elements of bf16: read the printed numbers."""
    text = str(attribute).partition("<")[2].rpartition(">")[0].rpartition(">")[0]
    if text.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(text.strip('"')[2:]), ml_dtypes.bfloat16)
    numbers = re.findall(r"0x[0-9A-F]+|[-+.\deE]+", text)
    bits = [
        int(n, 16) if n[:2] == "0x" else int(np.float32(n).astype(ml_dtypes.bfloat16).view("u2"))
        for n in numbers
    ]
    return np.array(bits, np.uint16).view(ml_dtypes.bfloat16)
