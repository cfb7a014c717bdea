"""rc-tune --device, and rc-compile --device with what it wrote."""

import os

import pytest

from rcompiler.device.cpu import detect_cpu
from rcompiler.device.record import from_json, load_device
from rcompiler.device.store import find_record
from rcompiler.tools import rc_compile, rc_tune


def test_measure_into_a_file_and_compile_with_it(tool):
    code, out, err = tool(rc_tune.main, "--device=cpu:x86-64", "-o", "d.json", "--seconds=0.02")
    assert (code, err) == (0, "") and out.endswith("record: d.json\n")
    header, *rows = out.splitlines()
    assert header.split() == ["figure", "unit", "default", "measured", "ratio"]
    names = {row.rsplit(maxsplit=4)[0] for row in rows}
    assert {"clock", "peak f32", "peak f64", "bandwidth L1", "bandwidth DRAM"} <= names
    device = load_device("d.json")
    assert device.measured and device.level_name == "x86-64"
    code, out, _ = tool(rc_compile.main, "two_branch", "--device=d.json", "-o", "m.rcx", "--report")
    assert code == 0 and f"measured figures: {device.compute.ghz:g} GHz" in out


def test_the_record_goes_where_compile_onnx_finds_it(tool, monkeypatch, tmp_path):
    monkeypatch.setenv("RC_CACHE_DIR", str(tmp_path / "cache"))
    code, out, _ = tool(rc_tune.main, "--device", "--seconds=0.02")
    assert code == 0 and str(tmp_path / "cache" / "device-") in out
    assert find_record(detect_cpu(), tmp_path / "cache").measured


def test_standard_output_is_the_record_alone(tool):
    code, out, err = tool(rc_tune.main, "--device=cpu:x86-64", "-o", "-", "--seconds=0.02")
    assert code == 0 and from_json(out).measured and "bandwidth L2" in err
    assert os.listdir() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device"], "RC_CACHE_DIR is empty"),
        (["--device=h200", "-o", "d.json"], "only this machine"),
        (["--device=toaster", "-o", "d.json"], "toaster"),
        (["--device=small.json", "-o", "d.json"], "only this machine"),
        (["--device=cpu", "-o", "no/folder/d.json"], "no/folder"),
    ],
)
def test_errors_are_one_line_before_measuring(tool, monkeypatch, arguments, message):
    from rcompiler.codegen import microbench
    from rcompiler.device.cpu import cpu_device
    from rcompiler.device.record import save_device

    monkeypatch.setattr(microbench, "measure_host", lambda *_, **__: pytest.fail("measured"))
    save_device(cpu_device("x86-64"), "small.json")
    code, out, err = tool(rc_tune.main, *arguments)
    assert (code, out) == (1, "") and message in err and err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["--device", "--seconds=0"], ["--device", "--fast"]])
def test_wrong_arguments(tool, arguments):
    with pytest.raises(SystemExit) as stopped:
        tool(rc_tune.main, *arguments)
    assert stopped.value.code == 2


def test_a_compiled_file_takes_no_device(tool):
    tool(rc_compile.main, "two_branch", "--emit=vdevice", "-o", "s.mlir")
    code, _, err = tool(rc_compile.main, "s.mlir", "--device=default")
    assert code == 1 and "--device no longer applies" in err


def test_kernels_that_measure_are_those_of_a_gpu(capsys):
    with pytest.raises(SystemExit) as ended:
        rc_tune.main(["--device", "--code=microbench.ptx"])
    assert ended.value.code == 2 and "--code goes with --device=cuda" in capsys.readouterr().err
