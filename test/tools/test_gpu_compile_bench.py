"""gpu_compile_bench: what figures say, and what a compilation in a process of its own reports."""

import json
from dataclasses import asdict
from functools import partial

import pytest
from measurements import _gpu_compile_bench, gpu_compile_bench
from measurements._gpu_compile_bench import (
    GOALS,
    NETWORKS,
    PAPER,
    Case,
    CompilationFigure,
    NothingSpilled,
    Shows,
    Within,
    faults,
    light_models,
    measured,
)
from measurements._shared import reached

from rcompiler.codegen.cuda_tools import find_tool

needs_tools = pytest.mark.skipif(
    not (find_tool("ptxas") and find_tool("nvdisasm")), reason="needs ptxas and nvdisasm"
)


def figure(model, target="cuda:sm_80", precision="f16", seconds=10.0, **more):
    return CompilationFigure(model, target, precision, seconds, **more)


FAST = figure("fast", steps={"ptx": 3.0, "ptxas": 7.0}, sass={"HMMA": 5})
SLOW = figure("slow", seconds=30.5, steps={"ptx": 3.0, "ptxas": 27.5}, sass={"HMMA": 0})
SPILLS = figure("spills", "cuda:h200", spilled={"k_1": 16, "k_2": 4})
ELSEWHERE = figure("elsewhere", spilled_elsewhere={"k_3": 8})
REFUSED = figure("refused", seconds=None, error="ptxas for sm_80: no")


# -- goals -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "figures, within, nothing_spilled",
    [
        ([], None, None),
        ([FAST], 1.0, 1.0),
        ([FAST, figure("just", seconds=30.0)], 1.0, 1.0),
        ([FAST, SLOW], 0.5, 1.0),
        ([FAST, SPILLS], 1.0, 0.5),
        ([FAST, ELSEWHERE], 1.0, 1.0),
        ([FAST, SLOW, SPILLS, REFUSED], 0.5, 0.5),
    ],
)
def test_shares(figures, within, nothing_spilled):
    assert Within().value(figures) == within
    assert NothingSpilled().value(figures) == nothing_spilled


@pytest.mark.parametrize(
    "opcode, target, precisions, value",
    [
        ("HMMA", "cuda:sm_80", ("f16", "tf32"), 1),
        ("LDSM", "cuda:sm_80", ("f16",), 0),
        ("HMMA", "cuda:h200", ("f16",), 0),
        ("HMMA", "cuda:sm_80", ("f32",), None),
        ("HMMA", "cuda:sm_86", ("f16",), None),
    ],
)
def test_opcodes_of_those_compiled_so(opcode, target, precisions, value):
    figures = [FAST, SLOW, SPILLS, figure("refused", sass={"HMMA": 1}, error="no")]
    assert Shows(opcode, target, precisions).value(figures) == value


def test_goals_ask_for_every_opcode():
    sass = dict.fromkeys(_gpu_compile_bench.OPCODES, 1)
    all_of_them = [figure("m", target, sass=sass) for target in ("cuda:h200", "cuda:sm_80")]
    assert all(goal["met"] for goal in reached(GOALS, all_of_them))
    for opcode in _gpu_compile_bench.OPCODES:
        without = [figure("m", f.target, sass=sass | {opcode: 0}) for f in all_of_them]
        missed = [goal["goal"] for goal in reached(GOALS, without) if not goal["met"]]
        assert len(missed) == 1 and f"show {opcode} " in missed[0]


def test_faults_name_model_step_and_kernel():
    assert [*faults([FAST, ELSEWHERE])] == []
    assert [*faults([SLOW, SPILLS, REFUSED])] == [
        "slow for cuda:sm_80, f16: took 30.5 s, 27.5 of them in ptxas",
        "spills for cuda:h200, f16: rKernel k_1 spills 16 bytes",
        "spills for cuda:h200, f16: rKernel k_2 spills 4 bytes",
        "refused for cuda:sm_80, f16: ptxas for sm_80: no",
    ]


# -- the tool --------------------------------------------------------------------------------
@pytest.fixture
def bench(tool):
    """bench(*arguments) -> (exit code, stdout, stderr)."""
    return partial(tool, gpu_compile_bench.main)


@pytest.fixture
def compiled(monkeypatch):
    """The cases that are asked for; each gets the figure of the model's name."""
    asked = []

    def instead(case):
        asked.append(case)
        known = {f.model: asdict(f) for f in (FAST, SLOW, SPILLS)}[case.model]
        return CompilationFigure(**known | {"target": case.target, "precision": case.precision})

    monkeypatch.setattr(_gpu_compile_bench, "measured", instead)
    return asked


def test_all_networks_are_asked_for():
    light = light_models()
    assert len(light) == 9 and all(name.startswith("light_") for name in light)
    assert len(PAPER) == 6 and len(NETWORKS) == 2


def test_every_case_is_compiled(bench, compiled):
    bench("--models=fast,slow", "--targets=cuda:h200,cuda:sm_80", "--precisions=f32,f16")
    assert [(c.model, c.target, c.precision) for c in compiled] == [
        (model, target, precision)
        for model in ("fast", "slow")
        for target in ("cuda:h200", "cuda:sm_80")
        for precision in ("f32", "f16")
    ]


def test_a_goal_that_is_missed_is_a_failure(bench, compiled):
    code, out, err = bench("--models=fast", "--targets=cuda:sm_80", "--precisions=f16")
    assert code == 1 and err == ""  # LDSM and LDGSTS
    assert sum(line.endswith(", missed") for line in out.splitlines()) == 2
    code, out, err = bench("--models=spills", "--targets=cuda:h200", "--precisions=f32", "--json=r")
    assert code == 1 and "nothing spilled in contractions: 0.000, missed" in out
    assert err.splitlines() == [
        f"gpu_compile_bench: error: spills for cuda:h200, f32: rKernel {name} spills {n} bytes"
        for name, n in (("k_1", 16), ("k_2", 4))
    ]
    with open("r") as file:
        record = json.load(file)
    assert record["models"][0]["spilled"] == {"k_1": 16, "k_2": 4}
    assert {"device", "date", "versions", "commit"} <= set(record)
    assert [goal["met"] for goal in record["goals"]][:2] == [True, False]


def test_goals_that_are_met(bench, compiled, monkeypatch):
    monkeypatch.setattr(_gpu_compile_bench, "GOALS", (Within(), NothingSpilled()))
    code, out, err = bench("--models=fast", "--targets=cuda:sm_80", "--precisions=f16")
    assert (code, err) == (0, "") and "missed" not in out
    head, row, *_ = out.splitlines()
    assert head.split()[:3] == ["model", "target", "precision"]
    assert row.split()[:6] == ["fast", "cuda:sm_80", "f16", "10.0", "ptxas", "7.0"]


@pytest.mark.parametrize(
    "argument, code, message",
    [("--precisions=f8", 2, "'f8' is none of f32"), ("--targets=cuda:none", 1, "none"),
     ("--models=", 2, "the list is empty"), ("--json=no/folder/r.json", 1, "no/folder")],
)  # fmt: skip
def test_wrong_arguments(tool, capsys, argument, code, message):
    try:
        found, _, err = tool(gpu_compile_bench.main, argument)
    except SystemExit as exit_:
        found, err = exit_.code, capsys.readouterr().err
    assert found == code and message in err and len(err.splitlines()) == 1


# -- one compilation -------------------------------------------------------------------------
@needs_tools
def test_figure_of_a_compilation():
    found = measured(Case("two_branch", "cuda:sm_80", "f16"))
    assert found.error == "" and found.seconds is not None
    assert 0 < sum(found.steps.values()) <= found.seconds
    assert {"vdevice-to-gpu", "ptx", "ptxas"} <= set(found.steps)
    assert 0 < found.contractions <= found.kernels and found.registers
    assert found.instructions > found.sass["HMMA"] > 0


def test_why_there_is_no_figure():
    found = measured(Case("nothing", "cuda:sm_80", "f16"))
    assert found.seconds is None and "nothing: no such file" in found.error
