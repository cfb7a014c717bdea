"""Graphs, a node at a time: what a generator asks for, from what there is or made for it.

Every value is known while a graph is made (`evaluate`, in f64), so that a generator can say which
numbers an operator is defined for, and a node whose results are not finite is not taken.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from rcompiler.frontend import dtypes, fold

from . import catalog, evaluate

IR_VERSION = 10
FLOATS = ("float32", "float16", "bfloat16", "float64")
INTS = ("int64", "int32", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
NUMBERS = (*FLOATS, *INTS)
# Preferred of the types that an operator allows: what models are made of.
_WEIGHT = {"float32": 16, "float16": 4, "bfloat16": 3, "float64": 3, "int64": 4, "int32": 3}
_LIMIT = {"float16": 2e3, "bfloat16": 1e5, "float32": 1e5, "float64": 1e5}
SEQUENCE = "sequence"  # the type of what is no tensor: read by nodes that a generator adds at once
_SEQUENCES = {"Optional", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
              "SequenceMap", "SplitToSequence"}  # fmt: skip
_SIZES = (1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 16, 17)
MOST_ELEMENTS = 1500


class Reject(Exception):
    """A node that cannot be added here; another one is tried."""


@dataclass(frozen=True)
class Value:
    """A tensor of the graph. array: its numbers, floats in f64. constant: known to the compiler."""

    name: str
    dtype: str
    array: np.ndarray
    constant: bool
    drawn: bool = False  # random numbers: nobody can say which

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def rank(self) -> int:
        return self.array.ndim


@dataclass
class Maker:
    """One graph while it is made. All choices come from the seed.

    liked: the type of tensors wherever an operator allows it; "": of models, more often.
    every: whether also what the compiler may refuse, or no other type can be told from, is drawn.
    known: an operator, and the attributes that it has in the version that the graph is written in
    later on; others are left out.
    """

    seed: int
    opset: int = 0
    liked: str = ""
    every: bool = False
    known: tuple[str, frozenset[str]] | None = None
    nodes: list[NodeProto] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    constants: dict[str, TensorProto] = field(default_factory=dict)
    sequences: dict[str, onnx.TypeProto] = field(default_factory=dict)
    domains: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.numbers = np.random.default_rng(self.seed)
        self._pending: list[Callable[[], None]] = []
        self.count = 0

    # -- choices ---------------------------------------------------------------------------------
    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, items: Sequence[Any]) -> Any:
        if not items:
            raise Reject
        return self.random.choice(items)

    def int(self, low: int, high: int) -> int:
        """Of low..high, both included."""
        if high < low:
            raise Reject
        return self.random.randint(low, high)

    def dtype(self, types: Sequence[str]) -> str:
        """One of the types, those of models more often."""
        if not types:
            raise Reject
        if self.liked in types:
            return self.liked
        return self.random.choices(types, [_WEIGHT.get(t, 1) for t in types])[0]

    def among(self, types: Sequence[str], usual: Sequence[str]) -> list[str]:
        """Those of the types that are usual; with `every` the one that is liked, too."""
        return [t for t in types if t in usual or self.every and t == self.liked]

    def has(self, attribute: str) -> bool:
        """Whether the version that the graph is written in later on has an attribute."""
        return self.known is None or attribute in self.known[1]

    def types(self, op: str, parameter: str = "T", domain: str = "") -> tuple[str, ...]:
        """The standard's types of a type parameter."""
        return catalog.types_of(op, domain, self.opset, parameter)

    def shape(self, low: int = 0, high: int = 4, empty: bool = True) -> tuple[int, ...]:
        """A small shape of a rank from low to high; rarely with an extent of 0."""
        rank = self.int(low, high)
        while True:
            sizes = [self.pick(_SIZES) for _ in range(rank)]
            if rank and empty and self.chance(0.02):
                sizes[self.int(0, rank - 1)] = 0
            if math.prod(sizes) <= MOST_ELEMENTS:
                return tuple(sizes)

    def subset(self, items: Sequence[Any], least: int = 0) -> list[Any]:
        """Some of the items, in any order."""
        count = self.int(least, len(items))
        return self.random.sample(list(items), count)

    # -- values ----------------------------------------------------------------------------------
    def numbers_of(
        self, dtype: str, shape: Sequence[int], low: float | None = None, high: float | None = None
    ) -> np.ndarray:
        """Fresh numbers that the type represents, evenly spread over [low, high]."""
        shape = tuple(shape)
        if dtype == "bool":
            return self.numbers.random(shape) < 0.5
        kind = dtypes.numpy_dtype(dtype)
        if dtypes.is_integer(dtype):
            least, most = dtypes.limits(dtype)
            low = max(least, -20 if low is None else math.ceil(low))
            high = min(most, 20 if high is None else math.floor(high))
            if high < low:
                raise Reject
            return self.numbers.integers(int(low), int(high), shape, endpoint=True).astype(kind)
        low, high = -2.0 if low is None else low, 2.0 if high is None else high
        if dtype == "float8_e8m0fnu":  # a power of two, without a sign
            low, high = max(low, 0.125), max(high, 0.25)
        found = self.numbers.uniform(low, high, shape).astype(kind)
        # rounding must not leave the interval that an operator is defined for
        wide = np.clip(found.astype(np.float64), low, high)
        inner = found if (wide == found.astype(np.float64)).all() else _towards(found, low, high)
        return inner.astype(np.float64) if dtypes.is_float(dtype) else inner

    def leaf(
        self,
        dtype: str,
        shape: Sequence[int],
        low: float | None = None,
        high: float | None = None,
        constant: bool | None = None,
    ) -> Value:
        """A new input of the graph, or a constant of it."""
        array = self.numbers_of(dtype, shape, low, high)
        fixed = self.chance(0.35) if constant is None else constant
        return self.fixed(array, dtype) if fixed else self._input(array, dtype)

    def _input(self, array: np.ndarray, dtype: str) -> Value:
        name = self._name("x")
        self.inputs[name] = _typed(array, dtype)
        self.values[name] = Value(name, dtype, evaluate.wide(self.inputs[name]), False)
        return self.values[name]

    def fixed(self, array: Any, dtype: str = "int64") -> Value:
        """A constant: an initializer, or the result of a Constant node."""
        array = np.asarray(array)
        name = self._name("c")
        typed = _typed(array, dtype)
        tensor = numpy_helper.from_array(typed, name)
        if self.chance(0.2):
            node = helper.make_node("Constant", [], [name], value=tensor)
            self.nodes.append(node)
        else:
            self.constants[name] = tensor
        self.values[name] = Value(name, dtype, evaluate.wide(typed), True)
        return self.values[name]

    def value(
        self,
        types: Sequence[str],
        rank: int | tuple[int, int] = (0, 4),
        *,
        shape: Sequence[int] | None = None,
        low: float | None = None,
        high: float | None = None,
        where: Callable[[Value], bool] = lambda value: True,
        fresh: float = 0.25,
        empty: bool = True,
        constant: bool | None = None,
    ) -> Value:
        """A tensor of one of the types: one that there is, or a new one.

        shape, or else rank: what it has to be. low, high: between which its numbers have to be.
        where: what else holds; of a new one it is checked, too. constant: whether it is one.
        """
        lowest, highest = (rank, rank) if isinstance(rank, int) else rank

        def fits(v: Value) -> bool:
            return (
                not v.drawn
                and v.dtype in types
                and (lowest <= v.rank <= highest if shape is None else v.shape == tuple(shape))
                and (empty or v.array.size > 0)
                and constant in (None, v.constant)
                and _inside(v, low, high)
                and where(v)
            )

        if not self.chance(fresh):
            found = [v for v in self.values.values() if fits(v)]
            if found:
                made = [v for v in found if not v.name.startswith("c")]
                return self.pick(made or found)
        dtype = self.dtype(types)
        for _ in range(4):
            sizes = self.shape(lowest, highest, empty) if shape is None else shape
            made_value = self.leaf(dtype, sizes, low, high, constant)
            if where(made_value):
                return made_value
            self._forget(made_value)
        raise Reject

    def like(self, x: Value, **how: Any) -> Value:
        """Another tensor of the same type and shape."""
        return self.value([x.dtype], shape=x.shape, **how)

    def partner(self, x: Value, **how: Any) -> Value:
        """A tensor of the same type that broadcasts with ``x``, either way."""
        sizes = [1 if self.chance(0.25) else d for d in x.shape]
        sizes = sizes[self.int(0, len(sizes)) if self.chance(0.4) else 0 :]
        if self.chance(0.15) and len(sizes) == x.rank and x.rank < 5 and x.array.size < 200:
            sizes = [self.int(1, 3), *sizes]
        return self.value([x.dtype], shape=sizes, **how)

    # -- nodes -----------------------------------------------------------------------------------
    def node(
        self,
        op: str,
        inputs: Sequence[Value | str | None],
        outputs: int | Sequence[bool] = 1,
        domain: str = "",
        kind: str | None = None,
        **attributes: Any,
    ) -> list[Value]:
        """Add a node. outputs: how many, or which of them are wanted. kind: their element type,
        where it cannot be inferred from tensors.

        Raises Reject where its results are not what later nodes could be judged by.
        """
        wanted = [True] * outputs if isinstance(outputs, int) else list(outputs)
        given = [v.name if isinstance(v, Value) else v or "" for v in inputs]
        while given and not given[-1]:
            given.pop()
        names = [self._name("v") if want else "" for want in wanted]
        bound = self.known is not None and op == self.known[0]
        attributes = {
            k: v for k, v in attributes.items() if v is not None and (not bound or self.has(k))
        }
        node = helper.make_node(op, given, names, domain=domain, **attributes)
        node.name = f"{op}_{len(self.nodes)}"
        operands = {v.name: v for v in inputs if isinstance(v, Value)}
        made = self._evaluated(node, operands, kind)
        self.nodes.append(node)
        self.domains.add(domain)
        self.values.update({v.name: v for v in made})
        return made

    def _evaluated(
        self, node: NodeProto, operands: dict[str, Value], kind: str | None
    ) -> list[Value]:
        arrays = {name: value.array for name, value in self.values.items()}
        try:
            kinds = evaluate.result_types(node, operands, self.opsets())
            types = {name: value.dtype for name, value in self.values.items()}
            results = evaluate.apply(node, arrays, self.opsets(), types)
        except evaluate.Unjudged as error:
            raise Reject from error
        read = [self.values[n] for n in evaluate.reads(node) if n in self.values]
        folded = fold.is_small(node.op_type, (), ()) or node.op_type in ("Constant", "If")
        constant = folded and all(v.constant for v in read)
        out = []
        for name, array in zip(node.output, results, strict=False):
            if not name:
                continue
            dtype = SEQUENCE if node.op_type in _SEQUENCES else kind or kinds.get(name)
            dtype = dtype or dtypes.name_of(np.asarray(array))
            if not _usable(array, dtype):
                raise Reject
            drawn = node.op_type in evaluate.DRAWS
            out.append(Value(name, dtype, array, constant, drawn))
        return out

    def opsets(self) -> dict[str, int]:
        return {"": self.opset, **catalog.PREVIEW}

    def _name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def _forget(self, value: Value) -> None:
        self.values.pop(value.name)
        self.inputs.pop(value.name, None)
        self.constants.pop(value.name, None)
        self.nodes = [n for n in self.nodes if value.name not in n.output]

    # -- the whole -------------------------------------------------------------------------------
    def mark(self) -> tuple[Any, ...]:
        """What there is now, for `back`."""
        return (
            list(self.nodes), dict(self.values), dict(self.inputs), dict(self.constants)
        )  # fmt: skip

    def back(self, mark: tuple[Any, ...]) -> None:
        """As it was: a generator gave up in the middle."""
        self.nodes, self.values, self.inputs, self.constants = mark

    def model(self) -> ModelProto:
        """The graph: what no node reads is a result, and some of the rest as well."""
        made = [name for node in self.nodes for name in node.output if name in self.values
                and self.values[name].dtype != SEQUENCE]  # fmt: skip
        read = {name for node in self.nodes for name in evaluate.reads(node)}
        results = [n for n in made if n not in read and not n.startswith("c")]
        results += [n for n in made if n in read and n[0] == "v" and self.chance(0.15)]
        if not results:
            raise Reject
        tensors = {name: v for name, v in self.values.items() if v.dtype != SEQUENCE}
        infos = {name: _info(value) for name, value in tensors.items()}
        used = [name for name in self.inputs if name in read]
        graph = helper.make_graph(
            self.nodes,
            f"seed{self.seed}",
            [infos[name] for name in used],
            [infos[name] for name in results],
            [tensor for name, tensor in self.constants.items() if name in read],
            value_info=[infos[n] for n in made if n not in results],
        )
        imports = [helper.make_opsetid("", self.opset)]
        imports += [helper.make_opsetid(d, catalog.PREVIEW[d]) for d in sorted(self.domains) if d]
        return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)


def _info(value: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(value.name, dtypes.to_onnx(value.dtype), value.shape)


def _typed(array: np.ndarray, dtype: str) -> np.ndarray:
    return np.asarray(array).astype(dtypes.numpy_dtype(dtype))


def _inside(v: Value, low: float | None, high: float | None) -> bool:
    if low is None and high is None or not v.array.size:
        return True
    wide = v.array.astype(np.float64)
    return (low is None or wide.min() >= low) and (high is None or wide.max() <= high)


def _usable(array: Any, dtype: str) -> bool:
    """Whether later nodes may compute with it: of moderate size, finite, and no overflow near."""
    if dtype == SEQUENCE:
        return True
    if not isinstance(array, np.ndarray) or array.size > 4 * MOST_ELEMENTS or array.ndim > 8:
        return False
    if not dtypes.is_float(dtype):
        return dtypes.is_supported(dtype)
    return bool(np.isfinite(array).all()) and (abs(array) <= _LIMIT[dtype]).all()


def _towards(found: np.ndarray, low: float, high: float) -> np.ndarray:
    """Numbers that rounding took out of [low, high], on the nearest one of their type inside."""
    wide = found.astype(np.float64)
    middle = np.asarray((low + high) / 2).astype(found.dtype)
    return np.where((wide < low) | (wide > high), middle, found).astype(found.dtype)
