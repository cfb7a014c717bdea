"""Devices: validation, JSON records, detection of the host from its files."""

import json
from dataclasses import replace

import pytest

from rcompiler.device.cpu import (
    best_level,
    cpu_device,
    detect_cpu,
    expected,
    fitted,
    host_caches,
    host_name,
    lacking,
    with_figures,
)
from rcompiler.device.gpu import GPUS, gpu_device
from rcompiler.device.host_flags import LEVELS, TILES, host_flags
from rcompiler.device.measure import VERSION, figures
from rcompiler.device.measured import MeasurementOrigin
from rcompiler.device.model import ComputeUnit, MemoryLevel
from rcompiler.device.record import (
    builtin_device,
    builtin_names,
    from_json,
    load_device,
    save_device,
    to_json,
    to_option,
)
from rcompiler.device.target import find_device, is_host
from rcompiler.errors import DeviceError

ZEN = "fpu sse sse2 avx avx2 bmi1 bmi2 f16c fma abm movbe"
ALL = ZEN + " cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3 xsave"
ALL += " avx512f avx512bw avx512cd avx512dq avx512vl avx512_vnni"
FULL = ZEN + " avx512f avx512dq avx512cd avx512bw avx512vl avx512_vnni avx512_bf16"


def host(tmp_path, flags):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    root = tmp_path / "cache"
    described = [
        ("Data", "1", "48K", "12", "0"),
        ("Instruction", "1", "32K", "8", "0"),
        ("Unified", "2", "1M", "16", "0"),
        ("Unified", "3", "32M", "16", "0-3,8"),
    ]
    names = ("type", "level", "size", "ways_of_associativity", "shared_cpu_list")
    for i, values in enumerate(described):
        folder = root / f"index{i}"
        folder.mkdir(parents=True)
        for name, value in zip(names, values, strict=True):
            (folder / name).write_text(value + "\n")
        (folder / "coherency_line_size").write_text("64\n")
    return {"cpuinfo": cpuinfo, "cache_root": root}


def test_detection_reads_features_and_caches(tmp_path):
    device = detect_cpu(eus=3, **host(tmp_path, FULL))
    assert (device.level_name, device.eus, device.lanes(4)) == ("v4", 3, 16)
    assert device.vector_registers == 32
    assert {"avx512vnni", "avx512bf16", "fma"} <= device.features
    assert device.level("L1").capacity == 48 << 10 and device.level("L1").ways == 12
    assert device.level("L2").capacity == 1 << 20
    assert device.level("L3").shared_by == 5
    assert not device.measured


def test_a_machine_has_as_many_eus_as_usable_cpus(tmp_path, monkeypatch):
    monkeypatch.setattr("rcompiler.device.cpu.usable_cpus", lambda: 1)
    assert detect_cpu(**host(tmp_path, FULL)).eus == 1


def test_levels_can_be_forced_down_and_up(tmp_path):
    files = host(tmp_path, ZEN)
    assert detect_cpu(**files).level_name == "v3"
    forced = detect_cpu("x86-64", **files)
    assert (forced.lanes(4), forced.vector_registers, forced.features) == (4, 16, frozenset())
    above = detect_cpu("v4+amx+vnni", **files)
    assert (above.lanes(4), above.vector_registers, bool(above.tile_elements)) == (16, 32, True)
    assert above.features == LEVELS["v4"] | {"avx512vnni"} | TILES
    assert above.level("L3").capacity == 32 << 20  # the caches are those of the host
    with pytest.raises(DeviceError, match="'v5' is unknown"):
        detect_cpu("v5", **files)


def test_what_a_host_lacks_is_what_code_would_use(tmp_path, monkeypatch):
    monkeypatch.delenv("RC_HOST_LEVEL", raising=False)
    files = host(tmp_path, ALL)
    cpuinfo = files["cpuinfo"]
    assert lacking(detect_cpu(**files), cpuinfo) == lacking(cpu_device("v4+vnni"), cpuinfo) == []
    assert lacking(cpu_device("v4+vnni+amx"), cpuinfo) == ["amx-bf16", "amx-int8", "amx-tile"]
    # code for v4 has no use for AVX-VNNI, which Zen 5 has, too
    zen5 = cpu_device("v4", features=LEVELS["v4"] | {"avx512vnni", "avxvnni"})
    assert lacking(zen5, cpuinfo) == []
    assert lacking(cpu_device("v3+vnni"), cpuinfo) == ["avxvnni"]


def test_what_is_expected_of_a_cpu_that_is_not_here():
    """By hand: on the host 90 of 96 operations/ns of f32, and 36 of 48 of f64."""
    noted = MeasurementOrigin("m", "d", 1, ("clock", "peak f32", "bandwidth L2"))
    host = cpu_device("v3", eus=3)
    figures = {"f32": 90.0, "f64": 36.0, "i8": 95.0}
    measured = replace(
        with_figures(host, 3.0, figures, {"L2": 77.0}, {}, window=300), measurement=noted
    )
    found = expected(measured, cpu_device("v4+vnni+amx", eus=3))
    assert (found.name, found.level_name, found.eus) == ("cpu-v3 as v4+vnni+amx", "v4", 3)
    assert found.features == LEVELS["v4"] | {"avx512vnni"} | TILES
    # twice the lanes; nothing is known of dot products, and of tile registers 16 x 64 each cycle
    assert dict(found.compute.peaks) == {"f32": 180.0, "f64": 72.0}
    rates = {"i8": 2 * 1024 * 3.0, "bf16": 2 * 512 * 3.0}
    assert found.dot_speed("i8") == 4.0 and dict(found.compute.matrix) == rates
    assert found.memory == measured.memory and found.costs == measured.costs
    assert found.compute.window == 300 and found.vector_registers == 32
    assert found.measurement.figures == ("clock", "bandwidth L2")


def test_a_forced_level_is_no_more_than_its_features(tmp_path):
    """Code is generated for the level alone."""
    assert detect_cpu("v4", **host(tmp_path, FULL)).features == LEVELS["v4"]


@pytest.mark.parametrize(
    ("cap", "level"), [("v4", "v4"), ("v3", "v3"), ("x86-64", "x86-64"), ("", "v4")]
)
def test_the_host_counts_as_no_more_than_its_cap(tmp_path, monkeypatch, cap, level):
    files = host(tmp_path, ALL)
    monkeypatch.setenv("RC_HOST_LEVEL", cap)
    assert detect_cpu(**files).level_name == level
    assert ("avx512_vnni" in host_flags(files["cpuinfo"])) == (not cap)
    assert detect_cpu(**files).features == LEVELS[level] | (set() if cap else {"avx512vnni"})


def test_a_cap_above_the_host_changes_nothing(tmp_path, monkeypatch):
    files = host(tmp_path, ZEN + " avx_vnni")
    monkeypatch.setenv("RC_HOST_LEVEL", "v4")
    assert detect_cpu(**files).features == LEVELS["v3"] | {"avxvnni"}


def test_a_cap_that_is_no_level_is_named(monkeypatch):
    monkeypatch.setenv("RC_HOST_LEVEL", "avx2")
    with pytest.raises(DeviceError, match="RC_HOST_LEVEL is 'avx2': give one of v4, v3, x86-64"):
        detect_cpu()


def test_unreadable_hosts_get_the_defaults(tmp_path):
    nowhere = {"cpuinfo": tmp_path / "no", "cache_root": tmp_path / "no"}
    assert detect_cpu(eus=1, **nowhere).memory == cpu_device("x86-64").memory
    folder = tmp_path / "cache" / "index0"
    folder.mkdir(parents=True)
    (folder / "type").write_text("Data")
    (folder / "level").write_text("one")
    assert host_caches(tmp_path / "cache") == {}


def test_a_cache_that_is_described_badly_is_left_out(tmp_path):
    (tmp_path / "index0").mkdir()
    facts = {
        "type": "Data",
        "level": "1",
        "size": "32K",
        "coherency_line_size": "0",
        "ways_of_associativity": "0",
        "shared_cpu_list": "0",
    }
    for name, text in facts.items():
        (tmp_path / "index0" / name).write_text(text)
    assert host_caches(tmp_path) == {}
    (tmp_path / "index0" / "coherency_line_size").write_text("64")
    assert host_caches(tmp_path)["L1"].ways == 512


def test_the_host_itself_is_a_device():
    device = detect_cpu()
    assert device.eus >= 1 and best_level(device.features) == device.level_name


@pytest.mark.parametrize("level", LEVELS)
def test_records_round_trip(level, tmp_path):
    device = replace(
        cpu_device(level, eus=4),
        compute=replace(cpu_device(level).compute, peaks=(("f32", 265.5), ("i8", 900.0))),
        measured=True,
    )
    save_device(device, tmp_path / "d.json")
    assert load_device(tmp_path / "d.json") == device
    assert to_json(from_json(to_json(device))) == to_json(device)


def test_records_of_before_a_figure_was_measured():
    """Without a window, the feed of a level and the step between tasks: those of any CPU."""
    device = cpu_device("v3")
    record = json.loads(to_json(device))
    del record["compute"]["window"], record["costs"]["step_ns"]
    for level in record["memory"]:
        del level["feed"]
    found = from_json(json.dumps(record))
    assert (found.compute.window, found.costs.step_ns) == (224.0, 5.0)
    assert found.level("L2").fed == device.level("L2").bandwidth == 96.0
    assert device.level("L2").fed == 39.0


def test_what_signals_and_waits_take_is_said_where_it_is_not_free():
    """So records of CPUs, on which both are a store and a load, are what they were."""
    record = json.loads(to_json(cpu_device("v3")))
    assert "signal_ns" not in record["costs"]
    assert from_json(json.dumps(record)).costs.wait_ns == 0
    assert json.loads(to_json(GPUS["h200"]))["costs"]["wait_ns"] == 700
    assert from_json(to_json(GPUS["h200"])) == GPUS["h200"]


def broken(change):
    record = json.loads(to_json(cpu_device("v3")))
    change(record)
    return json.dumps(record)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.pop("format"), "not a device record"),
        (lambda r: r.pop("memory"), "memory"),
        (lambda r: r.update(colour="red"), "no field 'colour'"),
        (lambda r: r.update(eus="two"), "eus is a string, not an integer"),
        (lambda r: r.update(eus=0), "must be a number above 0"),
        (lambda r: r.update(eus=True), "eus is True"),
        (lambda r: r.update(kind="abacus"), "abacus"),
        (lambda r: r.update(features=[1]), "features .1.; every one is a string"),
        (lambda r: r.update(memory=[]), "no memory level"),
        (lambda r: r["memory"].reverse(), "shrink"),
        (lambda r: r["memory"][1].update(line=-64), r"memory\[1\].*line is -64"),
        (lambda r: r["memory"].append(3), "3 where an object belongs"),
        (lambda r: r["compute"].pop("registers"), "'registers' is missing"),
        (lambda r: r["compute"].update(peaks={"f32": -1}), "peak f32 is -1"),
        (lambda r: r["compute"].update(window=0), "window is 0"),
        (lambda r: r["memory"][1].update(feed="fast"), r"memory\[1\].*feed is 'fast'"),
        (lambda r: r["costs"].update(barrier_ns=float("nan")), "barrier_ns is nan"),
        (lambda r: r["compute"].update(ghz=10**400), "compute: a number is beyond any machine"),
        (lambda r: r["memory"][0].update(capacity=10**400), r"memory\[0\].*beyond any machine"),
        (lambda r: r.update(eus=10**400), "odd.json: a number is beyond any machine"),
    ],
)
def test_odd_records_are_refused(change, message):
    with pytest.raises(DeviceError, match=message):
        from_json(broken(change), "odd.json")


def test_files_that_are_no_records(tmp_path):
    with pytest.raises(DeviceError, match="cannot read"):
        load_device(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("{")
    with pytest.raises(DeviceError, match="not JSON"):
        load_device(tmp_path / "text.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DeviceError, match="not text"):
        load_device(tmp_path / "binary.json")
    with pytest.raises(DeviceError, match="list where an object"):
        from_json("[1]")
    with pytest.raises(DeviceError, match="not JSON"):
        from_json("[" * 100_000)


@pytest.mark.parametrize(
    ("name", "tflops"),
    [("k80", 4.37), ("mi50", 13.3), ("v100", 15.7), ("a100", 19.5), ("h200", 66.9)]
    + [("b200", 75), ("rtx5090", 104.8)]
    + [("mi210", 22.6), ("mi250x", 47.9 / 2), ("mi300x", 163.4)],
)
def test_gpus_reach_their_published_peak(name, tflops):
    device = gpu_device(name)
    first = {"mi250x": "mi210"}.get(name, name)  # of an architecture
    assert device is GPUS[name] and gpu_device(device.level_name) is GPUS[first]
    assert device.eus * device.compute.peak(4) == pytest.approx(1000 * tflops, rel=0.01)
    assert name in builtin_names() and builtin_device(name) == device
    assert from_json(to_json(device)) == device
    assert not device.measured


@pytest.mark.parametrize(
    ("target", "name"),
    {
        "cuda:h200": "h200",
        "cuda:a100": "a100",
        "cuda:sm_80": "a100",
        "cuda:sm_90a": "h200",
        "cuda:b200": "b200",
        "cuda:sm_100a": "b200",
        "cuda:rtx5090": "rtx5090",
        "cuda:sm_120a": "rtx5090",
        "cuda:emulated": "emulated",
        "cuda:emulated-sm_90a": "emulated-sm_90a",
        "rocm:gfx90a": "mi210",
        "rocm:gfx942": "mi300x",
        "rocm:mi250x": "mi250x",
    }.items(),
)
def test_gpus_as_targets(target, name):
    assert find_device(target) is GPUS[name]
    assert not is_host(target)


@pytest.mark.parametrize("target", ["cuda:mi50", "rocm:h200", "cuda:", "rocm:sm_80", "cuda:sm_12"])
def test_targets_of_another_kind_are_refused(target):
    kind, _, name = target.partition(":")
    with pytest.raises(DeviceError, match=f"no GPU '{name}' of {kind}; known are: "):
        find_device(target)


def test_an_emulated_gpu_is_a_small_one():
    for name, original in (("emulated", "a100"), ("emulated-sm_90a", "h200")):
        device, real = GPUS[name], GPUS[original]
        assert (device.eus, device.level_name) == (4, real.level_name)
        assert device.level("L2").shared_by == device.level("DRAM").shared_by == 4
        assert (device.compute, device.residency) == (real.compute, real.residency)
        assert from_json(to_json(device)) == device


def test_records_of_before_residency_was_known():
    record = json.loads(to_json(gpu_device("a100")))
    assert record["residency"]["block_shared"] == 163 << 10
    del record["residency"]
    assert from_json(json.dumps(record)) == replace(gpu_device("a100"), residency=None)
    assert "residency" not in json.loads(to_json(cpu_device("v3")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.pop("warps"), "residency: the field 'warps' is missing"),
        (lambda r: r.update(shared=0), "residency: shared is 0"),
        (lambda r: r.update(barriers=-1), "residency: barriers is -1"),
        (lambda r: r.update(blocks=2.5), "blocks is 2.5, not an integer"),
        (lambda r: r.update(waves=8), "no field 'waves'"),
    ],
)
def test_odd_residencies_are_refused(change, message):
    record = json.loads(to_json(gpu_device("a100")))
    change(record["residency"])
    with pytest.raises(DeviceError, match=message):
        from_json(json.dumps(record))


def test_a_server_by_its_datasheet():
    device = builtin_device("epyc-9555")
    assert (device.name, device.eus, device.level_name) == ("epyc-9555", 64, "v4")
    # 2 x 16 lanes x 2 operations x 3.2 GHz for each of 64 cores
    assert device.eus * device.compute.peak(4) == pytest.approx(13_107, rel=0.001)
    assert device.level("L3").capacity * device.eus // device.level("L3").shared_by == 256 << 20
    assert device.level("DRAM").shared_bandwidth == pytest.approx(12 * 8 * 6.4)
    assert not device.measured and from_json(to_json(device)) == device


def test_a_bulk_synchronous_device_by_hand():
    device = builtin_device("ipu")
    assert (device.kind, device.eus, device.costs.signals) == ("bsp", 1216, False)
    assert device.eus * device.compute.peak(4) == pytest.approx(18_900)
    assert device.level("exchange").capacity == 304 << 20


@pytest.mark.parametrize("name", builtin_names())
def test_records_that_come_with_the_compiler_are_found_by_their_name(name):
    device = builtin_device(name)
    assert device.name == name and find_device(name) == device
    assert device.measured == (device.measurement is not None)


def test_the_measured_record_says_where_and_how():
    device = builtin_device("zen5-2")
    assert device.measured and device.measurement.version == VERSION
    assert "AuthenticAMD 26" in device.measurement.machine
    assert set(device.measurement.figures) == set(figures(device))


def test_unknown_gpus_are_refused():
    with pytest.raises(DeviceError, match="no GPU 'tpu'"):
        gpu_device("tpu")


def test_figures_by_hand():
    unit = ComputeUnit(64, 32, fma_ports=2, fma_latency=4, load_ports=2, ghz=4.0)
    assert unit.peak(4) == 2 * 16 * 2 * 4.0
    assert unit.accumulators == 8
    assert replace(unit, peaks=(("f32", 265.0),)).peak(4) == 265.0
    l3 = MemoryLevel("L3", 32 << 20, 64, 16, 30.0, 100.0, shared_by=8)
    assert (l3.share(1), l3.share(8), l3.share(64)) == (30.0, 12.5, 12.5)
    assert l3.sets * l3.ways * l3.line == l3.capacity


def test_dot_products_by_hand():
    plain, there = cpu_device("v4"), LEVELS["v4"] | {"avx512vnni", "avx512bf16"}
    device = cpu_device("v4", features=there)
    assert (plain.dots, device.dots) == (frozenset(), {"i8", "bf16"})
    assert [d.dot_speed("i8") for d in (plain, device)] == [1.5, 4.0]
    assert device.dot_speed("bf16") == 2.0
    measured = replace(device.compute, peaks=(("f32", 260.0), ("i8", 520.0)))
    assert replace(device, compute=measured).dot_speed("i8") == 2.0
    # the 256-bit instructions of a v3 are a feature of their own
    assert cpu_device("v3", features=LEVELS["v3"] | {"avx512vnni"}).dots == frozenset()
    assert cpu_device("v3", features=LEVELS["v3"] | {"avxvnni"}).dots == {"i8"}


def test_a_record_says_what_was_measured():
    noted = MeasurementOrigin(
        "that machine's CPU", "2026-01-02T03:04:05+00:00", 1, ("clock", "peak f32")
    )
    device = replace(cpu_device("v3"), measured=True, measurement=noted)
    assert from_json(to_json(device)) == device
    assert "measurement" not in json.loads(to_json(cpu_device("v3")))
    line = to_option(device)
    assert "\n" not in line and "'" not in line and find_device(line) == device


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.pop("machine"), "'machine' is missing"),
        (lambda m: m.update(version="1"), "version is a string"),
        (lambda m: m.update(figures="clock"), "figures: a string where a list"),
        (lambda m: m.update(figures=[1]), "every one is a string"),
        (lambda m: m.update(place="here"), "no field 'place'"),
    ],
)
def test_odd_measurements_are_refused(change, message):
    device = replace(cpu_device("v3"), measurement=MeasurementOrigin("m", "d", 1, ("clock",)))
    record = json.loads(to_json(device))
    change(record["measurement"])
    with pytest.raises(DeviceError, match=message):
        from_json(json.dumps(record))


def test_nesting_without_end_is_no_record():
    with pytest.raises(DeviceError, match="not JSON"):
        from_json("[" * 100_000)


def test_what_identifies_a_host(tmp_path):
    (tmp_path / "cpuinfo").write_text(
        "processor : 0\nvendor_id : Maker\ncpu family : 6\nmodel : 85\nmodel name : Fast: 2 GHz\n"
        "stepping : 7\n\nprocessor : 1\nvendor_id : Other\n"
    )
    assert host_name(tmp_path / "cpuinfo") == "Maker 6 85 7 Fast: 2 GHz"
    assert host_name(tmp_path / "none") == "unknown CPU"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        *(("cpu", True), ("cpu:v3", True), ("cpu:v4+vnni", True), ("cpu:v4+amx+vnni", True)),
        *(("cpu:v9", False), ("cpu:v3+amx", False), ("cpu:", False), ("cpu:v3+", False)),
        *(("cpu.json", False), ("h200", False), ("cuda:v3", False), ("v3", False)),
    ],
)
def test_which_targets_are_this_machine(target, expected):
    assert is_host(target) is expected


def test_a_record_with_features_that_its_level_does_not_use_is_not_narrowed():
    zen5 = builtin_device("zen5-2")
    assert "avxvnni" in zen5.features
    assert fitted(zen5, cpu_device("v4+vnni+bf16")) is zen5
    assert fitted(zen5, cpu_device("v4+vnni")).dots == {"i8"}
    assert fitted(zen5, cpu_device("v4+vnni")).name == "zen5-2 as v4+vnni"
