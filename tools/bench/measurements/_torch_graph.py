"""An ONNX model as a torch.nn.Module: what somebody would write in PyTorch by hand.

The graph becomes a torch.fx.GraphModule, which is Python code, one call of torch a node: nothing
is interpreted when it runs. ONNX's LSTM is torch's, which on a GPU is cuDNN's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper, shape_inference

from measurements._torch_builder import unsupported
from measurements._torch_ops import translated


def torch_module(model: ModelProto, dtype: Any) -> Any:
    """A torch.nn.Module on the CPU that takes the inputs of the model in order and returns a tuple
    of its outputs.

    dtype: of torch, for all that is f32 in the model. Raises UnsupportedOp for operators, or forms
    of them, that the built-in networks do not have.
    """
    return _Builder(model, dtype).module()


class _Builder:
    """Values by their names in the model: nodes of the new graph, or numpy arrays."""

    def __init__(self, model: ModelProto, dtype: Any) -> None:
        import torch

        self.torch, self.functional, self.dtype = torch, torch.nn.functional, dtype
        self._model, self._graph, self.root = model, torch.fx.Graph(), torch.nn.Module()
        self._shapes = _shapes(model)
        self._producers = {name: node for node in model.graph.node for name in node.output}
        self._uses = _uses(model)
        self._values: dict[str, Any] = {}
        self._parameters: dict[str, Any] = {}
        self._modules: dict[Hashable, str] = {}

    def module(self) -> Any:
        graph = self._model.graph
        for number, value in enumerate(graph.input):
            self._values[value.name] = self._graph.placeholder(f"x{number}")
        for tensor in graph.initializer:
            self._values[tensor.name] = numpy_helper.to_array(tensor)
        for node in graph.node:
            made = translated(self, node)
            for name, value in zip(node.output, made, strict=False):
                self._values[name] = value
        self._graph.output(tuple(self.value(output.name) for output in graph.output))
        made = self.torch.fx.GraphModule(self.root.to(self.dtype), self._graph)
        made.graph.eliminate_dead_code()
        made.delete_all_unused_submodules()
        made.recompile()
        return made.eval()

    def call(self, function: Callable[..., Any], *operands: Any, **more: Any) -> Any:
        """A node that calls a function."""
        return self._graph.call_function(function, operands, more)

    def method(self, name: str, *operands: Any) -> Any:
        """A node that calls a method of the first operand."""
        return self._graph.call_method(name, operands)

    def call_module(self, key: Hashable, make: Callable[[], Any], *operands: Any) -> Any:
        """A node that calls a module, which is made for each key once, as a part of this one."""
        if key not in self._modules:
            self._modules[key] = f"m{len(self._modules)}"
            self.root.add_module(self._modules[key], make())
        return self._graph.call_module(self._modules[key], operands)

    def value(self, name: str) -> Any:
        """A node, or a number; an array becomes a parameter of the module the first time."""
        if not name:
            return None
        found = self._values[name]
        if not isinstance(found, np.ndarray):
            return found
        if not found.ndim:
            return found.item()
        if name not in self._parameters:
            self._parameters[name] = self._parameter(found)
        return self._parameters[name]

    def array(self, node: NodeProto, index: int) -> np.ndarray:
        """An operand that is known now. Raises UnsupportedOp for others."""
        found = self._values[node.input[index]]
        if isinstance(found, np.ndarray):
            return found
        raise unsupported(node, f"operand {index} is no constant")

    def shape(self, node: NodeProto, index: int) -> list[int]:
        """Of an operand. Raises UnsupportedOp where it is not known."""
        found = self._shapes.get(node.input[index])
        if found is None:
            raise unsupported(node, f"the shape of operand {index} is not known")
        return found

    def producer(self, name: str) -> NodeProto | None:
        """The node of the model that makes a value; None of inputs and weights."""
        return self._producers.get(name)

    def uses(self, name: str) -> int:
        """How often a value is read by nodes that the outputs depend on, or given out."""
        return self._uses[name]

    def _parameter(self, array: np.ndarray) -> Any:
        name = f"p{len(self._parameters)}"
        tensor = self.torch.from_numpy(np.array(array))
        if tensor.is_floating_point():
            parameter = self.torch.nn.Parameter(tensor, requires_grad=False)
            self.root.register_parameter(name, parameter)
        else:
            self.root.register_buffer(name, tensor)
        return self._graph.get_attr(name)


def _uses(model: ModelProto) -> Counter[str]:
    """How often values are read by nodes that the outputs depend on, or given out."""
    found = Counter(value.name for value in model.graph.output)
    for node in reversed(model.graph.node):  # which come after those that they read
        if any(found[name] for name in node.output):
            found.update(node.input)
    return found


def _shapes(model: ModelProto) -> dict[str, list[int]]:
    """Of all values whose shapes are known."""
    graph = shape_inference.infer_shapes(model, data_prop=True).graph
    found = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        dims = value.type.tensor_type.shape.dim
        if all(dim.HasField("dim_value") for dim in dims):
            found[value.name] = [dim.dim_value for dim in dims]
    return found
