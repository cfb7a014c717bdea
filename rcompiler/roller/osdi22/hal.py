"""Hal: the device figures that the published search reads (OSDI'22 §3.3).

The evaluated artifact carries its own figures. They differ from the data sheets, and parity needs
exactly them: `PUBLISHED`, keyed by the name of the device record they belong to. For every other
record they follow from the Device by the rules of `derive`.

Source: microsoft/nnfusion, branch osdi22_artifact, artifacts/roller/arch (A100: branch roller).
"""

from dataclasses import dataclass

from rcompiler.device.gpu import GPUS
from rcompiler.device.model import Device

MAX_THREADS = 512  # of one rTask; the artifact's, on every device
_SHARED = 48 << 10  # what CUDA gives a block without asking for more


@dataclass(frozen=True)
class Hal:
    """Bandwidths in GB/s and peaks in GFLOPS are of the whole device.

    `block_registers`, `thread_registers`: 32-bit registers an rTask, and a thread, may use.
    `shared_bytes`: of one rTask. `partitions`: of one SM, each issuing warps of `warp` threads.
    `transaction_bytes`: of DRAM. `banks` of `bank_bytes` each: of the shared memory.
    """

    dram_gbs: float
    shared_gbs: float
    peak_gflops: float
    matrix_gflops: float | None
    block_registers: int
    thread_registers: int
    shared_bytes: int
    sms: int
    partitions: int
    warp: int
    transaction_bytes: int
    banks: int
    bank_bytes: int


# Quirks (parity): the V100 peak is below what its own kernels reach; the K80 counts both dies,
# of which a process sees one; the A100 peak is its fp16 one without matrix units.
PUBLISHED = {
    "v100": Hal(750, 12080, 12480, 125000, 32768, 96, 49152, 80, 4, 32, 32, 32, 4),
    "k80": Hal(191, 2540, 4113, None, 32768, 96, 49152, 26, 4, 32, 32, 32, 8),
    "mi50": Hal(900, 8000, 12000, None, 20000, 70, 34000, 60, 4, 64, 64, 32, 4),
    "a100": Hal(1555, 12080, 78000, 312000, 32768, 164, 49152, 108, 4, 32, 32, 32, 4),
}


def hal_of(device: Device) -> Hal:
    """The published figures of a built-in record, the derived ones of any other.

    A record that only shares the name of a built-in one describes another machine: derived.
    """
    if device.name in PUBLISHED and GPUS.get(device.name) == device:
        return PUBLISHED[device.name]
    return derive(device)


def derive(device: Device) -> Hal:
    """The figures as they follow from any Device.

    Registers of a thread: 3/8 of what the hardware names, as 96 of 255 on the V100, the rest being
    addresses and temporaries; of an rTask: 2/3 of MAX_THREADS such threads, as 32768 there.
    Banks: the ways of the first level, which move one line per cycle together.

    On a CPU threads are the lanes of the vectors: a warp is one vector, and a register of a thread
    is one vector register. Vectors of an rTask run one after the other, so that all of them may
    use all registers. The last cache of a core takes the part of shared memory.
    """
    unit, first, last = device.compute, device.first_level, device.main_memory
    if device.is_cpu:
        own = device.own_caches or (first,)
        warp, shared, thread_registers = unit.lanes(4), own[-1], unit.registers
        shared_bytes, block_registers = shared.capacity, MAX_THREADS * thread_registers
    else:
        warp, shared = unit.warp, first
        thread_registers = max(1, round(unit.registers * unit.lanes(4) // warp * 3 / 8))
        block_registers = MAX_THREADS * thread_registers * 2 // 3
        shared_bytes = min(first.capacity, _SHARED)
    rates = dict(unit.matrix)
    matrix = rates.get("f16", rates.get("bf16"))
    return Hal(
        dram_gbs=last.shared_bandwidth,
        shared_gbs=shared.bandwidth * device.eus,
        peak_gflops=unit.peak(4) * device.eus,
        matrix_gflops=None if matrix is None else matrix * device.eus,
        block_registers=block_registers,
        thread_registers=thread_registers,
        shared_bytes=shared_bytes,
        sms=device.eus,
        partitions=unit.partitions,
        warp=warp,
        transaction_bytes=last.line,
        banks=first.ways,
        bank_bytes=max(4, first.line // first.ways),
    )
