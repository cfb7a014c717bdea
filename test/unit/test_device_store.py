"""Measured records in a folder: found again, never trusted when damaged, foreign or old."""

import os
import threading
import time
from dataclasses import replace

import pytest

from rcompiler.device import store
from rcompiler.device.cpu import cpu_device
from rcompiler.device.measure import VERSION
from rcompiler.device.measured import MeasurementOrigin
from rcompiler.device.record import load_device, save_device, to_json
from rcompiler.device.store import (
    find_record,
    fingerprint,
    record_path,
    recorded,
    store_record,
)

HOST = cpu_device("v3", eus=2, name="cpu")


class Meter:
    """A stand-in for measuring that counts."""

    def __init__(self, seconds=0.0):
        self.calls, self.seconds = 0, seconds

    def __call__(self, device):
        time.sleep(self.seconds)
        self.calls += 1
        noted = MeasurementOrigin(
            fingerprint(device), "2026-01-02T03:04:05+00:00", VERSION, ("clock",)
        )
        compute = replace(device.compute, ghz=2.0 + self.calls)
        return replace(device, compute=compute, measured=True, measurement=noted)


def test_measured_once_then_found(tmp_path):
    meter, folder = Meter(), tmp_path / "new" / "cache"
    first = recorded(HOST, folder, meter)
    assert first.compute.ghz == 3.0 and first == recorded(HOST, folder, meter)
    assert meter.calls == 1 and load_device(record_path(HOST, folder)) == first
    assert os.listdir(folder) == [record_path(HOST, folder).name]


def test_the_record_does_not_depend_on_the_affinity_mask(tmp_path):
    meter = Meter()
    two = recorded(HOST, tmp_path, meter)
    one = recorded(replace(HOST, eus=1), tmp_path, meter)
    assert meter.calls == 1 and one == replace(two, eus=1)


def test_every_feature_level_has_a_record_of_its_own(tmp_path):
    meter = Meter()
    for level in ("x86-64", "v3", "v4", "v3"):
        assert recorded(cpu_device(level), tmp_path, meter).level_name == level
    assert meter.calls == 3


def changed(**values):
    """A measured record of this machine with another measurement."""
    good = Meter()(HOST)
    assert good.measurement is not None
    return to_json(replace(good, measurement=replace(good.measurement, **values)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\x00",
        b"[" * 100_000,
        to_json(HOST).encode(),
        to_json(Meter()(HOST)).encode()[:-40],
        changed(machine="another machine").encode(),
        changed(version=VERSION + 1).encode(),
        to_json(replace(Meter()(HOST), features=frozenset({"avx"}))).encode(),
        to_json(replace(Meter()(HOST), level_name="v4")).encode(),
        to_json(Meter()(HOST)).replace('"ghz": 3.0', '"ghz": -3.0').encode(),
    ],
    ids=["empty", "binary", "deep", "default", "cut", "foreign", "version", "features", "level",
         "negative"],
)  # fmt: skip
def test_a_file_that_is_no_record_of_this_machine_is_measured_again(tmp_path, content):
    record_path(HOST, tmp_path).write_bytes(content)
    assert find_record(HOST, tmp_path) is None
    meter = Meter()
    found = recorded(HOST, tmp_path, meter)
    assert meter.calls == 1 and find_record(HOST, tmp_path) == found


def test_other_caches_make_another_machine(tmp_path):
    store_record(Meter()(HOST), tmp_path)
    level = replace(HOST.level("L2"), capacity=2 << 20)
    other = replace(HOST, memory=(HOST.memory[0], level, *HOST.memory[2:]))
    assert find_record(other, tmp_path) is None and find_record(HOST, tmp_path) is not None


@pytest.mark.parametrize("below", ["file", "file/below"])
def test_nothing_is_measured_that_cannot_be_kept(tmp_path, below):
    (tmp_path / "file").write_text("")
    meter = Meter()
    assert recorded(HOST, tmp_path / below, meter) is HOST and meter.calls == 0


def test_a_folder_that_takes_no_files():
    """/proc takes none, whoever asks."""
    meter = Meter()
    assert recorded(HOST, store.Path("/proc"), meter) is HOST and meter.calls == 0


def test_a_record_in_a_folder_that_takes_no_files_is_used(tmp_path, monkeypatch):
    meter = Meter()
    first = recorded(HOST, tmp_path, meter)
    monkeypatch.setattr(store, "_try_to_write", lambda folder: pytest.fail("it looks first"))
    assert recorded(HOST, tmp_path, meter) == first


def test_a_disk_that_fills_up_meanwhile(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.os, "replace", full)
    assert recorded(HOST, tmp_path, Meter()) is HOST
    assert os.listdir(tmp_path) == []


def test_who_comes_at_the_same_time_gets_the_same_record(tmp_path):
    meter, found = Meter(seconds=0.1), []
    threads = [
        threading.Thread(target=lambda: found.append(recorded(HOST, tmp_path, meter)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.calls == 1 and len(found) == 4 and len(set(map(to_json, found))) == 1


def test_a_lock_that_is_never_given_back_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_PATIENCE_S", 0.05)
    meter = Meter()
    with store._alone(tmp_path):
        assert recorded(HOST, tmp_path, meter).measured
    assert meter.calls == 1


def test_a_record_is_written_whole_or_not(tmp_path, monkeypatch):
    path = store_record(Meter()(HOST), tmp_path)
    before = path.read_bytes()
    monkeypatch.setattr(store, "to_json", lambda device: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store_record(HOST, tmp_path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == [path.name]


def test_the_record_can_be_copied_and_given(tmp_path):
    device = recorded(HOST, tmp_path, Meter())
    save_device(device, tmp_path / "mine.json")
    assert load_device(tmp_path / "mine.json") == device
