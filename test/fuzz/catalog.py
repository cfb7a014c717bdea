"""Which operators there are, by the frontend itself, and the generator of each."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import onnx

from rcompiler.frontend import contrib, control, dtypes, interpret, registry  # noqa: F401

if TYPE_CHECKING:
    from .maker import Maker

Key = tuple[str, str]  # operator and domain
NEWEST = onnx.defs.onnx_opset_version()
PREVIEW = {"ai.onnx.preview.training": 1, "ai.onnx.preview": 1, "ai.onnx.ml": 5,
           contrib.DOMAIN: 1}  # fmt: skip

# Modules of contrib whose operators are compared with onnxruntime, attribute by attribute.
_COMPARED = ("experts", "gates", "linear_attention", "older", "packed_convolution", "quantised",
             "quantised_experts", "recurrences", "sparse_attention", "tokens")  # fmt: skip
# Makes no tensor; deprecated since version 5; of bytes with scales.
_ELSEWHERE = {(op, "ai.onnx.ml") for op in ("ZipMap", "TreeEnsembleClassifier",
              "TreeEnsembleRegressor")}  # fmt: skip
_ELSEWHERE |= {(op, contrib.DOMAIN) for op, each in contrib.OPERATORS.items()
               if each.write.__module__.rpartition(".")[2] in _COMPARED}  # fmt: skip
_ELSEWHERE |= {(op, contrib.DOMAIN) for op in ("CropAndResize", "MRotaryEmbedding",
               "MatMulInteger16", "QAttention", "SampleOp", "UnfoldTensor")}  # fmt: skip


@dataclass(frozen=True)
class Generator:
    """How to add one node (or a few) of an operator to a graph.

    write: adds them, or raises `maker.Reject`. opsets: the versions of the domain whose form of the
    operator it writes.
    """

    write: Callable[[Maker, str], None]
    domain: str
    opsets: range


_TABLE: dict[Key, Generator] = {}


def generator(
    *ops: str, domain: str = "", opsets: range | None = None
) -> Callable[[Callable[[Maker, str], None]], Callable[[Maker, str], None]]:
    """Register ``fn(maker, op)`` for operators. opsets: 21 and later where none are given."""

    def register(fn: Callable[[Maker, str], None]) -> Callable[[Maker, str], None]:
        for op in ops:
            if (op, domain) in _TABLE:
                raise ValueError(f"{op}: two generators")
            _TABLE[op, domain] = Generator(fn, domain, opsets or range(21, NEWEST + 1))
        return fn

    return register


@cache
def generators() -> dict[Key, Generator]:
    """All that the modules in ``ops/`` register."""
    from . import ops

    for module in sorted(m.name for m in pkgutil.iter_modules(ops.__path__)):
        importlib.import_module(f"{ops.__name__}.{module}")
    return dict(sorted(_TABLE.items()))


@cache
def supported() -> frozenset[Key]:
    """Every operator that the frontend translates: with a lowering or a handler of its own, by the
    body that the standard gives it, or by one of `contrib`. The quantised ones of onnxruntime have
    graphs of their own (`quantised`), and those of _ELSEWHERE are compared with onnxruntime in
    test/frontend (test_tree_ops.py, test_classical_ops.py, and test_contrib_quantised.py, _gates,
    _experts, _linear and _sparse)."""
    lowered = {key for key in registry.names() if key[1] != contrib.DOMAIN}
    own = lowered | {(op, "") for op in control._TABLE}
    bodies = {
        (schema.name, schema.domain)
        for schema in onnx.defs.get_all_schemas()
        if schema.has_function or schema.has_context_dependent_function
    }
    written = {(op, contrib.DOMAIN) for op in contrib.OPERATORS}
    return frozenset((own | bodies | written) - _ELSEWHERE)


def schema_of(op: str, domain: str, opset: int) -> onnx.defs.OpSchema:
    """The operator's schema in a version of its domain."""
    return onnx.defs.get_schema(op, PREVIEW.get(domain, opset), domain)


@cache
def types_of(op: str, domain: str, opset: int, parameter: str) -> tuple[str, ...]:
    """Element types that the standard allows for a type parameter, strings and complex left out."""
    for constraint in schema_of(op, domain, opset).type_constraints:
        if constraint.type_param_str == parameter:
            names = [t[7:-1] for t in constraint.allowed_type_strs if t.startswith("tensor(")]
            found = [_NAMES.get(name, name) for name in names]
            return tuple(name for name in found if dtypes.is_supported(name))
    raise ValueError(f"{op} has no type parameter {parameter}")


@cache
def input_types(op: str, domain: str, opset: int) -> tuple[str, ...]:
    """Element types that the standard allows for one input or another of an operator."""
    schema = schema_of(op, domain, opset)
    parameters = {c.type_param_str for c in schema.type_constraints}
    found: dict[str, None] = {}
    for formal in schema.inputs:
        if formal.type_str in parameters:
            found |= dict.fromkeys(types_of(op, domain, opset, formal.type_str))
        elif formal.type_str.startswith("tensor("):
            name = formal.type_str[7:-1]
            found[_NAMES.get(name, name)] = None
    return tuple(name for name in found if dtypes.is_supported(name))


def dtype_of(text: str) -> str | None:
    """The element type of a schema's ``tensor(float)``; None of what is no tensor of numbers."""
    name = text[7:-1] if text.startswith("tensor(") else ""
    name = _NAMES.get(name, name)
    return name if dtypes.is_supported(name) else None


_NAMES = {
    "float": "float32", "double": "float64", "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz", "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz", "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
}  # fmt: skip
