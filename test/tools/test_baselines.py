"""What rc-bench measures beside, and what it makes of an engine that cannot take part."""

import json

import numpy as np
import pytest

from rcompiler.errors import CompilerError
from rcompiler.tools import _baselines, _bench, models, rc_bench
from rcompiler.tools._bench import FASTEST, Case, Mean, means
from rcompiler.tools._reference import has

needs_openvino = pytest.mark.skipif(not has("openvino"), reason="openvino is not installed")
ENGINES = ["onnxruntime", pytest.param("openvino", marks=needs_openvino)]


class Fake:
    """An engine that does next to nothing: its outputs are given, or its refusal."""

    settings = {"threads": "threads"}

    def __init__(self, short, outputs=None):
        self.short, self.outputs = short, outputs

    def bind(self, model, threads, feeds):
        if self.outputs is None:
            raise CompilerError("fake cannot run the model: no such operator")
        return _baselines.Bound(lambda: None, self.outputs)


def options(*baselines):
    found = rc_bench.main.parse(["--rounds=2", "--seconds=0.01"])
    found.baseline = list(baselines)
    return found


@pytest.fixture
def two_branch():
    """(model, input, its outputs)"""
    model = models.build("two_branch")
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    return model, x, _baselines.BASELINES["onnxruntime"].bind(model, 1, {"input": x}).outputs


@pytest.fixture
def engines(monkeypatch, two_branch):
    """What `BASELINES` holds: right, wrong and refusing engines."""
    right = two_branch[2]
    fakes = {"right": Fake("r", right), "wrong": Fake("w", [-right[0]]), "refuses": Fake("n")}
    monkeypatch.setattr(_bench, "BASELINES", fakes)
    monkeypatch.setattr(_baselines, "BASELINES", fakes)
    monkeypatch.setattr(_baselines, "has", lambda name: True)
    monkeypatch.setenv("RC_CACHE_DIR", "")


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_is_one_call_on_fixed_memory(name, two_branch):
    model, x, expected = two_branch
    bound = _baselines.BASELINES[name].bind(model, 1, {"input": x})
    bound.run()
    np.testing.assert_allclose(bound.outputs, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_says_what_it_cannot_run(name, two_branch):
    model, _, _ = two_branch
    model.graph.node[0].op_type = "Unheard"
    with pytest.raises(CompilerError, match=f"{name} cannot"):
        _baselines.BASELINES[name].bind(model, 1, {"input": np.zeros((4, 8), np.float32)})


@needs_openvino
def test_openvino_gets_a_static_shape(two_branch):
    model, x, expected = two_branch
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    outputs = _baselines.BASELINES["openvino"].bind(model, 1, {"input": x}).outputs
    np.testing.assert_allclose(outputs, expected, rtol=1e-6)


def test_installed_baselines(monkeypatch):
    monkeypatch.setattr(_baselines, "has", lambda name: name == "openvino")
    assert _baselines.installed() == ["openvino"]
    assert _baselines.installed(["openvino", "openvino"]) == ["openvino"]
    assert _baselines.installed([]) == []
    with pytest.raises(CompilerError, match="onnxruntime is not installed; pip install"):
        _baselines.installed(["onnxruntime"])


def test_an_engine_that_refuses_is_said_and_the_case_goes_on(engines):
    case = _bench.run_case("two_branch", 1, options("refuses", "right"))
    assert case.unmeasured == {"refuses": "fake cannot run the model: no such operator"}
    assert set(case.latency_ms) == {"rcompiler", "right"} and case.fastest == "right"
    assert case.error == "" and case.difference < 1e-5


def test_the_first_engine_is_the_reference(engines):
    case = _bench.run_case("two_branch", 1, options("right", "wrong"))
    assert case.error == "" and set(case.ratios) == {"right"}
    assert "output 'output' differs from wrong" in case.unmeasured["wrong"]
    case = _bench.run_case("two_branch", 1, options("wrong", "right"))
    assert "output 'output' differs from wrong" in case.error and not case.ratios


def test_no_baseline(engines):
    case = _bench.run_case("two_branch", 1, options())
    assert set(case.latency_ms) == {"rcompiler"}
    record = case.record()
    assert record["ratio"] is record["ratio_fastest"] is record["fastest"] is None


def test_ratios_of_a_case():
    case = Case("m", 1, ratios={"onnxruntime": 1.5, "openvino": 1.2}, fastest="openvino")
    assert [case.ratio(n) for n in ("onnxruntime", "openvino", FASTEST)] == [1.5, 1.2, 1.2]
    record = case.record()
    assert (record["ratio"], record["ratio_fastest"]) == (1.5, 1.2)


def test_means_per_number_of_threads():
    cases = [
        Case("a", 1, ratios={"onnxruntime": 2.0, "openvino": 4.0}, fastest="onnxruntime"),
        Case("b", 1, ratios={"onnxruntime": 8.0}, fastest="onnxruntime"),
        Case("a", 2, ratios={"openvino": 3.0}, fastest="openvino"),
        Case("c", 1, error="cannot be compiled"),
    ]
    assert means(cases) == [
        Mean(1, "onnxruntime", 2, pytest.approx(4.0)),
        Mean(1, "openvino", 1, pytest.approx(4.0)),
        Mean(1, FASTEST, 2, pytest.approx(4.0)),
        Mean(2, "openvino", 1, pytest.approx(3.0)),
        Mean(2, FASTEST, 1, pytest.approx(3.0)),
    ]


def test_the_table_and_the_record(engines, tmp_path, capsys):
    file = tmp_path / "r.json"
    code = rc_bench.main(
        ["--models=two_branch", "--baseline=right,refuses", "--seconds=0.01", "--rounds=2",
         f"--json={file}"]
    )  # fmt: skip
    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert lines[0].split()[-7:] == ["r", "p50", "n", "p50", "/r", "/n", "/fastest"]
    assert lines[2].startswith("r: right; n: refuses; /: ratio")
    assert lines[3] == (
        "two_branch, 1 thread: not measured: fake cannot run the model: no such operator"
    )
    assert [line.partition(" times as fast as ")[2] for line in lines[4:]] == [
        "right (geometric mean of 1 model)",
        "the fastest of them (geometric mean of 1 model)",
    ]
    record = json.loads(file.read_text())
    assert record["baselines"]["right"] == {"threads": "threads"}
    assert [m["baseline"] for m in record["geomeans"]] == ["right", FASTEST]
    assert "openvino" in record["versions"]
