"""Code for instruction sets that this machine lacks: compiled here, refused here, right elsewhere.

$RC_HOST_LEVEL takes away what a machine has, so any machine lacks what v4 has.
"""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import onnx
import pytest
from measurements._same_levels import levels
from quantised_networks import products

import rcompiler
from rcompiler.codegen import microbench
from rcompiler.codegen.assembly import assembly
from rcompiler.device.cpu import detect_cpu, expected
from rcompiler.device.host_flags import LEVELS
from rcompiler.device.instruction_set import InstructionSet
from rcompiler.device.measure import VERSION
from rcompiler.device.measured import MeasurementOrigin
from rcompiler.device.store import fingerprint
from rcompiler.driver import host
from rcompiler.driver.cross_compiled import CrossCompiledModel
from rcompiler.errors import ArtifactError, CompilerError, DeviceError
from rcompiler.runtime.artifact import Artifact
from rcompiler.tools import rc_tune

MODEL, SHAPE = products(40, 192)
X = np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32)
# Instructions that code for it must have, and those that it must not.
EXPECTED = {
    "v4": ({"zmm", "vpmaddwd"}, {"vpdpbusd", "tdpbusd"}),
    "v4+vnni": ({"zmm", "vpdpbusd"}, {"tdpbusd"}),
    "v4+amx": ({"zmm", "tdpbusd"}, {"vpdpbusd"}),
    "v4+vnni+amx": ({"zmm", "tdpbusd"}, set()),
    "v3+vnni": ({"ymm", "vpdpbusd"}, {"zmm", "tdpbusd"}),
}
CAPPED = {**os.environ, "RC_HOST_LEVEL": "v3"}


def tool(name, *arguments):
    return subprocess.run(
        [sys.executable, "-m", f"rcompiler.tools.{name}", *map(str, arguments)],
        env=CAPPED,
        text=True,
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("name", EXPECTED)
def test_on_a_host_of_v3(name, tmp_path):
    onnx.save(MODEL, tmp_path / "m.onnx")
    file = tmp_path / "m.rcx"
    done = tool("rc_compile", tmp_path / "m.onnx", f"--target=cpu:{name}", "-o", file)
    assert done.returncode == 0, done.stderr
    artifact = Artifact.load(file)
    instructions = InstructionSet.named(name)
    assert set(artifact.cpu_flags) == instructions.flags
    assert artifact.provenance["target"] == f"cpu:{name}"
    facts = artifact.provenance
    text = assembly(artifact.stages["llvm"], facts["cpu"], facts["features"] if "+" in name else "")
    there, absent = EXPECTED[name]
    assert all(each in text for each in there)
    assert not any(each in text for each in absent)
    # it is refused there, and right where all of it is
    refused = tool("rc_run", file)
    wanted = f"code for target 'x86-64-{name}': this CPU lacks "
    assert refused.returncode == 1 and wanted in refused.stderr
    if f"cpu:{name}" in levels():
        assert np.array_equal(rcompiler.load(file)(X)[0], rcompiler.compile_onnx(MODEL)(X)[0])


@pytest.fixture
def capped(monkeypatch):
    monkeypatch.setenv("RC_HOST_LEVEL", "v3")


def cross_compiled(**options):
    target = options.pop("target", "cpu:v4+amx+vnni")
    return rcompiler.compile_onnx(MODEL, target=target, eus=1, cache=False, **options)


def test_what_is_compiled_says_what_it_is_and_does_not_run(capped, tmp_path):
    model = cross_compiled()
    assert isinstance(model, CrossCompiledModel)
    assert repr(model).startswith("<CrossCompiledModel for 'cpu:v4+vnni+amx' on 1 EU")
    assert [t.shape for t in model.inputs] == [SHAPE] and len(model.outputs) == 1
    assert "tdpbusd" in model.stage("asm") and model.report().eus == 1
    for use in (lambda: model(X), model.bind):
        with pytest.raises(ArtifactError, match="x86-64-v4[+]vnni[+]amx': this CPU lacks amx_bf16"):
            use()
    model.save(tmp_path / "m.rcx")
    with pytest.raises(ArtifactError, match="m.rcx: code for target 'x86-64-v4.*lacks amx_bf16"):
        rcompiler.load(tmp_path / "m.rcx")
    with model:
        pass
    assert model.closed
    with pytest.raises(DeviceError, match="closed"):
        model(X)


def test_equal_targets_give_equal_models(capped):
    one, other = cross_compiled(), cross_compiled(target="cpu:v4+vnni+amx")
    assert one.artifact.to_bytes() == other.artifact.to_bytes()


def test_its_schedule_is_compiled_again(capped):
    model = cross_compiled()
    given = model.stage("schedule"), model.constants()
    assert 'target = "cpu:v4+vnni+amx"' in given[0]
    for target in (None, "cpu:v4+amx+vnni"):
        again = rcompiler.compile_schedule(*given, target=target, cache=False)
        assert isinstance(again, CrossCompiledModel)
        assert again.artifact.certificate == model.artifact.certificate
    text = given[0].replace("cpu:v4+vnni+amx", "cpu:v4+vnni")
    with pytest.raises(DeviceError, match="'cpu:v4[+]vnni', and the figures are those of cpu:v4"):
        rcompiler.compile_schedule(text, given[1], cache=False)


def test_figures_that_use_less_than_the_target_are_for_it(capped):
    """By the record of a CPU without VNNI."""
    model = cross_compiled(target="cpu:v4+vnni", device=detect_cpu("v4"))
    again = rcompiler.compile_schedule(model.stage("vdevice"), model.constants(), cache=False)
    assert again.artifact.certificate == model.artifact.certificate
    assert again.artifact.target == "x86-64-v4+vnni"


def test_the_measured_host_says_what_is_expected(capped, monkeypatch, tmp_path):
    monkeypatch.delenv("RC_DEVICE")
    measured = []

    def measure(device):
        measured.append(device)
        noted = MeasurementOrigin(fingerprint(device), "d", VERSION, ("clock", "peak f32"))
        compute = replace(device.compute, ghz=1.5, peaks=(("f32", 24.0),))
        return replace(device, compute=compute, measured=True, measurement=noted)

    monkeypatch.setattr(microbench, "measure_host", measure)
    base = host.target_device("cpu:v4+vnni")
    found = host.measured_device(base, tmp_path)
    here = detect_cpu()
    assert measured == [here]  # never an instruction that is not there
    assert found == expected(measure(here), base) == host.measured_device(base, tmp_path)
    lanes = 16 / here.lanes(4)
    assert dict(found.compute.peaks) == {"f32": 24.0 * lanes} and found.compute.ghz == 1.5
    assert found.features == LEVELS["v4"] | {"avx512vnni"}


def test_where_the_host_cannot_be_measured_the_default_figures_hold(capped, monkeypatch, tmp_path):
    def fail(device):
        raise DeviceError("no")

    monkeypatch.setattr(microbench, "measure_host", fail)
    base = host.target_device("cpu:v4")
    with pytest.warns(host.DeviceWarning, match="default figures are used"):
        assert host.measured_device(base, tmp_path) is base
    assert host.measured_device(base, None) is base


@pytest.mark.parametrize("tune", ["kernels", "warmup", "online"])
def test_nothing_is_tuned_for_another_machine(capped, tune):
    with pytest.raises(
        CompilerError, match=f"tune='{tune}' runs kernels .*, which has no amx-bf16"
    ):
        cross_compiled(tune=tune)


def test_another_machine_is_not_measured(capped, tmp_path, capsys):
    assert rc_tune.main(["--device=cpu:v4+vnni", "-o", str(tmp_path / "d.json")]) == 1
    assert "this machine has no avx512bw, " in capsys.readouterr().err
    assert not (tmp_path / "d.json").exists()
