"""Maximum and minimum of floats in reductions, of whole vectors and across their lanes.

The instruction for it returns its second operand where one is a NaN. With the accumulator as the
second one, a NaN loses (maxnumf). For a NaN to win (maximumf), both orders are needed: a bitwise
"or" of the two keeps a NaN and leaves equal values alone. That is three instructions, where LLVM's
own maximum takes five, one after the other, since it also has to tell +0 from -0. Here the sign of
a zero is that of a minimum, in any order of the operands: numpy leaves it open.
"""

from __future__ import annotations

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.element_types import BITS

# combining op -> the comparison after which its first operand is chosen
EXTREMES = {
    "arith.maximumf": "ogt",
    "arith.minimumf": "olt",
    "arith.maxnumf": "ogt",
    "arith.minnumf": "olt",
}
_NAN_WINS = ("arith.maximumf", "arith.minimumf")


def extreme(e: Emitter, combiner: str, accumulator: Val, value: Val) -> Val:
    """`combiner` of two floats or vectors of them. Where a NaN loses, the accumulator is none."""
    first = _chosen(e, EXTREMES[combiner], value, accumulator)
    if combiner not in _NAN_WINS:
        return first
    second = _chosen(e, EXTREMES[combiner], accumulator, value)
    bits = [e.bitcast(v, f"i{BITS[value.element]}") for v in (first, second)]
    return e.bitcast(e.bit_or(*bits), value.element)


def _chosen(e: Emitter, predicate: str, a: Val, b: Val) -> Val:
    """a where the comparison holds, else b: one instruction."""
    return e.select(e.compare(predicate, a, b), a, b)


def extreme_across(e: Emitter, combiner: str, value: Val) -> Val:
    """`combiner` of the lanes of a vector, half by half; their number is a power of two."""
    lanes = value.lanes
    while lanes > 1:
        lanes //= 2
        low = _lanes(e, value, range(lanes))
        high = _lanes(e, value, range(lanes, 2 * lanes))
        value = extreme(e, combiner, low, high)
    return e.lane(value, 0)


def _lanes(e: Emitter, value: Val, chosen: range) -> Val:
    """Some lanes of a vector, repeated up to a register of 128 bits: LLVM would take narrower
    vectors apart.
    """
    count = max(len(chosen), min(value.lanes, 128 // BITS[value.element]))
    if count == value.lanes and chosen.start == 0:
        return value
    return e.shuffle(value, value, [chosen[k % len(chosen)] for k in range(count)])
