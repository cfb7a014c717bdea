"""A backend of torch.compile for inference on CPUs: torch.compile(model, backend="rcompiler").

TorchDynamo finds it by the entry point of that name. Each graph that it captures is made functional
by AOTAutograd, exported to ONNX, and compiled: when it is called for the first time, once for each
set of shapes. Parameters are constants of what is compiled; where one has changed, the graph is
compiled again. A graph that is refused runs operator by operator as before, and an
EagerGraphWarning says why. Needs torch and onnxscript: pip install 'torch>=2.9' onnxscript.
"""

from __future__ import annotations

import io
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from threading import RLock
from typing import Any

import numpy as np
import torch
from torch._dynamo.backends.common import aot_autograd

from rcompiler.driver import isolate
from rcompiler.errors import (
    CompilerError,
    EagerGraphWarning,
    IgnoredOptionWarning,
    ToolError,
    UnsupportedOp,
)

_MOST = 8  # programs of one graph


def backend(
    graph: Any,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """What torch.compile calls with a graph.

    Args:
        graph: a torch.fx.GraphModule.
        example_inputs: tensors, parameters among them, and sizes.
        options: of `compile_onnx`, such as {"eus": 1}.
        mode: changes nothing.

    Returns:
        A function of the graph's inputs.

    Raises:
        UnsupportedOp: gradients are recorded.
    """
    if mode not in (None, "default"):
        warnings.warn(IgnoredOptionWarning(f"mode={mode!r} changes nothing"), stacklevel=2)
    tensors = [x for x in example_inputs if isinstance(x, torch.Tensor)]
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        raise UnsupportedOp(_TRAINING)

    def inference(functional: Any, _: Sequence[Any]) -> Callable[..., Any]:
        return torch._dynamo.disable(_boxed(Graph(functional, dict(options or {}))))

    def training(*_: Any) -> Callable[..., Any]:
        raise UnsupportedOp(_TRAINING)

    compiler = aot_autograd(
        fw_compiler=training, inference_compiler=inference, decompositions=_DECOMPOSITIONS
    )
    found: Callable[..., Any] = compiler(graph, list(example_inputs))
    return found


_TRAINING = (
    "the model records gradients, and only inference is compiled; call it below torch.no_grad() or "
    "torch.inference_mode(), or give its parameters requires_grad_(False)"
)


def _boxed(graph: Graph) -> Callable[[list[Any]], Any]:
    """AOTAutograd hands over a list, which is emptied so that inputs can be freed."""

    def call(args: list[Any]) -> Any:
        given = list(args)
        args.clear()
        return graph(given)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


class Graph:
    """A functional graph, compiled for what it is called with.

    Calls from several threads are safe.
    """

    def __init__(self, functional: Any, options: dict[str, Any]) -> None:
        """functional: a torch.fx.GraphModule of ATen's operators; options: of compile_onnx."""
        self._functional, self._options = functional, options
        self._programs: OrderedDict[Any, _Program] = OrderedDict()
        self._refused = False
        self._lock = RLock()

    def __call__(self, args: Sequence[Any]) -> Sequence[Any]:
        """The results of the graph, of which no tensor is one of the inputs."""
        if self._refused:
            return self._eager(args)
        fixed = [_is_constant(x) for x in args]
        key = tuple(_key(x, constant) for x, constant in zip(args, fixed, strict=True))
        with self._lock:
            program = self._programs.get(key)
            if program is not None:
                self._programs.move_to_end(key)
        if program is None:
            try:
                program = _Program(self._functional, args, fixed, self._options)
            except CompilerError as error:
                self._refused = True
                warnings.warn(
                    EagerGraphWarning(
                        f"a graph of {len(self._functional.graph.nodes)} nodes is not compiled and "
                        f"runs operator by operator: {type(error).__name__}: {error}"
                    ),
                    stacklevel=2,
                )
                return self._eager(args)
            with self._lock:
                self._programs[key] = program
                if len(self._programs) > _MOST:
                    self._programs.popitem(last=False)
        return program(args)

    def _eager(self, args: Sequence[Any]) -> Sequence[Any]:
        found: Sequence[Any] = self._functional(*args)
        return found


def _is_constant(value: Any) -> bool:
    """Whether it is no tensor, or a parameter or buffer of a module."""
    if not isinstance(value, torch.Tensor):
        return True
    return isinstance(value, torch.nn.Parameter) or hasattr(value, "_dynamo_static_input_type")


def _key(value: Any, constant: bool) -> Any:
    """What a program is compiled for. Writing to a tensor changes its version."""
    if not isinstance(value, torch.Tensor):
        return value
    if not constant:
        return value.shape, value.dtype, value.device
    version = 0 if value.is_inference() else value._version
    return value.data_ptr(), version, value.shape, value.stride(), value.dtype


class _Program:
    """A graph compiled for shapes, sizes and parameters."""

    def __init__(
        self, functional: Any, args: Sequence[Any], fixed: Sequence[bool], options: Any
    ) -> None:
        """Raises CompilerError where the graph is refused."""
        self._taken = [i for i, constant in enumerate(fixed) if not constant]
        self._held = [x for x, constant in zip(args, fixed, strict=True) if constant]
        for value in args:
            _check(value)
        made: Any = functional(*args)  # also says which results are no tensors, and their strides
        self._made: list[Any] = [
            (x.shape, x.stride(), x.dtype) if isinstance(x, torch.Tensor) else x for x in made
        ]
        self._places = [i for i, x in enumerate(made) if isinstance(x, torch.Tensor)]
        for index in self._places:
            _check(made[index])
        frozen = _Frozen(functional, args, fixed, self._places)
        # A thread of its own: this one is set up for calls, below what an export begins with.
        with ThreadPoolExecutor(1) as apart:
            proto = apart.submit(_exported, frozen, args, self._taken).result()
        names = {value.name for value in proto.graph.input}
        self._model: Any = isolate.compiler()(proto, **options)
        # An exporter may leave out an input that no node reads.
        self._read = [
            i for i, n in zip(self._taken, _names(self._taken), strict=True) if n in names
        ]
        outputs: Any = self._model.outputs
        for tensor, place in zip(outputs, self._places, strict=True):
            shape, _, dtype = self._made[place]
            if tensor.shape != tuple(shape) or tensor.dtype != _NAMES.get(dtype, ""):
                raise UnsupportedOp(
                    f"result {place} is {dtype}{list(shape)}, and {tensor.dtype}"
                    f"{list(tensor.shape)} as it is exported; report this with the model"
                )

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        results = list(self._made)
        made = self._model(*(_to_numpy(args[i]) for i in self._read))
        for place, array in zip(self._places, made, strict=True):
            results[place] = _laid_out(_to_torch(array), self._made[place][1])
        return results


class _Frozen(torch.nn.Module):
    """A graph with its constants, of which only results that are tensors are left."""

    def __init__(
        self, functional: Any, args: Sequence[Any], fixed: Sequence[bool], places: Sequence[int]
    ) -> None:
        super().__init__()
        self._functional, self._places = functional, tuple(places)
        self._plain: dict[int, Any] = {}
        self._taken: list[int] = []
        for index, (value, constant) in enumerate(zip(args, fixed, strict=True)):
            if not constant:
                self._taken.append(index)
            elif isinstance(value, torch.Tensor):
                self.register_buffer(f"c{index}", value.detach())
            else:
                self._plain[index] = value
        self._count = len(args)

    def forward(self, *taken: Any) -> tuple[Any, ...]:
        given = {**self._plain, **dict(zip(self._taken, taken, strict=True))}
        args = [given[i] if i in given else getattr(self, f"c{i}") for i in range(self._count)]
        made = self._functional(*args)
        return tuple(made[place] for place in self._places)


def _names(taken: Sequence[int]) -> list[str]:
    return [f"input_{i}" for i in taken]


def _exported(module: Any, args: Sequence[Any], taken: Sequence[int]) -> Any:
    """The ONNX model. Raises ToolError without onnxscript, UnsupportedOp where it is refused."""
    try:
        with torch.no_grad(), warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                module, tuple(args[i] for i in taken), dynamo=True, verbose=False,
                input_names=_names(taken),
            )  # fmt: skip
        return program.model_proto
    except ModuleNotFoundError as error:
        raise ToolError(
            f"graphs of PyTorch are exported by {error.name}: pip install 'torch>=2.9' onnxscript"
        ) from None
    except Exception as error:  # whatever the exporter raises
        cause = error.__cause__ or error
        lines = [line for line in str(cause).splitlines() if line.strip()] or [""]
        raise UnsupportedOp(
            f"torch.onnx cannot export it ({type(cause).__name__}: {lines[0]})"
        ) from error


def _check(value: Any) -> None:
    """Refuse tensors that are not arrays in memory of the host."""
    if not isinstance(value, torch.Tensor):
        return
    wrong = None
    if value.device.type != "cpu":
        wrong = f"it is on '{value.device}'; only graphs on the CPU are compiled"
    elif value.layout != torch.strided or value.is_quantized:
        wrong = "it is sparse or quantised"
    elif value.dtype not in _NAMES:
        wrong = f"there is no code for {value.dtype}"
    if wrong:
        raise UnsupportedOp(f"a tensor of shape {list(value.shape)}: {wrong}")


def _encoder_layer(
    x: Any, width: int, heads: int, qkv_weight: Any, qkv_bias: Any, out_weight: Any, out_bias: Any,
    gelu: bool, norm_first: bool, epsilon: float, scale_1: Any, shift_1: Any, scale_2: Any,
    shift_2: Any, weight_1: Any, bias_1: Any, weight_2: Any, bias_2: Any,
    mask: Any = None, mask_type: int | None = None,
) -> Any:  # fmt: skip
    """What torch.nn.TransformerEncoderLayer computes by one operator, which no exporter knows; as
    torch.nn documents it. With a mask that is left to the exporter."""
    if mask is not None:
        return NotImplemented
    nn = torch.nn.functional

    def attention(x: Any) -> Any:
        parts = nn.linear(x, qkv_weight, qkv_bias).unflatten(-1, (3, heads, width // heads))
        made = nn.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4).unbind(0))
        return nn.linear(made.transpose(1, 2).flatten(2), out_weight, out_bias)

    def forward(x: Any) -> Any:
        inner = nn.linear(x, weight_1, bias_1)
        return nn.linear(nn.gelu(inner) if gelu else nn.relu(inner), weight_2, bias_2)

    def norm_1(x: Any) -> Any:
        return nn.layer_norm(x, (width,), scale_1, shift_1, epsilon)

    def norm_2(x: Any) -> Any:
        return nn.layer_norm(x, (width,), scale_2, shift_2, epsilon)

    if norm_first:
        x = x + attention(norm_1(x))
        return x + forward(norm_2(x))
    x = norm_1(x + attention(x))
    return norm_2(x + forward(x))


_DECOMPOSITIONS = {torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer}

# By PyTorch's types: names of numpy or ml_dtypes.
_NAMES = {
    torch.bool: "bool",
    torch.uint8: "uint8",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
}


def _to_numpy(tensor: Any) -> np.ndarray:
    """An array of the same memory."""
    tensor = tensor.detach()
    if tensor.dtype != torch.bfloat16:
        array: np.ndarray = tensor.resolve_neg().numpy()
        return array
    import ml_dtypes

    found: np.ndarray = tensor.resolve_neg().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return found


def _to_torch(array: np.ndarray) -> Any:
    """A tensor of the same memory."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _laid_out(tensor: Any, strides: tuple[int, ...]) -> Any:
    """The same with strides that the graph has: views are made of its results by these."""
    if tensor.stride() == strides or tensor.numel() < 2:
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)
