"""What the arithmetic of a linalg body costs, in operations per evaluation."""

from torch_mlir import ir

from rcompiler.linalg.bodies import multiply_adds
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import defining, integer, ops_of

# What an operation on vectors takes, in slots of an addition, of which there are two per cycle.
# Measured with f32 and 512 bits on Zen 5, beside the load and the store of an element. Functions:
# `kernelgen/vector_math.py`; a maximum that passes NaN on is three instructions.
COSTLY = {
    "math.exp": 12,
    "math.exp2": 10,
    "math.expm1": 16,
    "math.tanh": 21,
    "math.erf": 27,
    "math.erfc": 27,
    "math.log": 35,
    "math.sqrt": 9,
    "math.rsqrt": 14,
    "arith.divf": 5,
    "arith.maximumf": 3,
    "arith.minimumf": 3,
}
# one instruction each, as all of arith that is not named above
SINGLE = frozenset(
    f"math.{name}"
    for name in ("absf", "absi", "ceil", "copysign", "floor", "fma", "round", "roundeven", "trunc")
)
_MOVES = ("tensor.extract", "tensor.insert")
EXPECTED = "rtask.expected_steps"  # of a loop whose bounds depend on data, in the mean
LIBRARY_CALL = 230  # any other math op: one libm call for each of 16 lanes


def body_cost(generic: Generic) -> float:
    """Operations of one evaluation of a linalg body: two for every slot of arithmetic, as many as
    the multiply-add of a product does in one.
    """
    if generic.product is not None and multiply_adds(generic) == 1:
        return 2.0
    return 2 * sum(_slots(op.name) for op in ops_of(generic.block))


def _slots(name: str) -> float:
    """Of one op; none of those that are neither arith nor math."""
    if name.startswith("math."):
        return 1 if name in SINGLE else COSTLY.get(name, LIBRARY_CALL)
    arithmetic = name.startswith("arith.") and name != "arith.constant"
    return COSTLY.get(name, 1) if arithmetic else 0


def loop_cost(op: ir.Operation) -> float:
    """Operations of all steps of an scf.for with what is in it, one element after the other: also
    those that move elements. Of an scf.if, those of both sides.
    """
    inside = 0.0
    blocks = (block for region in op.regions for block in region.blocks)  # none: no else
    for inner in (inner for block in blocks for inner in ops_of(block)):
        if inner.name in ("scf.for", "scf.if"):
            inside += loop_cost(inner)
        else:
            inside += 2 * (inner.name in _MOVES or _slots(inner.name))
    return inside * (_steps(op) if op.name == "scf.for" else 1)


def _steps(loop: ir.Operation) -> float:
    """Of one run of an scf.for: what is expected of it, if it says so; half of the most where a
    bound is known at run time only.
    """
    if EXPECTED in loop.attributes:
        return float(ir.FloatAttr(loop.attributes[EXPECTED]).value)
    low, high, step = (_numbers(v) for v in list(loop.operands)[:3])
    most = max(max(high, default=1) - min(low, default=0), 0) / max(*step, 1)
    return most if len(low) == len(high) == 1 else most / 2


def _numbers(value: ir.Value) -> list[int]:
    """The constants that an index is chosen from or bounded by."""
    op = defining(value)
    if op is not None and op.name == "arith.constant":
        return [integer(op, "value")]
    if op is None or op.name not in ("arith.select", "arith.minsi", "arith.maxsi"):
        return []
    own = list(op.operands)[1:] if op.name == "arith.select" else list(op.operands)
    return [number for v in own for number in _numbers(v)]
