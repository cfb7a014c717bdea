"""A model in pieces: cut where nodes are refused for which a caller has functions.

A walk over the model finds the nodes, and what their results are. Each piece has the nodes that
wait for as many of these, one after the other; a constant goes to every piece that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, defs, helper, numpy_helper

from rcompiler.errors import CompilerError, Gap, UnsupportedOp
from rcompiler.support.random_keys import without_key

from . import dtypes, load
from .frame import Call, Frame, Unknown
from .interpret import Interpreter
from .nodes import attribute_value, qualified
from .onnx_graph import TensorSpec, translate
from .value import Value

_OWN = "rcompiler.fallback"  # domain of operators that ONNX's own does not have

# The types of a node's results: of (its name, its operator, operands as far as they are known, else
# zeros, attributes, results as ONNX infers or the model declares them: dtype "" of unknown ones).
Typed: TypeAlias = Callable[
    [str, str, Sequence[np.ndarray | None], Mapping[str, Any], Sequence[TensorSpec]],
    Sequence[TensorSpec],
]


@dataclass(frozen=True)
class Piece:
    """A part of the model that is compiled. reads, writes: names of its inputs and outputs."""

    model: ModelProto
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class CutNode:
    """A node that a function of the caller's stands for.

    op: its operator, as a caller names it. reads: names of values, None for an operand that is
    left out. constants: those of the values that are known. results: its outputs, "" in the place
    of the name of one that nobody reads. reason: why it is not compiled.
    """

    name: str
    op: str
    reads: tuple[str | None, ...]
    constants: Mapping[str, np.ndarray]
    attributes: Mapping[str, Any]
    results: tuple[TensorSpec, ...]
    reason: str


@dataclass(frozen=True)
class Cut:
    """steps: in order. constants: outputs of the model that are known."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    steps: tuple[Piece | CutNode, ...]
    constants: Mapping[str, np.ndarray]


def cut(
    model: Any,
    shapes: Mapping[str, Any] | None,
    values: Mapping[str, Any] | None,
    names: Iterable[str],
    typed: Typed,
) -> Cut | None:
    """The model in pieces; None where it is compiled as it is.

    names: operators that the caller has functions for, as "Op" or "domain::Op". typed: says what
    the results of a node are. model, shapes, values: as of import_onnx.
    Raises InvalidModel, ShapeError, UnsupportedOp.
    """
    proto = _in_own_domain(load.load(model), {*names})
    walks: list[_Walk] = []

    def walk(proto: ModelProto, gaps: list[Gap] | None) -> _Walk:
        walks.append(_Walk(proto, gaps, {*names}, typed))
        return walks[-1]

    _, results = translate(proto, shapes, values, made=walk)
    [found] = walks
    if not found.cuts:
        return None
    return _Pieces(found).all(results)


def op_name(node: NodeProto) -> str:
    """ "Op" of the standard's domain, else "domain::Op"."""
    domain = "" if node.domain in ("ai.onnx", _OWN) else node.domain
    return f"{domain}::{node.op_type}" if domain else node.op_type


def _in_own_domain(model: ModelProto, names: set[str]) -> ModelProto:
    """The model with operators that no opset of ONNX has in a domain of their own, since ONNX's
    checker refuses them."""

    def foreign(node: NodeProto) -> bool:
        known = node.domain not in ("", "ai.onnx") or node.op_type not in names
        return not known and not defs.has(node.op_type)

    if not any(foreign(node) for node in model.graph.node):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for node in copy.graph.node:
        if foreign(node):
            node.domain = _OWN
    copy.opset_import.append(helper.make_opsetid(_OWN, 1))
    return copy


class _Walk(Interpreter):
    """A walk that goes on behind a refused node for which there is a function."""

    def __init__(
        self, model: ModelProto, gaps: list[Gap] | None, names: set[str], typed: Typed
    ) -> None:
        super().__init__(model, gaps)
        self.model, self.main = model, Frame({}, {})
        self.cuts: dict[int, CutNode] = {}  # by the numbers of nodes
        self._names, self._typed = names, typed
        self._numbers = {n: i for i, node in enumerate(model.graph.node) for n in node.output if n}
        self._declared = {
            v.name: v.type.tensor_type for v in (*model.graph.value_info, *model.graph.output)
        }

    def nodes(self, nodes: Iterable[NodeProto], frame: Frame) -> None:
        if frame.depth == 1:
            self.main = frame
        super().nodes(nodes, frame)

    def after_gap(self, call: Call, error: CompilerError) -> list[Any]:
        op, gap = op_name(call.node), error.gap
        mine = op in self._names or call.node.op_type in self._names
        if not mine or not isinstance(error, UnsupportedOp) or gap is None:
            return super().after_gap(call, error)
        if call.frame is not self.main:
            remedy = "A fallback stands for a node of the graph itself: take it out of the body"
            raise UnsupportedOp(replace(gap, remedy=remedy))
        if any(v is not None and not isinstance(v, Value) for v in call.inputs):
            raise UnsupportedOp(replace(gap, remedy="A fallback takes tensors: there is another"))
        node = call.node
        attributes = {a.name: _plain(attribute_value(a), gap) for a in node.attribute}
        reads = tuple(name or None for name in node.input)
        known = {n: _array(v) for n, v in zip(node.input, call.inputs, strict=True) if _const(v)}
        tried = [None if v is None else _array(v) for v in call.inputs]
        specs = self._typed(call.name, op, tried, attributes, self._told(call))
        results = tuple(
            TensorSpec(name, spec.shape, spec.dtype)
            for name, spec in zip(node.output, specs, strict=True)
        )
        number = self._numbers[next(name for name in node.output if name)]
        self.cuts[number] = CutNode(call.name, op, reads, known, attributes, results, gap.reason)
        return [
            self.b.local(f"%cut_{number}_{i}", spec.shape, spec.dtype)
            for i, spec in enumerate(results)
        ]

    def _told(self, call: Call) -> list[TensorSpec]:
        """What ONNX infers of the results, or the model declares."""
        pairs = zip(call.node.output, self._inferred(call), strict=True)
        return [self._of(name, value) for name, value in pairs]

    def _of(self, name: str, value: Any) -> TensorSpec:
        if isinstance(value, Value):
            return TensorSpec(name, value.shape, value.dtype)
        declared, unknown = self._declared.get(name), TensorSpec(name, (), "")
        if declared is None or not declared.HasField("shape"):
            return unknown
        dtype = dtypes.from_onnx(declared.elem_type)
        dims = declared.shape.dim
        if not dtypes.is_supported(dtype) or not all(d.HasField("dim_value") for d in dims):
            return unknown
        return TensorSpec(name, tuple(d.dim_value for d in dims), dtype)


def _plain(value: Any, gap: Gap) -> Any:
    """An attribute as functions of numpy take it."""
    if isinstance(value, TensorProto):
        return load.array_of(value)
    if isinstance(value, int | float | str) or (
        isinstance(value, list) and all(isinstance(x, int | float | str) for x in value)
    ):
        return value
    raise UnsupportedOp(replace(gap, remedy="A fallback takes numbers, text and tensors alone"))


def _const(value: Value | None) -> bool:
    return value is not None and value.const is not None


def _array(value: Value) -> np.ndarray:
    """What is known of it, or zeros."""
    dtype = dtypes.numpy_dtype(value.dtype)
    if value.const is None:
        return np.zeros(value.shape, dtype)
    return np.ascontiguousarray(value.const).reshape(value.shape)


class _Pieces:
    """Makes the pieces of a model that was walked."""

    def __init__(self, walk: _Walk) -> None:
        self._walk, self._graph = walk, walk.model.graph
        self._nodes = list(self._graph.node)
        self._weights = {t.name: t for t in self._graph.initializer}
        self._sparse = {t.values.name: t for t in self._graph.sparse_initializer}
        self._maker = {n: i for i, node in enumerate(self._nodes) for n in node.output if n}
        self._reads = [[*load.node_reads(node)] for node in self._nodes]
        self._folded = self._of_constants()
        self._needed = self._reached()
        self._level = self._levels()

    def all(self, results: Sequence[tuple[str, Value]]) -> Cut:
        """The steps, in order."""
        steps: list[Piece | CutNode] = []
        for level in sorted({self._level[i] for i in self._needed}):
            mine = [i for i in sorted(self._needed) if self._level[i] == level]
            piece = self._piece([i for i in mine if i not in self._walk.cuts])
            steps += [piece] if piece else []
            steps += [self._walk.cuts[i] for i in mine if i in self._walk.cuts]
        inputs = [TensorSpec(name, v.shape, v.dtype) for v, name in self._walk.b.arguments]
        outputs = [TensorSpec(name, v.shape, v.dtype) for name, v in results]
        known = {name: _array(value) for name, value in results if _const(value)}
        # each part draws random numbers of its own, by a key of its own
        return Cut(tuple(without_key(inputs)), tuple(outputs), tuple(steps), known)

    def _value(self, name: str) -> Any:
        return self._walk.main.find(name)

    def _known(self, name: str) -> bool:
        value = self._value(name)
        return isinstance(value, Value) and value.const is not None

    def _of_constants(self) -> set[int]:
        """Nodes that read nothing but constants: each piece has its own."""
        found: set[int] = set()
        for number, node in enumerate(self._nodes):
            own = all(self._is_given(n) or self._maker.get(n) in found for n in self._reads[number])
            if own and number not in self._walk.cuts and all(map(self._known, _outputs(node))):
                found.add(number)
        return found

    def _is_given(self, name: str) -> bool:
        return name in self._weights or name in self._sparse

    def _reached(self) -> set[int]:
        """Nodes that outputs wait for, but for constants."""
        found: set[int] = set()
        todo = [output.name for output in self._graph.output]
        while todo:
            name = todo.pop()
            number = self._maker.get(name)
            if number is None or number in found or self._known(name):
                continue
            found.add(number)
            todo += self._reads[number]
        return found

    def _levels(self) -> dict[int, int]:
        """Of each needed node: how many cuts, one after the other, it waits for."""
        level: dict[int, int] = {}
        for number in sorted(self._needed):
            before = [self._maker.get(name) for name in self._reads[number]]
            level[number] = max(
                (level[i] + (i in self._walk.cuts) for i in before if i in level), default=0
            )
        return level

    def _piece(self, numbers: Sequence[int]) -> Piece | None:
        """A model of nodes, with constants of its own."""
        mine = set(numbers)
        made = {name for i in mine for name in _outputs(self._nodes[i])}
        writes = sorted(name for name in made if self._is_read_outside(name, mine))
        if not writes:
            return None
        reads: set[str] = set()
        constants: dict[str, TensorProto] = {}
        todo = [name for i in numbers for name in self._reads[i]]
        while todo:
            name = todo.pop()
            maker = self._maker.get(name)
            if maker in mine or self._is_given(name) or name in constants:
                continue
            if maker in self._folded and maker is not None:
                mine.add(maker)
                todo += self._reads[maker]
            elif self._known(name):
                constants[name] = numpy_helper.from_array(_array(self._value(name)), name)
            else:
                reads.add(name)
        return self._model(sorted(mine), sorted(reads), writes, constants)

    def _is_read_outside(self, name: str, mine: set[int]) -> bool:
        if self._known(name):
            return False
        if any(output.name == name for output in self._graph.output):
            return True
        return any(name in self._reads[i] for i in self._needed - mine)

    def _model(
        self,
        numbers: Sequence[int],
        reads: Sequence[str],
        writes: Sequence[str],
        constants: Mapping[str, TensorProto],
    ) -> Piece:
        nodes = [self._nodes[i] for i in numbers]
        used = {name for i in numbers for name in self._reads[i]}
        whole = self._walk.model
        graph = helper.make_graph(
            nodes,
            whole.graph.name or "piece",
            [self._info(name) for name in reads],
            [self._info(name) for name in writes],
            [*constants.values(), *(t for n, t in self._weights.items() if n in used)],
            sparse_initializer=[t for n, t in self._sparse.items() if n in used],
        )
        model = helper.make_model(
            graph, opset_imports=whole.opset_import, functions=whole.functions
        )
        model.ir_version = whole.ir_version
        return Piece(model, tuple(reads), tuple(writes))

    def _info(self, name: str) -> Any:
        value = self._value(name)
        if isinstance(value, Unknown) or not isinstance(value, Value):
            maker = self._nodes[self._maker[name]] if name in self._maker else None
            raise UnsupportedOp(
                Gap(
                    maker.name if maker is not None else name,
                    qualified(maker) if maker is not None else "",
                    f"its result '{name}' is no tensor, and crosses a node that a fallback runs",
                    "Make the nodes on both sides of the fallback read tensors",
                )
            )
        return helper.make_tensor_value_info(name, dtypes.to_onnx(value.dtype), value.shape)


def _outputs(node: NodeProto) -> list[str]:
    return [name for name in node.output if name]
