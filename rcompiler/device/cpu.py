"""CPUs: default figures per x86-64 feature level, and detection of the host.

Figures that were not measured are conservative and the same on every host, so a compilation
without measuring is deterministic: they depend on the feature level and, for a detected host, on
its cache geometry.

Sources: 2 FMA ports, 4 cycles latency and 2 loads per cycle hold for Intel Skylake-X to Sapphire
Rapids and AMD Zen 2 to Zen 5 (Agner Fog, instruction tables; uops.info). Plain SSE has no FMA: an
accumulator waits for the addition only, and AMD has two multipliers beside two adders (on Intel
both share two ports). 224 instructions in flight are those of Skylake-X; all later ones have more.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from rcompiler.device.cgroups import parse_cpus, usable_cpus
from rcompiler.device.host_flags import (
    CPU_FLAGS,
    CPUINFO,
    EXTRA,
    LEVELS,
    TILE_PRODUCTS,
    V4,
    host_flags,
)
from rcompiler.device.instruction_set import InstructionSet
from rcompiler.device.matrix_unit import AMX
from rcompiler.device.model import ComputeUnit, Costs, Device, MemoryLevel

_LLVM_NAMES = {flag: feature for feature, flag in CPU_FLAGS.items()}

_COMPUTE = {
    "v4": ComputeUnit(64, 32, fma_ports=2, fma_latency=4, load_ports=2, ghz=3.0),
    "v3": ComputeUnit(32, 16, fma_ports=2, fma_latency=4, load_ports=2, ghz=3.0),
    "x86-64": ComputeUnit(16, 16, fma_ports=2, fma_latency=4, load_ports=2, ghz=3.0),
}


@dataclass(frozen=True)
class Cache:
    """Geometry of one cache: bytes, ways, bytes of a line, cores that share it."""

    capacity: int
    ways: int
    line: int
    shared_by: int = 1


DEFAULT_CACHES = {
    "L1": Cache(32 << 10, 8, 64),
    "L2": Cache(1 << 20, 16, 64),
    "L3": Cache(16 << 20, 16, 64, shared_by=8),
}
DRAM_BYTES = 16 << 30
# GB/s of one core, and of one instance with every sharer drawing; from one core that loads at
# 32 bytes per cycle (x86-64, v3) or 64 (v4) out of L1, half of it out of L2; 13 a cycle beside
# multiply-adds, at 3 GHz (measured on Cascade Lake)
_L2_FEED = 39.0
_BANDWIDTH = {"v4": (384.0, 128.0), "v3": (192.0, 96.0), "x86-64": (96.0, 64.0)}
_L3_BANDWIDTH = (24.0, 120.0)
_DRAM_BANDWIDTH = (10.0, 40.0)


def cpu_device(
    level: str = "v3",
    eus: int = 1,
    *,
    caches: dict[str, Cache] | None = None,
    features: frozenset[str] | None = None,
    name: str | None = None,
) -> Device:
    """A CPU of an instruction set ("x86-64", "v3", "v4", "v4+vnni") with default figures.

    `eus` cores; `caches` by name (L1, L2, L3), the defaults where one is missing; `features`
    defaults to those of the instruction set. Raises DeviceError for an unknown one.
    """
    named = InstructionSet.named(level)
    level = named.level
    geometry = DEFAULT_CACHES | (caches or {})
    l1, l2, l3 = geometry["L1"], geometry["L2"], geometry["L3"]
    bandwidth = _BANDWIDTH[level]
    levels = [
        MemoryLevel("L1", l1.capacity, l1.line, l1.ways, bandwidth[0], bandwidth[0]),
        MemoryLevel("L2", l2.capacity, l2.line, l2.ways, bandwidth[1], bandwidth[1], feed=_L2_FEED),
        MemoryLevel("L3", l3.capacity, l3.line, l3.ways, *_L3_BANDWIDTH, shared_by=l3.shared_by),
    ]
    levels = [a for i, a in enumerate(levels) if not i or a.capacity > levels[i - 1].capacity]
    dram = MemoryLevel("DRAM", DRAM_BYTES, l1.line, 1, *_DRAM_BANDWIDTH, shared_by=max(8, eus))
    has = named.features if features is None else features
    return Device(
        name=name or f"cpu-{named.name}",
        kind="cpu",
        eus=eus,
        compute=_with_tiles(_COMPUTE[level], has),
        memory=(*levels, dram),
        costs=Costs(),
        level_name=level,
        features=has,
    )


def _with_tiles(compute: ComputeUnit, features: frozenset[str]) -> ComputeUnit:
    """With the matrix units of tile registers that are among the features: one row of results with
    all their products a cycle.
    """
    has = [AMX[e] for e, name in TILE_PRODUCTS.items() if features >= {"amx-tile", name}]
    rates = sorted((u.element, 2.0 * u.columns * u.depth * compute.ghz) for u in has)
    return replace(compute, matrix=tuple(rates), matrix_units=tuple(has))


def detect_cpu(
    level: str | None = None,
    eus: int | None = None,
    *,
    cpuinfo: Path = CPUINFO,
    cache_root: Path = Path("/sys/devices/system/cpu/cpu0/cache"),
) -> Device:
    """The host: its features, the CPUs that this process may use and its caches.

    `level` forces an instruction set ("v3", "v4+vnni"), also one that the host lacks: see
    `lacking`; DeviceError where there is none of this name. `eus` forces the number of cores. Files
    that cannot be read give the conservative defaults.
    """
    features = None  # a forced level is no more than it is
    if level is None:
        found = host_features(cpuinfo)
        level = best_level(found)
        features = LEVELS[level] | (found & EXTRA)
    return cpu_device(
        level,
        usable_cpus() if eus is None else eus,
        caches=host_caches(cache_root),
        features=features,
        name="cpu",
    )


def lacking(device: Device, cpuinfo: Path = CPUINFO) -> list[str]:
    """What code for a CPU may use and the host lacks, sorted: it runs elsewhere, and is not
    measured here.

    Raises DeviceError for a $RC_HOST_LEVEL that is no level.
    """
    used = InstructionSet.of(device.level_name, device.features).features
    return sorted(used - host_features(cpuinfo))


def host_features(cpuinfo: Path = CPUINFO) -> frozenset[str]:
    """Instruction-set features of the first processor listed, in LLVM's spelling, up to
    $RC_HOST_LEVEL. Raises DeviceError for one that is no level.
    """
    names = {_LLVM_NAMES.get(flag, flag) for flag in host_flags(cpuinfo)}
    return frozenset(names & (V4 | EXTRA))


def host_name(cpuinfo: Path = CPUINFO) -> str:
    """Maker, family, model, stepping and name of the first processor listed; "unknown CPU"."""
    try:
        lines = cpuinfo.read_text(errors="replace").partition("\n\n")[0].splitlines()
    except OSError:
        lines = []
    facts = {key.strip(): value.strip() for key, _, value in (li.partition(":") for li in lines)}
    keys = ("vendor_id", "cpu family", "model", "stepping", "model name")
    return " ".join(facts[key] for key in keys if facts.get(key)) or "unknown CPU"


def best_level(features: frozenset[str]) -> str:
    """The highest feature level whose features are all there."""
    return next(level for level, needs in LEVELS.items() if needs <= features)


def host_caches(root: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[str, Cache]:
    """Data caches of one core by name; a cache that is described badly is left out."""
    caches = {}
    for folder in sorted(root.glob("index*")):
        try:
            if (folder / "type").read_text().strip() not in ("Data", "Unified"):
                continue
            name = "L" + (folder / "level").read_text().strip()
            capacity = _bytes((folder / "size").read_text())
            line = int((folder / "coherency_line_size").read_text())
            ways = int((folder / "ways_of_associativity").read_text()) or capacity // line
            sharers = len(parse_cpus((folder / "shared_cpu_list").read_text()))
        except (OSError, ValueError, ZeroDivisionError):
            continue
        if name in DEFAULT_CACHES and min(capacity, line, ways, sharers) > 0:
            caches[name] = Cache(capacity, ways, line, sharers)
    return caches


def fitted(record: Device, target: Device) -> Device:
    """The CPU of a record for code of `target`: `narrowed` where it has features of its own that
    code for its level would use."""
    used = InstructionSet.of(record.level_name, record.features).features
    return record if used <= target.all_features else narrowed(record, target)


def narrowed(record: Device, target: Device) -> Device:
    """The CPU of a record, programmed with the features that it shares with `target` only.

    Its cores, clock, caches and costs are those of the record; vector registers are those of the
    target's level. Peaks that were measured with other instructions are left out, for estimates.
    """
    features = LEVELS[target.level_name] | (record.features & target.features)
    return _programmed(record, target, features)


def expected(host: Device, target: Device) -> Device:
    """What is expected of a CPU like this host that has the instruction set of `target`.

    Cores, clock, caches and costs are those of the host, registers those of the target. Peaks of
    f32 and f64 are as far below what the ports give as those that were measured on the host; all
    others, also of dot products and tile registers, are what the ports give.
    """
    found = _programmed(host, target, target.features)
    ports = replace(host.compute, peaks=())
    measured = dict(host.compute.peaks)
    peaks = tuple(
        (name, found.compute.peak(size) * measured[name] / ports.peak(size))
        for name, size in (("f32", 4), ("f64", 8))
        if name in measured
    )
    return replace(found, compute=replace(found.compute, peaks=peaks))


def _programmed(record: Device, target: Device, features: frozenset[str]) -> Device:
    """The CPU of a record with these features and the vector registers of the target's level; no
    peak of it was measured.
    """
    own, other = record.compute, target.compute
    compute = replace(own, vector_bytes=other.vector_bytes, registers=other.registers, peaks=())
    name, noted = InstructionSet.of(target.level_name, features).name, record.measurement
    if noted is not None:
        kept = tuple(each for each in noted.figures if not each.startswith("peak"))
        noted = replace(noted, figures=kept)
    return replace(
        record,
        name=f"{record.name} as {name}",
        compute=_with_tiles(compute, features),
        measurement=noted,
        level_name=target.level_name,
        features=features,
    )


def with_figures(
    device: Device,
    ghz: float,
    peaks: dict[str, float],
    bandwidth: dict[str, float],
    shared: dict[str, float],
    feeds: dict[str, float] | None = None,
    *,
    window: float | None = None,
) -> Device:
    """`device` with measured figures; what was not measured keeps its value.

    peaks: operations/ns of one EU by type. bandwidth: GB/s of one EU by level. shared: GB/s of one
    instance by level, with all EUs of the device drawing at once. feeds, window: as in the record.
    """
    window = device.compute.window if window is None else window
    compute = replace(device.compute, ghz=ghz, peaks=tuple(sorted(peaks.items())), window=window)
    compute = _with_tiles(compute, device.features)
    memory = []
    for level in device.memory:
        alone = bandwidth.get(level.name, level.bandwidth)
        together, sharers = level.shared_bandwidth, level.shared_by
        if level.name in shared:  # the sharers that count are those that drew
            together, sharers = shared[level.name], min(sharers, device.eus)
        # what one core can draw, the instance can deliver
        together = max(together, alone) if level.shared_by > 1 else alone
        feed = (feeds or {}).get(level.name, level.feed)
        measured = replace(level, bandwidth=alone, shared_bandwidth=together, feed=feed)
        memory.append(replace(measured, shared_by=sharers))
    return replace(device, compute=compute, memory=tuple(memory), measured=True)


def _bytes(text: str) -> int:
    text = text.strip()
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * scale
