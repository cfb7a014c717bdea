"""gpu_coverage: ONNX's cases compiled into a folder, and run on the emulated device."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import measurements
import ml_dtypes
import numpy as np
import pytest
from fake_cuda import installed
from measurements import _gpu_coverage_run, gpu_coverage
from measurements._gpu_coverage_cases import (
    add_cases,
    get_tensors,
    put_tensors,
    read_cases,
)
from measurements._gpu_coverage_run import check_similar
from measurements._packed_folder import PackedFolder

from rcompiler.errors import CompilerError, DeviceError

CASES = "abs|cast_FLOAT_to_BFLOAT16|constant|det_2d|relu|reshape_extended_dims|string_concat"
ONLY = f"--only=^test_({CASES})_cpu$"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("coverage") / "made"
    assert gpu_coverage.main(["compile", ONLY, "--target=cuda:emulated", "-o", str(path)]) == 0
    return PackedFolder(path)


@pytest.fixture
def coverage(tool):
    """coverage(*arguments) -> (exit code, stdout, stderr)."""
    return partial(tool, gpu_coverage.main)


def run(coverage, folder, *options):
    """Exit code, and statuses and reasons by case."""
    code, out, err = coverage("run", str(folder.path), "--jobs=1", "--json=r.json", *options)
    assert not err
    with open("r.json") as file:
        cases = json.load(file)["cases"]
    return code, out, {case["case"]: (case["status"], case["reason"]) for case in cases}


def named(folder, name):
    return next(case for case in read_cases(folder) if case.name == name)


def changed(folder, tmp_path, name, **values):
    """The same folder, but for values of the only run of a case."""
    copy = PackedFolder(tmp_path / "copy")
    copy.create()
    for file in folder.path.glob("*.xz"):
        os.link(file, copy.path / file.name)
    case = named(folder, name)
    [one] = case.runs
    others = [each for each in read_cases(folder) if each.name != name]
    add_cases(copy, [*others, replace(case, runs=[replace(one, **values)])])
    return copy


# -- what a folder holds ---------------------------------------------------------------------------
def test_cases_are_kept_with_what_onnx_compares(folder):
    cases = {case.name.removeprefix("test_"): case for case in read_cases(folder)}
    assert sorted(cases) == CASES.split("|")
    assert {case.status for case in cases.values()} == {"compiled", "refused"}
    assert not cases["string_concat"].runs and "string" in cases["string_concat"].reason
    relu = cases["relu"]
    [found] = relu.runs
    assert (found.rtol, found.atol, relu.operator) == (1e-3, 1e-7, "Relu")
    [x], [y] = get_tensors(folder, found.feeds), get_tensors(folder, found.wanted)
    assert np.array_equal(np.maximum(x, 0), y)
    assert cases["reshape_extended_dims"].facts == {"baked": ["shape"], "kept": ["data"]}


def test_artifacts_are_small(folder, tmp_path):
    [found] = named(folder, "test_relu").runs
    artifact = folder.get_artifact(found.artifact, tmp_path / "model.rcx")
    assert not artifact.stages and artifact.image.ptx and not artifact.image.cubin


def test_a_case_takes_the_place_of_the_one_before(folder, tmp_path):
    packed = PackedFolder(tmp_path)
    relu, others = named(folder, "test_relu"), [named(folder, "test_abs")]
    add_cases(packed, [relu, *others])
    add_cases(packed, [replace(relu, reason="new"), replace(relu, target="cuda:h200")])
    found = [(case.name, case.target, case.reason) for case in read_cases(packed)]
    assert found == [
        ("test_abs", "cuda:emulated", ""),
        ("test_relu", "cuda:emulated", "new"),
        ("test_relu", "cuda:h200", ""),
    ]


@pytest.mark.parametrize("text", ['[{"model": "x"}]', '[{"name": "x", "runs": []}]'])
def test_an_index_of_something_else(tmp_path, text):
    (tmp_path / "index.json").write_text(text)
    with pytest.raises(CompilerError, match="not made by this version"):
        read_cases(PackedFolder(tmp_path))


def test_tensors_of_all_types_come_back(tmp_path):
    packed = PackedFolder(tmp_path)
    given = [
        np.arange(6.0).reshape(2, 3),
        np.array(1.5, ml_dtypes.bfloat16),
        np.array([[1, -2]], ml_dtypes.int4),
        np.array([[1.5], [-2]], ml_dtypes.float8_e5m2).T,
        np.array([0.5, -6], ml_dtypes.float4_e2m1fn),
        np.zeros((0, 3), np.float16),
        np.array(True),
    ]
    found = get_tensors(packed, put_tensors(packed, given))
    assert [x.dtype for x in found] == [x.dtype for x in given]
    assert all(np.array_equal(x, y) for x, y in zip(found, given, strict=True))
    assert get_tensors(packed, put_tensors(packed, [])) == []


# -- what is right ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "output, what",
    [
        ([np.float32([1.0, 2.1])], "Mismatched elements: 1 / 2"),
        ([np.float32([1.0, np.nan])], "nan location"),
        ([np.float32([[1.0, 2.0]])], "Output 0 has another shape"),
        ([np.float64([1.0, 2.0])], "Output 0 has another type"),
        ([], "0"),
    ],
)
def test_other_results_are_found(output, what):
    wanted = [np.float32([1.0, 2.0])]
    check_similar([np.float32([1.0, 2.0009])], wanted, 1e-3, 0.0)
    with pytest.raises(AssertionError, match=what):
        check_similar(output, wanted, 1e-3, 0.0)


def test_bfloat16_may_differ_by_two_units():
    wanted = [np.array([1.0], ml_dtypes.bfloat16)]
    check_similar([np.array([1 + 2**-6], ml_dtypes.bfloat16)], wanted, 1e-3, 0.0)
    with pytest.raises(AssertionError):
        check_similar([np.array([1 + 2**-5], ml_dtypes.bfloat16)], wanted, 1e-3, 0.0)


# -- run -------------------------------------------------------------------------------------------
def test_what_is_right_passes(coverage, folder):
    code, out, found = run(coverage, folder)
    assert code == 0 and "pass 6, wrong 0, crash 0, refused 1 of 7" in out
    assert found.pop("test_string_concat")[0] == "refused"
    assert set(found.values()) == {("pass", "")}
    with open("r.json") as file:
        record = json.load(file)
    assert record["gpu"]["name"] == "emulated" and not record["gpu"]["real"]
    assert record["passed"] == {"inputs": 4, "baked": 1, "folded": 1}
    assert record["targets"] == ["cuda:emulated"] and len(record["compiled_by"]) == 1
    assert {"date", "versions", "commit"} <= set(record) and record["options"]["only"] == ""


def test_some_cases_are_run(coverage, folder):
    code, _, found = run(coverage, folder, "--only=abs|relu")
    assert code == 0 and sorted(found) == ["test_abs", "test_relu"]


def test_another_result_than_the_expected_is_wrong(coverage, folder, tmp_path):
    [one] = named(folder, "test_abs").runs
    [wanted] = get_tensors(folder, one.wanted)
    wanted.flat[-1] += 1
    copy = changed(folder, tmp_path, "test_abs", wanted=put_tensors(folder, [wanted]))
    code, out, found = run(coverage, copy)
    status, reason = found.pop("test_abs")
    assert (code, status) == (1, "wrong") and "Mismatched elements: 1 / 60" in reason
    assert {status for status, _ in found.values()} == {"pass", "refused"}


def test_an_artifact_that_cannot_be_loaded_is_a_crash(coverage, folder, tmp_path):
    copy = changed(folder, tmp_path, "test_abs", artifact=["gone", "gone"])
    code, _, found = run(coverage, copy)
    status, reason = found.pop("test_abs")
    assert (code, status) == (1, "crash") and "gone.xz: cannot be read" in reason
    assert {status for status, _ in found.values()} == {"pass", "refused"}


def test_after_a_case_that_ends_its_process_the_next_one_runs(coverage, folder, monkeypatch):
    load = _gpu_coverage_run.gpu_model

    def dies(folder, keys, what, **options):
        if what == "test_constant":
            os._exit(7)
        return load(folder, keys, what, **options)

    monkeypatch.setattr(_gpu_coverage_run, "gpu_model", dies)
    code, out, found = run(coverage, folder)
    assert code == 1 and found["test_constant"] == ("crash", "exit code 7")
    assert "pass 5, wrong 0, crash 1, refused 1 of 7" in out


def test_after_a_failed_launch_the_next_case_has_another_process(coverage, folder, monkeypatch):
    """Its CUDA context is lost."""
    load, broken = _gpu_coverage_run.gpu_model, []

    def fails(folder, keys, what, **options):
        if what == "test_abs" and options:  # not where the device is only described
            broken.append(what)
        if broken:
            raise DeviceError("the context is lost")
        return load(folder, keys, what, **options)

    monkeypatch.setattr(_gpu_coverage_run, "gpu_model", fails)
    first = sorted(read_cases(folder), key=lambda case: case.name)  # test_abs, then all others
    monkeypatch.setattr("measurements._gpu_coverage_cases.read_cases", lambda _: first)
    code, _, found = run(coverage, folder)
    assert code == 1 and found["test_abs"] == ("crash", "DeviceError: the context is lost")
    assert [name for name, (status, _) in found.items() if status == "crash"] == ["test_abs"]


def test_by_the_driver_of_cuda(coverage, monkeypatch):
    code, _, err = coverage("compile", "--only=^test_relu_cpu$", "--target=cuda:sm_80", "-o", "sm")
    assert code == 0, err
    code, out, err = coverage("run", "sm")
    assert code == 1 and not out and len(err.splitlines()) == 1
    installed(monkeypatch, capability=(8, 0), multiprocessors=108)
    code, out, err = coverage("run", "sm", "--json=r.json")
    assert code == 0, err
    with open("r.json") as file:
        assert json.load(file)["gpu"]["name"] == "fake"


# -- refusals --------------------------------------------------------------------------------------
def test_wrong_options(coverage, folder, capsys):
    code, _, err = coverage("compile", "-o", "made", "--target=cpu")
    assert code == 1 and "target 'cpu' is none of NVIDIA's GPUs" in err
    code, _, err = coverage("run", str(folder.path), "--only=nothing")
    assert code == 1 and "holds no such case; make it with gpu_coverage compile" in err
    code, _, err = coverage("run", str(folder.path), "--only=string")
    assert code == 1 and "nothing of this is compiled" in err
    with pytest.raises(SystemExit) as ended:
        coverage("run", "made", "--only=(")
    assert ended.value.code == 2 and "is no regular expression" in capsys.readouterr().err


def test_whole_networks_are_compiled_where_they_are_asked_for(coverage):
    code, out, _ = coverage("compile", "-o", "made", "--only=vgg19")
    assert code == 0 and "0 cases compiled, 0 refused of 0" in out


MEASUREMENTS = str(Path(measurements.__file__).parents[1])
_WITHOUT_COMPILER = """
import sys
for name in ("torch_mlir", "llvmlite", "onnx", "google.protobuf", "rich"):
    sys.modules[name] = None
sys.path.insert(0, sys.argv[1])
from measurements import gpu_coverage
sys.exit(gpu_coverage.main(["run", sys.argv[2]]))
"""


def test_what_runs_cases_needs_no_compiler(folder):
    command = [sys.executable, "-c", _WITHOUT_COMPILER, MEASUREMENTS, str(folder.path)]
    assert "pass 6, " in subprocess.run(command, check=True, capture_output=True, text=True).stdout
