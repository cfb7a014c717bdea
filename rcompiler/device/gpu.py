"""GPUs: one execution unit is a streaming multiprocessor (SM), of AMD a compute unit (CU).

A vector register is one 32-bit register of a warp: 32 lanes x 4 bytes (AMD: 64 lanes). `fma_ports`
are the warps whose FMA starts per cycle. Shared memory is the level L1; its ways are the 32 banks.
Of these records, only figures of h200 are measured: hand-off, barrier, what L2 gives all SMs, and
what it and DRAM give one, by `rc-tune --device=cuda` on an NVIDIA H200 (driver 580.159.04, 26
November 2026; device-record.json in tools/bench/results/h200). Its smallest rTask is by experiment:
with 5000 and 300 ns recurrent networks take half as long again as with 1500, with which BERT-base
and ResNet-50 lose little (smallest-task.json there). What a signal and a wait take of an EU is
fitted to the times of five networks there, by `bsp` and by `rammer` (13 % off, root mean square).

Sources. SM counts, FP32 lanes per SM, shared memory, L2, DRAM, clocks and dense matrix rates:
NVIDIA Tesla V100 architecture whitepaper (WP-08608, tables 1 and 2), NVIDIA A100 architecture
whitepaper (tables 4 and 5; the 40 GB part), NVIDIA H100 architecture whitepaper (tables 2 and 3)
and the H200 datasheet. FMA latency 4: Jia et al., "Dissecting the NVIDIA Volta GPU Architecture
via Microbenchmarking", 2018, table 4.1. Shared memory moves 32 banks x 4 bytes per cycle and SM,
and 64 bytes per cycle and SM come out of L2 (CUDA programming guide; A100 whitepaper); L2 of
all SMs together: V100 2155 GB/s (Jia et al., table 3.1), the others estimated at 5500 GB/s.
K80, one of its two dies: NVIDIA Tesla K80 board specification (BD-07317, boost clock) and
Kepler GK110/210 whitepaper (table 1; 8-byte banks, 4 blocks of issue per SMX); latency 9: Jia et
al., table 4.1. MI50: AMD Radeon Instinct MI50 datasheet and the "Vega 7nm" ISA manual (4 SIMDs per
CU, 256 registers, a wave issues over 4 cycles, 64 KiB of local memory in 32 banks); L2 of both:
estimates. The figures that Roller's evaluation used instead are in rcompiler/roller/osdi22/hal.py.
Hand-off and barrier: estimates for atomics at GPU scope through L2, to be measured.
MI210, and one of the two dies of MI250X: AMD CDNA 2 whitepaper and the boards' datasheets (peaks of
matrices; L2 moves 32 x 128 bytes per cycle). MI300X: AMD CDNA 3 whitepaper and its datasheet (128
FMAs per cycle and CU; L2 of 4 MiB for the 38 CUs of a die, 16 x 128 bytes per cycle; Infinity Cache
17.2 TB/s). Their FMA latency is that of MI50. How many blocks fit: `residency`.
B200: NVIDIA HGX B200 datasheet (dense rates of one GPU, 180 GB at 7.7 TB/s) and the Blackwell
tuning guide (L2 of 126 MB); no datasheet has its 148 SMs at 1.965 GHz, which drivers report: 128
FMAs of each per cycle give the 75 TFLOPS of the datasheet. RTX 5090: NVIDIA RTX Blackwell GPU
architecture whitepaper (rates of matrices with sums in f32). Nothing of the two is measured: FMA
latency is that of the others, and what L2 gives all SMs is an estimate.
Matrix units, as far as products are written for them: `matrix_unit`. Their `share` of the peak is
an estimate, four fifths for loops of such instructions; mma.sync has but 63 % of the peak of an
H100 to begin with (Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture",
2024). A B200 is taken to multiply by mma.sync what an H200 does in a cycle: a quarter of its peak,
which is that of tcgen05, for which no code is made.
An emulated GPU is four EUs of the real one of its architecture.
"""

from dataclasses import replace

from rcompiler.device.matrix_unit import MatrixUnit, mma_units, wgmma_units
from rcompiler.device.model import ComputeUnit, Costs, Device, MemoryLevel
from rcompiler.device.residency import RESIDENCIES
from rcompiler.errors import DeviceError

GPU_KINDS = ("cuda", "rocm")
_MULTIPLIED = ("f16", "bf16", "tf32", "i8")  # elements that products are written for

_COSTS = Costs(
    task_ns=200.0, hand_off_ns=1000.0, barrier_ns=2000.0, launch_ns=5000.0, min_task_ns=5000.0
)


def _gpu(
    name: str,
    capability: str,
    sms: int,
    ghz: float,
    *,
    warps_per_cycle: int,
    shared: int,
    l2: tuple[int, float],
    dram: tuple[int, float],
    matrix: dict[str, float],
    matrix_units: tuple[MatrixUnit, ...] = (),
    kind: str = "cuda",
    warp: int = 32,
    registers: int = 255,
    latency: int = 4,
    bank: int = 4,
    transaction: int = 32,
    l2_sharers: int | None = None,
    l3: tuple[int, float] | None = None,
    alone: tuple[float, float] | None = None,
    costs: Costs = _COSTS,
) -> Device:
    """`l2`, `dram`: bytes and GB/s of the device; `matrix`: TFLOPS of the device by type; `alone`:
    GB/s that one EU gets out of each of the two.

    `bank`: bytes per cycle of each of the 32 banks; `transaction`: bytes of one L2 or DRAM access.
    `l2_sharers`: EUs of one L2 of several, whose bytes and GB/s `l2` is; `l3`: a cache behind them.
    """
    per_sm = 64 * ghz
    row = 32 * bank

    of_l2, of_dram = alone or (per_sm, per_sm)

    def shared_level(
        name: str, size: tuple[int, float], ways: int, by: int, own: float
    ) -> MemoryLevel:
        capacity, rate = size
        return MemoryLevel(name, capacity, transaction, ways, min(own, rate), rate, shared_by=by)

    levels = (
        MemoryLevel("L1", shared, row, 32, row * ghz, row * ghz),
        shared_level("L2", l2, 16, l2_sharers or sms, of_l2),
        *([shared_level("L3", l3, 16, sms, per_sm)] if l3 else []),
        shared_level("DRAM", dram, 1, sms, of_dram),
    )
    compute = ComputeUnit(
        vector_bytes=4 * warp,
        registers=registers,
        fma_ports=warps_per_cycle,
        fma_latency=latency,
        load_ports=1,
        ghz=ghz,
        warp=warp,
        partitions=4,
        matrix=tuple(sorted((t, 1000 * rate / sms) for t, rate in matrix.items())),
        matrix_units=matrix_units,
    )
    fits = RESIDENCIES[capability]
    return Device(name, kind, sms, compute, levels, costs, capability, residency=fits)


def _emulated(name: str, original: Device) -> Device:
    """Tasks of the size that all other records ask for: each takes the emulator its time."""
    eus = 4
    levels = (replace(v, shared_by=min(v.shared_by, eus)) for v in original.memory)
    return replace(original, name=name, eus=eus, memory=tuple(levels), costs=_COSTS)


_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
GPUS = {
    device.name: device
    for device in (
        _gpu(
            "k80",
            "sm_37",
            13,
            0.875,
            warps_per_cycle=6,
            shared=48 * _KIB,
            l2=(1536 * _KIB, 500.0),
            dram=(12 * _GIB, 240.0),
            matrix={},
            latency=9,
            bank=8,
        ),
        _gpu(
            "mi50",
            "gfx906",
            60,
            1.725,
            warps_per_cycle=1,
            shared=64 * _KIB,
            l2=(4 * _MIB, 3500.0),
            dram=(16 * _GIB, 1024.0),
            matrix={},
            kind="rocm",
            warp=64,
            registers=256,
            transaction=64,
        ),
        _gpu(
            "mi210",
            "gfx90a",
            104,
            1.7,
            warps_per_cycle=1,
            shared=64 * _KIB,
            l2=(8 * _MIB, 6963.0),
            dram=(64 * _GIB, 1638.0),
            matrix={"f16": 181.0, "bf16": 181.0, "i8": 181.0},
            kind="rocm",
            warp=64,
            registers=512,
            transaction=128,
        ),
        _gpu(
            "mi250x",
            "gfx90a",
            110,
            1.7,
            warps_per_cycle=1,
            shared=64 * _KIB,
            l2=(8 * _MIB, 6963.0),
            dram=(64 * _GIB, 1638.0),
            matrix={"f16": 191.5, "bf16": 191.5, "i8": 191.5},
            kind="rocm",
            warp=64,
            registers=512,
            transaction=128,
        ),
        _gpu(
            "mi300x",
            "gfx942",
            304,
            2.1,
            warps_per_cycle=2,
            shared=64 * _KIB,
            l2=(4 * _MIB, 4301.0),
            l2_sharers=38,
            l3=(256 * _MIB, 17200.0),
            dram=(192 * _GIB, 5300.0),
            matrix={"f16": 1307.4, "bf16": 1307.4, "tf32": 653.7, "i8": 2614.9, "f8": 2614.9},
            kind="rocm",
            warp=64,
            registers=512,
            transaction=128,
        ),
        _gpu(
            "v100",
            "sm_70",
            80,
            1.53,
            warps_per_cycle=2,
            shared=96 * _KIB,
            l2=(6 * _MIB, 2155.0),
            dram=(16 * _GIB, 900.0),
            matrix={"f16": 125.0},
        ),
        _gpu(
            "a100",
            "sm_80",
            108,
            1.41,
            warps_per_cycle=2,
            shared=163 * _KIB,
            l2=(40 * _MIB, 5500.0),
            dram=(40 * _GIB, 1555.0),
            matrix={"f16": 312.0, "bf16": 312.0, "tf32": 156.0, "i8": 624.0},
            matrix_units=mma_units(_MULTIPLIED, 0.8),
        ),
        _gpu(
            "h200",
            "sm_90a",
            132,
            1.98,
            warps_per_cycle=4,
            shared=227 * _KIB,
            l2=(50 * _MIB, 11000.0),
            dram=(141 * 10**9, 4800.0),
            matrix={"f16": 989.0, "bf16": 989.0, "tf32": 494.0, "i8": 1979.0, "f8": 1979.0},
            matrix_units=wgmma_units(("f16", "bf16", "i8"), 0.8) + mma_units(_MULTIPLIED, 0.5),
            alone=(140.0, 62.0),
            costs=replace(
                _COSTS,
                hand_off_ns=520.0,
                barrier_ns=890.0,
                min_task_ns=1500.0,
                signal_ns=350.0,
                wait_ns=700.0,
            ),
        ),
        _gpu(
            "b200",
            "sm_100a",
            148,
            1.965,
            warps_per_cycle=4,
            shared=227 * _KIB,
            l2=(126 * _MIB, 12000.0),
            dram=(180 * 10**9, 7700.0),
            matrix={"f16": 2250.0, "bf16": 2250.0, "tf32": 1125.0, "i8": 4500.0, "f8": 4500.0},
            matrix_units=mma_units(_MULTIPLIED, 0.25),
        ),
        _gpu(
            "rtx5090",
            "sm_120a",
            170,
            2.407,
            warps_per_cycle=4,
            shared=99 * _KIB,
            l2=(96 * _MIB, 6000.0),
            dram=(32 * _GIB, 1792.0),
            matrix={"f16": 209.5, "bf16": 209.5, "tf32": 104.8, "i8": 838.0, "f8": 419.0},
            matrix_units=mma_units(_MULTIPLIED, 0.8),
        ),
    )
}


GPUS |= {
    device.name: device
    for device in (
        _emulated("emulated", GPUS["a100"]),
        _emulated("emulated-sm_90a", GPUS["h200"]),
    )
}


def gpu_device(name: str, kind: str = "") -> Device:
    """A known GPU by name ("h200") or architecture ("sm_90a", the first of several), of one kind or
    of any; else DeviceError.
    """
    devices = [device for device in GPUS.values() if kind in ("", device.kind)]
    for device in devices:
        if name in (device.name, device.level_name):
            return device
    known = ", ".join(f"{device.name} ({device.level_name})" for device in devices)
    of_kind = f" of {kind}" if kind else ""
    raise DeviceError(f"no GPU {name!r}{of_kind}; known are: {known}; or give a device record")
