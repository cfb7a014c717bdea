"""Feature levels of x86-64; what the processor of this machine can do, and how much of it counts.

$RC_HOST_LEVEL caps the host: with `RC_HOST_LEVEL=v3` a machine that has more is taken for one of
exactly x86-64-v3 by all that asks for the host: devices, code for it, micro-benchmarks, and loading
of artifacts. So a machine with AVX-512 builds and tests what one without it would; a machine that
has less than the level is not changed.

Tile registers (AMX) count where Linux lets a process have them, which it must ask for: see
`tile_permission`.

Source: feature levels from the x86-64 psABI §3.1.1.
"""

import os
from pathlib import Path

from rcompiler.device.tile_permission import tiles_supported
from rcompiler.errors import DeviceError

# The levels that code is made for, with their instruction sets as LLVM spells them.
V3 = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe"})
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
# tile registers, and their products by the type of the factors
TILE_PRODUCTS = {"i8": "amx-int8", "bf16": "amx-bf16"}
TILES = frozenset({"amx-tile", *TILE_PRODUCTS.values()})
LEVELS: dict[str, frozenset[str]] = {"v4": V4, "v3": V3, "x86-64": frozenset()}
# What a CPU of a level may have beside it, by the names that targets say (`instruction_set`).
BESIDE: dict[str, dict[str, frozenset[str]]] = {
    "v4": {
        "vnni": frozenset({"avx512vnni"}),
        "bf16": frozenset({"avx512bf16"}),
        "fp16": frozenset({"avx512fp16"}),
        "amx": TILES,
    },
    "v3": {"vnni": frozenset({"avxvnni"})},
    "x86-64": {},
}
# kept when present
EXTRA = frozenset[str]().union(*(sets for each in BESIDE.values() for sets in each.values()))
# LLVM's name -> the flag in /proc/cpuinfo, where they differ
CPU_FLAGS = {
    "lzcnt": "abm",
    "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avxvnni": "avx_vnni",
    "amx-tile": "amx_tile",
    "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
}

CPUINFO = Path("/proc/cpuinfo")
# The levels of a host, with its flags as /proc/cpuinfo spells them.
_V1 = frozenset({"sse", "sse2"})
_V2 = _V1 | frozenset("cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3".split())
_V3 = _V2 | frozenset("abm avx avx2 bmi1 bmi2 f16c fma movbe xsave".split())
_V4 = _V3 | frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())
_TILE_FLAGS = frozenset({"amx_tile", "amx_int8", "amx_bf16"})
# the highest first
LEVEL_FLAGS = {"v4": _V4, "v3": _V3, "x86-64": _V1}


def host_cap() -> str | None:
    """The level that $RC_HOST_LEVEL names; None where it is not set. Raises DeviceError."""
    level = os.environ.get("RC_HOST_LEVEL") or None
    if level is not None and level not in LEVEL_FLAGS:
        raise DeviceError(
            f"$RC_HOST_LEVEL is {level!r}: give one of {', '.join(LEVEL_FLAGS)}, or unset it"
        )
    return level


def capped_level(cpuinfo: Path = CPUINFO) -> str | None:
    """The level that the host is cut down to; None where it counts as it is. Raises DeviceError."""
    level = host_cap()
    return level if level is not None and LEVEL_FLAGS[level] <= _listed(cpuinfo) else None


def host_flags(cpuinfo: Path = CPUINFO) -> frozenset[str]:
    """The `flags` of the first processor listed, up to the cap; empty when they cannot be read.

    Raises DeviceError for a cap that is no level.
    """
    level = capped_level(cpuinfo)
    return _listed(cpuinfo) if level is None else LEVEL_FLAGS[level]


def psabi_level(cpuinfo: Path = CPUINFO) -> str:
    """The highest level of the psABI that the host has, also v2, which no device is of."""
    flags = host_flags(cpuinfo)
    levels = {"x86-64-v4": _V4, "x86-64-v3": _V3, "x86-64-v2": _V2}
    return next((level for level, needs in levels.items() if needs <= flags), "x86-64")


def _listed(cpuinfo: Path) -> frozenset[str]:
    """Of the first processor; what the file says of all others is not read."""
    try:
        with cpuinfo.open(errors="replace") as lines:
            facts = (line.partition(":") for line in lines)
            text = next((value for key, _, value in facts if key.strip() == "flags"), "")
    except OSError:
        return frozenset()
    flags = frozenset(text.split())
    return flags if flags.isdisjoint(_TILE_FLAGS) or tiles_supported() else flags - _TILE_FLAGS
