"""What the texts of stages S3 and S4 say of small networks, op by op in numpy, is what these
compute: no code is generated. (`test/interpret` has the cases of ONNX's standard backend tests.)
"""

from dataclasses import replace
from functools import cache, partial

import pytest
from interpreted_stage import parsed
from measurements import backend_coverage
from s3 import s3_of
from s4 import s4_of
from small_networks import SMALL, feeds_of
from torch_mlir import ir
from torch_mlir.dialects import linalg
from turns import turn_of

import rcompiler
from rcompiler.driver import isolate
from rcompiler.tools import models
from rcompiler.tools._reference import compare, reference

# Takes minutes: bodies of whole operators are made again for tasks that read other bytes.
LARGE = ("cuda:h200", "inception_v3")


@cache
def cases():
    """The test functions of ONNX by name; to make them all takes seconds."""
    return backend_coverage.load_tests()


def interpret_instead(monkeypatch, change=lambda text: text):
    """Let what compiles give what interprets the text of stage S3, after a change."""

    def compile_onnx(model, *, shapes, values, cache, target, bounds=None):
        made = s3_of(model.proto(), shapes, values, target, bounds=bounds)
        return replace(made, text=change(made.text))

    monkeypatch.setattr(isolate, "compiler", lambda: compile_onnx)


# -- what the comparison finds --------------------------------------------------------------------
def damaged(text):
    """Of each kernel, the last linalg op reads one element only along some dim of an input."""
    with parsed(text) as module:
        for view in module.body.operations:
            kernel = view.operation
            if kernel.name == "rtask.kernel":
                damage_one(kernel.regions[0].blocks[0])
        return module.operation.get_asm()


def damage_one(block):
    """Change one map: where an input is read along a dim that MLIR finds in another map."""
    for view in reversed(list(block.operations)):
        op = view.operation
        if op.name != "linalg.generic":
            continue
        maps = [ir.AffineMapAttr(m).value for m in linalg.get_indexing_maps(op)]
        known = {str(e) for e in maps[-1].results}
        for k, results in enumerate(list(m.results) for m in maps[: -len(op.results)]):
            sizes = ir.RankedTensorType(op.operands[k].type).shape
            for place, expression in enumerate(results):
                dim = isinstance(expression.maybe_downcast(), ir.AffineDimExpr)
                if sizes[place] == 1 or dim and str(expression) not in known:
                    continue
                results[place] = ir.AffineExpr.get_constant(0)
                maps[k] = ir.AffineMap.get(maps[k].n_dims, 0, results)
                attributes = [ir.AffineMapAttr.get(m) for m in maps]
                op.attributes["indexing_maps"] = ir.ArrayAttr.get(attributes)
                return


@pytest.mark.parametrize(
    "name",
    [
        *("add", "basic_conv_with_padding", "div", "gather_1", "layer_normalization_2d_axis1"),
        *("lstm_defaults", "matmul_3d", "maxpool_2d_pads", "reduce_sum_keepdims_random"),
        *("softmax_axis_1", "transpose_all_permutations_3", "where_example"),
    ],
)
def test_a_damaged_map_is_found(name, monkeypatch):
    run = partial(backend_coverage.run_test, cases()[f"test_{name}"])
    interpret_instead(monkeypatch)
    assert run().status == "pass"
    interpret_instead(monkeypatch, damaged)
    assert run().status == "wrong"


# -- networks: operators that are grouped, and weights that are laid out anew ----------------------
def assert_right(made, model):
    """Fails unless a stage computes what the model does."""
    feeds = feeds_of(made.inputs)
    _, expected = reference(model, feeds)
    for found, wanted in zip(made(*feeds.values()), expected, strict=True):
        assert compare(found, wanted).right


@pytest.mark.parametrize("name", turn_of(SMALL, 4))
def test_kernels_of_a_network(name):
    """Bodies of whole operators, before they are tiled."""
    model = models.build(name, **SMALL[name])
    assert_right(s3_of(model), model)


SCHEDULES = [(t, n) for t in ("cpu:v4", "cuda:h200") for n in SMALL if (t, n) != LARGE]


@pytest.mark.parametrize("target, name", turn_of(SCHEDULES, 5))
def test_the_schedule_of_a_network(target, name):
    """All rTasks on their buffers, and all points of a forall, in some order: no two put a tile
    over the same element.
    """
    model = models.build(name, **SMALL[name])
    assert_right(s4_of(model, target=target), model)


def test_the_texts_are_those_of_a_compilation():
    model = models.build("two_branch", rows=64, width=32)
    compiled = rcompiler.compile_onnx(model, device="default", cache=False)
    assert s3_of(model).text == compiled.stage("rkernel")
    assert s4_of(model).text == compiled.stage("vdevice")
