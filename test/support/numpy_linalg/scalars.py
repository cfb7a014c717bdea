"""arith, math and affine ops as functions of arrays, element by element; operands broadcast."""

from collections.abc import Callable
from functools import partial, reduce

import numpy as np
from torch_mlir import ir

from numpy_linalg import affine, floats, integers
from numpy_linalg.casts import CASTS
from numpy_linalg.elements import dtype_of

Function = Callable[..., np.ndarray]
_PLAIN = {**integers.INTEGERS, **floats.FLOATS, "arith.select": np.where}
_CHOSEN = {"affine.apply": None, "affine.max": np.maximum, "affine.min": np.minimum}
_COMPARISONS = {"arith.cmpi": integers.COMPARISONS, "arith.cmpf": floats.COMPARISONS}
_BY_KIND = {"f": ("add", "mul", "maximum", "minimum", "maxnum", "minnum"),
            "i": ("add", "mul", "and", "or", "xor", "maxs", "mins", "maxu", "minu")}  # fmt: skip
ASSOCIATIVE = {f"arith.{name}{kind}" for kind, names in _BY_KIND.items() for name in names}
"""Ops of which many may be applied in any order: floats are rounded in another one."""


def scalar_function(op: ir.Operation) -> Function | None:
    """What an op of arith, math or affine but arith.constant does; None for any other op.

    Raises NotImplementedError for one that is not known.
    """
    name = op.name
    if name in _PLAIN:
        return _PLAIN[name]
    if name in _COMPARISONS:
        return _COMPARISONS[name][ir.IntegerAttr(op.attributes["predicate"]).value]
    if name in CASTS:
        return partial(CASTS[name], dtype=_element_dtype(op.result.type))
    if name in _CHOSEN:
        return partial(_of_map, ir.AffineMapAttr(op.attributes["map"]).value, _CHOSEN[name])
    if name.startswith(("affine.", "arith.", "math.")) and name != "arith.constant":
        raise NotImplementedError(name)
    return None


def _of_map(map_: ir.AffineMap, choose: Function | None, *operands: np.ndarray) -> np.ndarray:
    """The only result of a map, or what is chosen of several."""
    found = affine.results(map_, operands[: map_.n_dims], operands[map_.n_dims :])
    numbers = [np.asarray(each, np.int64) for each in found]
    if choose is not None:
        return reduce(choose, numbers)
    [number] = numbers
    return number


def _element_dtype(type_: ir.Type) -> np.dtype:
    if isinstance(type_, ir.RankedTensorType):
        return dtype_of(type_.element_type)
    return dtype_of(type_)
