"""Walk a model node by node and let each node's lowering write its ops.

Every value has an exact static shape and, where its operands are known, a value: so shape
computations vanish, control flow is followed, and no shape inference is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, helper

from rcompiler.errors import CompilerError, InvalidModel, ShapeError, UnsupportedOp

from . import control, dtypes, fold, functions, load, registry, sequences  # noqa: F401
from .builder import Builder, Value
from .control import OptionalValue, SequenceValue, Unknown
from .registry import Context, Gap

MAX_DEPTH = 60  # of functions and subgraphs inside each other
MAX_NODES = 400_000  # executed nodes, loops unrolled


# What Python raises in a lowering when a malformed node got past its checks.
_MISFITS = (
    IndexError,
    ValueError,
    TypeError,
    KeyError,
    AssertionError,
    ZeroDivisionError,
    OverflowError,
    AttributeError,
    MemoryError,
)


@dataclass
class Frame:
    """What names mean inside one graph or function body."""

    names: dict[str, Any]
    opsets: Mapping[str, int]
    attributes: dict[str, AttributeProto] = field(default_factory=dict)
    outer: Frame | None = None
    prefix: str = ""
    uses: Mapping[str, int] = field(default_factory=dict)
    depth: int = 0

    def find(self, name: str) -> Any:
        frame: Frame | None = self
        while frame is not None:
            if name in frame.names:
                return frame.names[name]
            frame = frame.outer
        raise InvalidModel(f"the value '{name}' is read but nothing makes it")


class Interpreter:
    """One import. ``gaps``: a list to collect gaps in instead of stopping at the first."""

    def __init__(self, model: ModelProto, gaps: list[Gap] | None = None):
        self.b = Builder()
        self.gaps = gaps
        self.executed = 0
        self.functions = {(f.domain, f.name, f.overload): f for f in model.functions}

    # -- graphs -----------------------------------------------------------------------------
    def graph(
        self, graph: GraphProto, bind: Mapping[str, Any], outer: Frame, prefix: str = ""
    ) -> list[Any]:
        """Run a graph with its inputs bound; returns the values of its outputs."""
        frame = replace(
            outer,
            names=dict(bind),
            outer=outer,
            prefix=prefix or outer.prefix,
            uses=count_uses(graph.node, [o.name for o in graph.output]),
            depth=outer.depth + 1,
        )
        for tensor in graph.initializer:
            if tensor.name not in bind:
                frame.names[tensor.name] = self._constant(load.array_of(tensor))
        for sparse in graph.sparse_initializer:
            frame.names[sparse.values.name] = self._constant(dense(sparse))
        self.nodes(graph.node, frame)
        return [frame.find(o.name) for o in graph.output]

    def _constant(self, array: np.ndarray) -> Value:
        return self.b.constant_view(array, dtypes.name_of(array))

    def nodes(self, nodes: Iterable[NodeProto], frame: Frame) -> None:
        if frame.depth > MAX_DEPTH:
            raise InvalidModel(
                f"functions or subgraphs are nested deeper than {MAX_DEPTH}: is one calling itself?"
            )
        for index, node in enumerate(nodes):
            self.executed += 1
            if self.executed > MAX_NODES:
                raise UnsupportedOp(
                    f"the model executes more than {MAX_NODES} nodes after "
                    "unrolling its loops. Lower the trip counts"
                )
            node = functions.resolve(node, frame.attributes)
            name = frame.prefix + (node.name or f"{node.op_type}_{index}")
            try:
                results = self.node(node, name, frame)
            except (UnsupportedOp, ShapeError) as error:
                if self.gaps is None:
                    raise
                results = self._after_gap(node, name, frame, error)
            for output, result in zip(node.output, results, strict=False):
                if output:
                    frame.names[output] = result
            missing = [o for o in node.output[len(results) :] if o]
            for output in missing:
                frame.names[output] = Unknown(name)

    # -- one node ---------------------------------------------------------------------------
    def node(self, node: NodeProto, name: str, frame: Frame) -> list[Any]:
        """The node's results."""
        inputs = [frame.find(n) if n else None for n in node.input]
        version = opset_of(frame.opsets, node.domain)
        local = self.functions.get((node.domain, node.op_type, node.overload))
        if local is not None:
            return self.function(local, node, inputs, name, frame, version)
        if any(isinstance(v, Unknown) for v in inputs):
            return self._unknown(node, name, version, inputs)
        handler = control.find(node, inputs)
        if handler is not None:
            try:
                return handler(self, node, inputs, name, frame)
            except _MISFITS as error:
                raise InvalidModel(
                    f"node '{name}' ({node.op_type}) does not fit its operator: "
                    f"{type(error).__name__}: {error}"
                ) from error
        for value in inputs:
            if isinstance(value, SequenceValue | OptionalValue):
                raise registry.unsupported(
                    Gap(
                        name,
                        node.op_type,
                        f"a {registry.describe(value)} as operand is not translated",
                        "Use tensors",
                    )
                )
        return self.tensor_node(node, inputs, name, frame, version)

    def tensor_node(
        self, node: NodeProto, inputs: list[Value | None], name: str, frame: Frame, version: int
    ) -> list[Any]:
        """A node on tensors: folded, lowered, or expanded by its function body."""
        known = all(v is None or v.const is not None for v in inputs)
        if known and inputs and fold.is_linear(node.op_type, inputs):
            arrays = fold.evaluate(node, inputs, frame.opsets)
            if arrays is not None:
                return self._folded(node, arrays)
        fn = registry.find(node.op_type, node.domain)
        if fn is not None:
            results = self.lower(fn, node, inputs, name, frame, version)
            if known and inputs and fold.is_small(node.op_type, inputs, results):
                if any(r is not None and r.const is None for r in results):
                    arrays = fold.evaluate(node, inputs, frame.opsets)
                    if arrays is not None and self._agree(node, arrays, results):
                        return self._folded(node, arrays)
            return results
        if known and inputs and fold.is_tiny(node.op_type, inputs):
            arrays = fold.evaluate(node, inputs, frame.opsets)
            if arrays is not None:
                return self._folded(node, arrays)
        body = functions.body_of(node, version, inputs)
        if body is None:
            raise registry.unsupported(
                Gap(
                    name,
                    qualified(node),
                    "the operator is not translated",
                    "Express it with other operators, or as a function of the model",
                    "inputs: "
                    + ", ".join("-" if v is None else registry.describe(v) for v in inputs),
                )
            )
        return self.function(body, node, inputs, name, frame, version)

    def _folded(self, node: NodeProto, arrays: Sequence[np.ndarray]) -> list[Any]:
        rest = iter(arrays)
        return [self._constant(next(rest)) if n else None for n in node.output]

    @staticmethod
    def _agree(node: NodeProto, arrays: Sequence[np.ndarray], results: Sequence[Any]) -> bool:
        """Folding must not change a type or shape that the lowering promises."""
        wanted = [r for r, n in zip(results, node.output, strict=False) if n]
        return len(wanted) == len(arrays) and all(
            r is not None and r.shape == a.shape and r.dtype == dtypes.name_of(a)
            for r, a in zip(wanted, arrays, strict=True)
        )

    def lower(
        self,
        fn: registry.Lowering,
        node: NodeProto,
        inputs: list[Value | None],
        name: str,
        frame: Frame,
        version: int,
    ) -> list[Value | None]:
        """Call a lowering; errors that are not ours become ones that name the node."""
        self.b.at(name, node.op_type)
        for value in inputs:
            if value is not None and not dtypes.is_supported(value.dtype):
                raise registry.unsupported(
                    Gap(
                        name,
                        node.op_type,
                        f"element type {value.dtype} is not translated",
                        "Remove it from the model",
                    )
                )
        context = Context(
            self.b,
            node.op_type,
            name,
            node.domain,
            version,
            inputs,
            list(node.output),
            {a.name: _attribute(a) for a in node.attribute},
            [frame.uses.get(n, 0) for n in node.input],
        )
        try:
            made = fn(context)
        except _MISFITS as error:
            raise context.shape_error(
                f"the node does not fit its operator: {type(error).__name__}: {error}"
            ) from error
        results: list[Value | None] = [made] if isinstance(made, Value) else list(made)
        for value in results:
            if value is not None:
                load.check_size(f"node '{name}': a result", value.shape, value.dtype)
        return results

    def function(
        self,
        function: FunctionProto,
        node: NodeProto,
        inputs: Sequence[Any],
        name: str,
        frame: Frame,
        version: int,
    ) -> list[Any]:
        """Run a function body in place of a node."""
        names: dict[str, Any] = dict.fromkeys(function.input)
        names.update(zip(function.input, inputs, strict=False))
        opsets = {**frame.opsets, **{o.domain: o.version for o in function.opset_import}}
        inner = Frame(
            names,
            opsets,
            functions.attributes_of(function, node, version),
            None,
            name + "/",
            count_uses(function.node, function.output),
            frame.depth + 1,
        )
        self.nodes(function.node, inner)
        wanted = list(node.output) + [""] * len(function.output)
        return [
            inner.find(out) if want else None
            for out, want in zip(function.output, wanted, strict=False)
        ]

    # -- going on after a gap (rc-compile --check) --------------------------------------------
    def _after_gap(
        self, node: NodeProto, name: str, frame: Frame, error: CompilerError
    ) -> list[Any]:
        assert self.gaps is not None
        gap = getattr(error, "gap", None)
        if gap is None:
            gap = Gap(name, qualified(node), str(error), "See the reason")
        if all(g != gap for g in self.gaps):
            self.gaps.append(gap)
        inputs = [frame.find(n) if n else None for n in node.input]
        return self._inferred(node, name, opset_of(frame.opsets, node.domain), inputs)

    def _unknown(
        self, node: NodeProto, name: str, version: int, inputs: Sequence[Any]
    ) -> list[Any]:
        """Operands are unknown after an earlier gap: only whether the op exists can be said."""
        assert self.gaps is not None
        known = registry.find(node.op_type, node.domain) or control.is_control(node)
        if not known and functions.body_of(node, version, [None] * len(inputs)) is None:
            gap = Gap(
                name,
                qualified(node),
                "the operator is not translated",
                "Express it with other operators, or as a function of the model",
            )
            self.gaps.append(gap)
        return [Unknown(name) for _ in node.output]

    def _inferred(
        self, node: NodeProto, name: str, version: int, inputs: Sequence[Any]
    ) -> list[Any]:
        """Stand-ins with the types ONNX infers, so that later nodes can be checked too."""
        unknown: list[Any] = [Unknown(name) for _ in node.output]
        if not all(v is None or isinstance(v, Value) for v in inputs):
            return unknown
        pairs = [(n, v) for n, v in zip(node.input, inputs, strict=True) if v is not None]
        try:
            schema = onnx.defs.get_schema(node.op_type, version, node.domain)
            types = onnx.shape_inference.infer_node_outputs(
                schema,
                node,
                {
                    n: helper.make_tensor_type_proto(dtypes.to_onnx(v.dtype), v.shape)
                    for n, v in pairs
                },
                {
                    n: onnx.numpy_helper.from_array(v.const)
                    for n, v in pairs
                    if v.const is not None and v.size <= fold.TINY_ELEMENTS
                },
            )
        except Exception:  # C++ inference raises several kinds; then nothing is known
            return unknown
        for i, output in enumerate(node.output):
            kind = types.get(output)
            if kind is not None and kind.HasField("tensor_type"):
                dims = kind.tensor_type.shape.dim
                dtype = dtypes.from_onnx(kind.tensor_type.elem_type)
                complete = kind.tensor_type.HasField("shape") and dtypes.is_supported(dtype)
                if complete and all(d.HasField("dim_value") for d in dims):
                    unknown[i] = self.b.empty([d.dim_value for d in dims], dtype)
        return unknown


def count_uses(nodes: Iterable[NodeProto], outputs: Iterable[str]) -> Counter[str]:
    """How often each name is read."""
    uses = Counter(outputs)
    for node in nodes:
        uses.update(load.node_reads(node))
    return uses


def qualified(node: NodeProto) -> str:
    """``domain.op``, or the bare op of the standard's own domain."""
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def opset_of(opsets: Mapping[str, int], domain: str) -> int:
    """Version of a domain in force; the newest known when the model names none."""
    if domain in ("", "ai.onnx"):
        found = opsets.get("", opsets.get("ai.onnx"))
        return found if found is not None else onnx.defs.onnx_opset_version()
    return opsets.get(domain, 1)


def dense(sparse: onnx.SparseTensorProto) -> np.ndarray:
    """A sparse tensor as an array; ShapeError when it would be huge."""
    values, indices = load.array_of(sparse.values), load.array_of(sparse.indices)
    load.check_size(
        f"sparse tensor '{sparse.values.name}'", list(sparse.dims), dtypes.name_of(values)
    )
    out = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        out.reshape(-1)[indices] = values
    else:
        out[tuple(indices.T)] = values
    return out


def _attribute(attribute: AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if attribute.type == AttributeProto.STRINGS:
        return [x.decode("utf-8", "replace") for x in value]
    return list(value) if attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS) else value
