"""Between MLIR attributes and Python values, and what the two dialects' verifiers share."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch_mlir import ir


@dataclass(frozen=True)
class Symbol:
    """A reference to a symbol, as a Python value: `@name`."""

    name: str


Value: TypeAlias = (
    bool | int | float | str | Symbol | ir.Type | ir.Attribute | Sequence[Any] | Mapping[str, Any]
)


def to_attribute(value: Value) -> ir.Attribute:
    """The attribute for a Python value, in the current context.

    bool: BoolAttr; int: i64; float: f64; str: StringAttr; Symbol: FlatSymbolRefAttr; ir.Type:
    TypeAttr; a tuple of int (also the empty one): array<i64>; a list of anything: ArrayAttr; a
    dict: DictAttr. An attribute stays as it is.
    """
    match value:
        case ir.Attribute():
            return value
        case ir.Type():
            return ir.TypeAttr.get(value)
        case bool():
            return ir.BoolAttr.get(value)
        case int():
            return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
        case float():
            return ir.FloatAttr.get(ir.F64Type.get(), value)
        case str():
            return ir.StringAttr.get(value)
        case Symbol():
            return ir.FlatSymbolRefAttr.get(value.name)
        case tuple():
            return ir.DenseI64ArrayAttr.get(value)
        case list():
            return ir.ArrayAttr.get([to_attribute(item) for item in value])
        case dict():
            return ir.DictAttr.get({key: to_attribute(item) for key, item in value.items()})
    raise TypeError(f"no attribute for a {type(value).__name__}")


def build_op(cls: type, loc: Any, ip: Any, **values: Value) -> Any:
    """An op of a class from Python values, with one empty block in its region if it has one.

    Not by the class's constructor, which takes an empty array for a missing attribute.
    """
    op = ir.Operation.create(
        cls.OPERATION_NAME,  # type: ignore[attr-defined]
        attributes={name: to_attribute(value) for name, value in values.items()},
        regions=cls._ODS_REGIONS[0],  # type: ignore[attr-defined]
        loc=loc,
        ip=ip,
    )
    for region in op.regions:
        region.blocks.append()
    return op.opview


def to_python(attribute: ir.Attribute) -> Any:
    """The inverse of `to_attribute`; elements attributes stay attributes."""
    match attribute:
        case ir.FlatSymbolRefAttr():
            return Symbol(attribute.value)
        case ir.DenseI64ArrayAttr():
            return tuple(attribute)
        case ir.ArrayAttr():
            return [to_python(item) for item in attribute]
        case ir.DictAttr():
            return {item.name: to_python(item.attr) for item in attribute}
        case ir.BoolAttr() | ir.IntegerAttr() | ir.FloatAttr() | ir.StringAttr() | ir.TypeAttr():
            return attribute.value
    return attribute


def is_plain(value: Any) -> bool:
    """Whether a Python value has nothing of MLIR in it: numbers, text, tuples, lists, dicts."""
    if isinstance(value, dict):
        return all(map(is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return isinstance(value, bool | int | float | str)


def enclosing_module(op: ir.OpView) -> ir.Operation | None:
    """The nearest builtin.module around `op`; None while `op` stands in none."""
    parent = op.operation.parent
    while parent is not None and parent.name != "builtin.module":
        parent = parent.parent
    return parent.operation if parent is not None else None


def tensor_bytes(type_: ir.Type) -> int | None:
    """Bytes of a static tensor in memory (i1 takes one); None for any other type."""
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return None
    element = type_.element_type
    if not isinstance(element, ir.IntegerType | ir.FloatType):
        return None
    bits = 8 if element.width == 1 else element.width
    return math.prod(type_.shape) * (bits // 8) if bits % 8 == 0 else None


def report(op: ir.OpView, problems: Iterator[str]) -> bool:
    """What verify_invariants returns: False after an error with the first problem, if any.

    The declared attributes and regions come first: the verifiers written in Python run before
    IRDL's own, so that `problems` could not rely on them otherwise.
    """
    for problem in itertools.chain(_declaration_problems(op), problems):
        op.location.emit_error(f"'{op.OPERATION_NAME}' op {problem}")
        return False
    return True


def _declaration_problems(op: ir.OpView) -> Iterator[str]:
    attributes = op.attributes
    for field in op._fields:
        if type(field).__name__ != "AttributeDef":
            continue
        class_ = ir.Attribute if field.constraint is Any else field.constraint
        found = attributes[field.name] if field.name in attributes else None
        if not isinstance(found, class_):
            yield f"expects an attribute '{field.name}' of class {class_.__name__}"
    regions = sum(type(field).__name__ == "RegionDef" for field in op._fields)
    if len(op.regions) != regions:
        yield f"expects {regions} regions, not {len(op.regions)}"


def is_elements(attribute: ir.Attribute) -> bool:
    """Is it dense<...> or dense_resource<...>?"""
    if isinstance(attribute, ir.DenseElementsAttr):
        return True
    try:  # the bindings hand out a dense_resource as a plain Attribute, and have no test for it
        ir.DenseResourceElementsAttr(attribute)
    except ValueError:
        return False
    return True


def integer_problems(op: ir.OpView, minima: dict[str, int]) -> Iterator[str]:
    """Each named attribute must be an i64 of at least that minimum."""
    attributes = op.attributes
    for name, minimum in minima.items():
        attribute = attributes[name]
        if not isinstance(attribute, ir.IntegerAttr) or not _is_i64(attribute.type):
            yield f"expects an i64 '{name}'"
        elif attribute.value < minimum:
            yield f"expects '{name}' of at least {minimum}, not {attribute.value}"


def _is_i64(type_: ir.Type) -> bool:
    return isinstance(type_, ir.IntegerType) and type_.width == 64 and type_.is_signless


def integer_or_none(op: ir.OpView, name: str) -> int | None:
    """An integer attribute of an op that may not have been verified yet."""
    attribute = op.attributes[name] if name in op.attributes else None
    return attribute.value if isinstance(attribute, ir.IntegerAttr) else None


def place_problems(op: ir.OpView, parents: Sequence[str]) -> Iterator[str]:
    """The op must stand directly in one of `parents`; a detached op may stand anywhere."""
    parent = op.operation.parent
    if parent is not None and parent.name not in parents:
        yield f"expects to stand directly in {' or '.join(parents)}, not in {parent.name}"
