"""The K best tilings, and the choice among measured ones."""

from dataclasses import replace

import pytest
from roller_cases import conv, gemm

from rcompiler.device.cpu import cpu_device
from rcompiler.roller.construct import TilingSpace, construct
from rcompiler.roller.cost import balance
from rcompiler.roller.ranking import choose, ranked, sampled, with_times

DEVICE = cpu_device("v4", eus=2)
CASES = [gemm(128, 768, 768), conv(64, 56, 64, 3), gemm(1, 16, 8)]


@pytest.mark.parametrize("expr", CASES)
def test_the_best_come_first_and_the_first_is_constructed(expr):
    found = ranked(expr, DEVICE, 10)
    assert found[0] == construct(expr, DEVICE)[0]
    assert len(set(found)) == len(found) <= 10
    space = TilingSpace(expr, DEVICE)
    scores = {space.decision(k): space.scores[k] for k in range(len(space))}
    rest = [scores[d] for d in found[1:]]
    assert rest == sorted(rest)
    left = [s for d, s in scores.items() if d not in found]
    assert not rest or not left or rest[-1] <= min(left)
    assert ranked(expr, DEVICE, 3) == found[:3]


def test_a_draw_is_of_all_register_tiles_and_always_the_same():
    expr = CASES[0]
    found = sampled(expr, DEVICE, 40)
    assert len(set(found)) == 40 and found == sampled(expr, DEVICE, 40)
    assert found != sampled(expr, DEVICE, 40, seed=1)
    assert len({d.register_tile for d in found}) > 10
    few = gemm(1, 16, 8)
    assert len(sampled(few, DEVICE, 10_000)) == len(TilingSpace(few, DEVICE, 1000))


def test_the_fastest_measured_one_is_chosen_first():
    expr = CASES[0]
    best = ranked(expr, DEVICE, 4)
    spent = [d.tasks * d.estimated_ns for d in best]
    spent[2] /= 3
    timed = with_times(best, spent)
    [first] = choose(expr, DEVICE, timed, [])
    assert (first.tile, first.register_tile) == (best[2].tile, best[2].register_tile)
    assert first.source == "measured"
    assert first.measured_ns == pytest.approx(spent[2] / best[2].tasks, abs=0.1)
    second = first.explanation.runner_up
    assert second.by == "measured EU time" and second.ratio > 2
    assert (second.tile, second.register_tile) in [(d.tile, d.register_tile) for d in best]
    # a measured time is no part of what names a kernel
    assert repr(first) == repr(replace(first, measured_ns=1.0))


def test_among_others_the_time_beside_others_counts():
    expr = CASES[0]
    best = ranked(expr, DEVICE, 4)
    spent = [d.tasks * d.estimated_ns for d in best]
    spent[2] /= 3
    beside = [1.1 * ns for ns in spent]
    beside[2] *= 20
    beside[1] = spent[1] / 2
    [first] = choose(expr, DEVICE, with_times(best, spent, beside), [])
    assert (first.tile, first.register_tile) == (best[1].tile, best[1].register_tile)
    assert first.measured_ns == pytest.approx(spent[1] / best[1].tasks, abs=0.1)
    assert first.timed_ns == first.beside_ns == pytest.approx(first.measured_ns / 2, abs=0.1)
    assert first.explanation.runner_up.by == "measured EU time beside others"
    assert "us beside others" in first.reason
    assert repr(first) == repr(replace(first, beside_ns=0.0))


def test_work_that_cannot_be_shared_needs_to_be_much_faster():
    expr = CASES[0]
    whole = TilingSpace(expr, DEVICE).decision(0)
    cut = construct(expr, DEVICE)[0]
    assert whole.tasks == 1 < cut.tasks
    spent = cut.tasks * cut.estimated_ns
    [first] = choose(expr, DEVICE, with_times([whole, cut], [0.9 * spent, spent]), [])
    assert first.tile == cut.tile
    assert balance(1, 0.9 * spent, (1, 2), 0) > balance(cut.tasks, cut.estimated_ns, (1, 2), 0)


def test_faster_decisions_stay_only_if_they_measure_faster():
    expr, device = CASES[0], replace(DEVICE, eus=64)
    model = construct(expr, device)
    assert len(model) > 1
    spent = [d.tasks * d.estimated_ns for d in model]
    timed = with_times(model, spent)
    chosen = choose(expr, device, timed[:1], timed[1:])
    assert chosen[0] == timed[0] and len(chosen) > 1
    slow = with_times(model, [spent[0], *(100 * s for s in spent[1:])])
    assert choose(expr, device, slow[:1], slow[1:]) == slow[:1]
