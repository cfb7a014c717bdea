"""Explanations: the figures by hand, and the tiling that came second by counting."""

from dataclasses import replace

import numpy as np
import pytest
from roller_cases import CASES, elementwise, gemm, scalar

from rcompiler.device.cpu import cpu_device
from rcompiler.report import OperatorReport, Report, is_explanation
from rcompiler.roller.construct import TilingSpace, construct, decision_of
from rcompiler.roller.cost import makespan, unevenness
from rcompiler.roller.register import RegisterModel
from rcompiler.roller.vectors import choose_vector_axis

DEVICE = cpu_device("v4", eus=2)


def explained(expr, tile, register):
    model = RegisterModel(expr, DEVICE, choose_vector_axis(expr, DEVICE))
    return decision_of(model, model.tile(register), tile).explanation


def test_alignments_by_hand():
    found = explained(gemm(128, 768, 1024), (128, 64), (13, 32)).alignment
    assert (found.accumulators, found.hiding) == (26, 8)
    assert found.lanes == 1 and (found.row_bytes, found.line) == (4 * 64, 64)
    # rows of A are 4 KiB apart, the size of a way of 32 KiB / 8
    assert (found.rows_per_set, found.ways) == (13, 8)
    assert found.waste == round((130 * 768) / (128 * 768) - 1, 4)
    # 3 KiB apart: every fourth row falls into the same set
    assert explained(gemm(128, 768, 768), (128, 64), (13, 32)).alignment.rows_per_set == 4
    narrow = explained(gemm(4, 10, 64), (4, 10), (4, 16)).alignment
    assert narrow.lanes == 10 / 16 and narrow.row_bytes == 40


def test_the_share_of_the_peak_by_hand():
    expr = gemm(128, 768, 768)
    decision = construct(expr, DEVICE)[0]
    m, n = decision.tile
    operations = m * n * (2 * 768 + 1)
    found = decision.explanation
    assert found.saturation == pytest.approx(operations / decision.estimated_ns / 192, abs=1e-3)
    slowest = max(found.parts_ns, key=lambda part: part[1])
    assert found.limit == slowest[0] and slowest[1] <= decision.estimated_ns
    assert found.limit in decision.reason and f"{found.saturation:.0%}" in decision.reason


@pytest.mark.parametrize("name", ["gemm", "gemm_square", "conv_3x3", "softmax", "elementwise"])
def test_the_second_is_the_next_best_of_all_tilings(name):
    expr = CASES[name]
    first = construct(expr, DEVICE)[0]
    second = first.explanation.runner_up
    assert second.by == "EU time"
    space = TilingSpace(expr, DEVICE)
    order = np.argsort(space.scores, kind="stable")
    rest = [k for k in order if space.decision(int(k)) != first]
    best = space.decision(int(rest[0]))
    ratio = space.scores[rest[0]] / min(space.scores[k] for k in order if k not in rest)
    assert (best.tile, best.register_tile) == (second.tile, second.register_tile)
    assert second.ratio == pytest.approx(ratio, abs=1e-4)
    assert (second.tasks, second.estimated_ns) == (best.tasks, best.estimated_ns)


def test_an_only_tiling_has_no_second():
    for expr in (scalar(), elementwise(3, 5)):
        assert construct(expr, DEVICE)[0].explanation.runner_up is None


def test_faster_decisions_are_compared_by_their_makespan():
    device = cpu_device("v4", eus=64)
    levels = [replace(m, shared_bandwidth=m.bandwidth * m.shared_by) for m in device.memory]
    device = replace(device, memory=tuple(levels))  # one EU takes nothing from the others
    expr = gemm(1024, 1024, 1024)
    first, *faster = construct(expr, device)
    assert faster
    hand_off = device.costs.hand_off_ns
    for decision in faster:
        second = decision.explanation.runner_up
        assert (second.tile, second.by) == (first.tile, "makespan on 64 EUs")
        spans = [
            makespan(
                d.tasks,
                d.estimated_ns,
                64,
                hand_off,
                float(unevenness(expr, np.array([d.tile]))[0]),
            )
            for d in (first, decision)
        ]
        assert second.ratio == pytest.approx(spans[0] / spans[1], rel=0.01) and second.ratio > 1


def test_an_explanation_is_no_part_of_a_decision():
    (decision, *_), other = construct(CASES["gemm"], DEVICE), TilingSpace(CASES["gemm"], DEVICE)
    same = next(d for d in map(other.decision, range(len(other))) if d == decision)
    assert same.explanation != decision.explanation and repr(same) == repr(decision)


def report(**changes):
    explanation = construct(CASES["gemm"], DEVICE)[0].explanation.plain()
    fields = {
        **{"name": "fc", "kind": "contraction", "kernel": "k", "tile": (128, 48)},
        **{"register_tile": (8, 48), "tasks": 16, "estimated_ns": 16000.0, "measured_ns": 0.0},
        **{"reason": "", "source": "roller", "explanation": explanation},
    }
    operator = OperatorReport(**{**fields, **changes})
    figures = dict.fromkeys(("makespan_ns", "work_bound_ns", "path_bound_ns"), 1.0)
    sizes = dict.fromkeys(("arena_bytes", "arena_bound_bytes", "constant_bytes"), 1)
    return Report("d", (operator,), 2, 1, idle_ns=(0.0, 0.0), **figures, **sizes)


def test_a_report_says_it_in_words():
    text = report().explain()
    for words in ("fc: contraction", "tile: 128x48, 16 tasks of 1.0 us; chosen by roller"):
        assert words in text
    assert "bound by compute" in text and "second: " in text and "times the EU time" in text
    assert "measured 2.0 us" in report(measured_ns=32000.0).explain()
    assert "second" not in report(explanation={}).explain()
    alone = construct(scalar(), DEVICE)[0].explanation.plain()
    assert "second: none" in report(explanation=alone).explain()


def test_a_report_is_data_as_well():
    found = Report.from_json(report().to_json())
    [operator] = found.operators
    assert is_explanation(operator.explanation) and found.to_json() == report().to_json()
    assert operator.explanation["runner_up"]["ratio"] >= 1


def without(found, *keys):
    return {key: value for key, value in found.items() if key not in keys}


def test_other_forms_are_no_explanation():
    good = report().to_dict()["operators"][0]["explanation"]
    assert is_explanation(good) and is_explanation(without(good, "runner_up"))
    assert not is_explanation(without(good, "limit")) and not is_explanation("because")
    assert not is_explanation({**good, "limit": 7}) and not is_explanation({**good, "luck": 1})
    assert not is_explanation({**good, "parts_ns": {"L2": "long"}})
    assert not is_explanation({**good, "registers": [1]})
    assert not is_explanation({**good, "alignment": without(good["alignment"], "ways")})
