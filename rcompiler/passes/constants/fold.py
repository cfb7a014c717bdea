"""Evaluate what depends on constants only: repacked weights, padded parameters.

What the pass fold-constants does, as a function of the arrays that travel beside the module:

    %w = arith.constant dense_resource<w_0123> : tensor<64x64x3x3xf32>
    %e = tensor.expand_shape %w ...        %p = linalg.generic (permutation) ins(%e) ...
becomes
    %p = arith.constant dense_resource<w_89ab> : tensor<4x4x3x3x16x16xf32>

Nothing is computed yet (`Deferred`), so a chain is copied once: to its place in the weights of the
model. What is made of one source by steps that a compiled file can repeat knows them (`Derived`).
The key of a result is a hash of the keys it came from and of what was done, not of its bytes.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith

from rcompiler.errors import ArtifactError
from rcompiler.linalg.constants import scalar_of
from rcompiler.linalg.dense import dense_array
from rcompiler.linalg.element_types import numpy_type
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.pieces import pad_value
from rcompiler.linalg.values import bytes_of, integer, integers, ops_of, shape_of
from rcompiler.passes.constants.generic import evaluate_generic
from rcompiler.passes.constants.moves import derive, is_splat
from rcompiler.passes.ir.operators import bodies
from rcompiler.passes.ir.tensor_ir import erase_dead
from rcompiler.runtime.deferred import Constant, whole
from rcompiler.runtime.recipes import Pad, Reshape

INLINE_ELEMENTS = 64  # larger constants live beside the module
MOST_BYTES = 1 << 30  # of one result
_KEY = re.compile(r"dense_resource<([^<>]+)>")
_Evaluate = Callable[[ir.Operation, Sequence[Constant]], tuple[Constant, str] | None]


@dataclass(frozen=True)
class Known:
    """A constant tensor: its elements (any strides; all 0 for a splat) and where it came from."""

    array: Constant
    digest: str


def fold_constants(
    module: ir.Operation, constants: Mapping[str, Constant], *, max_bytes: int = MOST_BYTES
) -> dict[str, Constant]:
    """Replace tensor ops on constants in ``module`` by constants; drop unused arrays.

    ``constants``: KEY -> array of the module's ``dense_resource`` constants; it is not changed.
    Returns the arrays of the new module: unchanged ones are the same objects, new ones may be views
    with any strides, or deferred. A result larger than ``max_bytes`` stays an op. Folded:
    expand/collapse_shape, pad, extract_slice, insert_slice, concat, generics that permute,
    broadcast, do simple arithmetic element by element or multiply by a small matrix. Results of up
    to 64 elements and splats become inline constants.
    """
    arrays: dict[str, Constant] = dict(constants)
    for body in bodies(module):
        _fold_block(body, arrays, max_bytes)
        erase_dead(body)
    used = constant_keys(module)
    return {key: array for key, array in arrays.items() if key in used}


def _fold_block(block: ir.Block, arrays: dict[str, Constant], max_bytes: int) -> None:
    known: dict[ir.Value, Known] = {}
    folded: dict[ir.Operation, None] = {}
    for op in ops_of(block):
        if len(op.results) != 1 or not isinstance(op.results[0].type, ir.RankedTensorType):
            continue
        if op.name in ("arith.constant", "linalg.fill"):
            found = _leaf(op, arrays)
        elif (
            op.name in _EVALUATE
            and op.operands[0] in known  # of most ops it is not: that tells at once
            and 0 < bytes_of(op.results[0]) <= max_bytes
        ):
            found = _evaluate(op, known)
            if found is not None:
                folded[op] = None
        else:
            found = None
        if found is not None:
            known[op.results[0]] = found
    made: dict[str, ir.Value] = {}  # equal arrays once: the first one stands in front of the others
    for op in folded:
        result = op.results[0]
        if any(use.owner.operation not in folded for use in result.uses):
            digest = known[result].digest
            if digest not in made:
                made[digest] = _materialise(op, known[result], arrays)
            result.replace_all_uses_with(made[digest])


def _leaf(op: ir.Operation, arrays: Mapping[str, Constant]) -> Known | None:
    """A constant or a filled tensor."""
    kind = ir.RankedTensorType(op.results[0].type)
    if op.name == "linalg.fill":
        scalar = scalar_of(op.operands[0])
        if scalar is None:
            return None
        array = np.broadcast_to(np.asarray(scalar, numpy_type(kind.element_type)), kind.shape)
        return Known(array, _hash([], f"splat {scalar.tobytes().hex()}", kind))
    attribute = op.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        return _inline(attribute, kind)
    key = resource_key(attribute)
    return Known(arrays[key], key) if key is not None and key in arrays else None


def _inline(attribute: ir.DenseElementsAttr, kind: ir.RankedTensorType) -> Known | None:
    dtype = numpy_type(kind.element_type)
    if dtype is None:
        return None
    if attribute.is_splat:
        number: Any = attribute.get_splat_value()
        array = np.broadcast_to(np.asarray(number.value).astype(dtype), kind.shape)
        return Known(array, _hash([], f"splat {array.reshape(-1)[:1].tobytes().hex()}", kind))
    array = dense_array(attribute)
    return Known(array, _hash([], f"dense {array.tobytes().hex()}", kind))


def _hash(parents: list[str], text: str, kind: ir.Type) -> str:
    return "w_" + hashlib.sha256(f"{parents} {text} : {kind}".encode()).hexdigest()[:16]


# -- evaluation ----------------------------------------------------------------------------------
def _evaluate(op: ir.Operation, known: Mapping[ir.Value, Known]) -> Known | None:
    """The result of an op on known operands, and a text that says what was done."""
    inputs = [v for v in op.operands if isinstance(v.type, ir.RankedTensorType)]
    if op.name == "linalg.generic":
        inputs = Generic(op).inputs
    found = [known.get(v) for v in inputs]
    parents = [k for k in found if k is not None]
    if not parents or len(parents) != len(found):
        return None
    done = _EVALUATE[op.name](op, [k.array for k in parents])
    if done is None:
        return None
    array, text = done
    return Known(array, _hash([k.digest for k in parents], text, op.results[0].type))


def _reshape(op: ir.Operation, inputs: Sequence[Constant]) -> tuple[Constant, str]:
    [array] = inputs
    return derive(array, Reshape(tuple(shape_of(op.results[0])))), "reshape"


def _pad(op: ir.Operation, inputs: Sequence[Constant]) -> tuple[Constant, str] | None:
    number = scalar_of(pad_value(op))
    [array] = inputs
    if number is None or len(op.operands) != 1:
        return None
    low, high = integers(op, "static_low"), integers(op, "static_high")
    shape, fill = tuple(shape_of(op.results[0])), number.tobytes()
    text = f"pad {low} {high} {fill.hex()}"
    if isinstance(array, np.ndarray) and is_splat(array):
        if array.reshape(-1)[:1].tobytes() == fill:
            return np.broadcast_to(array.reshape(-1)[0], shape), text
    return derive(array, Pad(tuple(low), shape, fill)), text


def _box(op: ir.Operation) -> tuple[tuple[slice, ...], str]:
    names = ("static_offsets", "static_sizes", "static_strides")
    triples = list(zip(*(integers(op, n) for n in names), strict=True))
    return tuple(slice(o, o + (n - 1) * s + 1, s) for o, n, s in triples), f"box {triples}"


def _extract_slice(op: ir.Operation, inputs: list[np.ndarray]) -> tuple[np.ndarray, str] | None:
    box, text = _box(op)
    if len(op.operands) != 1:
        return None
    return inputs[0][box].reshape(shape_of(op.results[0])), "extract " + text


def _insert_slice(op: ir.Operation, inputs: list[np.ndarray]) -> tuple[np.ndarray, str] | None:
    box, text = _box(op)
    if len(op.operands) != 2:
        return None
    source, into = inputs
    made = into.copy()
    made[box] = source.reshape(made[box].shape)
    return made, "insert " + text


def _concat(op: ir.Operation, inputs: list[np.ndarray]) -> tuple[np.ndarray, str]:
    axis = integer(op, "dim")
    # i8 may be stored as int8 or uint8: the IR has no signs
    alike = [a if a.dtype == inputs[0].dtype else a.view(inputs[0].dtype) for a in inputs]
    return np.concatenate(alike, axis), f"concat {axis}"


def _moving(
    move: Callable[[ir.Operation, list[np.ndarray]], tuple[np.ndarray, str] | None],
) -> _Evaluate:
    """A move of whole arrays as an evaluation of constants."""
    return lambda op, inputs: move(op, [whole(array) for array in inputs])


_EVALUATE: dict[str, _Evaluate] = {
    "linalg.generic": evaluate_generic,
    "tensor.collapse_shape": _reshape,
    "tensor.concat": _moving(_concat),
    "tensor.expand_shape": _reshape,
    "tensor.extract_slice": _moving(_extract_slice),
    "tensor.insert_slice": _moving(_insert_slice),
    "tensor.pad": _pad,
}


# -- the new constants -----------------------------------------------------------------------------
def _materialise(op: ir.Operation, known: Known, arrays: dict[str, Constant]) -> ir.Value:
    kind, array = op.results[0].type, known.array
    small = math.prod(array.shape) <= INLINE_ELEMENTS
    if small or (isinstance(array, np.ndarray) and is_splat(array)):
        text = f"dense<{_elements(whole(array))}>"
    else:
        text = f"dense_resource<{known.digest}>"
    with ir.InsertionPoint(op), op.location:
        attribute = ir.Attribute.parse(f"{text} : {kind}")
        # MLIR gives a name that the context has seen before, in another pass, a number
        if (key := resource_key(attribute)) is not None:
            arrays[key] = array
        return arith.constant(kind, attribute)


def _elements(array: np.ndarray) -> str:
    """Elements as MLIR text: the exact bytes, or true/false."""
    one = array.reshape(-1)[:1] if is_splat(array) else array
    if array.dtype == np.bool_:
        return str(bool(one[0]) if is_splat(array) else array.tolist()).lower()
    return f'"0x{np.ascontiguousarray(one).tobytes().hex()}"'


def viewed(array: np.ndarray, first: int, kind: ir.RankedTensorType) -> ir.Attribute:
    """Elements of a constant from one on, in their order, as a tensor of another type."""
    part = array.reshape(-1)[first : first + math.prod(kind.shape)]
    return ir.Attribute.parse(f"dense<{_elements(part)}> : {kind}")


def resource_key(attribute: ir.Attribute) -> str | None:
    """Of the constants beside a module the key of the one that an attribute names."""
    if isinstance(attribute, ir.DenseElementsAttr):
        return None
    named = _KEY.match(str(attribute))
    return None if named is None else named[1]


def constant_of(attribute: ir.Attribute, constants: Mapping[str, Constant]) -> Constant:
    """The elements of a constant: those in the text, or the array that it names. Raises
    ArtifactError if that is missing.
    """
    key = resource_key(attribute)
    if key is None:
        return dense_array(ir.DenseElementsAttr(attribute))
    if key not in constants:
        raise ArtifactError(
            f"constant {key} is not among the weights that came with the schedule; "
            "pass its .npz file"
        )
    return constants[key]


def constant_keys(module: ir.Operation) -> dict[str, ir.RankedTensorType]:
    """The arrays that a module names, by their keys: their types."""
    used: dict[str, ir.RankedTensorType] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "arith.constant":
            for key in _KEY.findall(str(op.attributes["value"])):
                used[key] = ir.RankedTensorType(op.results[0].type)
        # the body of a linalg.generic has scalars only
        return ir.WalkResult.SKIP if op.name == "linalg.generic" else ir.WalkResult.ADVANCE

    module.walk(visit, ir.WalkOrder.PRE_ORDER)
    return used
