"""One compiled file for several CPUs: each machine takes the best level that it has."""

import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from levels import HERE
from measurements._same_levels import levels
from quantised_networks import products

import rcompiler
from rcompiler.device.target import cpu_targets
from rcompiler.driver import isolate
from rcompiler.driver.cross_compiled import CrossCompiledModel
from rcompiler.errors import ArtifactError, CompilerError, DeviceError
from rcompiler.runtime import container
from rcompiler.tools import models
from rcompiler.tools._reference import reference

MODEL, SHAPE = products(40, 192)
X = np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32)
TARGETS = "cpu:x86-64,cpu:v4+vnni+amx,cpu:v3,cpu:v4,cpu:v4+vnni"
NAMES = ["x86-64-v4+vnni+amx", "x86-64-v4+vnni", "x86-64-v4", "x86-64-v3", "x86-64"]


def compiled(target=TARGETS, **options):
    return rcompiler.compile_onnx(MODEL, target=target, eus=1, cache=False, **options)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("levels") / "m.rcx"
    compiled().save(path)
    return path


def best(names):
    """Of levels of a file, the first that this machine runs."""
    there = {"x86-64" + name.removeprefix("cpu:x86-64").replace("cpu:", "-") for name in levels()}
    return next(name for name in names if name in there)


def test_it_runs_what_is_best_here(file):
    model = rcompiler.load(file)
    assert model.artifact.target == best(NAMES)
    assert [level.target for level in model.artifact.levels] == NAMES
    assert f"level {best(NAMES)}, of {', '.join(NAMES)}" in model.report().note
    assert np.array_equal(model(X)[0], compiled("cpu")(X)[0])


@pytest.mark.parametrize("cap", HERE)
def test_a_host_of_less_takes_another_level_and_gives_the_same(file, cap, tmp_path):
    """In a process of its own, by the command line."""
    np.save(tmp_path / "x.npy", X)
    command = [sys.executable, "-m", "rcompiler.tools.rc_run", str(file)]
    command += [str(tmp_path / "x.npy"), f"--save={tmp_path / 'y.npz'}"]
    done = subprocess.run(
        command,
        env={**os.environ, "RC_HOST_LEVEL": cap},
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wanted = "x86-64" if cap == "x86-64" else f"x86-64-{cap}"
    assert f"m: level {wanted}, of {', '.join(NAMES)}\n" in done.stdout
    [y] = np.load(tmp_path / "y.npz").values()
    assert np.array_equal(y, rcompiler.load(file)(X)[0])


def test_the_order_of_targets_changes_nothing(file):
    other = compiled("cpu:v4+vnni,cpu:v3,cpu:v4+amx+vnni,cpu:v4,cpu:x86-64")
    assert other.artifact.to_bytes() == file.read_bytes()


def test_a_level_is_what_it_is_alone(file):
    model = rcompiler.load(file)
    alone = compiled(f"cpu:{best(NAMES).removeprefix('x86-64-')}")
    assert alone.artifact.certificate == model.artifact.certificate
    assert alone.stage("asm") == model.stage("asm")
    assert alone.artifact.levels == () and alone.report().note == ""


def test_all_levels_are_saved_again(file, tmp_path, monkeypatch):
    monkeypatch.setenv("RC_HOST_LEVEL", "x86-64")
    with rcompiler.load(file) as model:
        assert model.artifact.target == "x86-64"
        model.save(tmp_path / "m.rcx")
    assert (tmp_path / "m.rcx").read_bytes() == file.read_bytes()


def test_a_process_of_its_own_brings_all_levels(file):
    made = isolate.compile_onnx(MODEL, target=TARGETS, eus=1, cache=False)
    assert made.artifact.to_bytes() == file.read_bytes()


def test_where_none_runs_it_is_saved_and_says_what_each_needs(monkeypatch, tmp_path):
    monkeypatch.setenv("RC_HOST_LEVEL", "x86-64")
    model = compiled("cpu:v3,cpu:v3+vnni")
    assert isinstance(model, CrossCompiledModel)
    model.save(tmp_path / "m.rcx")
    message = (
        "none of the 2 levels of the model: x86-64-v3[+]vnni needs .*avx_vnni, bmi1.*, which this "
        "CPU lacks; x86-64-v3 needs abm, avx, avx2, bmi1.*, which this CPU lacks; compile"
    )
    with pytest.raises(ArtifactError, match=message):
        model(X)
    with pytest.raises(ArtifactError, match=f"m.rcx: this machine runs {message}"):
        rcompiler.load(tmp_path / "m.rcx")


def test_rc_run_says_what_each_level_needs(file, capsys):
    from rcompiler.tools import rc_run

    assert rc_run.main([str(file), "--needs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["needs", best(NAMES)]
    others = {line.split()[2] for line in lines if line.startswith("CPU, for ")}
    assert others == {*NAMES} - {best(NAMES)}


@pytest.mark.parametrize(
    ("target", "kind", "message"),
    [
        ("cpu,cpu:v3", DeviceError, "'cpu' is no CPU by name"),
        ("cpu:v3,cuda:sm_80", DeviceError, "'cuda:sm_80' is no CPU by name"),
        ("cpu:v3,", DeviceError, "'' is no CPU by name"),
        ("cpu:v4+amx+vnni,cpu:v4+vnni+amx", DeviceError, "names a CPU twice"),
        ("cpu:v3,cpu:v9", DeviceError, "unknown target 'cpu:v9'"),
        ("cpu:v3, cpu:v4", DeviceError, "' cpu:v4' is no CPU by name"),
    ],
)
def test_wrong_targets(target, kind, message):
    with pytest.raises(kind, match=message):
        compiled(target)


def test_one_target_is_one():
    for name in ("cpu", "cpu:v4", "cuda:sm_80", "a,b.json", '{"eus":1,"kind":"cpu"}'):
        assert cpu_targets(name) == [name]


@pytest.mark.parametrize("tune", ["kernels", "warmup", "online"])
def test_several_are_not_tuned(tune):
    with pytest.raises(CompilerError, match=f"tune='{tune}' measures for one target, .* are 2;"):
        compiled("cpu:v3,cpu:x86-64", tune=tune)


def test_precision_is_refused_as_for_one():
    with pytest.raises(CompilerError, match="not one of target 'cpu:v3', which has f32, f16"):
        compiled("cpu:v3,cpu:x86-64", precision="tf32")


def test_rc_compile(tmp_path):
    from rcompiler.tools import rc_compile

    onnx.save(MODEL, tmp_path / "m.onnx")
    target = "--target=cpu:v3,cpu:x86-64"
    out = tmp_path / "m.rcx"
    assert rc_compile.main([str(tmp_path / "m.onnx"), target, "-o", str(out)]) == 0
    assert [each.target for each in rcompiler.load(out).artifact.levels] == NAMES[-2:]


def test_weights_are_in_the_file_once(tmp_path):
    """Each level has them in another order."""
    model = models.build("two_branch", rows=64, width=256)
    sizes = {}
    for target in ("cpu:x86-64", "cpu:v3", "cpu:x86-64,cpu:v3,cpu:v4"):
        made = rcompiler.compile_onnx(model, target=target, eus=1, cache=False)
        made.save(tmp_path / "m.rcx")
        _, sections = container.read(tmp_path / "m.rcx")
        sizes[target] = sum(data.size for name, data in sections.items() if "weights" in name)
    one, other, all_three = sizes.values()
    assert one >= 2 * 256 * 256 * 4 and other >= 2 * 256 * 256 * 4
    assert all_three < 1.01 * one
    x = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
    [y] = rcompiler.load(tmp_path / "m.rcx")(x)
    np.testing.assert_allclose(y, reference(model, {"input": x})[1][0], rtol=1e-4, atol=1e-4)
