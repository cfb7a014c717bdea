"""Graphs with open axes: what is drawn, and what is seen of a model that is wrong for sizes."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import rcompiler  # noqa: E402
from fuzz import kinds, ranges  # noqa: E402
from fuzz.maker import Reject  # noqa: E402

SEEDS = range(40)


def cases():
    for seed in SEEDS:
        try:
            yield ranges.case_of(seed)
        except Reject:
            continue


def test_graphs_have_open_axes_and_all_forms():
    found, forms = Counter(), Counter()
    for case in cases():
        found.update(node.op_type for node in case.model.graph.node)
        forms.update(packed=case.packed, two=len(case.ranges) == 2, many=len(case.feeds) > 3)
        opened = ranges._opened(case.model)
        dims = {d.dim_param for v in opened.graph.input for d in v.type.tensor_type.shape.dim}
        assert dims - {""} == set(case.ranges) and dims - {""}
        for sizes in case.calls:
            assert case.packed or all(sizes[name] in r for name, r in case.ranges.items())
    assert min(forms.values()) >= 3
    assert {"If", "Loop", "MatMul", "Softmax", "Concat", "Gather"} <= set(found)


def test_a_case_is_one_of_other_sizes_too():
    case = next(case for case in cases() if not case.packed and len(case.ranges) == 2)
    sizes = case.calls[0]
    exact = case.at(sizes)
    for value in exact.model.graph.input:
        shape = case.feeds[value.name].shape
        wanted = [{19: sizes["n"], 23: sizes["m"]}.get(d, d) for d in shape]
        assert list(exact.feeds[value.name].shape) == wanted
        assert [d.dim_value for d in value.type.tensor_type.shape.dim] == wanted


def first(packed):
    return next(seed for seed in SEEDS if _packs(seed) is packed)


def _packs(seed):
    try:
        return ranges.case_of(seed).packed
    except Reject:
        return None


@pytest.mark.parametrize("packed", [False, True])
def test_a_model_that_is_wrong_for_one_size_is_seen(packed, monkeypatch):
    seed = first(packed)
    judge = kinds.KINDS["ranges"]
    assert judge(seed, ("cpu",), lambda stage: None).status == "ok"
    real = rcompiler.compile_onnx

    def compile_onnx(model, shapes=None, **options):
        compiled = real(model, shapes=shapes, **options)
        return _Wrong(compiled) if shapes else compiled

    monkeypatch.setattr(rcompiler, "compile_onnx", compile_onnx)
    assert judge(seed, ("cpu",), lambda stage: None).status == "wrong"


class _Wrong:
    """A model whose last element of the first result is another one."""

    def __init__(self, compiled):
        self._compiled, self.outputs = compiled, compiled.outputs

    def __call__(self, **feeds):
        return [_changed(result) for result in self._compiled(**feeds)]


def _changed(result):
    if isinstance(result, list):
        return [*result[:-1], _changed(result[-1])]
    found = np.array(result)
    found[...] = ~found if found.dtype == bool else found + 5
    return found
