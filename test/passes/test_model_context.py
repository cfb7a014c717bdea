"""The context of a model: passes reach its arrays, which come from files as bytes."""

import ml_dtypes
import numpy as np
import pytest
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.errors import InvalidModel, PipelineError
from rcompiler.passes._pipeline_text import runner
from rcompiler.passes.constants.model_context import ModelContext, as_declared, context_of
from rcompiler.passes.fold_constants import FoldConstants
from rcompiler.runtime.deferred import whole

# More elements than what becomes a part of the text.
_RESHAPED = """func.func @main() -> tensor<96xKIND> {
  %w = arith.constant dense_resource<w> : tensor<8x12xKIND>
  %e = tensor.collapse_shape %w [[0, 1]] : tensor<8x12xKIND> into tensor<96xKIND>
  return %e : tensor<96xKIND>
}"""
_F32 = _RESHAPED.replace("KIND", "f32")


def test_the_bindings_give_back_the_object_that_it_is():
    with dialects.load(ModelContext({"w": np.zeros(3)})) as context:
        module = ir.Module.parse(_F32)
        assert module.context is context and context_of(module.operation) is context


def test_arrays_are_those_of_the_module_after_it():
    w = np.arange(96, dtype=np.float32).reshape(8, 12)
    context = dialects.load(ModelContext({"w": w, "unused": w}))
    with context, ir.Location.unknown():
        module = ir.Module.parse(_F32)
        runner([FoldConstants()], context)(module)
    [(key, folded)] = context.arrays.items()
    assert f"dense_resource<{key}>" in str(module) and "collapse_shape" not in str(module)
    np.testing.assert_array_equal(whole(folded), w.reshape(96))


def test_a_context_of_no_model_is_refused():
    context = dialects.load(ir.Context())
    with context, ir.Location.unknown():
        module = ir.Module.parse(_F32)
        with pytest.raises(PipelineError, match="holds no constants; make it a .*ModelContext"):
            runner([FoldConstants()], context)(module)


@pytest.mark.parametrize(
    ("kind", "dtype"), [("f32", np.float32), ("bf16", ml_dtypes.bfloat16), ("i1", np.bool_)]
)
def test_bytes_become_what_the_text_says(kind, dtype):
    w = (np.arange(96) % 2).astype(dtype)
    with dialects.load(ModelContext()):
        module = ir.Module.parse(_RESHAPED.replace("KIND", kind))
        given = {"w": w.view(np.uint8), "other": np.zeros(3)}
        found = as_declared(module.operation, given)
    assert found["w"].dtype == dtype and found["other"] is given["other"]
    np.testing.assert_array_equal(found["w"], w.reshape(8, 12))


def test_arrays_of_another_size_are_refused():
    with dialects.load(ModelContext()):
        module = ir.Module.parse(_F32)
        with pytest.raises(InvalidModel, match="'w' has 380 bytes, and the module names it as"):
            as_declared(module.operation, {"w": np.zeros(95, np.float32)})
