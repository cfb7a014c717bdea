"""How many blocks one multiprocessor holds, and what a block may have.

Figures: CUDA C++ programming guide, table "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

from dataclasses import dataclass

from rcompiler.errors import DeviceError


@dataclass(frozen=True)
class Multiprocessor:
    """threads, blocks, registers (of 4 bytes), shared bytes; block_shared: the most of one block.

    Of every block `reserved` bytes of shared memory more are taken.
    """

    threads: int
    blocks: int
    shared: int
    block_shared: int
    registers: int = 65536
    block_threads: int = 1024
    reserved: int = 1024


_KIB = 1024
_KNOWN = {
    (7, 0): Multiprocessor(2048, 32, 96 * _KIB, 96 * _KIB, reserved=0),
    (7, 5): Multiprocessor(1024, 16, 64 * _KIB, 64 * _KIB, reserved=0),
    (8, 0): Multiprocessor(2048, 32, 164 * _KIB, 163 * _KIB),
    (8, 6): Multiprocessor(1536, 16, 100 * _KIB, 99 * _KIB),
    (8, 9): Multiprocessor(1536, 24, 100 * _KIB, 99 * _KIB),
    (9, 0): Multiprocessor(2048, 32, 228 * _KIB, 227 * _KIB),
}


def multiprocessor(capability: tuple[int, int]) -> Multiprocessor:
    if capability not in _KNOWN:
        known = ", ".join(f"{a}.{b}" for a, b in _KNOWN)
        raise DeviceError(f"compute capability {capability} is not emulated; known are: {known}")
    return _KNOWN[capability]


def blocks_per_multiprocessor(
    sm: Multiprocessor, threads: int, shared_bytes: int, registers: int | None
) -> int:
    """threads, shared bytes and registers of a thread of one block; 0 if not even one fits."""
    if threads > sm.block_threads or shared_bytes > sm.block_shared:
        return 0
    warps = -(-threads // 32)
    limits = [sm.blocks, sm.threads // (32 * warps)]
    limits.append(
        sm.shared // (shared_bytes + sm.reserved) if shared_bytes + sm.reserved else sm.blocks
    )
    if registers:
        of_warp = -(-32 * registers // 256) * 256
        limits.append(sm.registers // (of_warp * warps))
    return min(limits)
