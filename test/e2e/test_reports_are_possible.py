"""Reports of built-in models tell no figure that cannot be."""

import pytest

import rcompiler
from rcompiler.tools import models


@pytest.mark.parametrize("eus", [1, 2])
@pytest.mark.parametrize(
    "name", ["mlp", "two_branch", "tiny_chain", "shufflenet", "squeezenet1_1", "lstm2", "nas_cells"]
)
def test_figures_of_a_report(name, eus):
    report = rcompiler.compile_onnx(models.build(name), target="cpu", eus=eus).report()
    least = max(report.work_bound_ns, report.path_bound_ns)
    assert 0 < least <= report.makespan_ns * (1 + 1e-9)
    assert 0 <= report.arena_bound_bytes <= report.arena_bytes
    for op in report.operators:
        used, there = op.explanation["registers"]
        assert 0 < used <= there, op.name
        assert 0 <= op.explanation["saturation"] <= 1, op.name
        assert bool(op.one_eu) <= (eus > 1), op.name
