"""The front end's entry points: an ONNX model becomes S1, or a list of what keeps it from that."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from onnx import GraphProto, ModelProto, ValueInfoProto

from rcompiler.errors import Gap, InvalidModel, ShapeError, UnsupportedOp
from rcompiler.support.extent import Extent, Symbol
from rcompiler.support.random_keys import RANDOM_KEY

from . import load, nodes, registry, signature
from .builder import Value
from .contrib.domains import in_known_domains
from .frame import Frame, Unknown
from .index_checks import index_checks
from .interpret import Interpreter
from .packed.interpreter import PackedInterpreter
from .packed.packing import Packing
from .randomness import find_draw
from .rounded_weights import with_rounded_weights
from .state import State, check_alike, last, state_of
from .validity import check_text, checked

if TYPE_CHECKING:
    from torch_mlir import ir

Model: TypeAlias = str | os.PathLike | bytes | ModelProto
Walk: TypeAlias = Callable[[ModelProto, list[Gap] | None], Interpreter]


@dataclass(frozen=True)
class TensorSpec:
    """Name, static shape and element type (numpy / ml_dtypes name) of an input or output; extents:
    along each axis the size where that is known at run time only."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    extents: tuple[Extent | None, ...] = ()


@dataclass(frozen=True)
class Imported:
    """S1 of a model: text, the constants it refers to by key, and its signature. Behind the outputs
    the text has results that check indices, see `index_checks`. notes: what rounding did to
    weights, and what of the model was left out, a line each. sizes: the counts that the shapes of
    inputs tell, arguments behind these; counts: those that the model computes, results behind the
    outputs. state: by inputs the outputs that are their values in the next call; both are the last
    of all, in this order."""

    module_text: str
    constants: dict[str, np.ndarray]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    notes: tuple[str, ...] = ()
    sizes: tuple[Symbol, ...] = ()
    counts: tuple[Symbol, ...] = ()
    state: Mapping[str, str] = field(default_factory=dict)

    def parse(self, context: ir.Context | None = None) -> ir.Module:
        """The verified module. A new context keeps resource keys as they are: a context that has
        seen a key before renames it on parsing."""
        from torch_mlir import ir

        with context or ir.Context():
            return ir.Module.parse(self.module_text)


def import_onnx(
    model: Model,
    shapes: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    bits: int | None = None,
    limits: Mapping[str, int] | None = None,
    state: Mapping[str, str] | None = None,
    packing: Packing | None = None,
) -> Imported:
    """Translate a model (path, bytes or ModelProto, any opset the onnx package knows) to S1.

    shapes: shapes of inputs by name, or sizes of symbolic dimensions by name; a range in the place
    of a number leaves the size to run time, see `binding`.
    values: inputs whose values are fixed while compiling (they are no longer inputs).
    bits: that weights of f32 are rounded to, see `rounded_weights`; None: they are not.
    limits: of counts, by the names of results, the most that there is room for.
    state: outputs by the inputs whose next values they are, see `state.state_of`.
    packing: of a program for packed requests what it takes, its shapes among it.
    Raises InvalidModel, ShapeError, UnsupportedOp, and CompilerError for state that contradicts
    itself.
    """
    proto = load.load(model)
    notes: list[str] = []
    if bits is not None:
        proto, errors = with_rounded_weights(proto, bits)
        notes = [f"weights of {len(errors)} operators have {bits} bits", *map(str, errors)]
    kept = state_of(proto.graph, state, fixed_inputs(proto.graph, values)) if state else {}
    shapes, made = _walk(shapes, packing)
    interpreter, results = translate(proto, shapes, values, None, limits, made, kept)
    b = interpreter.b
    if kept and (b.told or b.sizes_computed(results)):
        raise ShapeError(
            "state: the sizes of a model with state are fixed when it is compiled; give numbers in "
            "shapes, in the place of ranges"
        )
    text = b.module(results, index_checks(b, [value for _, value in results]), kept)
    inputs = [(name, b.parts.get(name, v)) for v, name in b.arguments if v.name not in b.told]
    return Imported(
        text,
        b.constants,
        tuple(TensorSpec(name, v.shape, v.dtype, v.extents) for name, v in inputs),
        tuple(TensorSpec(name, v.shape, v.dtype, v.extents) for name, v in results),
        (*notes, *b.notes),
        tuple(b.told.values()),
        b.sizes_computed(results),
        kept,
    )


def check(
    model: Model,
    shapes: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    limits: Mapping[str, int] | None = None,
    packing: Packing | None = None,
) -> list[Gap]:
    """All that cannot be translated: inputs, weights, nodes and outputs, in graph order.

    After a gap the walk goes on with the types that ONNX infers; what reads a value of unknown type
    is only looked up by name. shapes, values, limits, packing: as for import_onnx.
    Raises InvalidModel when the model is not valid ONNX, ShapeError when ``shapes``, ``values`` or
    ``limits`` do not fit it.
    """
    gaps: list[Gap] = []
    shapes, made = _walk(shapes, packing)
    translate(load.load(model), shapes, values, gaps, limits, made)
    return gaps


def _walk(shapes: Mapping[str, Any] | None, packing: Packing | None) -> tuple[Any, Walk]:
    """The shapes of the inputs, and who walks over the model."""
    if packing is None:
        return shapes, Interpreter
    return packing.shapes, partial(PackedInterpreter, packing)


def translate(
    model: ModelProto,
    shapes: Mapping[str, Any] | None,
    values: Mapping[str, Any] | None,
    gaps: list[Gap] | None = None,
    limits: Mapping[str, int] | None = None,
    made: Walk = Interpreter,
    state: State | None = None,
) -> tuple[Interpreter, list[tuple[str, Value]]]:
    """The interpreter after a walk over the model, and the named results.

    gaps: a list that what cannot be translated is added to; without it the first is raised.
    limits: as for import_onnx. made: makes the interpreter of the model, whose nodes are in order.
    state: inputs and outputs that come behind all others.
    """
    check_text(model)
    model = checked(in_known_domains(model))
    shapes, values = {} if shapes is None else shapes, {} if values is None else values
    signature.check_given(model, shapes, values)
    graph = model.graph
    interpreter = made(model, gaps)
    interpreter.b.limits = dict(limits or {})
    weights, state = _weights(graph), state or {}
    interpreter.b.state = state
    taken = [v for v in last(graph.input, state) if v.name in values or v.name not in weights]

    def bound(kept: bool) -> dict[str, Any]:
        return {
            v.name: _input(interpreter, graph, v, shapes, values)
            for v in taken
            if (v.name in state) == kept
        }

    bind = bound(kept=False)
    _random_key(interpreter, model)
    bind |= bound(kept=True)
    _size_arguments(interpreter)
    opsets = {o.domain: o.version for o in model.opset_import}
    outputs = interpreter.graph(graph, bind, Frame({}, opsets))
    _check_limits(interpreter.b.limits, interpreter.b.limited)
    found = {
        o.name: interpreter.outcome(o.name, value)
        for o, value in zip(graph.output, outputs, strict=True)
    }
    results = []
    for declared in last(graph.output, state.values()):
        value = found[declared.name]
        if isinstance(value, Value):
            results.append((declared.name, value))
        else:
            _refuse_output(interpreter, graph, declared, value)
    known = {name: value for name, value in bind.items() if isinstance(value, Value)}
    check_alike(state, known, dict(results))
    return interpreter, results


def _random_key(interpreter: Interpreter, model: ModelProto) -> None:
    """The argument that the random numbers of a model are a function of, behind its own."""
    if find_draw(model) is None:
        return
    if any(value.name == RANDOM_KEY for value in model.graph.input):
        raise InvalidModel(
            f"the input '{RANDOM_KEY}' has the name of the argument that the model's random "
            "numbers come from; give it another name"
        )
    interpreter.b.random_key = interpreter.argument(RANDOM_KEY, [2], "uint32")


def _check_limits(limits: Mapping[str, int], limited: Iterable[str]) -> None:
    """Raise ShapeError for a bound of what is no count."""
    for name in limits:
        if name not in limited:
            known = ", ".join(sorted(limited)) or "none"
            raise ShapeError(
                f"bounds: '{name}' is no result whose number is known at run time only; of those "
                f"the model has: {known}"
            )


def _weights(graph: GraphProto) -> set[str]:
    """Names of what has a value in the model."""
    sparse = {t.values.name for t in graph.sparse_initializer}
    return {t.name for t in graph.initializer} | sparse


def fixed_inputs(graph: GraphProto, values: Mapping[str, Any] | None) -> set[str]:
    """Inputs that are none when the model is compiled: they have values."""
    return _weights(graph) | set(values or ())


def _input(
    interpreter: Interpreter,
    graph: GraphProto,
    value: ValueInfoProto,
    shapes: Mapping[str, Any],
    values: Mapping[str, Any],
) -> Value | Unknown:
    """A graph input as an argument, or as a constant where its value is given."""
    if signature.is_ignored(graph, value):
        interpreter.b.notes.append(f"input '{value.name}' is left out: no node reads it")
        return Unknown()
    try:
        dtype = signature.input_dtype(value)
        if value.name in values:
            array = signature.input_array(value, dtype, values[value.name])
            return interpreter.b.constant_view(array, dtype)
        shape = signature.input_shape(value, dtype, shapes)
    except (UnsupportedOp, ShapeError) as error:
        return interpreter.note(error, nodes.reader_of(graph, value.name))
    return interpreter.argument(value.name, shape, dtype)


def _size_arguments(interpreter: Interpreter) -> None:
    """An argument for each count that the shapes of inputs are made of."""
    given = interpreter.b.parts.values()
    symbols = {s for v in given for extent in v.extents if extent for s in extent.symbols}
    told = {e.symbols[0] for v in given for e in v.extents if e and e.multiple}
    for symbol in sorted(symbols):
        if sum(symbol.name == other.name for other in symbols) > 1:
            raise ShapeError(
                f"dimension '{symbol.name}' is given two ranges; give one by the name of the "
                "dimension"
            )
        if symbol not in told:
            raise ShapeError(
                f"no input has a dimension '{symbol.name}' of its own, or a multiple of it, which "
                "would tell its size at run time; give it as one number"
            )
        interpreter.b.size_argument(symbol)


def _refuse_output(
    interpreter: Interpreter, graph: GraphProto, declared: ValueInfoProto, value: Any
) -> None:
    """A result that is no tensor: a sequence, an optional, or not known after an earlier gap."""
    if isinstance(value, Unknown):
        interpreter.reveal(value)
        return
    reason = f"its type is {registry.describe(value)}; only tensors are compiled"
    remedy = "Return its elements as outputs of their own (SequenceAt, OptionalGetElement)"
    detail = signature.type_text(declared.type)
    gap = Gap(
        declared.name, nodes.maker_of(graph, declared.name), reason, remedy, detail, kind="output"
    )
    interpreter.note(UnsupportedOp(gap))
