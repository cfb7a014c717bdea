"""The context of a model: MLIR's, and the arrays that the module names as `dense_resource<KEY>`.

The arrays are not in the text, and too large to be copied into it: passes reach them through the
context of the module, which the bindings give back as the object that it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from torch_mlir import ir

from rcompiler.errors import InvalidModel, PipelineError
from rcompiler.linalg.element_types import numpy_type
from rcompiler.passes.constants.fold import constant_keys
from rcompiler.passes.constants.weight_pool import WeightPool
from rcompiler.runtime.deferred import Constant

# What a model is lowered through, and what the passes of MLIR on its way may make; all others are
# loaded where a text has some. Those of other processors and languages would take as long again.
_DIALECTS = (
    *("affine", "arith", "async", "bufferization", "builtin", "cf", "complex", "dlti", "func"),
    *("gpu", "index", "irdl", "linalg", "llvm", "math", "memref", "ml_program", "nvgpu", "nvvm"),
    *("ptr", "quant", "rocdl", "scf", "shape", "sparse_tensor", "tensor", "ub", "vector"),
)


class ModelContext(ir.Context):
    """arrays: by their keys, those of the module; passes that fold constants replace them. notes:
    what passes have to say of the model, for its report. pool: the weights of the model's programs
    for other sizes. built: told of the rKernel that an rOperator prefers when there is one.
    """

    arrays: Mapping[str, Constant]
    notes: list[str]
    pool: WeightPool | None
    built: Callable[[ir.Operation], None] | None

    def __init__(
        self, arrays: Mapping[str, Constant] | None = None, pool: WeightPool | None = None
    ) -> None:
        super().__init__(load_on_create_dialects=())
        for dialect in _DIALECTS:
            self.get_dialect_descriptor(dialect)  # loads it, and no module of Python's for it
        self.arrays = {} if arrays is None else dict(arrays)
        self.notes = []
        self.pool = pool
        self.built = None


def context_of(module: ir.Operation) -> ModelContext:
    """The context of a module, which must be that of a model. Raises PipelineError."""
    context = module.context
    if not isinstance(context, ModelContext):
        raise PipelineError(
            "the context of the module holds no constants; make it a "
            "rcompiler.passes.constants.model_context.ModelContext"
        )
    return context


def tell_built(kernel: ir.Operation) -> None:
    """Tell whoever compiles a model of an rKernel that is likely to be scheduled."""
    context = kernel.context
    if isinstance(context, ModelContext) and context.built is not None:
        context.built(kernel)


def as_declared(module: ir.Operation, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays of a file, in the types and shapes of the constants that name them: only their bytes
    count. What no constant names stays as it is.

    Raises InvalidModel for one of another size.
    """
    found = dict(arrays)
    for key, kind in constant_keys(module).items():
        dtype = numpy_type(kind.element_type)
        if key not in arrays or dtype is None:
            continue
        raw = np.ascontiguousarray(arrays[key]).reshape(-1).view(np.uint8)
        if raw.nbytes != math.prod(kind.shape) * dtype.itemsize:
            raise InvalidModel(
                f"constant '{key}' has {raw.nbytes} bytes, and the module names it as {kind}; "
                "give the arrays that belong to this text"
            )
        found[key] = raw.view(dtype).reshape(kind.shape)
    return found
