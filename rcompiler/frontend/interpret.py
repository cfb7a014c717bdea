"""Walk a model node by node and let each node's lowering write its ops.

Every value has an exact static shape and, where its operands are known, a value: so shape
computations vanish, control flow is followed, and no shape inference is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    helper,
)

from rcompiler.errors import CompilerError, Gap, InvalidModel, ShapeError, UnsupportedOp
from rcompiler.support.extent import Size, highest

from . import (  # noqa: F401  their handlers
    bounds,
    conditional,
    control,
    dtypes,
    fold,
    functions,
    load,
    loop,
    registry,
    scan,
    sequences,
)
from .builder import Builder, Value
from .evaluate import evaluate
from .frame import Call, Frame, OptionalValue, SequenceValue, Unknown
from .inferred_types import node_outputs
from .likely import likely_interval
from .moved_bytes import note_moved_bytes, results_of
from .nodes import MISFITS, at_node, attribute_value, count_uses, not_made, qualified, subgraphs
from .registry import Context
from .sizes import arithmetic, ratios, rules
from .untranslated import remedy
from .value import SizeAtRunTime, extent_of

MAX_DEPTH = 60  # of functions and subgraphs inside each other
MAX_NODES = 400_000  # executed nodes, loops unrolled


class Interpreter:
    """One import. ``gaps``: a list to collect gaps in instead of stopping at the first."""

    def __init__(self, model: ModelProto, gaps: list[Gap] | None = None):
        self.b = Builder()
        self.gaps = gaps
        self.executed = 0
        self.functions = {(f.domain, f.name, f.overload): f for f in model.functions}

    def argument(self, name: str, sizes: Sequence[Size], dtype: str) -> Any:
        """A graph input of this shape."""
        whole = self.b.argument(name, [highest(size) for size in sizes], dtype)
        return self.b.part(name, whole, [extent_of(size) for size in sizes])

    def outcome(self, name: str, value: Any) -> Any:
        """What is returned as a result of the graph."""
        return value

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
                frame.names[tensor.name] = self._weight(tensor)
        for sparse in graph.sparse_initializer:
            frame.names[sparse.values.name] = self._weight(sparse)
        self.nodes(graph.node, frame)
        return [frame.find(o.name) for o in graph.output]

    def _weight(self, tensor: TensorProto | SparseTensorProto) -> Value | Unknown:
        """A constant of the model; one that cannot be translated is refused when it is read."""
        try:
            return self._constant(load.array_of(tensor))
        except (UnsupportedOp, ShapeError) as error:
            return Unknown(error.gap)

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
            call = Call(self, node, [frame.find(n) if n else None for n in node.input], name, frame)
            try:
                results = self.node(call)
            except (UnsupportedOp, ShapeError) as error:
                results = self.after_gap(call, at_node(error, node, name))
            results += [None] * (len(node.output) - len(results))
            for i, (output, result) in enumerate(zip(node.output, results, strict=False)):
                if output:
                    if result is None:
                        result = Unknown(not_made(node, name, i))
                    frame.names[output] = result

    # -- one node ---------------------------------------------------------------------------
    def node(self, call: Call) -> list[Any]:
        """The node's results."""
        node = call.node
        local = self.functions.get((node.domain, node.op_type, node.overload))
        if local is not None:
            return self.function(local, call)
        if any(isinstance(v, Unknown) for v in call.inputs):
            return self._unknown(call)
        handler = control.find(node)
        if handler is not None:
            return self._control(handler, call)
        for value in call.inputs:
            if isinstance(value, SequenceValue | OptionalValue):
                what = registry.describe(value)
                remedy = f"Take the tensor out of the {what} first"
                raise call.refuse(f"a {what} as operand is not translated", remedy)
        return self.tensor_node(call)

    def _control(self, handler: control.Handler, call: Call) -> list[Any]:
        """A node that is decided while compiling."""
        try:
            return list(handler(call))
        except SizeAtRunTime as error:
            raise call.refuse(f"{error.reason}: {error}", error.remedy) from error
        except MISFITS as error:
            raise InvalidModel(
                f"node '{call.name}' ({call.node.op_type}) does not fit its operator: "
                f"{type(error).__name__}: {error}"
            ) from error

    def tensor_node(self, call: Call) -> list[Any]:
        """A node on tensors: folded, lowered, or expanded by its function body."""
        node, inputs, opsets = call.node, call.inputs, call.frame.opsets
        sizes = arithmetic.evaluated(self.b, node, inputs)
        if sizes is not None:
            return sizes
        known = all(v is None or v.const is not None for v in inputs)
        linear = known and fold.is_linear(node.op_type, inputs)
        if linear and not fold.has_origin(node.op_type):
            arrays = evaluate(node, inputs, opsets)
            if arrays is not None:
                return self._folded(node, arrays)
        fn = registry.find(node.op_type, node.domain)
        if fn is not None:
            results = ratios.rounded(self.b, node, inputs, self.lower(fn, call))
            arithmetic.note(self.b, node, inputs, results)
            small = known and inputs and fold.is_small(node.op_type, inputs, results)
            if (small or linear) and any(isinstance(r, Value) and r.const is None for r in results):
                arrays = evaluate(node, inputs, opsets)
                if arrays is not None and self._agree(node, arrays, results):
                    return self._folded(node, arrays, results)
            return results
        body = self._body(call)
        if body is None and known and inputs and fold.is_tiny(node.op_type, inputs):
            arrays = evaluate(node, inputs, opsets)
            if arrays is not None:
                return self._folded(node, arrays)
        if body is None:
            raise call.refuse("the operator is not translated", remedy(node))
        return self.function(body, call)

    @staticmethod
    def _body(call: Call) -> FunctionProto | None:
        """The function body of a node; errors that are not ours become ones that name it."""
        try:
            return functions.body_of(call)
        except MISFITS as error:
            reason = f"the node does not fit its operator: {type(error).__name__}: {error}"
            raise ShapeError(call.gap(reason, "Check the model")) from error

    def _folded(
        self, node: NodeProto, arrays: Sequence[np.ndarray], lowered: Sequence[Any] = ()
    ) -> list[Any]:
        """The constants of a node, which come from where its lowered results do."""
        rest = iter(arrays)
        made = [self._constant(next(rest)) if n else None for n in node.output]
        for constant, result in zip(made, lowered, strict=False):
            if constant is not None and result is not None:
                constant.quantised = result.quantised
        return made

    @staticmethod
    def _agree(node: NodeProto, arrays: Sequence[np.ndarray], results: Sequence[Any]) -> bool:
        """Folding must not change a type or shape that the lowering promises."""
        wanted = [r for r, n in zip(results, node.output, strict=False) if n]
        return len(wanted) == len(arrays) and all(
            isinstance(r, Value) and r.shape == a.shape and r.dtype == dtypes.name_of(a)
            for r, a in zip(wanted, arrays, strict=True)
        )

    def lower(self, fn: registry.Lowering, call: Call) -> list[Any]:
        """Call a lowering; errors that are not ours become ones that name the node."""
        node = call.node
        self.b.at(call.name, node.op_type)
        for value in call.inputs:
            if value is not None and not dtypes.is_supported(value.dtype):
                raise call.refuse(*load.untranslated(value.dtype)[:2])
        context = Context(
            self.b,
            node.op_type,
            call.name,
            "" if node.domain == "ai.onnx" else node.domain,
            call.version,
            call.inputs,
            list(node.output),
            {a.name: attribute_value(a) for a in node.attribute},
            [call.frame.uses.get(n, 0) for n in node.input],
            [call.frame.in_model(n) for n in node.output],
        )
        context.need_input_types()
        try:
            made = self._made(fn, context)
        except SizeAtRunTime as error:
            raise rules.refusal(context, str(error), type(error)) from error
        except MemoryError as error:
            reason = f"there is not enough memory to compile it: {error}"
            remedy = "Use smaller shapes, such as a smaller batch"
            raise ShapeError(context.gap(reason, remedy)) from error
        except MISFITS as error:
            raise context.shape_error(
                f"the node does not fit its operator: {type(error).__name__}: {error}"
            ) from error
        results = results_of(made)
        note_moved_bytes(fn, context, results)
        for number, value in enumerate(results):
            if isinstance(value, Value):
                context.check_size(value.shape, value.dtype)
                if value.const is None and value.likely is None and not context.domain:
                    value.likely = likely_interval(
                        context.op, context.attributes, context.inputs, value, number
                    )
                if value.const is None and value.known is None and not context.domain:
                    value.known = bounds.of_result(
                        context.op, context.attributes, context.inputs, value, number
                    )
        return [Unknown(made) if isinstance(made, Gap) else made for made in results]

    @staticmethod
    def _made(fn: registry.Lowering, context: Context) -> rules.Results:
        """What a lowering makes, by the rule of the operator where sizes are known at run time."""
        if any(map(rules.concerns, context.inputs)) or rules.has_computed_sizes(context):
            rule = rules.find(context.op, context.domain)
            if rule is not None:
                return rule(context, fn)
            if any(map(rules.is_partial, context.inputs)):
                raise rules.refusal(context)
        return fn(context)

    def function(self, function: FunctionProto, call: Call) -> list[Any]:
        """Run a function body in place of a node."""
        frame, node = call.frame, call.node
        names: dict[str, Any] = dict.fromkeys(function.input)
        names.update(zip(function.input, call.inputs, strict=False))
        opsets = {**frame.opsets, **{o.domain: o.version for o in function.opset_import}}
        uses = count_uses(function.node, function.output)
        for formal, actual in zip(function.input, node.input, strict=False):
            uses[formal] = max(uses[formal], frame.uses.get(actual, 0))
        wanted = list(node.output) + [""] * len(function.output)
        inner = Frame(
            names,
            opsets,
            functions.attributes_of(function, node, call.version),
            None,
            call.name + "/",
            uses,
            frame.depth + 1,
            {o: frame.in_model(n) for o, n in zip(function.output, wanted, strict=False)},
        )
        self.nodes(function.node, inner)
        return [
            inner.find(out) if want and out else None
            for out, want in zip(function.output, wanted, strict=False)
        ]

    # -- going on after a gap (rc-compile --check) --------------------------------------------
    def note(self, error: CompilerError, op: str = "") -> Unknown:
        """List the gap of an error; the error is raised when nothing is listed, or it has none.

        op: the operator, for a gap that does not say it.
        """
        gap = error.gap
        if gap is None:
            raise error
        gap = gap if gap.op else replace(gap, op=op)
        if self.gaps is None:
            raise type(error)(gap) from None
        if gap not in self.gaps:
            self.gaps.append(gap)
        return Unknown()

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Within it gaps are raised, also where they are listed else."""
        gaps, self.gaps = self.gaps, None
        try:
            yield
        finally:
            self.gaps = gaps

    def reveal(self, value: Unknown, op: str = "") -> None:
        """Note the gap of a value that is read after all, by operator ``op``."""
        if value.gap is not None:
            self.note(UnsupportedOp(value.gap), op)

    def after_gap(self, call: Call, error: CompilerError) -> list[Any]:
        self.note(error, qualified(call.node))
        self._look_inside(call)
        return self._inferred(call)

    def _unknown(self, call: Call) -> list[Any]:
        """Operands are unknown after an earlier gap: only whether the op exists can be said."""
        node = call.node
        for value in call.inputs:
            if isinstance(value, Unknown):
                self.reveal(value, qualified(node))
        known = registry.find(node.op_type, node.domain) or control.find(node)
        if not known and not functions.has_body(node, call.version):
            self.note(call.refuse("the operator is not translated", remedy(node)))
        self._look_inside(call)
        return [Unknown()] * len(node.output)

    def _look_inside(self, call: Call) -> None:
        """The subgraphs of a node that is not run, for the gaps in them."""
        for graph in subgraphs(call.node):
            call.run(graph, {value.name: Unknown() for value in graph.input})

    def _inferred(self, call: Call) -> list[Any]:
        """Stand-ins with the types ONNX infers, so that later nodes can be checked too."""
        node, inputs = call.node, call.inputs
        unknown: list[Any] = [Unknown()] * len(node.output)
        if not all(v is None or isinstance(v, Value) for v in inputs):
            return unknown
        pairs = [(n, v) for n, v in zip(node.input, inputs, strict=True) if v is not None]
        types = node_outputs(
            node,
            call.version,
            {n: helper.make_tensor_type_proto(dtypes.to_onnx(v.dtype), v.shape) for n, v in pairs},
            {n: v.const for n, v in pairs if v.const is not None and v.size <= fold.TINY_ELEMENTS},
        )
        for i, output in enumerate(node.output):
            kind = types.get(output)
            if kind is not None and kind.HasField("tensor_type"):
                dims = kind.tensor_type.shape.dim
                dtype = dtypes.from_onnx(kind.tensor_type.elem_type)
                complete = kind.tensor_type.HasField("shape") and dtypes.is_supported(dtype)
                if complete and all(d.HasField("dim_value") for d in dims):
                    unknown[i] = self.b.empty([d.dim_value for d in dims], dtype)
        return unknown
