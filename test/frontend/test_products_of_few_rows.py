"""Products of few rows with what was transposed: read as it lies, one element once or so."""

import numpy as np
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

import rcompiler

KEYS = 2 * 3 * 40 * 16 * 4  # bytes
FORMS = {
    "keys": "t = Transpose<perm=[0,1,3,2]>(k) y = MatMul(q, t)",
    "scaled keys": "c = Constant<value=float {0.3}>() t = Transpose<perm=[0,1,3,2]>(k) "
    "u = Mul(t, c) y = MatMul(q, u)",
    "keys of one sequence": "z = Constant<value_ints=[0]>() o = Constant<value_ints=[1]>() "
    "s = Slice(k, z, o, z) t = Transpose<perm=[0,1,3,2]>(s) y = MatMul(q, t)",
}


def compiled(form, rows):
    proto = parser.parse_model(f"""
    <ir_version: 10, opset_import: ["": 21]>
    g (float[2,3,{rows},16] q, float[2,3,40,16] k) => (float[2,3,{rows},40] y) {{ {FORMS[form]} }}
    """)
    return proto, rcompiler.compile_onnx(proto, eus=1, cache=False, device="default")


SHARED = """
    <ir_version: 10, opset_import: ["": 21]>
    g (float[2,6,2,16] q, float[2,3,40,16] k) => (float[2,6,2,16] y) {
      two = Constant<value_ints = [2]>()
      several = Constant<value_ints = [2,3,2,40,16]>()
      heads = Constant<value_ints = [2,6,40,16]>()
      apart = Unsqueeze(k, two)
      spread = Expand(apart, several)
      repeated = Reshape(spread, heads)
      columns = Transpose<perm=[0,1,3,2]>(repeated)
      s = MatMul(q, columns)
      y = MatMul(s, repeated)
    }
"""


def test_heads_that_are_shared_are_not_repeated():
    proto = parser.parse_model(SHARED)
    model = rcompiler.compile_onnx(proto, eus=1, cache=False, device="default")
    assert model.report().arena_bytes < KEYS
    random = np.random.default_rng(0)
    q, k = (random.standard_normal(s, np.float32) for s in ((2, 6, 2, 16), (2, 3, 40, 16)))
    (wanted,) = ReferenceEvaluator(proto).run(None, {"q": q, "k": k})
    np.testing.assert_allclose(model(q, k)["y"], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_columns_are_read_as_they_lie(form):
    proto, model = compiled(form, 4)
    assert [operator.kind for operator in model.report().operators].count("movement") == 0
    assert model.report().arena_bytes < KEYS / 8
    random = np.random.default_rng(0)
    q, k = (random.standard_normal((2, 3, n, 16), np.float32) for n in (4, 40))
    (wanted,) = ReferenceEvaluator(proto).run(None, {"q": q, "k": k})
    np.testing.assert_allclose(model(q, k)["y"], wanted, rtol=1e-4, atol=1e-5)


def test_of_many_rows_columns_are_turned_into_lines():
    _, model = compiled("keys", 5)
    assert model.report().arena_bytes == KEYS
