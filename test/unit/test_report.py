"""The text of a report: it fits a terminal, and names stay what they are."""

from dataclasses import replace

import pytest

from rcompiler.report import OperatorReport, Report

LONG = "/model/encoder/layer.11/attention/self/query/MatMul"


def operator(name, **others):
    sizes = {"tile": (1, 64, 56, 56), "register_tile": (1, 8, 7, 4), "tasks": 9}
    texts = {"kind": "convolution", "kernel": "k", "reason": "", "source": "roller"}
    times = {"estimated_ns": 2e5, "measured_ns": 0.0}
    return OperatorReport(name=name, explanation={}, **sizes, **texts | others, **times)


def report(*operators, eus=2):
    return Report(
        device="cpu v4, 2 EU(s), default figures: "
        + ", ".join(f"L{i} {i} GB/s" for i in range(20)),
        operators=operators,
        eus=eus,
        launches=1,
        makespan_ns=1e5,
        work_bound_ns=1e5,
        path_bound_ns=1e4,
        idle_ns=(0.0,) * eus,
        arena_bytes=64,
        arena_bound_bytes=64,
        constant_bytes=64,
        note="a note that is rather long " * 8,
    )


@pytest.mark.parametrize("width", [80, 100, 200])
def test_lines_fit_and_names_are_whole(width):
    root = "winograd4 of: direct 313.7 us, winograd2 428.4 us, winograd4 269.3 us"
    why = "1x8x7x4 in registers: 22 accumulators; 9 tasks, bound by compute, 91%"
    wide = replace(operator("wide"), tile=(1, 16, 128, 128, 64), register_tile=(1, 4, 1, 16, 16))
    names = (
        operator(f"{LONG}_1"),
        operator(f"{LONG}_2", reason=why, root=root),
        operator("short"),
        wide,
    )
    found = report(*names)
    lines = found.text(width).splitlines()
    assert any("1x16x128x128x64 (1x4x1x16x16)" in line for line in lines)
    assert all(len(line) <= width for line in lines)
    words = {word for line in lines for word in line.split()}
    assert {f"{LONG}_1", f"{LONG}_2", "short"} <= words
    assert sum("1x64x56x56 (1x8x7x4)" in line for line in lines) == 3
    text = " ".join(" ".join(lines).split())
    assert root in text and "accumulators" not in text and "GB/s" in text
    assert " ".join(found.note.split()) in text


def test_without_a_width_a_thing_is_a_line():
    found = report(operator(f"{LONG}_1"), operator("short"))
    lines = str(found).splitlines()
    assert len(lines) == 6 and lines[1].startswith(f"{LONG}_1 ")
    assert lines[3] == f"device: {found.device}"
    assert {line.index("convolution") for line in lines[1:3]} == {len(LONG) + 3}


def test_explanations_say_on_how_many_eus_tiles_were_compared():
    second = {"tile": [1], "register_tile": [1], "tasks": 2, "estimated_ns": 1.0, "ratio": 1.1}
    explanation = {
        "limit": "compute",
        "parts_ns": {"compute": 1.0},
        "saturation": 0.9,
        "registers": [1, 2],
        "loads": 1.0,
        "alignment": dict.fromkeys(
            (
                "lanes",
                "waste",
                "accumulators",
                "hiding",
                "row_bytes",
                "line",
                "rows_per_set",
                "ways",
            ),
            1,
        ),
        "runner_up": second | {"by": "makespan on 8 EUs"},
    }
    one = replace(operator("a"), explanation=explanation)
    last = report(one).explain().splitlines()[-1]
    assert last.startswith("The schedule has 2 EUs. Makespans on 8 EUs compare tiles where no ")
    assert "The schedule has" not in report(one, eus=8).explain()
