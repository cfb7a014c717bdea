"""Registration of op lowerings, and what a lowering sees of its node."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import onnx

from rcompiler.errors import Gap, InvalidModel, ShapeError, UnsupportedOp

from . import dtypes, load
from .builder import Builder, Value
from .operator_table import OperatorTable
from .value import SIZE_OF

Lowering = Callable[["Context"], "Value | Sequence[Value | Gap | None]"]
_TABLE: OperatorTable[Lowering] = OperatorTable("rcompiler.frontend.ops", "lowerings")

find = _TABLE.find
names = _TABLE.names


def lowering(*ops: str, domain: str = "") -> Callable[[Lowering], Lowering]:
    """Register ``fn(ctx) -> Value | list[Value]`` for one or more ops of a domain. In place of a
    result that is not made the list has None, or a `Gap` that says why to who reads it.
    """
    return _TABLE.register(*ops, domain=domain)


class InputType(NamedTuple):
    """name: what the types of several inputs have in common; "" for a type of its own. integer:
    whether only integers are allowed.
    """

    name: str = ""
    integer: bool = False


@cache
def input_types(op: str, version: int, domain: str, count: int) -> tuple[InputType, ...]:
    """What ONNX's schema says of `count` inputs of an operator; nothing of one that it has not."""
    try:
        schema = onnx.defs.get_schema(op, version, domain)
    except onnx.defs.SchemaError:
        return (InputType(),) * count
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}

    def told(formal: onnx.defs.OpSchema.FormalParameter) -> InputType:
        types = allowed.get(formal.type_str, (formal.type_str,))
        integer = all(re.fullmatch(r"tensor\(u?int\d+\)", each) for each in types)
        return InputType(formal.type_str if formal.type_str in allowed else "", integer)

    found, rest = [told(formal) for formal in schema.inputs], InputType()
    if found and schema.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic:
        last = found.pop()
        rest = last if schema.inputs[-1].is_homogeneous else last._replace(name="")
    return (*found, *[rest] * count)[:count]


@dataclass
class Context:
    """One node while it is lowered.

    inputs: values, None for an omitted optional one. opset: version of the node's domain.
    outputs: names of the results, "" where not wanted. uses: how many nodes read each input.
    in_model: what results are called in the model, where the node is one of a function body.
    """

    b: Builder
    op: str
    name: str
    domain: str
    opset: int
    inputs: list[Value | None]
    outputs: list[str]
    attributes: dict[str, Any]
    uses: list[int] = field(default_factory=list)
    in_model: list[str] = field(default_factory=list)

    def updates_state(self, index: int = 0, output: int = 0) -> bool:
        """Whether result ``output`` is the next value of the state that input ``index`` is, and
        this node alone reads that: what it leaves as it is need not be copied.
        """
        if not self.wants(output):
            return False
        value, result = self.input(index), (self.in_model or self.outputs)[output]
        [name] = [n for v, n in self.b.arguments if v.name == value.name] or [""]
        alone = index < len(self.uses) and self.uses[index] == 1
        return alone and name in self.b.state and self.b.state[name] == result

    # -- reading the node -------------------------------------------------------------------
    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as int, float, str, list, TensorProto or GraphProto."""
        return self.attributes.get(name, default)

    def has(self, index: int) -> bool:
        """True when input ``index`` is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def wants(self, index: int) -> bool:
        """True when result ``index`` is used by name."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def input(self, index: int) -> Value:
        """A required input."""
        if not self.has(index):
            raise self.shape_error(f"input {index} is missing")
        value = self.inputs[index]
        assert value is not None
        return value

    def optional(self, index: int) -> Value | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def const(self, index: int, why: str = "") -> np.ndarray:
        """Value of an input that has to be known while compiling; refuses otherwise."""
        value = self.input(index)
        if value.const is None:
            raise self.run_time(index, why)
        return value.const

    def ints(self, index: int, attribute: str, default: Any = None) -> list[int] | Any:
        """Integers given as input ``index`` (newer opsets) or as an attribute (older ones)."""
        if self.has(index):
            return [int(x) for x in self.const(index).reshape(-1)]
        value = self.attr(attribute, default)
        return [int(x) for x in value] if isinstance(value, list | tuple) else value

    def scalar(self, index: int, default: Any = None) -> Any:
        """A one-element constant input as a Python number."""
        if not self.has(index):
            return default
        array = self.const(index)
        if array.size != 1:
            raise self.shape_error(f"input {index} has {array.size} elements, one is expected")
        return array.reshape(-1)[0].item()

    def axis(self, axis: int, rank: int) -> int:
        """A non-negative axis, checked against ``rank``."""
        if not -rank <= axis < max(rank, 1):
            raise self.shape_error(f"axis {axis} is outside a tensor of rank {rank}")
        return axis % rank if rank else 0

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        return [self.axis(int(a), rank) for a in axes]

    # -- errors -----------------------------------------------------------------------------
    def gap(self, reason: str, remedy: str, needs: tuple[str, ...] = ()) -> Gap:
        """What is wrong with this node, with the types and shapes of its inputs."""
        kinds = ", ".join(describe(v) for v in self.inputs)
        op = f"{self.domain}.{self.op}" if self.domain else self.op
        return Gap(self.name, op, reason, remedy, f"inputs: {kinds}", needs)

    def refuse(self, reason: str, remedy: str) -> UnsupportedOp:
        """``raise ctx.refuse(...)``: a valid node that the compiler does not translate."""
        return UnsupportedOp(self.gap(reason, remedy))

    def run_time(self, index: int, why: str = "", bounds: tuple[str, ...] = ()) -> UnsupportedOp:
        """``raise ctx.run_time(...)``: an input that has to be known while compiling is not.

        bounds: names that a bound would do for as well.
        """
        what = f"input {index}"
        try:
            formal = onnx.defs.get_schema(self.op, self.opset, self.domain).inputs
            what += f" ('{formal[index].name}')"
        except (onnx.defs.SchemaError, IndexError):
            pass  # of a variadic operator: its number is all there is
        reason, remedy, needs = run_time_value(what, self.input(index))
        gap = self.gap(f"{reason}: {why}" if why else reason, remedy, needs)
        return UnsupportedOp(replace(gap, bounds=bounds))

    def shape_error(self, reason: str) -> ShapeError:
        """``raise ctx.shape_error(...)``: shapes or types that do not fit the operator."""
        return ShapeError(self.gap(reason, "Check the model, or the shapes given for its inputs"))

    def invalid(self, reason: str, remedy: str) -> InvalidModel:
        """``raise ctx.invalid(...)``: a node that no runtime could give a meaning to."""
        return InvalidModel(self.gap(reason, remedy))

    def check_size(self, shape: Sequence[int], dtype: str) -> None:
        """Refuse a result beyond any memory before something tries to allocate it."""
        load.check_size(shape, dtype, self.name, self.op, "node")

    def need_input_types(self) -> None:
        """Raises ShapeError for inputs of several element types for which the operator has one name
        (its type parameter: `T` of ONNX's schemas), and for others where it takes integers only.
        """
        types: dict[str, str] = {}
        told = input_types(self.op, self.opset, self.domain, len(self.inputs))
        for number, (type_, value) in enumerate(zip(told, self.inputs, strict=True)):
            if value is None or type_ == InputType():
                continue
            expected = value.dtype
            if type_.integer and not dtypes.is_integer(value.dtype):
                expected = "an integer"
            elif type_.name:
                expected = types.setdefault(type_.name, value.dtype)
            if value.dtype != expected:
                raise self.shape_error(f"input {number} is {value.dtype}; {expected} is expected")

    def need_numbers(self, *values: Value) -> None:
        """Refuse values of bool, and of floats of 8 bits or fewer."""
        for value in values:
            if not dtypes.is_number(value.dtype):
                reason = f"element type {value.dtype} is not translated"
                raise self.refuse(reason, "Cast it to float32")

    def need_float(self, index: int = 0) -> None:
        """Refuse inputs that are not f16, bf16, f32 or f64."""
        value = self.input(index)
        if not dtypes.is_float(value.dtype):
            raise self.refuse(
                f"element type {value.dtype} of input {index} is not translated",
                "Cast it to float32",
            )


def run_time_value(what: str, value: Any) -> tuple[str, str, tuple[str, ...]]:
    """Reason, remedy and needed inputs for a value that is only known at run time."""
    needs = tuple(sorted(value.inputs)) if isinstance(value, Value) else ()
    sizes = [name for name in needs if name.startswith(SIZE_OF)]
    if sizes:
        reason = f"{what} must be known while compiling, and depends on the {', '.join(sizes)}"
        return reason, "Give sizes in shapes, in the place of ranges", ()
    remedy = "Make it a constant of the model"
    if needs:
        given = ", ".join(f"'{name}': ..." for name in needs)
        remedy += f", or pass compile_onnx the value it depends on: values={{{given}}}"
    return f"{what} must be known while compiling", remedy, needs


def describe(value: Any) -> str:
    """``float32[2,3]``; "sequence" and the like for what is no tensor, "-" for an omitted input."""
    if value is None:
        return "-"
    if not isinstance(value, Value):
        return type(value).__name__.removesuffix("Value").lower()
    return f"{value.dtype}[{','.join(map(str, value.sizes))}]"
