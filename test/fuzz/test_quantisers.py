"""Networks that onnxruntime's tools quantise: what is drawn, and that all forms are."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import rcompiler  # noqa: E402
from fuzz import kinds, quantised, quantisers  # noqa: E402
from fuzz.maker import Reject  # noqa: E402
from rcompiler.frontend import contrib  # noqa: E402

SEEDS = range(60)


def cases():
    for seed in SEEDS:
        try:
            yield quantisers.case_of(seed)
        except Reject:
            continue


def test_networks_are_quantised_in_all_forms_and_types():
    found, types, made = Counter(), Counter(), 0
    for case in cases():
        made += 1
        found.update(node.op_type for node in case.model.graph.node)
        found.update(node.domain for node in case.model.graph.node)
        types.update(t.data_type for t in case.model.graph.initializer)
        types.update(v.type.tensor_type.elem_type for v in case.model.graph.input)
    assert made > 45
    assert {"QuantizeLinear", "DequantizeLinear", "Conv", "MatMul", "Gemm", "QLinearConv",
            "QLinearMatMul", "QLinearAdd", "MatMulInteger", "DynamicQuantizeLinear",
            "LayerNormalization", contrib.DOMAIN} <= set(found)  # fmt: skip
    kind = onnx.TensorProto
    assert {kind.INT8, kind.UINT8, kind.INT16, kind.UINT16, kind.INT32, kind.FLOAT16} <= {*types}


def test_a_network_is_made_of_its_seed():
    first, second = quantisers.case_of(2), quantisers.case_of(2)
    assert first.model.SerializeToString() == second.model.SerializeToString()
    assert first.options == second.options
    with pytest.raises(Reject):
        quantisers.case_of(2, ("cuda:emulated",))


def test_sums_of_floats_are_told_from_those_of_bytes():
    """What is closed has the same bits on each level of CPUs."""
    forms = Counter(case.open for case in cases())
    assert min(forms.values()) > 10
    assert kinds.KINDS["quantisers"](4, ("cpu",), lambda stage: None).status == "ok"


def test_a_wrong_byte_is_seen(monkeypatch):
    case = next(case for case in cases() if not case.open)
    assert quantised.judged(case).status == "ok"
    real = rcompiler.compile_onnx

    def compile_onnx(model, target, **options):
        compiled = real(model, target=target, **options)

        def run(**feeds):
            return [y + np.asarray(1, y.dtype) for y in compiled(**feeds)]

        return run

    monkeypatch.setattr(rcompiler, "compile_onnx", compile_onnx)
    assert quantised.judged(case).status == "wrong"
