"""A node of onnxruntime's domain, whose inputs are known by type and shape, while it is written as
standard operators.

    @operator("BiasGelu", "A:T B:T")
    def _bias_gelu(n: Node) -> Result:
        return n.op("Gelu", n.op("Add", "A", "B"))

Inputs and attributes are declared, so that all that a node has beside them is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import FunctionProto, NodeProto, ValueInfoProto, helper, numpy_helper

from rcompiler.errors import Gap, ShapeError, UnsupportedOp
from rcompiler.frontend import dtypes
from rcompiler.frontend.nodes import attribute_value
from rcompiler.frontend.registry import run_time_value
from rcompiler.frontend.value import Value

DOMAIN = "com.microsoft"
OPSET = 24  # of the standard operators that bodies are made of

GapOf = Callable[[str, str], Gap]  # of a reason and a remedy
Result = str | Sequence[str | None]
Write = Callable[["Node"], Result]
StepBody = Callable[[list[str], list[str]], tuple[Sequence[str], Sequence[str]]]

# What a type parameter stands for, by its first letter. One parameter is one type.
_INDICES = ("int32", "int64")
_KINDS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "T": ("a float", dtypes.is_float),
    "U": ("a float", dtypes.is_float),
    "I": ("int32 or int64", lambda dtype: dtype in _INDICES),
    "M": ("int32 or int64", lambda dtype: dtype in _INDICES),
    "Q": ("an integer", dtypes.is_integer),
    "N": ("a number", dtypes.is_number),
    "B": ("bool", lambda dtype: dtype == "bool"),
    "X": ("a tensor", lambda dtype: True),
}


@dataclass(frozen=True)
class Formal:
    """An input as it is declared: ``name:T``, or ``name:T?`` of one that may be left out.

    Those with a number sign in their names, ``x#:T x#_scale:U``, come last, and are repeated as
    often as there are such inputs; the sign stands for 0, 1, ...
    """

    name: str
    kind: str
    optional: bool

    @classmethod
    def of(cls, text: str) -> Formal:
        name, kind = text.split(":")
        return cls(name, kind.rstrip("?"), kind.endswith("?"))


@dataclass(frozen=True)
class Operator:
    """How an operator is written. attributes: its usual values; a type, of one that is required.

    outputs: how many results it has.
    """

    name: str
    inputs: tuple[Formal, ...]
    outputs: int
    attributes: Mapping[str, Any]
    write: Write

    def formals(self, count: int) -> tuple[Formal, ...]:
        """Those of a node with so many inputs."""
        fixed = [formal for formal in self.inputs if "#" not in formal.name]
        group = self.inputs[len(fixed) :]
        times = -(-(count - len(fixed)) // len(group)) if group else 0
        return (
            *fixed,
            *(
                replace(formal, name=formal.name.replace("#", str(number)))
                for number in range(max(times, 1))
                for formal in group
            ),
        )

    @property
    def summary(self) -> str:
        """What is translated, and what is not."""
        return " ".join((self.write.__doc__ or "").split())


OPERATORS: dict[str, Operator] = {}


def operator(
    names: str, inputs: str, outputs: int = 1, **attributes: Any
) -> Callable[[Write], Write]:
    """Register how operators are written. inputs: each as ``name:T``, see `Formal`."""

    def register(write: Write) -> Write:
        formals = tuple(map(Formal.of, inputs.split()))
        for name in names.split():
            if name in OPERATORS:
                raise ValueError(f"{name}: written twice")
            OPERATORS[name] = Operator(name, formals, outputs, attributes, write)
        return write

    return register


class Node:
    """One node, and the standard operators that it is being written as.

    Values are names: those of the inputs, and what `op` returns.
    """

    def __init__(
        self, operator: Operator, node: NodeProto, inputs: Sequence[Value | None], gap: GapOf
    ) -> None:
        self.operator, self.node, self._gap = operator, node, gap
        self.formals = operator.formals(len(inputs))
        self.given: dict[str, Value] = {}
        self.nodes: list[NodeProto] = []
        self._count = 0  # of nodes, also of bodies
        self._read_inputs(inputs)
        self.attributes = self._read_attributes()

    # -- reading ----------------------------------------------------------------------------
    def _read_inputs(self, inputs: Sequence[Value | None]) -> None:
        formals = self.formals
        if any(value is not None for value in inputs[len(formals) :]):
            raise self.shape_error(f"it has {len(inputs)} inputs; {len(formals)} are translated")
        if len([name for name in self.node.output if name]) > self.operator.outputs:
            raise self.shape_error(f"it has more than {self.operator.outputs} results")
        types: dict[str, str] = {}
        for number, formal in enumerate(formals):
            value = inputs[number] if number < len(inputs) else None
            if value is None:
                if not formal.optional:
                    raise self.shape_error(f"input {number} ('{formal.name}') is missing")
                continue
            what, fits = _KINDS[formal.kind[0]]
            same = types.setdefault(formal.kind, value.dtype)
            if not fits(value.dtype) or same != value.dtype:
                expected = same if fits(same) else what
                reason = f"'{formal.name}' is {value.dtype}; {expected} is expected"
                raise self.shape_error(reason)
            self.given[formal.name] = value

    def _read_attributes(self) -> dict[str, Any]:
        found = {
            name: None if isinstance(usual, type) else usual
            for name, usual in self.operator.attributes.items()
        }
        for attribute in self.node.attribute:
            name, value = attribute.name, attribute_value(attribute)
            if name not in found:
                raise self.refuse(f"attribute '{name}' is not translated", "Leave it out")
            usual = self.operator.attributes[name]
            kind = usual if isinstance(usual, type) else type(usual)
            if kind is tuple and isinstance(value, list):
                value = tuple(value)
            if type(value) is not kind:
                reason = f"attribute '{name}' is {value!r}; {kind.__name__} is expected"
                raise self.shape_error(reason)
            found[name] = value
        for name, value in found.items():
            if value is None:
                raise self.shape_error(f"attribute '{name}' is missing")
        return found

    def attr(self, name: str) -> Any:
        """An attribute that the operator declares."""
        return self.attributes[name]

    def attributes_given(self, *without: str) -> dict[str, Any]:
        """The attributes that the node says something of, as an operator of the standard has them.

        without: names of such that are not the standard's.
        """
        names = {attribute.name for attribute in self.node.attribute}.difference(without)
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self.attributes.items()
            if name in names
        }

    def has(self, name: str) -> bool:
        """Whether an input is given."""
        return name in self.given

    def shape(self, name: str, rank: int | None = None) -> tuple[int, ...]:
        """That of an input. Raises ShapeError where it has not `rank` dimensions."""
        found = self.given[name].shape
        if rank is not None and len(found) != rank:
            raise self.shape_error(f"'{name}' has {len(found)} dimensions; {rank} are expected")
        return found

    def need_shape(self, name: str, *wanted: Sequence[int]) -> None:
        """Raises ShapeError where an input that is given has none of these shapes."""
        if self.has(name) and all(self.shape(name) != tuple(shape) for shape in wanted):
            shapes = " or ".join(str(list(shape)) for shape in wanted)
            found = list(self.shape(name))
            raise self.shape_error(f"'{name}' has shape {found}; {shapes} is expected")

    def need_broadcast(self, name: str, shape: Sequence[int]) -> None:
        """Raises ShapeError where an input that is given does not broadcast to a shape."""
        if self.has(name):
            own = self.shape(name)
            tail = tuple(shape)[len(shape) - len(own) :]
            fits = len(own) <= len(shape) and all(
                a in (1, b) for a, b in zip(own, tail, strict=True)
            )
            if not fits:
                found = f"'{name}' of shape {list(own)}"
                raise self.shape_error(f"{found} does not broadcast to {list(shape)}")

    def dtype(self, name: str) -> str:
        return self.given[name].dtype

    def const(self, name: str) -> np.ndarray | None:
        """The value of an input, where it is known while compiling."""
        return self.given[name].const

    def known(self, name: str, why: str) -> np.ndarray:
        """The value of an input. Raises UnsupportedOp where it is not known while compiling."""
        value = self.const(name)
        if value is None:
            reason, remedy, needs = run_time_value(f"'{name}'", self.given[name])
            raise UnsupportedOp(replace(self._gap(f"{reason}: {why}", remedy), needs=needs))
        return value

    def wants(self, index: int) -> bool:
        """Whether a result is named."""
        return index < len(self.node.output) and bool(self.node.output[index])

    def refuse(self, reason: str, remedy: str) -> UnsupportedOp:
        """``raise n.refuse(...)``: a valid node that is not translated."""
        return UnsupportedOp(self._gap(reason, remedy))

    def shape_error(self, reason: str) -> ShapeError:
        """``raise n.shape_error(...)``: what does not fit the operator."""
        return ShapeError(self._gap(reason, "Check the model, or the shapes given for its inputs"))

    # -- writing ----------------------------------------------------------------------------
    def ops(self, op: str, *inputs: str, results: int, **attributes: Any) -> list[str]:
        """A node of the standard; the names of its results."""
        names = [f"{op}_{self._count}_{i}" for i in range(results)]
        self._count += 1
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names

    def op(self, op: str, *inputs: str, **attributes: Any) -> str:
        return self.ops(op, *inputs, results=1, **attributes)[0]

    def scan(
        self, body: StepBody, carried: Sequence[str], scanned: Sequence[str], dtype: str
    ) -> list[str]:
        """Scan along the first axis of ``scanned``: what is carried behind the last position, and
        the rows that were made. All values are of one type.

        body: makes, of what is carried and of a row of each tensor, what is carried on, and rows.
        """
        outside, self.nodes = self.nodes, []
        given = [
            [f"{kind}_{self._count}_{k}" for k in range(len(of))]
            for kind, of in (("carried", carried), ("row", scanned))
        ]
        after, made = body(*given)
        # a result of its own for each, as a name may be given once
        shown = [self.op("Identity", name) for name in (*after, *made)]

        def infos(names: Sequence[str]) -> list[ValueInfoProto]:
            kind = dtypes.to_onnx(dtype)
            return [helper.make_tensor_value_info(name, kind, None) for name in names]

        inside, self.nodes = self.nodes, outside
        graph = helper.make_graph(inside, "step", infos([*given[0], *given[1]]), infos(shown))
        return self.ops(
            "Scan",
            *carried,
            *scanned,
            results=len(shown),
            body=graph,
            num_scan_inputs=len(scanned),
        )

    def constant(self, array: Any, dtype: str | None = None) -> str:
        """A constant, of `dtype` where one is given."""
        array = np.asarray(array)
        if dtype is not None:
            array = array.astype(dtypes.numpy_dtype(dtype))
        return self.op("Constant", value=numpy_helper.from_array(array))

    def ints(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def add(self, first: str, *rest: str) -> str:
        """The sum from left to right; names of inputs that are left out count nothing."""
        formals = {formal.name for formal in self.formals}
        for name in rest:
            if name not in formals or self.has(name):
                first = self.op("Add", first, name)
        return first

    def scaled(self, x: str, factor: float, dtype: str) -> str:
        """Times a number; itself times 1."""
        return x if factor == 1 else self.op("Mul", x, self.constant(factor, dtype))

    def reshaped(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.ints(*shape), allowzero=0 if -1 in shape else 1)

    def transposed(self, x: str, *perm: int) -> str:
        return x if list(perm) == sorted(perm) else self.op("Transpose", x, perm=list(perm))

    def unsqueezed(self, x: str, *axes: int) -> str:
        return self.op("Unsqueeze", x, self.ints(*axes))

    def sliced(self, x: str, axis: int, first: int, end: int) -> str:
        """Elements `first` to `end` of an axis."""
        return self.op("Slice", x, self.ints(first), self.ints(end), self.ints(axis))

    def split(self, x: str, axis: int, *extents: int) -> list[str]:
        """Parts along an axis that have these extents."""
        return self.ops("Split", x, self.ints(*extents), results=len(extents), axis=axis)

    def cast(self, x: str, dtype: str) -> str:
        return self.op("Cast", x, to=dtypes.to_onnx(dtype))

    def function(self, results: Result) -> FunctionProto:
        """The body. Results that are not made are refused by who reads them."""
        made = [results] if isinstance(results, str) else [name or "" for name in results]
        return helper.make_function(
            DOMAIN,
            self.operator.name,
            [formal.name for formal in self.formals],
            made,
            self.nodes,
            [helper.make_opsetid("", OPSET)],
        )
