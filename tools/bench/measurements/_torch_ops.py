"""ONNX's operators as calls of torch, as far as the built-in networks have them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from onnx import NodeProto, TensorProto, helper, numpy_helper

from measurements._torch_builder import Builder, unsupported
from measurements._torch_layers import attention, lstm

_Attributes = dict[str, Any]
_Translate = Callable[[Builder, NodeProto, _Attributes], Any]


def translated(b: Builder, node: NodeProto) -> tuple[Any, ...]:
    """The results of a node. Raises UnsupportedOp."""
    if node.op_type == "MatMul" and (found := attention(b, node)) is not None:
        return (found,)
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type in _PLAIN:
        function: Any = _PLAIN[node.op_type]
        if isinstance(function, str):
            function = getattr(b.torch, function)
        return (b.call(function, *map(b.value, node.input)),)
    if node.op_type not in _TRANSLATIONS:
        raise unsupported(node, "it has no translation")
    made = _TRANSLATIONS[node.op_type](b, node, attributes)
    return made if isinstance(made, tuple) else (made,)


def _operands(b: Builder, node: NodeProto, count: int) -> list[Any]:
    """So many operands; None for those that are left out."""
    found = [b.value(name) for name in node.input]
    return found + [None] * (count - len(found))


# -- windows
def _pads(
    b: Builder, node: NodeProto, a: _Attributes, kernel: list[int]
) -> tuple[list[int], list[int]]:
    """Rows and columns in front of the image and behind it."""
    if a.get("auto_pad", b"NOTSET") == b"NOTSET":
        pads = list(a.get("pads", [0, 0, 0, 0]))
        return pads[:2], pads[2:]
    if a["auto_pad"] != b"SAME_UPPER":
        raise unsupported(node, f"auto_pad {a['auto_pad'].decode()}")
    front, behind = [], []
    sizes = b.shape(node, 0)[2:]
    for size, window, stride in zip(sizes, kernel, a.get("strides", [1, 1]), strict=True):
        both = max(0, (-(-size // stride) - 1) * stride + window - size)
        front.append(both // 2)
        behind.append(both - both // 2)
    return front, behind


def _conv(b: Builder, node: NodeProto, a: _Attributes) -> Any:
    x, weight, bias = _operands(b, node, 3)
    front, behind = _pads(b, node, a, b.shape(node, 1)[2:])
    if front != behind:
        x, front = b.call(b.functional.pad, x, _last_first(front, behind)), [0, 0]
    how = a.get("strides", [1, 1]), front, a.get("dilations", [1, 1]), a.get("group", 1)
    return b.call(b.functional.conv2d, x, weight, bias, *how)


def _pool(b: Builder, node: NodeProto, a: _Attributes) -> Any:
    [x] = _operands(b, node, 1)
    front, behind = _pads(b, node, a, a["kernel_shape"])
    more = {"ceil_mode": bool(a.get("ceil_mode", 0))}
    if front != behind:
        # Windows that reach over the end by one: what is there counts for nothing.
        if [n + 1 for n in front] != behind or a.get("count_include_pad", 0):
            raise unsupported(node, f"pads {front} in front and {behind} behind")
        more["ceil_mode"] = True
    if node.op_type == "MaxPool":
        function = b.functional.max_pool2d
    else:
        function = b.functional.avg_pool2d
        more["count_include_pad"] = bool(a.get("count_include_pad", 0))
    return b.call(function, x, a["kernel_shape"], a.get("strides", [1, 1]), front, **more)


def _pad(b: Builder, node: NodeProto, a: _Attributes) -> Any:
    if a.get("mode", b"constant") != b"constant" or len(node.input) > 2:
        raise unsupported(node, "only zeros are added")
    pads = b.array(node, 1).tolist()
    rank = len(pads) // 2
    return b.call(b.functional.pad, b.value(node.input[0]), _last_first(pads[:rank], pads[rank:]))


def _last_first(front: list[int], behind: list[int]) -> list[int]:
    """Pads as torch takes them: in front and behind of the last dim, then of the one before it."""
    return [n for pair in zip(front[::-1], behind[::-1], strict=True) for n in pair]


# -- shapes
def _gather(b: Builder, node: NodeProto, a: _Attributes) -> Any:
    data, index = _operands(b, node, 2)
    axis = a.get("axis", 0)
    if isinstance(index, int):
        return b.call(b.torch.select, data, axis, index)
    if axis:
        raise unsupported(node, "several indices of another dim than the first")
    return b.call(b.functional.embedding, index, data)


def _reshape(b: Builder, node: NodeProto, a: _Attributes) -> Any:
    shape = b.array(node, 1).tolist()
    if 0 in shape:
        own = b.shape(node, 0)
        shape = [own[k] if n == 0 else n for k, n in enumerate(shape)]
    return b.call(b.torch.reshape, b.value(node.input[0]), shape)


def _slice(b: Builder, node: NodeProto, a: _Attributes) -> Any:
    starts, ends, *rest = (b.array(node, k).tolist() for k in range(1, len(node.input)))
    axes = rest[0] if rest else range(len(starts))
    steps = rest[1] if len(rest) > 1 else [1] * len(starts)
    where = [slice(None)] * len(b.shape(node, 0))
    for axis, *of in zip(axes, starts, ends, steps, strict=True):
        where[axis] = slice(*of)
    return b.call(operator.getitem, b.value(node.input[0]), tuple(where))


def _split(b: Builder, node: NodeProto, a: _Attributes) -> Any:
    count, axis = len(node.output), a.get("axis", 0)
    sizes = b.array(node, 1).tolist() if len(node.input) > 1 else b.shape(node, 0)[axis] // count
    parts = b.call(b.torch.split, b.value(node.input[0]), sizes, axis)
    return tuple(b.call(operator.getitem, parts, k) for k in range(count))


def _unsqueeze(b: Builder, node: NodeProto, a: _Attributes) -> Any:
    x = b.value(node.input[0])
    for axis in sorted(b.array(node, 1).tolist()):
        x = b.call(b.torch.unsqueeze, x, axis)
    return x


def _cast(b: Builder, node: NodeProto, a: _Attributes) -> Any:
    types = {TensorProto.FLOAT: b.dtype, TensorProto.INT64: b.torch.int64}
    if a["to"] not in types:
        raise unsupported(node, "a cast to another type than f32 and i64")
    return b.method("to", b.value(node.input[0]), types[a["to"]])


# -- layers
def _gemm(b: Builder, node: NodeProto, a: _Attributes) -> Any:
    if a.get("alpha", 1.0) != 1.0 or a.get("beta", 1.0) != 1.0 or a.get("transA", 0):
        raise unsupported(node, "alpha, beta and transA")
    x, weight, bias = _operands(b, node, 3)
    if not a.get("transB", 0):
        weight = b.method("t", weight)
    return b.call(b.functional.linear, x, weight, bias)


def _batch_norm(b: Builder, node: NodeProto, a: _Attributes) -> Any:
    x, scale, offset, mean, variance = _operands(b, node, 5)
    of = (mean, variance, scale, offset, False, 0.0, a.get("epsilon", 1e-5))
    return b.call(b.functional.batch_norm, x, *of)


def _layer_norm(b: Builder, node: NodeProto, a: _Attributes) -> Any:
    x, scale, offset = _operands(b, node, 3)
    shape = b.shape(node, 0)[a.get("axis", -1) :]
    return b.call(b.functional.layer_norm, x, shape, scale, offset, a.get("epsilon", 1e-5))


def _constant(b: Builder, node: NodeProto, a: _Attributes) -> Any:
    return numpy_helper.to_array(a["value"])


# Functions of operands alone: by their names in torch, or as they are.
_PLAIN: dict[str, Any] = {
    **{"Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "Div": operator.truediv},
    **{name: name.lower() for name in ("Abs", "Erf", "Exp", "Relu", "Sigmoid", "Sqrt", "Tanh")},
    **{"MatMul": "matmul", "Max": "maximum", "Min": "minimum", "Neg": "neg", "Pow": "pow"},
}
_TRANSLATIONS: dict[str, _Translate] = {
    "AveragePool": _pool,
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Clip": lambda b, node, a: b.call(b.torch.clamp, *_operands(b, node, 3)),
    "Concat": lambda b, node, a: b.call(b.torch.cat, _operands(b, node, 0), a["axis"]),
    "Constant": _constant,
    "Conv": _conv,
    "Flatten": lambda b, node, a: b.call(b.torch.flatten, *_operands(b, node, 1), a.get("axis", 1)),
    "Gather": _gather,
    "Gelu": lambda b, node, a: b.call(
        b.functional.gelu,
        *_operands(b, node, 1),
        approximate=a.get("approximate", b"none").decode(),
    ),
    "Gemm": _gemm,
    "GlobalAveragePool": lambda b, node, a: b.call(
        b.torch.mean, *_operands(b, node, 1), (2, 3), keepdim=True
    ),
    "LSTM": lstm,
    "LayerNormalization": _layer_norm,
    "MaxPool": _pool,
    "Pad": _pad,
    "Reshape": _reshape,
    "Slice": _slice,
    "Softmax": lambda b, node, a: b.call(
        b.torch.softmax, *_operands(b, node, 1), a.get("axis", -1)
    ),
    "Split": _split,
    "Squeeze": lambda b, node, a: b.call(
        b.torch.squeeze, b.value(node.input[0]), tuple(b.array(node, 1).tolist())
    ),
    "Transpose": lambda b, node, a: b.call(b.torch.permute, *_operands(b, node, 1), a["perm"]),
    "Unsqueeze": _unsqueeze,
}
