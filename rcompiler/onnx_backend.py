"""The standard ONNX backend interface (onnx.backend.base) on top of compile_onnx.

    import rcompiler.onnx_backend as backend
    prepared = backend.prepare(model)
    outputs = prepared.run([x, y])          # a named tuple of arrays

The interface hands over inputs only at run time; a static schedule needs their shapes and, for
operands such as the target shape of a Reshape, their values. So a model is compiled when it first
sees such shapes and values, and the result is kept for the next call with the same ones.

The interface is there to compare results, so that a model whose results are random is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import (
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TypeProto,
    defs,
    helper,
)
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from rcompiler.driver.by_shape import ByShape
from rcompiler.errors import CompilerError, DeviceError, InvalidModel, ShapeError, UnsupportedOp
from rcompiler.frontend import check
from rcompiler.frontend.inferred_types import node_outputs
from rcompiler.frontend.load import load
from rcompiler.frontend.randomness import find_draw
from rcompiler.frontend.validity import check as check_validity

_OPTIONS = ("target", "eus", "policy", "fusion", "shapes", "bounds", "machine_code")
_MOST = 64  # programs of one model
_MAX_BAKED_BYTES = 1 << 16  # a larger operand is data, not a shape or an axis


def _is_no_data(array: np.ndarray) -> bool:
    return array.nbytes <= _MAX_BAKED_BYTES


class Prepared(BackendRep):
    """A model that is compiled for the shapes it is called with."""

    def __init__(self, model: ModelProto, options: Mapping[str, Any]) -> None:
        """options: of compile_onnx."""
        self._model = model
        weights = {tensor.name for tensor in model.graph.initializer}
        self._all = [v.name for v in model.graph.input]
        self._required = [name for name in self._all if name not in weights]
        options = {**options, "cache": False}
        self._programs = ByShape(model, options, _MOST, _is_no_data, self._all, weights)
        self._outputs = namedtupledict("Outputs", [v.name for v in model.graph.output])

    @property
    def baked(self) -> tuple[str, ...]:
        """Inputs without initializer whose values the compiled models hold as constants.

        Operators ask for them: shapes, axes and counts that decide the shapes of results.
        """
        return tuple(self._programs.fixed)

    @property
    def kept(self) -> tuple[str, ...]:
        """Inputs that the compiled models still have; with none, all of the model was folded."""
        return tuple(sorted({t.name for m in self._programs.programs for t in m.inputs}))

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run once.

        inputs: arrays in order of the graph's inputs (those without initializer, or all of them),
        a mapping by name, or a single array. Returns a named tuple of arrays.
        Raises CompilerError kinds; ShapeError when an input is missing or does not fit.
        """
        model, arguments = self.compiled(inputs)
        return self._outputs(*model(*arguments))

    def compiled(self, inputs: Any) -> tuple[Any, list[np.ndarray]]:
        """The model for such inputs, and the arguments of a call that computes what `run` returns.

        inputs, raises: as of `run`.
        """
        return self._programs.program(self._named(inputs))

    def _named(self, inputs: Any) -> dict[str, np.ndarray]:
        if isinstance(inputs, Mapping):
            pairs = list(inputs.items())
        else:
            values = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
            names = self._required if len(values) <= len(self._required) else self._all
            if len(values) > len(names):
                raise ShapeError(f"{len(values)} inputs are given, the model has {len(names)}")
            pairs = list(zip(names, values, strict=False))
        feeds = {}
        for name, value in pairs:
            if name not in self._all:
                raise ShapeError(f"the model has no input '{name}'; it has: {self._all}")
            if isinstance(value, list | tuple) and not _uniform(value) or value is None:
                for gap in check(self._model):
                    if gap.kind == "input" and gap.node == name and not gap.needs:
                        raise UnsupportedOp(gap)
                raise ShapeError(f"input '{name}' is no array, but the model wants a tensor")
            feeds[name] = np.asarray(value)
        missing = [name for name in self._required if name not in feeds]
        if missing:
            raise ShapeError(f"input '{missing[0]}' is missing")
        return feeds


class RCompilerBackend(Backend):
    """onnx.backend.base.Backend; every method is a class method."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """ "CPU" and "CPU:0"."""
        try:
            return Device(device).type == DeviceType.CPU
        except (AttributeError, ValueError):
            return False

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Can every node be compiled, as far as it can be told before the inputs are known?"""
        if not cls.supports_device(device):
            return False
        try:
            model = load(model)
            return find_draw(model) is None and all(gap.needs for gap in check(model))
        except CompilerError:
            return False

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        """A handle to run the model with. kwargs: options of compile_onnx; others are ignored.

        Raises DeviceError, InvalidModel, and UnsupportedOp for a model whose results are random;
        what else cannot be compiled is raised by the first run.
        """
        if not cls.supports_device(device):
            raise DeviceError(f"device '{device}' is not supported; use 'CPU'")
        options = {key: value for key, value in kwargs.items() if key in _OPTIONS}
        loaded = load(model)
        draw = find_draw(loaded)
        if draw is not None:
            raise UnsupportedOp(draw)
        return Prepared(loaded, options)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node on arrays for its (non-empty) inputs in order.

        outputs_info: dtype and shape of each output; inferred when not given.
        kwargs: opset_version (default: the newest), and options as for ``prepare``.
        """
        opset = kwargs.pop("opset_version", defs.onnx_opset_version())
        names = [name for name in node.input if name]
        if isinstance(inputs, Mapping):
            inputs = [inputs[name] for name in names if name in inputs]
        arrays = [np.asarray(x) for x in inputs]
        if len(arrays) != len(names):
            raise ShapeError(f"{node.op_type}: {len(arrays)} arrays for {len(names)} inputs")
        model = _node_model(node, dict(zip(names, arrays, strict=True)), outputs_info, opset)
        return cls.prepare(model, device, **kwargs).run(arrays)


def _uniform(value: Sequence[Any]) -> bool:
    """Is this nested list of numbers one tensor?"""
    return all(isinstance(x, bool | int | float | np.number) for x in value) or (
        all(isinstance(x, list | tuple) and _uniform(x) for x in value)
        and len({len(x) for x in value}) <= 1
    )


def _node_model(
    node: NodeProto,
    feeds: Mapping[str, np.ndarray],
    outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None,
    opset: int,
) -> ModelProto:
    """A model around one node. Raises InvalidModel when the node is not valid."""
    types = {
        name: helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in feeds.items()
    }
    outputs = [name for name in node.output if name]
    opsets = [OperatorSetIdProto(domain=node.domain, version=opset)]
    try:
        if outputs_info is not None:
            found: dict[str, TypeProto] = {
                name: helper.make_tensor_type_proto(
                    helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
                )
                for name, (dtype, shape) in zip(outputs, outputs_info, strict=True)
            }
        else:
            found = node_outputs(node, opset, types, feeds)
            if missing := [name for name in outputs if name not in found]:
                raise InvalidModel(
                    f"node '{node.name or node.op_type}' is not valid: the type of '{missing[0]}' "
                    "does not follow from its inputs. Check them, or give outputs_info"
                )
        graph = helper.make_graph(
            [node],
            node.name or node.op_type,
            [helper.make_value_info(name, kind) for name, kind in types.items()],
            [helper.make_value_info(name, found[name]) for name in outputs],
        )
        model = helper.make_model(graph, opset_imports=opsets)
        check_validity(model)
    except CompilerError:
        raise
    except Exception as error:  # onnx and protobuf raise several kinds
        raise InvalidModel(f"node '{node.name or node.op_type}' is not valid: {error}") from None
    return model


is_compatible = RCompilerBackend.is_compatible
prepare = RCompilerBackend.prepare
run_model = RCompilerBackend.run_model
run_node = RCompilerBackend.run_node
supports_device = RCompilerBackend.supports_device
