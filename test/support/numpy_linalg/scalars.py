"""arith and math ops as functions of arrays, element by element; operands broadcast."""

from collections.abc import Callable
from functools import partial

import numpy as np
from torch_mlir import ir

from numpy_linalg import floats, integers
from numpy_linalg.casts import CASTS
from numpy_linalg.elements import dtype_of

Function = Callable[..., np.ndarray]
_PLAIN = {**integers.INTEGERS, **floats.FLOATS, "arith.select": np.where}
_COMPARISONS = {"arith.cmpi": integers.COMPARISONS, "arith.cmpf": floats.COMPARISONS}


def scalar_function(op: ir.Operation) -> Function | None:
    """What an op of arith or math but arith.constant does; None for any other op.

    Raises NotImplementedError for one that is not known.
    """
    name = op.name
    if name in _PLAIN:
        return _PLAIN[name]
    if name in _COMPARISONS:
        return _COMPARISONS[name][ir.IntegerAttr(op.attributes["predicate"]).value]
    if name in CASTS:
        return partial(CASTS[name], dtype=_element_dtype(op.result.type))
    if name.startswith(("arith.", "math.")) and name != "arith.constant":
        raise NotImplementedError(name)
    return None


def _element_dtype(type_: ir.Type) -> np.dtype:
    if isinstance(type_, ir.RankedTensorType):
        return dtype_of(type_.element_type)
    return dtype_of(type_)
