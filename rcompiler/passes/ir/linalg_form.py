"""What a ``linalg.generic`` of S1 computes, as far as layout passes need to know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.kernelgen.region import Generic, dims_of, element_of, shape_of
from rcompiler.kernelgen.value import item_bytes

_MOVES = (
    "tensor.collapse_shape",
    "tensor.concat",
    "tensor.expand_shape",
    "tensor.extract_slice",
    "tensor.pad",
    "linalg.generic",
)
_CASTS = ("arith.extf", "arith.extsi", "arith.extui")


def dim_of(expression: ir.AffineExpr) -> int:
    """The loop dim that an expression is, or -1."""
    expression = expression.maybe_downcast()
    return expression.position if isinstance(expression, ir.AffineDimExpr) else -1


def operations(op: ir.Operation) -> Iterator[ir.Operation]:
    """All ops nested in the regions of ``op``."""
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                inner = view.operation
                yield inner
                if len(inner.regions):
                    yield from operations(inner)


def has_windows(generic: Generic) -> bool:
    """Whether some operand is indexed by more than loop dims: what tells most ops of a large model
    from a convolution costs little.
    """
    return not all(map_.is_projected_permutation for map_ in generic.maps)


class Windows:
    """`has_windows` of many ops, of which large models have few kinds."""

    def __init__(self) -> None:
        self._known: dict[ir.Attribute, bool] = {}

    def __call__(self, op: ir.Operation) -> bool:
        maps = op.attributes["indexing_maps"]
        if maps not in self._known:
            self._known[maps] = has_windows(Generic(op))
        return self._known[maps]


def is_multiply_add(generic: Generic) -> bool:
    """Body exactly ``out + a * b`` of the two inputs, in floats or (widened) integers."""
    # Counted first, which costs least: most bodies of a large model are one op.
    if len(generic.block.operations) < 3 or generic.outputs != 1 or len(generic.inputs) != 2:
        return False
    ops = [o.operation for o in generic.block.operations if o.operation.name not in _CASTS]
    if len(ops) != 3:
        return False
    multiply, add = ops[0], ops[1]
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
        and (ops[2].operands[0] == add.results[0])
    )


def _uncast(value: ir.Value) -> ir.Value:
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.operation.name in _CASTS:
        return owner.operation.operands[0]
    return value


def is_constant(value: ir.Value) -> bool:
    """Whether a tensor comes from constants through data movement only."""
    owner = value.owner
    op = None if isinstance(owner, ir.Block) else owner.operation
    name = "" if op is None else op.name
    if op is None or name not in _MOVES:
        return name == "arith.constant"
    if name == "linalg.generic" and (len(Generic(op).inputs) != 1 or Generic(op).reduction_dims):
        return False
    parts = list(op.operands) if name == "tensor.concat" else [op.operands[0]]
    return all(is_constant(part) for part in parts)


def alike(a: ir.Block, b: ir.Block) -> bool:
    """Whether two bodies do the same to their arguments; values from outside must be the same."""
    matched = dict(zip(a.arguments, b.arguments, strict=False))
    ours, theirs = list(a.operations), list(b.operations)
    if len(a.arguments) != len(b.arguments) or len(ours) != len(theirs):
        return False
    for one, other in zip((o.operation for o in ours), (o.operation for o in theirs), strict=True):
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


@dataclass(frozen=True)
class Convolution:
    """A convolution generic: operand numbers of the image and the weights, channel loop dims."""

    generic: Generic
    image: int
    weights: int
    output_channel: int
    input_channel: int
    grouped: bool

    def position(self, operand: int, dim: int) -> int:
        """Where ``dim`` indexes an operand (0 and 1: inputs, 2: result)."""
        return [dim_of(e) for e in self.generic.maps[operand].results].index(dim)


def convolution(op: ir.Operation) -> Convolution | None:
    """``op`` as a convolution over windows of an image with channel mixing, else None."""
    generic = Generic(op)
    if not has_windows(generic) or not is_multiply_add(generic):
        return None
    for image, weights in ((0, 1), (1, 0)):
        found = _as_convolution(generic, image, weights)
        if found is not None:
            return found
    return None


def _as_convolution(generic: Generic, image: int, weights: int) -> Convolution | None:
    reads = list(generic.maps[image].results)
    of_image = [dim_of(e) for e in reads]
    of_weights = [dim_of(e) for e in generic.maps[weights].results]
    of_result = [dim_of(e) for e in generic.maps[2].results]
    if -1 in of_weights or -1 in of_result or -1 not in of_image:
        return None
    used = set().union(*(dims_of(e) for e in reads))
    in_window = set().union(*(dims_of(e) for e in reads if dim_of(e) < 0))
    reduced = set(generic.reduction_dims)
    outputs = [d for d in of_weights if d in of_result and d not in used]
    inputs = [d for d in of_weights if d in reduced and d in of_image and d not in in_window]
    if len(inputs) != 1 or of_image.count(inputs[0]) != 1:
        return None
    if len(outputs) > 1:  # phases of a transposed convolution; its channels lie as the image's
        outputs = [d for d in outputs if of_result.index(d) == of_image.index(inputs[0])]
    if len(outputs) != 1:
        return None
    if len(set(of_weights)) != len(of_weights) or len(set(of_result)) != len(of_result):
        return None
    grouped = any(d in of_image for d in of_weights if d in of_result)
    return Convolution(generic, image, weights, outputs[0], inputs[0], grouped)


def depthwise_operand(op: ir.Operation) -> int | None:
    """Operand number of the image if ``op`` is a depthwise convolution: windows of one channel."""
    generic = Generic(op)
    if not has_windows(generic) or not is_multiply_add(generic):
        return None
    for image, weights in ((0, 1), (1, 0)):
        of_image = [dim_of(e) for e in generic.maps[image].results]
        of_weights = {dim_of(e) for e in generic.maps[weights].results}
        if len(of_image) > 2 and -1 in of_image and of_image[1] in of_weights - {-1}:
            return image
    return None


def channel_dim(generic: Generic, operand: int, axis: int) -> int | None:
    """The parallel loop dim that indexes ``axis`` of an operand, if it can be split in two.

    It must stand alone wherever it occurs, at most once per operand and once in every result,
    and the body must not ask for its index.
    """
    channel = dim_of(generic.maps[operand].results[axis])
    if channel < 0 or channel in generic.reduction_dims:
        return None
    for number, map_ in enumerate(generic.maps):
        alone = [dim_of(e) for e in map_.results].count(channel)
        inside = sum(channel in dims_of(e) for e in map_.results)
        if alone != inside or alone > 1 or (number >= len(generic.inputs) and alone != 1):
            return None
    for inner in operations(generic.op):
        if inner.name != "linalg.index":
            continue
        if ir.IntegerAttr(inner.attributes["dim"]).value == channel:
            return None
    return channel


def sums_in_words(generic: Generic) -> bool:
    """Whether the sums are f32 or i32, of factors that are no wider."""
    narrow = all(item_bytes(element_of(v)) <= 4 for v in generic.inputs)
    return narrow and all(element_of(v) in ("f32", "i32") for v in generic.inits)


def extent_of(generic: Generic, dim: int) -> int:
    """Range of a loop dim that some operand is indexed with."""
    for value, map_ in zip(generic.op.operands, generic.maps, strict=True):
        for extent, expression in zip(shape_of(value), map_.results, strict=True):
            if dim_of(expression) == dim:
                return extent
    raise ValueError(f"loop dim {dim} indexes nothing")
