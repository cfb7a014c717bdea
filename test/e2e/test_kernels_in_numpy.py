"""What stage S3 says, op by op in numpy, is what ONNX's standard backend tests expect: no code is
generated.

The cases are those of `tools.backend_coverage`; instead of its whole networks, small ones.
"""

import zlib
from dataclasses import replace
from functools import cache, partial

import pytest
from interpreted_stage import parsed
from measurements import backend_coverage
from s3 import s3_of
from small_networks import SMALL, feeds_of
from torch_mlir import ir
from torch_mlir.dialects import linalg
from turns import in_turn, turn_of

import rcompiler
from rcompiler.driver import isolate
from rcompiler.pipelines.rc_tile_kernels import RcTileKernels
from rcompiler.pipelines.rc_tile_threads import RcTileThreads
from rcompiler.tools import models
from rcompiler.tools._reference import compare, reference

SHARDS = 16  # pytest items
# Of as many points as all others together: what they show, smaller ones of their operators do.
LARGE = ("test_MaxPool2d_stride_padding_dilation", "test_operator_conv")
LEAST = 0.9  # of the cases are compiled: 0.96 when this was written


@cache
def cases():
    """The test functions by name; to make them all takes seconds."""
    return backend_coverage.load_tests()


def shard(number):
    """The names of some cases, whichever others there are."""
    names = (n for n in cases() if not backend_coverage.NETWORKS.search(n) and n not in LARGE)
    return sorted(name for name in names if zlib.crc32(name.encode()) % SHARDS == number)


def interpret_instead(monkeypatch, change=lambda text: text, then=()):
    """Let what compiles give what interprets the text of stage S3, after a change.

    then: passes that run before.
    """

    def compile_onnx(model, *, shapes, values, cache, target, bounds=None):
        made = s3_of(model.proto(), shapes, values, target, then, bounds)
        return replace(made, text=change(made.text))

    monkeypatch.setattr(isolate, "compiler", lambda: compile_onnx)


@pytest.mark.parametrize("number", in_turn(SHARDS, 8))
def test_tasks_compute_what_the_operators_are(number, monkeypatch):
    """Tiled, down to register tiles: all tasks, in some order, from results that hold no numbers.
    (That bodies of whole operators are right, their code shows in the same cases.)
    """
    interpret_instead(monkeypatch, then=(RcTileKernels(),))
    verdicts = {name: backend_coverage.run_test(cases()[name]) for name in shard(number)}
    failed = {n: v.reason for n, v in verdicts.items() if v.status in ("wrong", "crash")}
    assert not failed
    passed = sum(v.status == "pass" for v in verdicts.values())
    assert passed >= LEAST * len(verdicts) > 90


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
@pytest.mark.parametrize("name", turn_of(SMALL, 4))
def test_kernels_of_a_network(name):
    model = models.build(name, **SMALL[name])
    made = s3_of(model)
    feeds = feeds_of(made.inputs)
    _, expected = reference(model, feeds)
    for found, wanted in zip(made(*feeds.values()), expected, strict=True):
        assert compare(found, wanted).right


@pytest.mark.parametrize("name", turn_of(SMALL, 4))
def test_kernels_that_the_threads_of_a_block_share_in(name):
    """All points of a forall in some order: no two put a tile over the same element."""
    model = models.build(name, **SMALL[name])
    made = s3_of(model, target="cuda:h200", then=(RcTileThreads(),))
    feeds = feeds_of(made.inputs)
    _, expected = reference(model, feeds)
    for found, wanted in zip(made(*feeds.values()), expected, strict=True):
        assert compare(found, wanted).right


def test_the_text_is_that_of_a_compilation():
    model = models.build("two_branch", rows=64, width=32)
    compiled = rcompiler.compile_onnx(model, device="default", cache=False)
    assert s3_of(model).text == compiled.stage("rkernel")
