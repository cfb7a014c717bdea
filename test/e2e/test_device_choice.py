"""Which device record a model is compiled for, and that it says so."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from levels import LOWER

import rcompiler
from rcompiler.codegen import microbench
from rcompiler.device.cpu import cpu_device, detect_cpu
from rcompiler.device.host_flags import LEVELS, host_flags
from rcompiler.device.instruction_set import InstructionSet
from rcompiler.device.measure import VERSION
from rcompiler.device.measured import MeasurementOrigin
from rcompiler.device.record import builtin_device, from_json, save_device
from rcompiler.device.store import fingerprint, record_path
from rcompiler.driver import host
from rcompiler.errors import DeviceError
from rcompiler.tools import models
from rcompiler.tools._reference import reference

PROTO = models.build("two_branch", rows=64, width=32)
X = np.ones((64, 32), np.float32)


def slow(device, ghz=0.5):
    """A record of this machine with another frequency, and so with other estimates."""
    noted = MeasurementOrigin(fingerprint(device), "2026-01-02T03:04:05+00:00", VERSION, ("clock",))
    compute = replace(device.compute, ghz=ghz)
    return replace(device, compute=compute, measured=True, measurement=noted)


@pytest.fixture
def measuring(monkeypatch):
    """compile_onnx measures, in no time; the list gets one entry for each time."""
    calls = []
    monkeypatch.delenv("RC_DEVICE")
    monkeypatch.setattr(microbench, "measure_host", lambda device: calls.append(1) or slow(device))
    return calls


def compiled(**options):
    return rcompiler.compile_onnx(PROTO, eus=2, **options)


def ghz(model):
    return from_json(model.artifact.provenance["device"]).compute.ghz


def test_the_first_compilation_measures_and_later_ones_use_the_record(measuring, tmp_path):
    first = compiled(cache=tmp_path)
    assert measuring == [1] and ghz(first) == 0.5
    assert "measured figures: 0.5 GHz" in first.report().device in str(first.report())
    again = compiled(cache=tmp_path)
    assert measuring == [1]
    first.save(tmp_path / "a.rcx")
    again.save(tmp_path / "b.rcx")
    assert (tmp_path / "a.rcx").read_bytes() == (tmp_path / "b.rcx").read_bytes()
    default = compiled(cache=tmp_path, device="default")
    assert default.report().work_bound_ns < first.report().work_bound_ns
    assert default(X)[0].tobytes() == first(X)[0].tobytes()


def test_the_date_of_a_measurement_is_not_in_the_model(measuring, tmp_path):
    assert "2026-01-02" not in json.dumps(dict(compiled(cache=tmp_path).artifact.provenance))


def test_without_a_cache_nothing_is_measured(measuring):
    model = compiled(cache=False)
    assert measuring == [] and "default figures" in model.report().device


@pytest.mark.parametrize("name", ["epyc-9555", "zen5-2"])
def test_a_record_that_comes_with_the_compiler(name, monkeypatch):
    record = builtin_device(name)
    base = replace(detect_cpu(), features=record.features)
    assert host.given_device("cpu", base, name) == record
    monkeypatch.setenv("RC_DEVICE", name)
    assert host.given_device("cpu", base, None) == record
    with pytest.raises(DeviceError, match="h200: a cuda device"):
        host.given_device("cpu", base, "h200")


@pytest.mark.parametrize("kind", ["path", "text", "device", "environment"])
def test_a_record_that_is_given(tmp_path, monkeypatch, kind):
    base = detect_cpu()
    record = slow(base, ghz=1.5)
    save_device(record, tmp_path / "d.json")
    path = tmp_path / "d.json"
    given = {"path": path, "text": str(path), "device": record, "environment": None}[kind]
    if kind == "environment":
        monkeypatch.setenv("RC_DEVICE", str(path))
    assert host.given_device("cpu", base, given) == record


def test_what_is_given_is_used_and_nothing_is_measured(measuring, tmp_path):
    record = slow(detect_cpu(eus=2), ghz=1.5)
    save_device(record, tmp_path / "it's mine.json")
    model = compiled(cache=tmp_path / "c", device=tmp_path / "it's mine.json")
    assert measuring == [] and ghz(model) == 1.5
    assert np.isfinite(model(X)[0]).all()


def test_the_target_decides_the_code_and_the_record_the_figures(tmp_path):
    record = replace(cpu_device("x86-64", eus=3), name="small's")
    model = rcompiler.compile_onnx(PROTO, target="cpu", device=record, cache=False)
    assert model.artifact.target == "host" and model.report().eus == 3
    assert model.artifact.provenance["device"].startswith("{")
    again = rcompiler.compile_onnx(PROTO, target="cpu:x86-64", cache=False, eus=3)
    assert again.artifact.target == "x86-64"


def test_a_record_named_by_the_target_is_not_measured(measuring, tmp_path):
    save_device(cpu_device("x86-64", eus=1), tmp_path / "small.json")
    model = rcompiler.compile_onnx(PROTO, target=str(tmp_path / "small.json"), cache=tmp_path)
    assert measuring == [] and "default figures: 3 GHz" in model.report().device


def test_every_feature_level_is_measured_for_itself(measuring, tmp_path):
    for target in ("cpu", "cpu:x86-64", "cpu"):
        base = host.target_device(target)
        assert host.measured_device(base, tmp_path) == slow(base)
    assert len(measuring) == 2 - (detect_cpu().level_name == "x86-64")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "nowhere.json"}, "nowhere.json: cannot read"),
        ({"device": ""}, "give a device record"),
        ({"device": 7}, "give a device record"),
        ({"device": replace(cpu_device("v3"), kind="cuda")}, "a cuda device"),
    ],
)
def test_records_that_do_not_fit(options, message):
    with pytest.raises(DeviceError, match=message):
        compiled(cache=False, **options)


@pytest.mark.parametrize("target", ["cpu", *LOWER])
@pytest.mark.parametrize("name", ["epyc-9555", "zen5-2"])
def test_a_record_decides_on_every_cpu(name, target):
    """Those that come with the compiler are of CPUs with AVX-512; code is for what is here."""
    record, base = builtin_device(name), host.target_device(target)
    model = compiled(cache=False, target=target, device=name)
    chosen = from_json(model.artifact.provenance["device"])
    assert chosen.memory == record.memory and chosen.costs == record.costs
    assert chosen.compute.ghz == record.compute.ghz
    # a record may have others, which code for its level does not use
    used = InstructionSet.of(chosen.level_name, chosen.features).features
    assert used <= base.features | LEVELS[base.level_name]
    assert chosen.lanes(4) == base.lanes(4) and chosen.level_name == base.level_name
    assert set(model.artifact.cpu_flags) <= host_flags()
    expected = reference(PROTO, {"input": X})[1][0]
    np.testing.assert_allclose(model(X)[0], expected, rtol=1e-4, atol=1e-4)


def test_a_record_of_a_cpu_with_more_features_keeps_what_does_not_need_them():
    record = builtin_device("zen5-2")
    found = host.given_device("cpu", cpu_device("v3"), record)
    assert (found.name, found.level_name) == ("zen5-2 as v3", "v3")
    assert found.dots == frozenset() and found.compute.peaks == ()
    vnni = LEVELS["v3"] | {"avxvnni"}
    assert host.given_device("cpu", cpu_device("v3", features=vnni), record).dots == {"i8"}


def test_a_wrong_environment_is_named(monkeypatch):
    monkeypatch.setenv("RC_DEVICE", "/nowhere/d.json")
    with pytest.raises(DeviceError, match="/nowhere/d.json: cannot read"):
        compiled(cache=False)


@pytest.mark.parametrize("error", [DeviceError("no"), MemoryError(), RuntimeError("no thread")])
def test_a_machine_that_cannot_be_measured_has_default_figures(
    measuring, monkeypatch, tmp_path, error
):
    def fail(device):
        raise error

    monkeypatch.setattr(microbench, "measure_host", fail)
    base = detect_cpu()
    with pytest.warns(host.DeviceWarning, match="default figures are used"):
        assert host.measured_device(base, tmp_path) is base
    assert not record_path(base, tmp_path).exists()


def test_a_damaged_record_is_measured_again(measuring, tmp_path):
    record_path(detect_cpu(), tmp_path).write_text("{")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ghz(compiled(cache=tmp_path)) == 0.5
    assert measuring == [1]


def test_really_measured(monkeypatch, tmp_path):
    """Once without stand-ins, whatever the figures turn out to be."""
    monkeypatch.delenv("RC_DEVICE")
    steps = []
    model = compiled(cache=tmp_path, progress=lambda step, _: steps.append(step))
    assert steps[:2] == ["import", "device"] and "measured figures" in model.report().device
    assert ghz(model) == ghz(compiled(cache=tmp_path))
    assert np.isfinite(model(X)[0]).all()


def test_a_gpu_has_the_figures_of_its_target(tmp_path):
    with pytest.raises(DeviceError, match=r"target 'cuda:h200' is a GPU; leave device out"):
        compiled(cache=False, target="cuda:h200", device="epyc-9555")
