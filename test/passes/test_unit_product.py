"""Products on matrix units: tiles are chosen for what code generation then writes."""

import sys
from pathlib import Path

import pytest
from onnx import ModelProto
from torch_mlir import ir

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from gpu_networks import ARCHITECTURES, NETWORKS  # noqa: E402

from rcompiler import dialects  # noqa: E402
from rcompiler.driver.compilation import Compilation  # noqa: E402
from rcompiler.frontend import import_onnx  # noqa: E402
from rcompiler.kernelgen.kernel import KernelWriter  # noqa: E402
from rcompiler.kernelgen.simt.products import Products  # noqa: E402
from rcompiler.kernelgen.simt.target import SimtTarget  # noqa: E402
from rcompiler.options import CompileOptions  # noqa: E402
from rcompiler.passes.constants.model_context import ModelContext  # noqa: E402
from rcompiler.passes.roller_tile import Body, distinct_bodies  # noqa: E402
from rcompiler.passes.tiling.unit_product import Multiplier  # noqa: E402
from rcompiler.passes.vdevice_to_gpu import features_of  # noqa: E402
from rcompiler.roller.matrix_unit import UnitProduct, box_of  # noqa: E402
from rcompiler.tools.models.graph import ModelGraph  # noqa: E402


def convolutions() -> ModelProto:
    """Of the image, of strided and of padded windows; joined by a product of two images."""
    g = ModelGraph("convolutions", 6)
    x = g.input("input", (1, 3, 20, 20))
    y = g.conv_bn(x, 64, 3, stride=2, pad=1, name="image")
    z = g.conv_bn(y, 64, 3, pad=1, name="window")
    y = g.op(
        "Add",
        g.conv_bn(z, 128, 1, stride=2, name="short"),
        g.conv_bn(z, 128, 3, stride=2, pad=1, name="long"),
    )
    return g.model(output=(y, (1, 128, 5, 5)))


WRITTEN = {"nvvm.wgmma.mma_async": "wgmma", "nvvm.mma.sync": "mma"}


def units(body: Body, multiplier: Multiplier) -> list[UnitProduct]:
    """Of all that a task computes."""
    if not body.stages:
        found = [body.expression(multiplier)]
    else:
        stages, last = body.stage_expressions(multiplier)
        found = [*(stage.expr for stage in stages), last]
    return [expr.unit for expr in found if expr.unit is not None]


@pytest.mark.parametrize("precision", ["f32", "tf32", "f16", "bf16"])
@pytest.mark.parametrize("chip", ARCHITECTURES)
@pytest.mark.parametrize("name", [*NETWORKS, "convolutions"])
def test_tiles_are_chosen_for_the_unit_that_multiplies(name, chip, precision, monkeypatch):
    device = ARCHITECTURES[chip][1]
    cut, box = [], Products.box

    def noted(self, form, extents, tiling):
        found = box(self, form, extents, tiling)
        if form.unit is not None:
            cut.append((tuple(extents), tuple(found)))
        return found

    monkeypatch.setattr(Products, "box", noted)
    run = Compilation(CompileOptions(precision=precision), device, None)
    imported = import_onnx((NETWORKS | {"convolutions": convolutions})[name](), None)
    context = dialects.load(ModelContext(imported.constants))
    with context, ir.Location.unknown():
        module = imported.parse(context)
        run.to_rtask(module)
        multiplier, seen = Multiplier(device, precision), set()
        for body in distinct_bodies(module.operation):
            wanted = units(body, multiplier)
            for decision in body.construct(device, precision=precision):
                kernel = body.build_kernel("k", decision).operation
                cut.clear()
                target = SimtTarget(kernel, features_of(device, precision, 256))
                text, _ = KernelWriter(kernel, target).write()
                kernel.erase()
                there = {kind for word, kind in WRITTEN.items() if word in text}
                assert there == {unit.unit.instruction for unit in wanted}
                if len(wanted) == 1 and not body.stages:
                    for extents, found in cut:
                        axes = len(body.traced.sizes) - len(extents)
                        assert box_of(wanted[0], extents + (1,) * axes)[0][: len(found)] == found
            seen |= {(unit.unit.instruction, unit.unit.element) for unit in wanted}
    expected = {} if precision == "f32" else {precision}
    assert {element for _, element in seen} == set(expected)
    if chip == "sm_80" or precision == "tf32":
        assert all(instruction == "mma" for instruction, _ in seen)
    elif expected and name in ("products", "convolutions"):
        assert ("wgmma", precision) in seen
