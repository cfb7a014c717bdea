"""Whether the ONNX file that --onnx names has the inputs and outputs of what was compiled."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from rcompiler.errors import CompilerError


def check_same_network(
    proto: Any, feeds: Mapping[str, np.ndarray], outputs: Collection[str]
) -> None:
    """Refuse a network that cannot be compared.

    Args:
        proto: the ONNX model.
        feeds: what the compiled model was given, by name.
        outputs: names of what it gave.

    Raises:
        CompilerError: naming the first input or output that differs.
    """
    inputs = {value.name: value.type for value in proto.graph.input}
    known = {tensor.name for tensor in proto.graph.initializer}
    found = [value.name for value in proto.graph.output]
    for name in (*inputs, *feeds):
        if name not in inputs and name not in known:
            raise _other(f"it has no input '{name}'")
        if name not in feeds and name not in known:
            raise _other(f"it has an input '{name}' which the compiled model has not")
    for name, array in feeds.items():
        if name in inputs:
            _check_tensor(name, inputs[name].tensor_type, array)
    if [*outputs] != found:
        raise _other(
            f"it has the outputs {', '.join(found)}, and the compiled model {', '.join(outputs)}",
        )


def _check_tensor(name: str, declared: Any, array: np.ndarray) -> None:
    from onnx.helper import tensor_dtype_to_np_dtype

    if declared.elem_type:
        dtype = tensor_dtype_to_np_dtype(declared.elem_type)
        if dtype != array.dtype:
            raise _other(f"its input '{name}' is {dtype}, and was given {array.dtype}")
    if not declared.HasField("shape"):
        return
    sizes = [d.dim_value if d.HasField("dim_value") else None for d in declared.shape.dim]
    fits = len(sizes) == array.ndim and all(
        size in (None, there) for size, there in zip(sizes, array.shape, strict=True)
    )
    if not fits:
        shape = ["?" if size is None else size for size in sizes]
        text = ", ".join(map(str, shape))
        raise _other(
            f"its input '{name}' has the shape [{text}], and was given {list(array.shape)}"
        )


def _other(what: str) -> CompilerError:
    return CompilerError(
        f"--onnx names another network than was compiled: {what}; name the file that the model "
        "was compiled from"
    )
