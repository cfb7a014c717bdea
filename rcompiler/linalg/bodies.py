"""What the body of an op does: one multiply-add, a copy, the same as another body."""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import defining, element_of, operations, ops_of

_CASTS = ("arith.extf", "arith.extsi", "arith.extui")


def is_multiply_add(generic: Generic) -> bool:
    """Body exactly ``out + a * b`` of the two inputs, in floats or (widened) integers."""
    # Counted first, which costs least: most bodies of a large model are one op.
    if len(generic.block.operations) < 3 or generic.outputs != 1 or len(generic.inputs) != 2:
        return False
    ops = [op for op in ops_of(generic.block) if op.name not in _CASTS]
    if len(ops) != 3:
        return False
    multiply, add, end = ops
    if (multiply.name, add.name) not in (
        ("arith.mulf", "arith.addf"),
        ("arith.muli", "arith.addi"),
    ):
        return False
    a, b, out = generic.block.arguments
    factors = {_uncast(v) for v in multiply.operands}
    return (
        factors == {a, b}
        and set(add.operands) == {out, multiply.results[0]}
        and (end.operands[0] == add.results[0])
    )


def _uncast(value: ir.Value) -> ir.Value:
    op = defining(value)
    return op.operands[0] if op is not None and op.name in _CASTS else value


def multiply_adds(generic: Generic) -> int:
    """Multiply-adds of one step of a sum of products: more than one where the body adds up what a
    step reads, as of the numbers of one word: acc + scale * fma(q1, x1, fma(q0, x0, start)).
    """
    if generic.product is None:
        return 1
    return 1 + sum(op.name == "math.fma" for op in ops_of(generic.block))


def sums_in_words(generic: Generic) -> bool:
    """Whether the sums are f32 or i32, of factors that are no wider."""
    narrow = all(item_bytes(element_of(v)) <= 4 for v in generic.inputs)
    return narrow and all(element_of(v) in ("f32", "i32") for v in generic.inits)


def is_elementwise(old: Generic) -> bool:
    """One result, which every loop dim indexes in order; the body asks for no index."""
    identity = ir.AffineMap.get_identity(old.maps[-1].n_dims)
    return (
        old.outputs == 1
        and old.maps[-1] == identity
        and not old.init_used[0]
        and not any(o.name in ("linalg.index", "tensor.extract") for o in operations(old.op))
    )


def copied_argument(block: ir.Block) -> int | None:
    """Number of the block argument that a body of one yield copies."""
    ops, arguments = ops_of(block), list(block.arguments)
    if len(ops) != 1 or len(ops[0].operands) != 1:
        return None
    value = ops[0].operands[0]
    return arguments.index(value) if value in arguments else None


def alike(a: ir.Block, b: ir.Block) -> bool:
    """Whether two bodies do the same to their arguments; values from outside must be the same."""
    matched = dict(zip(a.arguments, b.arguments, strict=False))
    ours, theirs = ops_of(a), ops_of(b)
    if len(a.arguments) != len(b.arguments) or len(ours) != len(theirs):
        return False
    for one, other in zip(ours, theirs, strict=True):
        if (
            one.name != other.name
            or len(one.regions)
            or dict(one.attributes.items()) != dict(other.attributes.items())
            or [r.type for r in one.results] != [r.type for r in other.results]
            or [matched.get(v, v) for v in one.operands] != list(other.operands)
        ):
            return False
        matched.update(zip(one.results, other.results, strict=True))
    return all(matched[v].type == v.type for v in a.arguments)
