"""gpu_bench: a folder of compiled models, and how they are measured on the emulated device."""

import json
import os
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import onnx
import pytest
from fake_cuda import installed
from gpu_bench_folder import TARGET, compiled, tiny
from measurements import gpu_bench
from measurements._gpu_bench_compile import Repeating, cases, compile_case
from measurements._gpu_bench_group import (
    Group,
    add_group,
    difference,
    get_arrays,
    put_arrays,
    read_groups,
    sample,
)
from measurements._gpu_bench_run import Job, PolicyFailed, Settings, describe_device, measure
from measurements._gpu_stress import stress
from measurements._packed_folder import PackedFolder
from measurements._torch_baselines import BASELINES

from rcompiler.errors import CompilerError
from rcompiler.tools import models


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("bench"))


@pytest.fixture
def bench(tool):
    """bench(*arguments) -> (exit code, stdout, stderr)."""
    return partial(tool, gpu_bench.main)


def changed(folder, tmp_path, **values):
    """A folder that holds "tiny" alone, with other values."""
    copy = PackedFolder(tmp_path / "copy")
    copy.create()
    for file in folder.path.glob("*.xz"):
        os.link(file, copy.path / file.name)
    add_group(copy, Group(**{**asdict(tiny(folder)), **values}))
    return copy


# -- what a folder holds -----------------------------------------------------------------------
def test_blocks_are_kept_once_and_checked(tmp_path):
    packed = PackedFolder(tmp_path)
    data = bytes(range(256)) * 100
    key = packed.put(data)
    size = packed.nbytes
    assert packed.put(data) == key and packed.nbytes == size < len(data)
    assert packed.get(key) == data
    other = packed.put(b"other")
    (tmp_path / f"{other}.xz").rename(tmp_path / f"{key}.xz")
    with pytest.raises(CompilerError, match="is damaged; make the folder again"):
        packed.get(key)
    with pytest.raises(CompilerError, match="cannot be read"):
        packed.get(other)


def test_an_index_of_something_else(tmp_path):
    packed = PackedFolder(tmp_path)
    assert read_groups(packed) == []
    (tmp_path / "index.json").write_text("[{}]")
    with pytest.raises(CompilerError, match="of another version"):
        read_groups(packed)
    (tmp_path / "index.json").write_text("no")
    with pytest.raises(CompilerError, match="not an index"):
        read_groups(packed)


def test_a_group_takes_the_place_of_the_one_before(tmp_path):
    packed = PackedFolder(tmp_path)
    for model, precision, flops in [("a", "f32", 1), ("b", "f32", 2), ("a", "f16", 3)]:
        add_group(packed, Group(model, "gemm", precision, TARGET, flops))
    add_group(packed, Group("a", "gemm", "f32", TARGET, 4))
    assert [(g.model, g.flops) for g in read_groups(packed)] == [("b", 2), ("a", 3), ("a", 4)]


def test_the_kernels_that_measure_a_device_come_with_it(folder):
    assert b".entry meet" in (folder.path / "microbench-sm_80.ptx").read_bytes()


def test_schedules_share_their_weights(folder):
    policies = tiny(folder).policies
    assert set(policies) == {"wave", "rammer"}
    [(wave, weights), (rammer, same)] = policies.values()
    assert weights == same and wave != rammer


def test_arrays_come_back_in_order(tmp_path):
    packed = PackedFolder(tmp_path)
    arrays = {"b": np.arange(6.0).reshape(2, 3), "a": np.int64([1])}
    found = get_arrays(packed, put_arrays(packed, arrays))
    assert list(found) == ["b", "a"]
    assert all(np.array_equal(found[name], arrays[name]) for name in arrays)


def test_samples_are_from_all_over_a_large_output():
    large = np.arange(1 << 20).reshape(1 << 10, -1)
    found = sample(large)
    assert found.size == len(set(found.tolist())) == 1 << 16
    assert np.histogram(found, 16, (0, large.size))[0].min() > 3000
    assert np.array_equal(sample(large[:2]), large[:2].reshape(-1))


def test_differences():
    output, wanted = np.float32([[1, 2], [3, 4]]), {"y": np.float32([1, 2, 3, 4.03])}
    assert difference([output], wanted, 0.1, "it") == pytest.approx(0.0109, rel=0.01)
    with pytest.raises(CompilerError, match="output 'y' of it differs .* 1.09 times what is"):
        difference([output], wanted, 0.01, "it")
    none = np.full(1 << 20, np.nan, np.float32)
    none[np.arange(1 << 16, dtype=np.uint64) * np.uint64(2654435761) % np.uint64(none.size)] = 1
    with pytest.raises(CompilerError, match="'y' of it differs"):
        difference([none], {"y": np.ones(1 << 16, np.float32)}, 0.1, "it")


# -- weights that repeat -----------------------------------------------------------------------
def test_weights_repeat_and_are_the_same_for_a_seed():
    draw = Repeating(1).standard_normal((300, 40), dtype=np.float32)
    assert draw.dtype == np.float32 and len(np.unique(draw)) == 4093
    assert np.array_equal(draw.reshape(-1)[4093:8186], draw.reshape(-1)[:4093])
    assert abs(draw.mean()) < 0.1 and abs(draw.std() - 1) < 0.1
    assert np.array_equal(Repeating(1).standard_normal((300, 40), dtype=np.float32), draw)
    assert len(np.unique(Repeating(1).random((500,)))) == 13


def test_a_model_takes_a_generator_for_a_seed():
    one, same, other = (models.build("mlp", seed=Repeating(seed)) for seed in (1, 1, 2))
    assert one == same and one != other
    weights = onnx.numpy_helper.to_array(one.graph.initializer[0])
    assert len(np.unique(weights)) == 4093 < weights.size


def test_sweeps_have_operators_one_by_one():
    found = list(cases("gemm", TARGET))
    assert {case.kind for case in found} == {"gemm"} and "gemm 4096x4096x4096" in [
        case.name for case in found
    ]
    assert all(case.flops > 0 for case in found)
    assert {case.kind for case in cases("convolution", TARGET)} == {"convolution"}


@pytest.mark.parametrize(
    "name, op", [("lstm_tc", "LSTM"), ("resnext29_16x64d", "Conv"), ("alexnet", "Conv")]
)
def test_others_get_whole_operators(name, op):
    [case] = cases(name, TARGET)
    written, beside = (
        sum(n.op_type == op for n in m.graph.node) for m in (case.proto, case.beside)
    )
    assert (written, beside) == {"lstm_tc": (0, 10), "alexnet": (5, 5)}.get(name, (298, 28))


# -- run -----------------------------------------------------------------------------------------
def test_a_folder_is_measured(bench, folder, tmp_path):
    code, out, err = bench(
        *("run", str(folder.path), "--models=tiny", "--rounds=1", "--seconds=0.001"),
        *("--json=f.json", "--baseline=torch"),
    )
    assert code == 0, err
    assert out.splitlines()[0].split()[:6] == ["model", "precision", "wave", "ms", "rammer", "ms"]
    assert "goal: gemm: least ratio over cuBLAS >= 80%: not measured" in out
    record = json.loads((tmp_path / "f.json").read_text())
    [gpu] = record["gpus"]
    assert gpu["name"] == "emulated" and not gpu["real"]
    assert {"date", "commit", "versions", "compiled_by"} <= set(record)
    assert str(tmp_path) not in json.dumps(record["options"])
    [result] = record["results"]
    assert set(result["ms"]) == {"wave", "rammer"} == set(result["device_ms"])
    assert result["fastest"] in result["ms"] and not result["error"]
    assert max(result["difference"].values()) < 1e-4
    assert "torch" in result["unmeasured"] and "not measured: torch, all groups: torch" in out


def test_a_policy_that_is_wrong_does_not_end_the_others(bench, folder, tmp_path):
    group = tiny(folder)
    stranger = next(g for g in read_groups(folder) if g.model == "stress")
    policies = {"wave": stranger.policies["wave"], "rammer": group.policies["rammer"]}
    copy = changed(folder, tmp_path, policies=policies)
    code, out, err = bench("run", str(copy.path), "--rounds=1", "--seconds=0.001", "--json=f.json")
    assert code == 1 and "error: tiny, f32, wave: " in err
    [result] = json.loads((tmp_path / "f.json").read_text())["results"]
    assert set(result["ms"]) == {"rammer"} and "wave" in result["unmeasured"]


def test_results_that_are_not_those_of_the_reference(bench, folder, tmp_path):
    group = tiny(folder)
    wanted = {name: y + 1 for name, y in get_arrays(folder, group.wanted).items()}
    copy = changed(folder, tmp_path, wanted=put_arrays(folder, wanted))
    code, _, err = bench("run", str(copy.path), "--rounds=1", "--seconds=0.001")
    assert code == 1 and "error: tiny, f32: output 'output' of " in err
    code, out, err = bench("stress", str(copy.path), "--launches=3", "--models=tiny")
    assert code == 1 and "tiny, f32, wave: launch 0: output 'output' of wave differs" in err


def test_without_a_gpu(bench, folder, tmp_path):
    """One error, which says what to install or that there is none."""
    path = folder.path.parent / "tiny.onnx"
    made = ("--target=cuda:sm_80", "--precisions=f32", "--policies=wave")
    code, out, err = bench("compile", f"--models={path}", *made, "-o", "real")
    assert code == 0 and "real: 1 groups added, " in out
    for command in (("run", "real"), ("stress", "real", "--models=tiny")):
        code, out, err = bench(*command)
        assert code == 1 and not out
        assert err.startswith("gpu_bench: error: ") and len(err.splitlines()) == 1


@pytest.mark.parametrize("command", ["run", "stress"])
def test_a_folder_without_such_models(bench, command):
    code, _, err = bench(command, "nothing")
    assert code == 1 and "nothing: holds no such model; make it with gpu_bench compile -o no" in err


def test_a_model_that_does_not_compile(bench, tmp_path):
    """The others are added all the same."""
    good = models.build("mlp", batch=2, layers=(16, 24, 10))
    bad = models.build("two_branch")
    del bad.graph.input[0].type.tensor_type.shape.dim[:]
    for name, model in (("bad", bad), ("good", good)):
        onnx.save(model, tmp_path / f"{name}.onnx")
    made = (f"--target={TARGET}", "--precisions=f32", "--policies=wave")
    code, out, err = bench("compile", "--models=bad.onnx,good.onnx", *made, "-o", "made")
    assert code == 1 and "made: 1 groups added" in out and "error: bad, f32: " in err
    code, _, err = bench("compile", "--models=absent", "-o", "made")
    assert code == 1 and "absent: no such file, nor a built-in model" in err


def test_wrong_options(bench, capsys):
    for target in ("cpu", "rocm:gfx942"):
        code, _, err = bench("compile", "-o", "made", f"--target={target}")
        assert code == 1 and f"target '{target}' is none of NVIDIA's GPUs" in err
    for wrong in ("--policies=fast", "--precisions=f8"):
        with pytest.raises(SystemExit) as ended:
            bench("compile", "-o", "made", wrong)
        assert ended.value.code == 2 and "is none of" in capsys.readouterr().err


# -- a GPU by the CUDA driver --------------------------------------------------------------------
@pytest.fixture
def on_cuda(folder, tmp_path, monkeypatch):
    """A folder for sm_80, and the stand-in for the driver that it runs on, which reads no machine
    code.
    """
    fake = installed(monkeypatch, capability=(8, 0), multiprocessors=108)
    [case] = cases(str(folder.path.parent / "tiny.onnx"), "cuda:sm_80")
    made = PackedFolder(tmp_path / "made")
    made.create()
    group = compile_case(case, made, "cuda:sm_80", "tf32", ("base", "rammer"))
    for policy, keys in group.policies.items():
        artifact = made.get_artifact(keys, tmp_path / "model.rcx")
        text = replace(artifact, image=replace(artifact.image, cubin=b""))
        group.policies[policy] = made.put_artifact(text, tmp_path / "model.rcx")
    add_group(made, group)
    return made, fake


def test_a_gpu_is_measured_and_stressed_by_its_driver(on_cuda):
    made, fake = on_cuda
    [group] = read_groups(made)
    settings = Settings(str(made.path), 1, 1e-3, None, 1.0, 2.0)
    found = measure(made, group, Job(0, list(group.policies)), settings)
    assert set(found.device_ms) == {"base", "rammer"} and set(found.ms) == set(found.device_ms)
    # 0.25 ms by the device, whatever is between two events
    assert 0 < max(found.device_ms.values()) <= 0.25
    assert set(found.unmeasured) == set(BASELINES)
    assert any(name == "cuGraphLaunch" for name, _ in fake.record)
    assert describe_device(made, group)["name"] == "fake"
    assert not stress(made, group, "rammer", 9, 2.0).fault


def test_a_failed_launch_is_told_with_its_policy(on_cuda):
    made, fake = on_cuda
    [group] = read_groups(made)
    fake.fail["cuGraphLaunch"] = "CUDA_ERROR_ILLEGAL_ADDRESS"
    settings = Settings(str(made.path), 1, 1e-3, [], 1.0, 2.0)
    with pytest.raises(PolicyFailed, match="ILLEGAL_ADDRESS") as caught:
        measure(made, group, Job(0, ["rammer", "base"]), settings)
    assert caught.value.policy == "rammer"
    fake.fail["cuGraphLaunch"] = "CUDA_ERROR_ILLEGAL_ADDRESS"
    found = stress(made, group, "base", 9, 2.0)
    assert found.launches == 0 and "launch 0: " in found.fault
