"""Devices answer by name: what shipped records say, and that nobody asks by place or by kind."""

from dataclasses import replace
from pathlib import Path

import pytest
from device_reads import device_reads

from rcompiler.device.cpu import cpu_device
from rcompiler.device.gpu import GPUS
from rcompiler.device.model import ComputeUnit, Device, MemoryLevel
from rcompiler.device.record import builtin_device
from rcompiler.device.target import find_device
from rcompiler.errors import DeviceError

ROOT = Path(__file__).parents[2] / "rcompiler"
KIB, MIB = 1 << 10, 1 << 20

# Of each: what or whose it is; the levels by name; bytes of what an EU has for itself, of what a
# block may take of the first level, and of an access behind that. By the sources of the records.
ANSWERS = {
    "zen5-2": ("cpu", ["L1", "L2", "L3", "DRAM"], 1 * MIB, 48 * KIB, 64),
    "epyc-9555": ("cpu", ["L1", "L2", "L3", "DRAM"], 1 * MIB, 48 * KIB, 64),
    "h200": ("nvidia", ["L1", "L2", "DRAM"], 227 * KIB, 227 * KIB, 32),
    "a100": ("nvidia", ["L1", "L2", "DRAM"], 163 * KIB, 163 * KIB, 32),
    "k80": ("nvidia", ["L1", "L2", "DRAM"], 48 * KIB, 48 * KIB, 32),
    "mi50": ("amd", ["L1", "L2", "DRAM"], 64 * KIB, 64 * KIB, 64),
    "mi300x": ("amd", ["L1", "L2", "L3", "DRAM"], 64 * KIB, 64 * KIB, 128),
    "ipu": ("", ["tile", "exchange"], 0, 256 * KIB, 8),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_a_device_is(name):
    device, maker = builtin_device(name), ANSWERS[name][0]
    assert (device.is_cpu, device.is_nvidia, device.is_amd) == (
        maker == "cpu",
        maker == "nvidia",
        maker == "amd",
    )
    assert device.is_gpu == (maker in ("nvidia", "amd"))


@pytest.mark.parametrize("name", ANSWERS)
def test_levels_by_name(name):
    device, (_, levels, private, block, sector) = builtin_device(name), ANSWERS[name]
    assert (device.first_level.name, device.second_level.name) == (levels[0], levels[1])
    assert device.main_memory.name == levels[-1]
    assert [level.name for level in device.caches] == levels[:-1]
    assert device.last_cache.name == levels[-2]
    steps = [(level.name, outer.name) for level, outer in device.transfers]
    assert steps == [*zip(levels, levels[1:], strict=False)]
    assert (device.private_bytes, device.block_shared_bytes) == (private, block)
    assert device.sector_bytes == sector


def test_caches_of_one_eu():
    """The third level of a Zen 5 is that of a die, the second one of an MI300X that of one, too;
    what GPUs cut tasks for is their shared memory alone.
    """
    server, gpu = builtin_device("epyc-9555"), builtin_device("mi300x")
    assert [level.name for level in server.own_caches] == ["L1", "L2"]
    assert [level.name for level in gpu.own_caches] == ["L1"]
    assert (server.cache_before_last.name, gpu.cache_before_last.name) == ("L2", "L2")
    assert [level.name for level in gpu.private] == ["L1"]


def test_a_device_of_one_level():
    """It has no caches, and nothing comes from behind its only level."""
    level = MemoryLevel("memory", 1 * MIB, 8, 1, 1.0, 1.0)
    device = Device("plain", "bsp", 1, ComputeUnit(8, 16, 1, 1, 1, 1.0), (level,))
    assert (device.first_level, device.second_level, device.main_memory) == (level,) * 3
    assert (device.caches, device.transfers, device.private_bytes) == ((), (), 0)
    with pytest.raises(DeviceError, match="plain has 0 caches .* with 1 or more"):
        _ = device.last_cache
    two = replace(device, memory=(level, replace(level, name="more")))
    assert two.last_cache == level
    with pytest.raises(DeviceError, match="plain has 1 caches .* with 2 or more"):
        _ = two.cache_before_last


@pytest.mark.parametrize(
    ("level", "fma", "scalef", "broadcasts"),
    [("x86-64", False, False, False), ("v3", True, False, True), ("v4", True, True, True)],
)
def test_instructions_of_cpus(level, fma, scalef, broadcasts):
    device = cpu_device(level)
    assert (device.has_fma, device.has_scalef) == (fma, scalef)
    assert device.broadcasts_loads == broadcasts
    unnamed = replace(device, features=frozenset())  # the level says what it has
    assert (unnamed.has_fma, unnamed.broadcasts_loads) == (fma, broadcasts)
    assert not device.has_cp_async and not device.has_wgmma and not device.matrix_elements
    assert not device.has_f16 and find_device("cpu:v4+fp16").has_f16


@pytest.mark.parametrize(
    ("name", "capability", "copies", "wgmma", "elements"),
    [
        ("k80", (3, 7), False, False, set()),
        ("v100", (7, 0), False, False, set()),  # its matrix units have another mma
        ("a100", (8, 0), True, False, {"f16", "bf16", "tf32", "i8"}),
        ("h200", (9, 0), True, True, {"f16", "bf16", "tf32", "i8"}),
        ("b200", (10, 0), True, False, {"f16", "bf16", "tf32", "i8"}),
        ("rtx5090", (12, 0), True, False, {"f16", "bf16", "tf32", "i8"}),
        ("mi300x", (0, 0), False, False, set()),  # has some that nothing is written for
    ],
)
def test_instructions_of_gpus(name, capability, copies, wgmma, elements):
    device = builtin_device(name)
    assert device.compute_capability == capability
    assert (device.has_cp_async, device.has_wgmma) == (copies, wgmma)
    assert device.matrix_elements == elements
    assert device.has_tcgen05 == (name == "b200")
    assert device.has_fma and device.broadcasts_loads and not device.has_scalef


@pytest.mark.parametrize("device", GPUS.values(), ids=GPUS)
def test_threads_that_have_all_registers(device):
    """65,536 registers / 255 = 257 on NVIDIA, 65,536 / 256 and 131,072 / 512 on AMD: whole warps of
    32 and 64 threads.
    """
    assert device.persistent_threads == 256


def test_few_registers_make_small_blocks():
    gpu = builtin_device("h200")
    half = replace(gpu, residency=replace(gpu.known_residency, block_registers=1 << 15))
    assert half.persistent_threads == 128
    with pytest.raises(DeviceError, match="cpu-v3 does not say what its EUs hold at once"):
        _ = cpu_device("v3").persistent_threads


def test_architectures_of_three_digits():
    device = replace(builtin_device("h200"), level_name="sm_100a")
    assert device.compute_capability == (10, 0)
    assert device.has_cp_async and not device.has_wgmma


FILES = sorted(
    path
    for folder in (ROOT, *(entry for entry in ROOT.iterdir() if entry.is_dir()))
    for path in (folder.glob("*.py") if folder == ROOT else folder.rglob("*.py"))
    if folder != ROOT / "device"
)


def test_nobody_asks_by_place_or_by_kind():
    assert {folder.name for folder in ROOT.iterdir() if folder.is_dir()} >= {"tools", "passes"}
    assert len(FILES) > 500
    found = {
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in FILES
        for line, what in device_reads(path.read_text())
    }
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        "last = device.memory[-2]",
        "caches = self._device.memory[:-1]",
        "first, *rest = device.memory",
        "def f(it):\n    levels = it.memory\n    return levels[0]",
        "self._levels = levels = device.memory\nfirst = self._levels[0]",
        "a, b = device.name, device.memory\nlast = b[-1]",
        "last = tuple(device.memory)[-1]",
        "last = [*reversed(device.memory)] and list(device.memory)[-1]",
        "first = next(iter(device.memory))",
        "first = device.memory.__getitem__(0)",
        "first = getattr(device, 'memory')[0]",
        "first = (levels := device.memory)[0]",
        "last = (other if other else device.memory)[-1]",
        "for levels in (a.memory, b.memory):\n    print(levels[0])",
        "match device.memory:\n    case [first, *_]:\n        pass",
    ],
)
def test_asking_by_place_is_found(text):
    assert device_reads(text)


@pytest.mark.parametrize(
    "text",
    [
        "if device.kind == 'cuda': pass",
        "if 'cpu' != self._base.kind: pass",
        "if device.kind in ('cuda', 'rocm'): pass",
        "if base.kind not in ('cpu', *GPU_KINDS): pass",
        "gpu = found.kind in GPU_KINDS",
        "same = device.kind == other.kind",
        "def f(target: Device): return target.kind == other",
        "def f(target: Device | None): return target.kind == other",
        "kind = device.kind\nif kind == 'cuda': pass",
        "if (kind := base.kind) and kind == 'cpu': pass",
        "self._kind = base.kind\nif self._kind == 'rocm': pass",
        "if getattr(base, 'kind') == 'cpu': pass",
        "match base.kind:\n    case 'cuda' | 'rocm':\n        pass",
        "write = {'cpu': one, 'cuda': two}[base.kind]",
        "WRITERS = {'cpu': one}\nwrite = WRITERS.get(base.kind)",
        "if base.kind.startswith('cuda'): pass",
        "devices = [d for d in GPUS if d.kind == 'cuda']",
    ],
)
def test_asking_by_kind_is_found(text):
    assert device_reads(text)


@pytest.mark.parametrize(
    "text",
    [
        "if device.is_nvidia and not device.caches: pass",
        "rows = [level.capacity for level in device.memory]",
        "memory = tuple(replace(level, ways=1) for level in device.memory)\nfirst = memory[0]",
        "for level, outer in zip(device.memory, sizes): pass",
        "part = memory[0], plan.memory.peak, tables.memory()[1]",
        "if expr.kind == 'sequential' or buffer.kind in ('input', 'output'): pass",
        "if clock == 'cpu' and options.device == 'cuda': pass",
        "schedule = {'bsp': one}[policy]",
        "what = {'temp': 1}[buffer.kind]",
        "text = f'a {device.kind} device'",
    ],
)
def test_other_uses_are_not(text):
    assert device_reads(text) == []
