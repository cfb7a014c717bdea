"""Tilings of several stages: the result's tile decides the tiles of what is kept."""

import math
from dataclasses import replace

import numpy as np
import pytest
from roller_cases import at

from rcompiler.device.cpu import cpu_device
from rcompiler.device.gpu import GPUS
from rcompiler.roller.construct import construct
from rcompiler.roller.expr import TensorAccess, TensorExpr, tensor_expr
from rcompiler.roller.staged import StageExpr, construct_staged, kept_room


def device(eus: int = 2):
    return cpu_device("v4", eus=eus)


def product(heads: int, m: int, n: int, k: int, left_kept: bool, kept: bool) -> TensorExpr:
    """C[h, m, n] = A[h, m, k] B[h, k, n]"""
    return tensor_expr(
        [("h", heads, "parallel"), ("m", m, "parallel"), ("n", n, "parallel"),
         ("k", k, "reduction")],
        [
            TensorAccess((heads, m, k), 4, (at(0), at(1), at(3)), kept=left_kept),
            TensorAccess((heads, k, n), 4, (at(0), at(3), at(2))),
        ],
        [TensorAccess((heads, m, n), 4, (at(0), at(1), at(2)), kept=kept)],
    )  # fmt: skip


def attention(heads: int, tokens: int, width: int) -> tuple[list[StageExpr], TensorExpr]:
    """(Q K^T) V without the softmax: scores are kept, whole rows of them."""
    scores = product(heads, tokens, tokens, width, False, True)
    return [StageExpr(scores, (0, 1, -1))], product(heads, tokens, width, tokens, True, False)


def test_result_axes_that_a_stage_lacks_are_not_cut():
    stages, last = attention(12, 512, 64)
    for decision in construct_staged(stages, last, device()):
        assert decision.tile[2] == 64, "scores would be computed once per part of a row"
        assert decision.grid == tuple(
            math.ceil(n / t) for n, t in zip((12, 512, 64), decision.tile, strict=True)
        )


def test_a_stage_is_tiled_as_the_result_and_whole_along_the_rest():
    stages, last = attention(12, 512, 64)
    [first, *_] = construct_staged(stages, last, device())
    [kept] = first.stages
    assert kept.tile == (*first.tile[:2], 512)
    assert kept.register_tile[2] % 16 == 0 and kept.reduction_tile == ()


def test_kept_tiles_fit_half_of_the_private_cache():
    stages, last = attention(4, 2048, 64)
    small = device()
    room = max(level.capacity for level in small.memory[:-2]) / 2
    for decision in construct_staged(stages, last, small):
        assert math.prod(decision.stages[0].tile) * 4 <= room
    # one row of scores has 2 MiB: no tile of them can be kept
    stages, last = attention(1, 1 << 19, 16)
    assert construct_staged(stages, last, small) == []


@pytest.mark.parametrize("name", ["v100", "h200", "mi210", "mi300x"])
def test_kept_tiles_fit_half_of_the_shared_memory_of_a_gpu(name: str):
    """Also where memory has a cache more than L2 before it."""
    gpu = GPUS[name]
    assert kept_room(gpu) == gpu.memory[0].capacity / 2


def test_the_time_is_that_of_all_stages():
    stages, last = attention(12, 256, 64)
    [first, *_] = construct_staged(stages, last, device())
    alone = replace(stages[0].expr, outputs=last.outputs)
    apart = sum(d.estimated_ns * d.tasks for d in (construct(alone, device())[0],
                                                   construct(last, device())[0]))  # fmt: skip
    assert 0.7 * apart < first.estimated_ns * first.tasks < 1.3 * apart


def test_nothing_of_what_is_kept_moves():
    """The same expression with its left operand kept is no slower, and faster where data limits."""
    from rcompiler.roller.construct import TilingSpace

    def spent(m: int, n: int, k: int, kept: bool) -> np.ndarray:
        """ns of all tasks, one after the other, of every tiling with the best register tile."""
        space = TilingSpace(product(1, m, n, k, kept, False), device(), registers=1)
        decisions = map(space.decision, range(len(space)))
        return np.array([d.tasks * d.estimated_ns for d in decisions])

    for m, n, k in ((2048, 16, 2048), (512, 64, 512)):
        far, near = (spent(m, n, k, kept) for kept in (False, True))
        assert (near <= far).all()
        assert np.any(near < far) or n == 64


@pytest.mark.parametrize("eus", [1, 2, 64])
def test_faster_decisions_have_more_tasks(eus):
    stages, last = attention(2, 512, 64)
    found = construct_staged(stages, last, device(eus))
    tasks = [d.tasks for d in found]
    assert tasks == sorted(tasks) and len(set(tasks)) == len(tasks)
    assert all(len(d.stages) == 1 for d in found)


def test_the_explanation_counts_all_stages():
    stages, last = attention(12, 256, 64)
    first, *_ = construct_staged(stages, last, device())
    why = first.explanation
    assert why.note == "after 1 stage(s), which stay on chip" and why.runner_up.by == "EU time"
    operations = 2 * 2 * 12 * 256 * 256 * 64
    spent = first.tasks * first.estimated_ns
    assert why.saturation == pytest.approx(operations / spent / 192, abs=1e-3)
    own = first.stages[0].explanation
    assert dict(why.parts_ns)["compute"] > dict(own.parts_ns)["compute"]


def gates(count: int, width: int) -> tuple[list[StageExpr], TensorExpr]:
    """Products of one row with square matrices, all of which the last one adds to its own."""
    own = product(1, 1, width, width, False, True)
    return [StageExpr(own, (0, 1, 2))] * count, product(1, 1, width, width, False, False)


def test_short_operators_are_cut_into_smaller_register_tiles_for_many_eus():
    """One row of 256: the register tile that is best has all of it, and so would the one rTask."""
    gpu = GPUS["h200"]
    stages, last = gates(3, 256)
    first, *_, small = construct_staged(stages, last, gpu)
    assert first.register_tile == first.tile == (1, 1, 256) and first.tasks == 1
    assert small.tasks > 1 and small.register_tile[2] < 256
    # what a task waits for is worth two hand-offs at least
    assert small.estimated_ns >= 2 * gpu.costs.hand_off_ns
    assert small.estimated_ns < first.estimated_ns
    for stage in small.stages:
        assert stage.tile == small.tile and stage.register_tile[2] <= small.register_tile[2]
    assert construct_staged(stages, last, gpu, eus=1) == [first]


def test_register_tiles_stay_where_there_are_enough_of_them():
    stages, last = attention(12, 512, 64)
    sizes = {d.register_tile for d in construct_staged(stages, last, device(4))}
    assert len(sizes) == 1


def test_a_stage_may_reduce_all_of_its_axes():
    """max(x) - min(x): neither has an axis that could be cut."""

    def total(kept: bool, *also: TensorAccess) -> TensorExpr:
        read = TensorAccess((12,), 4, (at(0),))
        return tensor_expr(
            [("k", 12, "reduction")], [read, *also], [TensorAccess((), 4, (), kept=kept)]
        )

    stages, last = [StageExpr(total(True), ())], total(False, TensorAccess((), 4, (), kept=True))
    [only] = construct_staged(stages, last, device())
    assert only.tile == () and only.tasks == 1
    assert [stage.tile for stage in only.stages] == [()]
