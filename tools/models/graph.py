"""A small builder of ONNX graphs with random, well-scaled weights.

Weights are drawn so that activations keep a magnitude near 1 through the whole network (He et al.
2015 in front of a rectifier, 1/fan-in elsewhere): results of different compilers can then be
compared by absolute error, and no denormal number distorts a timing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

OPSET = 22
IR_VERSION = 10
Operand = str | float | int | Sequence[int] | np.ndarray
Size = int | tuple[int, int]  # of a window: one number is for height and width
Padding = Size | Literal["same"] | None  # None: half the window; "same": TensorFlow's


class ModelGraph:
    """One model under construction; values are named by strings.

    The builder remembers the *width* of a value: its channels (images) or its last dimension
    (sequences), so that layers only name what they produce.
    """

    def __init__(self, name: str, seed: int | np.random.Generator) -> None:
        self.name = name
        self.rng = np.random.default_rng(seed)
        self._path: list[str] = []
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._weights: list[Any] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._count: dict[str, int] = {}
        self._width: dict[str, int] = {}

    # -- structure --------------------------------------------------------------------------
    @contextmanager
    def scope(self, name: object) -> Iterator[None]:
        """Names made inside start with ``name``: ``with g.scope("layer1"): ...``."""
        self._path.append(str(name))
        yield
        self._path.pop()

    def input(self, name: str, shape: Sequence[int | str], dtype: str = "float32") -> str:
        """A graph input; its width is ``shape[1]`` of an image (rank 4), else ``shape[-1]``. A size
        that is a name differs from call to call.
        """
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self._inputs.append(helper.make_tensor_value_info(name, kind, list(shape)))
        width = shape[1] if len(shape) == 4 else shape[-1]
        if isinstance(width, int):
            self._width[name] = width
        return name

    def weight(self, name: str, value: np.ndarray) -> str:
        """An initializer named after the current scope; its width is its last dimension."""
        full = ".".join([*self._path, name])
        if value.ndim:
            self._width[full] = value.shape[-1]
        self._weights.append(numpy_helper.from_array(np.ascontiguousarray(value), full))
        return full

    def constant(self, value: Operand) -> str:
        """A value name, or a number, integer list or array as a (shared) Constant node."""
        if isinstance(value, str):
            return value
        array = np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = f"/Constant_{len(self._constants)}_output_0"
            tensor = numpy_helper.from_array(array)
            node = helper.make_node("Constant", [], [name], name[: -len("_output_0")], value=tensor)
            self._nodes.append(node)
            self._constants[key] = name
        return self._constants[key]

    def ops(
        self, kind: str, *operands: Operand, outputs: int, width: int | None = None, **attrs: Any
    ) -> list[str]:
        """Add a node with several results; "" is an omitted optional operand. attrs: `domain` is
        that of the operator.
        """
        inputs = [self.constant(x) for x in operands]
        stem = "/" + "/".join([*self._path, kind])
        number = self._count[stem] = self._count.get(stem, -1) + 1
        name = f"{stem}_{number}" if number else stem
        results = [f"{name}_output_{i}" for i in range(outputs)]
        self._nodes.append(helper.make_node(kind, inputs, results, name, **attrs))
        width = width or self._width.get(inputs[0])
        if width:
            self._width.update(dict.fromkeys(results, width))
        return results

    def op(self, kind: str, *operands: Operand, width: int | None = None, **attrs: Any) -> str:
        """Add a node with one result. width: of the result, by default that of the operand."""
        return self.ops(kind, *operands, outputs=1, width=width, **attrs)[0]

    def model(self, **outputs: tuple[str, Sequence[int | str]]) -> ModelProto:
        """The finished float32 model; each keyword is an output name with (value, shape)."""
        infos = []
        for name, (value, shape) in outputs.items():
            self._rename(value, name)
            infos.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))
        graph = helper.make_graph(self._nodes, self.name, self._inputs, infos, self._weights)
        others = sorted({node.domain for node in self._nodes} - {""})
        return helper.make_model(
            graph,
            producer_name="rcompiler.tools.models",
            opset_imports=[
                helper.make_opsetid("", OPSET),
                *(helper.make_opsetid(domain, 1) for domain in others),
            ],
            ir_version=IR_VERSION,
        )

    def _rename(self, old: str, new: str) -> None:
        for node in self._nodes:
            for names in (node.input, node.output):
                names[:] = [new if name == old else name for name in names]

    def width(self, value: str) -> int:
        return self._width[value]

    # -- random weights ---------------------------------------------------------------------
    def normal(self, shape: Sequence[int], std: float, mean: float = 0.0) -> np.ndarray:
        """float32 samples of a normal distribution."""
        draw = self.rng.standard_normal(tuple(shape), dtype=np.float32)
        return draw * np.float32(std) + np.float32(mean)

    def uniform(self, shape: Sequence[int], low: float, high: float) -> np.ndarray:
        """float32 samples of a uniform distribution."""
        return self.rng.random(tuple(shape), dtype=np.float32) * np.float32(high - low) + low

    # -- layers -----------------------------------------------------------------------------
    def conv(
        self,
        x: str,
        out: int,
        kernel: Size,
        stride: Size = 1,
        pad: Padding = None,
        groups: int = 1,
        bias: bool = False,
        gain: float = 2.0,
        name: str = "conv",
    ) -> str:
        """2-D convolution, OIHW weights. gain: 2 in front of or behind a rectifier, else 1."""
        shape = (out, self.width(x) // groups, *_pair(kernel))
        weight = self.normal(shape, (gain / np.prod(shape[1:])) ** 0.5)
        offset = self.normal((out,), 0.1) if bias else None
        return self.conv_of(x, weight, offset, stride=stride, pad=pad, groups=groups, name=name)

    def conv_of(
        self,
        x: str,
        weight: np.ndarray,
        bias: np.ndarray | None = None,
        stride: Size = 1,
        pad: Padding = None,
        groups: int = 1,
        name: str = "conv",
    ) -> str:
        """The convolution with these weights, (out, in / groups, height, width), and bias (out)."""
        with self.scope(name):
            operands = [x, self.weight("weight", weight)]
            if bias is not None:
                operands.append(self.weight("bias", bias))
            kernel = weight.shape[2:]
            return self.op(
                "Conv",
                *operands,
                width=len(weight),
                dilations=[1, 1],
                group=groups,
                kernel_shape=list(kernel),
                **window(kernel, stride, pad),
            )

    def norm_parameters(self, n: int, scale: float = 1.0) -> tuple[np.ndarray, ...]:
        """Scale, offset, mean and variance of n channels, as after training: none is 0 or 1."""
        return (
            np.float32(scale) * self.uniform((n,), 0.8, 1.2),
            self.normal((n,), 0.1),
            self.normal((n,), 0.1),
            self.uniform((n,), 0.7, 1.4),
        )

    def batch_norm(self, x: str, scale: float = 1.0, name: str = "bn") -> str:
        """Inference batch normalisation.

        scale: magnitude of gamma; small in the last layer of a residual branch, so that the sum of
        many branches stays bounded.
        """
        return self.batch_norm_of(x, self.norm_parameters(self.width(x), scale), name)

    def batch_norm_of(self, x: str, parameters: Sequence[np.ndarray], name: str = "bn") -> str:
        """The normalisation with these scales, offsets, means and variances."""
        names = ("weight", "bias", "running_mean", "running_var")
        with self.scope(name):
            weights = [self.weight(n, v) for n, v in zip(names, parameters, strict=True)]
            return self.op("BatchNormalization", x, *weights, epsilon=1e-5)

    def conv_bn(
        self, x: str, out: int, kernel: Size, *, act: str = "Relu", scale: float = 1.0, **conv: Any
    ) -> str:
        """Convolution, batch normalisation and an activation ("" for none)."""
        name = conv.pop("name", "conv")
        x = self.conv(x, out, kernel, gain=2.0 if act else 1.0, name=name, **conv)
        x = self.batch_norm(x, scale, name=f"{name}_bn")
        return self.op(act, x) if act else x

    def max_pool(self, x: str, kernel: int, stride: int, pad: int = 0, ceil: int = 0) -> str:
        return self.op(
            "MaxPool",
            x,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad] * 4,
            ceil_mode=ceil,
        )

    def concat(self, values: Sequence[str], axis: int = 1) -> str:
        """Join along the width."""
        return self.op("Concat", *values, axis=axis, width=sum(self.width(v) for v in values))

    def matmul(self, x: str, out: int, bias: bool = True, gain: float = 1.0, name: str = "") -> str:
        """A linear layer on the last dimension the way exporters write it: MatMul, then Add."""
        with self.scope(name):
            n = self.width(x)
            w = self.weight("weight", self.normal((n, out), (gain / n) ** 0.5))
            y = self.op("MatMul", x, w, width=out)
            return (
                self.op("Add", self.weight("bias", self.normal((out,), 0.1)), y, width=out)
                if bias
                else y
            )

    def gemm(self, x: str, out: int, gain: float = 1.0, name: str = "fc") -> str:
        """A linear layer on a matrix: Gemm with the weight stored as (out, in)."""
        with self.scope(name):
            n = self.width(x)
            w = self.weight("weight", self.normal((out, n), (gain / n) ** 0.5))
            b = self.weight("bias", self.normal((out,), 0.1))
            return self.op("Gemm", x, w, b, transB=1, width=out)

    def layer_norm(self, x: str, epsilon: float = 1e-5, name: str = "norm") -> str:
        """LayerNormalization over the last dimension."""
        with self.scope(name):
            n = (self.width(x),)
            weight = self.weight("weight", self.uniform(n, 0.8, 1.2))
            bias = self.weight("bias", self.normal(n, 0.1))
            return self.op("LayerNormalization", x, weight, bias, axis=-1, epsilon=epsilon)

    def classifier(self, x: str, classes: int) -> str:
        """Global average pooling, Flatten and a Gemm: the usual end of an image network."""
        x = self.op("GlobalAveragePool", x)
        return self.gemm(self.op("Flatten", x, axis=1), classes)


def _pair(size: Size) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def window(kernel: Sequence[int], stride: Size, pad: Padding) -> dict[str, Any]:
    """The attributes that say how a window of this size moves."""
    strides = list(_pair(stride))
    if pad == "same":  # as many positions as the image divided by the stride, rounded up
        return {"auto_pad": "SAME_UPPER", "strides": strides}
    around = [size // 2 for size in kernel] if pad is None else _pair(pad)
    return {"pads": [*around, *around], "strides": strides}
