"""Server CPUs that come with the compiler; none of these records is measured.

Sources. EPYC 9555: AMD EPYC 9005 series datasheet (64 cores in 8 dies, 3.2 GHz base clock, 256 MB
of L3, 12 channels of DDR5-6400: 12 x 8 bytes x 6.4 GHz = 614.4 GB/s). Its Zen 5 core: Cohen and
Subramony, "Next generation Zen 5 core", Hot Chips 2024 (L1 48 KiB in 12 ways, L2 1 MiB in 16 ways,
64 bytes per cycle from L2 to L1, 512-bit data path) and AMD, Software Optimization Guide for the
AMD Zen 5 Microarchitecture, 58455 (two 512-bit multiply-adds and two 512-bit loads per cycle,
latency 4). 32 bytes per cycle and core come out of the L3 of a die.

Estimates: all figures are at the base clock, which holds with all cores on vectors; one core draws
from DRAM what one core of the same family does in the record zen5-2, with as many instructions in
flight; a hand-off crosses dies.
"""

from rcompiler.device.host_flags import V4
from rcompiler.device.model import ComputeUnit, Costs, Device, MemoryLevel

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30


def _epyc_9555() -> Device:
    ghz, cores, die = 3.2, 64, 8
    l3 = 32 * ghz
    levels = (
        MemoryLevel("L1", 48 * _KIB, 64, 12, 128 * ghz, 128 * ghz),
        MemoryLevel("L2", 1 * _MIB, 64, 16, 64 * ghz, 64 * ghz),
        MemoryLevel("L3", 32 * _MIB, 64, 16, l3, die * l3, shared_by=die),
        MemoryLevel("DRAM", 768 * _GIB, 64, 1, 50.0, 614.4, shared_by=cores),
    )
    return Device(
        name="epyc-9555",
        kind="cpu",
        eus=cores,
        compute=ComputeUnit(64, 32, fma_ports=2, fma_latency=4, load_ports=2, ghz=ghz, window=260),
        memory=levels,
        costs=Costs(hand_off_ns=300.0, barrier_ns=1000.0, launch_ns=2000.0),
        level_name="v4",
        features=V4 | {"avx512vnni", "avx512bf16", "avxvnni"},
    )


SERVERS = {device.name: device for device in (_epyc_9555(),)}
