"""What the arithmetic of a linalg body costs, in operations per evaluation."""

from rcompiler.kernelgen.region import Generic

# What an operation on vectors takes, in slots of an addition, of which there are two per cycle.
# Measured with f32 and 512 bits on Zen 5, beside the load and the store of an element. Functions:
# `kernelgen/vector_math.py`; a maximum that passes NaN on is three instructions.
COSTLY = {
    "math.exp": 12,
    "math.exp2": 10,
    "math.tanh": 21,
    "math.erf": 27,
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
LIBRARY_CALL = 230  # any other math op: one libm call for each of 16 lanes


def body_cost(generic: Generic) -> float:
    """Operations of one evaluation of a linalg body: two for every slot of arithmetic, as many as
    the multiply-add of a product does in one.
    """
    if generic.product is not None:
        return 2.0
    slots = 0.0
    for view in generic.block.operations:
        name = view.operation.name
        if name.startswith("math."):
            slots += 1 if name in SINGLE else COSTLY.get(name, LIBRARY_CALL)
        elif name.startswith("arith.") and name != "arith.constant":
            slots += COSTLY.get(name, 1)
    return 2 * slots
