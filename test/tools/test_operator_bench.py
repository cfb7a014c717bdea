"""operator_bench: what its models are, what its figures say. No test looks at a measured time."""

import json
from functools import partial

import numpy as np
import onnx
import pytest
from measurements import _operator_bench, _operator_figures, operator_bench
from measurements._bench_operators import ALONE, AROUND, WITHIN, Operator, operators
from measurements._operator_figures import GOALS, OURS, THEIRS, Goal, OperatorFigure, cost, geomean

from rcompiler.errors import CompilerError
from rcompiler.tools._measure import Timing
from rcompiler.tools._reference import reference

ALL = {f"{o.kind} {o.name}": o for o in operators()}


def timing(*ns):
    """Of rounds of one reading each."""
    return Timing(1, [np.array([t], float) for t in ns])


def operator(flops=0):
    return Operator("kind", "name", flops, 0, dict)


# -- models ----------------------------------------------------------------------------------
def test_every_operator_is_called_otherwise():
    assert len(ALL) == len(list(operators()))
    kinds = {o.kind for o in operators()}
    assert kinds == set("|".join(goal.kinds for goal in GOALS["v4"]).split("|"))


@pytest.mark.parametrize("name", ALL)
def test_models_are_valid(name):
    for model in ALL[name].models().values():
        onnx.checker.check_model(model, full_check=True)


@pytest.mark.parametrize(
    "name, flops, nbytes",
    [
        ("gemm 128x768x3072", 2 * 128 * 768 * 3072, 4 * (128 * 3072 + 3072 * 768 + 128 * 768)),
        ("gemv 1x1000x1024", 2 * 1000 * 1024, 4 * (1024 + 1024000 + 1000)),
        ("convolution 3x3 s2 128->128 @56", 2 * 28 * 28 * 128 * 128 * 9,
         4 * (128 * 56 * 56 + 128 * 128 * 9 + 128 * 28 * 28)),
        ("depthwise 3x3 144 @56", 2 * 56 * 56 * 144 * 9, 4 * (2 * 56 * 56 * 144 + 144 * 9)),
        ("attention 12 heads, 128 tokens", 4 * 12 * 128 * 128 * 64, 4 * 4 * 12 * 128 * 64),
        ("attention block 12 heads, 128 tokens", 4 * 12 * 128 * 128 * 64, 4 * 4 * 12 * 128 * 64),
        ("layer norm 512x768", 0, 2 * 4 * 512 * 768),
    ],
)  # fmt: skip
def test_work_of_an_operator(name, flops, nbytes):
    assert (ALL[name].flops, ALL[name].nbytes) == (flops, nbytes)


def test_a_convolution_alone_and_in_a_network():
    models = ALL["convolution 3x3 s2 128->128 @56"].models()
    kinds = {name: [n.op_type for n in model.graph.node] for name, model in models.items()}
    assert kinds == {
        ALONE: ["Conv", "Relu"],
        AROUND: ["Conv", "Conv"],
        WITHIN: ["Conv", "Conv", "Relu", "Conv"],
    }
    for name in (AROUND, WITHIN):
        (out,) = models[name].graph.output
        assert [d.dim_value for d in out.type.tensor_type.shape.dim] == [1, 16, 1, 1]


def test_nothing_is_before_the_first_convolution():
    assert set(ALL["convolution 7x7 s2 3->64 @224"].models()) == {ALONE, WITHIN}


HEADS = np.random.default_rng(0).standard_normal((3, 1, 12, 128, 64)).astype(np.float32)


def mean_of_values():
    """Attention of HEADS by its definition: (1, heads, tokens, size)."""
    q, k, v = HEADS
    scores = np.exp(q @ k.swapaxes(2, 3) / 8)
    return scores / scores.sum(-1, keepdims=True) @ v


def test_attention_is_a_mean_of_values():
    model = ALL["attention 12 heads, 128 tokens"].models()[ALONE]
    _, (actual,) = reference(model, dict(zip("qkv", HEADS, strict=True)))
    np.testing.assert_allclose(actual, mean_of_values(), atol=1e-5)


def test_an_attention_block_splits_and_joins_heads():
    model = ALL["attention block 12 heads, 128 tokens"].models()[ALONE]
    rows = HEADS.swapaxes(2, 3).reshape(3, 1, 128, 768)
    _, (actual,) = reference(model, dict(zip("qkv", rows, strict=True)))
    expected = mean_of_values().swapaxes(1, 2).reshape(1, 128, 768)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


# -- figures ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "parts, expected",
    [
        ({ALONE: [5, 7]}, [5, 7]),
        ({ALONE: [50, 50], WITHIN: [30, 31], AROUND: [10, 12]}, [20, 19]),
        ({ALONE: [50, 50], WITHIN: [30, 31]}, [30, 31]),
        ({ALONE: [15, 15], WITHIN: [30, 31], AROUND: [10, 12]}, [15, 15]),
    ],
)
def test_cost_is_what_an_operator_adds(parts, expected):
    assert cost({k: np.array(v, float) for k, v in parts.items()}).tolist() == expected


def test_a_figure_is_paired_by_round():
    times = {OURS: {ALONE: timing(100, 200, 400)}, THEIRS: {ALONE: timing(150, 300, 400)}}
    found = _operator_figures.figure(
        operator(2000),
        times,
        peak=timing(10, 20, 30),
        peak_flops=400,
        copy=timing(3000, 1000, 2000),
    )
    assert found.us == {OURS: 0.2, THEIRS: 0.3} and found.ratio == 1.5
    assert found.copy_us == 2.0
    assert found.gflops == 10.0  # of 20, 10 and 5
    assert found.peak_share == 0.5  # of 20/40, 10/20 and 5/13.3


def test_no_arithmetic_is_counted_of_a_softmax():
    found = _operator_figures.figure(
        operator(), {OURS: {ALONE: timing(1)}, THEIRS: {ALONE: timing(1)}}, timing(1), 1, timing(1)
    )
    assert found.ratio == 1.0 and found.gflops is found.peak_share is None


def test_what_cannot_be_measured_is_an_error():
    parts = {ALONE: timing(9), WITHIN: timing(5), AROUND: timing(6)}
    found = _operator_figures.figure(
        operator(), {OURS: parts, THEIRS: parts}, timing(1), 1, timing(1)
    )
    assert found.ratio is None and "give it more --seconds" in found.error


def test_geomean():
    assert geomean([2.0, 8.0]) == pytest.approx(4.0)


FIGURES = [
    OperatorFigure("gemm", "a", ratio=2.0, peak_share=0.95),
    OperatorFigure("gemm", "b", ratio=0.5, peak_share=0.85, resident=False),
    OperatorFigure("convolution", "c", ratio=8.0, peak_share=0.9),
    OperatorFigure("softmax", "d", ratio=1.5),
    OperatorFigure("softmax", "e", error="cannot be compiled"),
]


@pytest.mark.parametrize(
    "goal, value",
    [
        (Goal("gemm|convolution", "geomean", 1), 2.0),
        (Goal("gemm|convolution", "least", 1), 0.5),
        (Goal("gemm|convolution", "peak", 1), 0.9),
        (Goal("softmax", "least", 1), 1.5),
        (Goal("softmax", "peak", 1), None),
        (Goal("gelu", "geomean", 1), None),
    ],
)
def test_value_of_a_goal(goal, value):
    assert goal.value(FIGURES) == (value if value is None else pytest.approx(value))


def test_a_goal_says_what_it_wants():
    assert [str(goal) for goal in GOALS["v4"]][:3] == [
        "gemm and convolution: geometric mean >= 1.03",
        "gemm and convolution: least ratio >= 0.97",
        "gemm and convolution: least share of the peak >= 90%",
    ]


# -- the tool --------------------------------------------------------------------------------
@pytest.fixture
def bench(tool):
    """operator_bench in short: bench(*arguments) -> (exit code, stdout, stderr)."""
    return partial(tool, operator_bench.main, "--seconds=0.002", "--rounds=2")


def test_table_and_record(bench):
    code, out, err = bench("--only=7x7|gelu", "--json=r.json")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("FMA peak of ") and lines[0].endswith("clock: cpu")
    assert lines[1].split()[:2] == ["kind", "operator"]
    assert [line.split()[0] for line in lines[2:4]] == ["convolution", "gelu"]
    assert sum("(geometric mean)" in line for line in lines) == 2
    with open("r.json") as file:
        record = json.load(file)
    assert {"device", "versions", "commit", "feature_level", "openblas_coretype"} <= set(record)
    assert record["options"]["clock"] == "cpu" and record["peak_gflops"] > 0
    conv, gelu = record["operators"]
    assert set(conv["parts"][OURS]) == set(conv["parts"][THEIRS]) == {ALONE, WITHIN}
    assert gelu["ratio"] > 0 and gelu["gflops"] is None and gelu["copy_us"] > 0
    assert len(record["goals"]) == len(GOALS[record["feature_level"]])


def test_a_wrong_result_is_not_timed(bench, monkeypatch):
    def wrong(*_):
        raise CompilerError("the result differs from onnxruntime's by 1 at [0]")

    monkeypatch.setattr(_operator_bench.Bench, "_pair", wrong)
    code, out, err = bench("--only=gelu")
    assert code == 1 and out.splitlines()[2].split()[-1] == "-"
    assert err == (
        "operator_bench: error: gelu 128x3072: the result differs from onnxruntime's by 1 at [0]\n"
    )


@pytest.mark.parametrize(
    "arguments, message",
    [(["--only=fft"], "--only=fft: no operator is so called"), (["--target=toaster"], "toaster"),
     (["--json=no/folder/r.json"], "no/folder")],
)  # fmt: skip
def test_errors_are_one_line(bench, arguments, message):
    code, out, err = bench(*arguments)
    assert (code, out) == (1, "") and message in err and err.count("\n") == 1
