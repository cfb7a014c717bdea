"""How much an EU of a GPU holds at once, and that of each architecture.

Sources. NVIDIA: CUDA C++ programming guide, tables "Technical specifications per compute
capability", which also give what may be asked for; units of allocation: `cuda_occupancy.h` of the
toolkit (registers by warps, in each of four partitions; compute capability 8.0 and later keep 1 KiB
of shared memory of every block). AMD: LLVM's AMDGPUBaseInfo.cpp, which says the same of each `gfx`
(registers of one of the four SIMDs, here those of the four; waves of a SIMD; 16 work-groups of more
than one wave, each with one barrier), and 64 KiB of LDS in units of 512 bytes: AMDGPUUsage,
"Compute PGM RSRC2".
"""

from dataclasses import dataclass

from rcompiler.device.checks import positive, require

_KIB = 1 << 10


@dataclass(frozen=True)
class Residency:
    """What one EU of a GPU holds at once, and what a block of threads may take of it.

    `threads`, `warps`, `blocks`, `registers` (of 32 bits), `shared` (bytes): of an EU. With the
    prefix `block_`, and `thread_registers`: the most that a block or a thread may take.
    `register_unit`: warps get registers in multiples of it; `shared_unit`: blocks get bytes in
    multiples of it, and `shared_reserved` more than they ask for. `barriers`: that a block has by
    number; 0: it has but one. `cluster`: blocks that may share their memory; 1: none.
    """

    threads: int
    warps: int
    blocks: int
    registers: int
    shared: int
    block_threads: int
    block_registers: int
    block_shared: int
    thread_registers: int
    register_unit: int
    shared_unit: int
    shared_reserved: int = 0
    barriers: int = 0
    cluster: int = 1

    def __post_init__(self) -> None:
        may_be_zero = {"shared_reserved": self.shared_reserved, "barriers": self.barriers}
        others = {name: n for name, n in vars(self).items() if name not in may_be_zero}
        positive("residency", **others)
        for name, value in may_be_zero.items():
            require(value >= 0, f"residency: {name} is {value!r}", "it must not be negative")


def _nvidia(
    shared: int,
    block_shared: int,
    *,
    warps: int = 64,
    blocks: int = 32,
    registers: int = 1 << 16,
    shared_unit: int = 128,
    reserved: int = _KIB,
    cluster: int = 1,
) -> Residency:
    return Residency(
        threads=32 * warps,
        warps=warps,
        blocks=blocks,
        registers=registers,
        shared=shared,
        block_threads=1024,
        block_registers=1 << 16,
        block_shared=block_shared,
        thread_registers=255,
        register_unit=256,
        shared_unit=shared_unit,
        shared_reserved=reserved,
        barriers=16,
        cluster=cluster,
    )


def _amd(registers: int, unit: int, waves: int) -> Residency:
    """`registers` of a thread, in multiples of `unit`; `waves` of a SIMD."""
    lanes, simds = 64, 4
    return Residency(
        threads=lanes * simds * waves,
        warps=simds * waves,
        blocks=16,
        registers=lanes * simds * registers,
        shared=64 * _KIB,
        block_threads=1024,
        block_registers=lanes * simds * registers,
        block_shared=64 * _KIB,
        thread_registers=registers,
        register_unit=lanes * unit,
        shared_unit=512,
    )


RESIDENCIES = {
    "sm_37": _nvidia(
        112 * _KIB, 48 * _KIB, blocks=16, registers=1 << 17, shared_unit=256, reserved=0
    ),
    "sm_70": _nvidia(96 * _KIB, 96 * _KIB, shared_unit=256, reserved=0),
    "sm_80": _nvidia(164 * _KIB, 163 * _KIB),
    "sm_90a": _nvidia(228 * _KIB, 227 * _KIB, cluster=8),
    "sm_100a": _nvidia(228 * _KIB, 227 * _KIB, cluster=8),
    "sm_120a": _nvidia(100 * _KIB, 99 * _KIB, warps=48, blocks=24),
    "gfx906": _amd(256, 4, 10),
    "gfx90a": _amd(512, 8, 8),
    "gfx942": _amd(512, 8, 8),
}
