"""S3 -> the scheduler's graph: values, operators and rKernels as plain data."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from torch_mlir import ir

from rcompiler.dialects.rtask import CAST, operands_of, operator_results, pinned_of
from rcompiler.dialects.uses import captures
from rcompiler.kernelgen.stages import workspace_bytes
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.recurrences import Recurrence, is_recurrence, row_offset
from rcompiler.linalg.values import (
    bytes_of,
    defining,
    element_of,
    integer,
    integers,
    ops_of,
    shape_of,
    string,
    symbol,
    symbols,
    yielded,
)
from rcompiler.linalg.views import RESHAPES, contiguous_offset
from rcompiler.passes import PassFailure
from rcompiler.passes.constants.fold import constant_of, resource_key, viewed
from rcompiler.passes.constants.model_context import ModelContext
from rcompiler.passes.forming.views import ALIGNMENT, is_empty, is_free_view
from rcompiler.passes.ir.operators import kernels_by_name, ops_in_module
from rcompiler.passes.schedule import zero_products
from rcompiler.passes.schedule.fresh_names import FreshNames
from rcompiler.rammer.graph import Graph, Operator, Value
from rcompiler.rammer.kernel import Access, DimAccess, Kernel
from rcompiler.runtime.deferred import whole


def kernel_of(op: ir.Operation) -> Kernel:
    """The scheduler's view of one rtask.kernel."""
    block = op.regions[0].blocks[0]
    results = yielded(block)
    attributes = op.attributes
    pairs = integers(op, "in_place") if "in_place" in attributes else ()
    updates = integers(op, "updates") if "updates" in attributes else ()
    time = "measured_ns" if "measured_ns" in attributes else "estimated_ns"
    return Kernel(
        name=string(op, "sym_name"),
        grid=integers(op, "grid"),
        reads=_accesses(attributes["reads"], operands_of(block, len(results))),
        writes=_accesses(attributes["writes"], results),
        estimated_ns=ir.FloatAttr(attributes[time]).value,
        on_chip_bytes=integer(op, "on_chip_bytes"),
        in_place=tuple(zip(pairs[::2], pairs[1::2], strict=True)),
        workspace=workspace_bytes(op, integers(op, "tile")),
        parts=_parts(op),
        pinned=pinned_of(op),
        updates=tuple(zip(updates[::2], updates[1::2], strict=True)),
    )


def _parts(op: ir.Operation) -> tuple[tuple[str, float], ...]:
    """What one rTask waits for, where the rKernel comes with an explanation."""
    explanation = op.attributes["explanation"] if "explanation" in op.attributes else None
    if not isinstance(explanation, ir.DictAttr) or "parts_ns" not in explanation:
        return ()
    parts = explanation["parts_ns"]
    if not isinstance(parts, ir.DictAttr):
        return ()
    return tuple((p.name, p.attr.value) for p in parts if isinstance(p.attr, ir.FloatAttr))


def _accesses(attribute: ir.Attribute, values: list[ir.Value]) -> tuple[Access, ...]:
    found = []
    for entry, value in zip(ir.ArrayAttr(attribute), values, strict=True):
        dims = tuple(DimAccess(*ir.DenseI64ArrayAttr(d)) for d in ir.ArrayAttr(entry))
        found.append(Access(shape_of(value), item_bytes(element_of(value)), dims))
    return tuple(found)


@dataclass
class ScheduleGraph:
    """The graph, and what only the IR knows of its values: types and constant attributes."""

    graph: Graph
    types: dict[str, ir.Type]
    constants: dict[str, ir.Attribute]


@dataclass(frozen=True)
class _Template:
    """An rOperator as it is written down: its kernels, what it reads and its results."""

    op: ir.Operation
    name: str
    kernels: tuple[str, ...]
    inputs: Sequence[ir.Value]
    results: Sequence[ir.Value]


@dataclass(frozen=True)
class _StepTemplate:
    """The function of a step: its rOperators and views, in order, and what it returns."""

    block: ir.Block
    items: Sequence[_Template | ir.Operation]
    returned: Sequence[ir.Value]

    @cached_property
    def handed_on(self) -> frozenset[ir.Value]:
        """What it returns, and what that is a view of."""
        found = set(self.returned)
        for item in reversed(self.items):
            if isinstance(item, ir.Operation) and item.results[0] in found:
                found.add(item.operands[0])
        return frozenset(found)


@dataclass(frozen=True)
class _Put:
    """A value that is to lie in another one, from a byte of it on."""

    part: str
    whole: str
    offset: int


class GraphBuilder:
    """Reads `func.func @main` in S3; what it calls in loops, once for each step.

    functions: @main, and those for steps.
    """

    def __init__(self, module: ir.Operation) -> None:
        self._module = module
        functions = ops_in_module(module, "func.func")
        found = [f for f in functions if "sym_visibility" not in f.attributes]
        if len(found) != 1:
            raise PassFailure(module, f"expects one function, @main, not {len(found)}")
        self.functions = [*found, *(f for f in functions if "sym_visibility" in f.attributes)]
        self._steps = {string(f, "sym_name"): f for f in functions}
        self._kernels = {name: kernel_of(op) for name, op in kernels_by_name(module).items()}
        self._names: dict[ir.Value, str] = {}
        self._values: dict[str, Value] = {}
        self._fresh = FreshNames(self._values)
        self._types: dict[str, ir.Type] = {}
        self._constants: dict[str, ir.Attribute] = {}
        self._output_names: list[str] = []
        self._puts: list[_Put] = []
        context = module.context
        self._arrays = context.arrays if isinstance(context, ModelContext) else {}
        self._finite: dict[str, bool] = {}  # by the keys of constants

    def build(self) -> ScheduleGraph:
        block = self.functions[0].regions[0].blocks[0]
        for index, argument in enumerate(block.arguments):
            self._add(argument, f"in{index}", kind="input", index=index)
        operators, concats = [], []
        for op in ops_of(block):
            if op.name == "rtask.operator":
                operator = self._operator(_template(op))
                if _is_plain_concat(op):
                    concats.append((operator, op))
                operators.append(operator)
            elif is_recurrence(op):
                operators += self._recurrence(op)
            elif op.name == "func.return":
                self._outputs(op)
            else:
                self._data(op)
        for put in self._puts:
            self._put(put)
        kept = [o for o in operators if not self._write_in_place(o, concats)]
        used = {k for o in kept for k in o.kernels}
        kernels = tuple(k for n, k in self._kernels.items() if n in used)
        graph = Graph(tuple(kept), tuple(self._values.values()), kernels)
        return ScheduleGraph(graph, self._types, self._constants)

    def _data(self, op: ir.Operation) -> None:
        """An op that computes nothing."""
        if is_free_view(op):
            self._view(op, "view", _byte_offset(op))
        elif op.name == "arith.constant":
            if not isinstance(op.results[0].type, ir.IndexType):  # a number of a loop
                self._constant(op)
        elif op.name not in (CAST, "tensor.empty"):
            # those: the results of an operator with several; an output without elements
            raise PassFailure(op, f"{op.name} is not part of an rOperator; run rtask-form first")

    def _view(self, op: ir.Operation, name: str, offset: int) -> None:
        """The bytes of an op's source from one on. Of a constant, which a loop begins with or takes
        rows of, they are a constant of their own: no buffer of constants is a part of another.
        """
        (result,), source = op.results, self._names[op.operands[0]]
        constant = self._constants.get(source)
        if constant is None:
            fresh = self._fresh.of(f"{source}.{name}")
            self._add(result, fresh, alias_of=source, alias_offset=offset)
        elif self._are_zeros(op.operands[0]):
            self._zeros(result)
        else:
            array = whole(constant_of(constant, self._arrays))
            first = offset // item_bytes(element_of(result))
            self._add_constant(result, viewed(array, first, ir.RankedTensorType(result.type)))

    # -- the steps of a loop
    def _recurrence(self, op: ir.Operation) -> Iterator[Operator]:
        """The rOperators of all steps."""
        loop = Recurrence(op)
        names = [self._begun(value, op) for value in loop.inits]
        functions: dict[str, _StepTemplate] = {}
        for number, known in enumerate(loop.steps()):
            self._names.update(zip(loop.carried, names, strict=True))
            for inner in loop.ops:
                if inner.name == "tensor.extract_slice":
                    offset = _row_bytes(inner, inner.operands[0], known)
                    self._view(inner, str(number), offset)
                elif inner.name == "tensor.insert_slice":
                    part, whole = (self._names[v] for v in [*inner.operands][:2])
                    self._puts.append(
                        _Put(part, whole, _row_bytes(inner, inner.operands[1], known))
                    )
                    self._names[inner.results[0]] = whole
                elif inner.name == "func.call":
                    callee = symbol(inner, "callee")
                    if callee not in functions:
                        functions[callee] = self._step_template(self._steps[callee])
                    yield from self._step(functions[callee], inner, number)
                elif inner.name != "arith.subi":
                    self._data(inner)
            names = [self._names[value] for value in loop.yielded]
        self._names.update(zip(op.results, names, strict=True))

    def _begun(self, init: ir.Value, loop: ir.Operation) -> str:
        """The value that a loop begins with; a new one for the rows that it collects."""
        owner = defining(init)
        if owner is None or owner.name != "tensor.empty":
            return self._names[init]
        self._add(init, self._fresh.of(f"{_callee(loop)}.rows"))
        return self._names[init]

    def _step_template(self, function: ir.Operation) -> _StepTemplate:
        """What there is to do for each step; its constants are the same in all of them."""
        block = function.regions[0].blocks[0]
        found: list[_Template | ir.Operation] = []
        for op in ops_of(block):
            if op.name == "rtask.operator":
                found.append(_template(op))
            elif is_free_view(op):
                found.append(op)
            elif op.name != "func.return":
                self._data(op)
        return _StepTemplate(block, found, [*[*block.operations][-1].operation.operands])

    def _step(self, function: _StepTemplate, call: ir.Operation, number: int) -> Iterator[Operator]:
        operands = (self._names[value] for value in call.operands)
        self._names.update(zip(function.block.arguments, operands, strict=True))
        for item in function.items:
            if isinstance(item, _Template):
                if self._is_zero(item, function):
                    self._zeros(item.results[0])
                else:
                    yield self._operator(item, f".{number}")
            else:
                self._data(item)
        results = [self._names[value] for value in function.returned]
        self._names.update(zip(call.results, results, strict=True))

    def _is_zero(self, written: _Template, function: _StepTemplate) -> bool:
        """Whether an rOperator of a step gives nothing but 0, which none of its tasks need make.
        What a step returns is not left out: a loop collects what tasks have written.
        """
        zeros = {value for value in written.inputs if self._are_zeros(value)}
        if not zeros or function.handed_on.intersection(written.results):
            return False
        finite = {value for value in written.inputs if self._are_finite(value)}
        return zero_products.is_zero(written.op, zeros, finite)

    def _are_zeros(self, value: ir.Value) -> bool:
        attribute = self._constants.get(self._names[value])
        return attribute is not None and zero_products.has_zeros(attribute)

    def _are_finite(self, value: ir.Value) -> bool:
        attribute = self._constants.get(self._names[value])
        if attribute is None:
            return False
        key = constant_key(attribute)
        if key not in self._finite:
            self._finite[key] = zero_products.is_finite(attribute, self._arrays.get(key))
        return self._finite[key]

    def _zeros(self, value: ir.Value) -> None:
        """Make a value the constant 0, of which all steps and loops share one."""
        type_ = ir.RankedTensorType(value.type)
        zero = ir.FloatAttr.get(type_.element_type, 0.0)
        attribute = ir.DenseElementsAttr.get_splat(type_, zero)
        key = constant_key(attribute)
        if key in self._values:
            self._names[value] = key
        else:
            self._add_constant(value, attribute)

    def _put(self, put: _Put) -> None:
        """Let the producer of a value write it to its place in another one."""
        part, whole = self._unshaped(self._values[put.part]), self._values[put.whole]
        if part.kind != "temp" or part.alias_of is not None or put.offset % ALIGNMENT:
            raise PassFailure(
                self._module,
                f"value {part.name} cannot lie at byte {put.offset} of {whole.name}: a loop "
                "collects what its steps compute, each value once, at aligned addresses",
            )
        self._values[part.name] = replace(part, alias_of=whole.name, alias_offset=put.offset)

    def _add(self, value: ir.Value, name: str, **fields: Any) -> None:
        self._names[value] = name
        self._values[name] = Value(name, bytes_of(value), **fields)
        self._types[name] = value.type

    def _operator(self, written: _Template, suffix: str = "") -> Operator:
        """suffix: of the name, for a step."""
        name = written.name + suffix
        inputs = tuple([self._names[v] for v in written.inputs])
        outputs = []
        for k, result in enumerate(written.results):
            self._add(result, self._fresh.of(name if len(written.results) == 1 else f"{name}.{k}"))
            outputs.append(self._names[result])
        return Operator(name, written.kernels, inputs, tuple(outputs))

    def _constant(self, op: ir.Operation) -> None:
        attribute = op.attributes["value"]
        if not isinstance(op.results[0].type, ir.RankedTensorType):
            raise PassFailure(op, "a scalar constant outside of an rOperator")
        self._add_constant(op.results[0], attribute)

    def _add_constant(self, value: ir.Value, attribute: ir.Attribute) -> None:
        key = constant_key(attribute)
        name = self._fresh.of(key)
        self._add(value, name, kind="constant", key=key)
        self._constants[name] = attribute

    def _outputs(self, op: ir.Operation) -> None:
        for index, value in enumerate(op.operands):
            if is_empty(value):
                continue
            name = self._names[value]
            if self._values[name].kind != "temp":
                raise PassFailure(
                    op,
                    f"output {index} is an input, a constant or another output; "
                    "run rtask-form first",
                )
            self._values[name] = replace(self._values[name], kind="output", index=index)
            self._output_names.append(name)

    def _write_in_place(
        self, operator: Operator, concats: list[tuple[Operator, ir.Operation]]
    ) -> bool:
        """Turn a concatenation of contiguous parts into views that their producers write."""
        op = next((o for known, o in concats if known is operator), None)
        if op is None:
            return False
        inner, _ = ops_of(op.regions[0].blocks[0])
        dim = integer(inner, "dim")
        parts = [self._unshaped(self._values[self._names[v]]) for v in inner.operands]
        leading = shape_of(op.results[0])[:dim]
        free = all(
            p.kind == "temp" and p.alias_of is None and not self._is_viewed_output(p) for p in parts
        )
        if math.prod(leading) != 1 or not free or len({p.name for p in parts}) != len(parts):
            return False
        if any(part.bytes % ALIGNMENT for part in parts[:-1]):
            return False
        whole, offset = operator.outputs[0], 0
        for part in parts:
            self._values[part.name] = replace(part, alias_of=whole, alias_offset=offset)
            offset += part.bytes
        return True

    def _unshaped(self, value: Value) -> Value:
        """The value that a reshape is a view of: the one that its producer writes."""
        while value.alias_of is not None and value.alias_offset == 0:
            source = self._values[value.alias_of]
            if source.bytes != value.bytes:
                break
            value = source
        return value

    def _is_viewed_output(self, part: Value) -> bool:
        outputs = (self._values[name] for name in self._output_names)
        return any(v.alias_of == part.name or self._unshaped(v) == part for v in outputs)


def _template(op: ir.Operation) -> _Template:
    name = string(op, "sym_name")
    if "kernels" not in op.attributes:
        raise PassFailure(op, f"rOperator {name} has no rKernel; run roller-tile first")
    return _Template(op, name, symbols(op, "kernels"), captures(op), operator_results(op))


def constant_key(constant: ir.Attribute) -> str:
    """The name of a constant's elements: that of its array, or one that equal ones share."""
    return resource_key(constant) or "d_" + hashlib.sha256(str(constant).encode()).hexdigest()[:16]


def _callee(loop: ir.Operation) -> str:
    """The function that a loop calls, or the first of them."""
    calls = (op for op in Recurrence(loop).ops if op.name == "func.call")
    return symbol(next(calls), "callee")


def _row_bytes(op: ir.Operation, whole: ir.Value, known: Mapping[ir.Value, int]) -> int:
    """Where the row of a step begins in a tensor of all of them."""
    offset = row_offset(op, known)
    offset = None if offset is None else offset * item_bytes(element_of(whole))
    if offset is None or offset % ALIGNMENT:
        raise PassFailure(op, f"the row of a step is not contiguous, or not at {ALIGNMENT} bytes")
    return offset


def _byte_offset(view: ir.Operation) -> int:
    """Where a free view begins in its source."""
    if view.name in RESHAPES:
        return 0
    return (contiguous_offset(view) or 0) * item_bytes(element_of(view.operands[0]))


def _is_plain_concat(op: ir.Operation) -> bool:
    """The operator's body is one tensor.concat of tensors from outside."""
    inner = ops_of(op.regions[0].blocks[0])
    return len(inner) == 2 and inner[0].name == "tensor.concat"
