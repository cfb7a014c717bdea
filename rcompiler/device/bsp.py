"""Bulk-synchronous devices: their EUs meet in global barriers and cannot signal one another.

The Graphcore IPU of Rammer's evaluation (GC2; OSDI'20 §5.5): an EU is a tile of the processor with
its own memory; data of other tiles comes over the exchange, between two supersteps. Not measured.

Sources. Tiles, memory and exchange of each, peak: the IPU record of Roller's published code (1,216
tiles of six threads, 256 KiB, 7.68 TB/s, 18.9 TFLOPS). Clock 1.6 GHz, vectors of two
floats, 16 bytes per cycle from the memory of a tile: Jia et al., "Dissecting the Graphcore IPU
Architecture via Microbenchmarking", 2019. The six threads take turns, so that each finds the
result of its last multiply-add ready.

Estimates: prices of a barrier, of a step inside a superstep and of a start from the host.
"""

from rcompiler.device.model import ComputeUnit, Costs, Device, MemoryLevel

_KIB = 1 << 10


def _ipu() -> Device:
    tiles, ghz, exchange = 1216, 1.6, 7680.0
    memory = 256 * _KIB
    return Device(
        name="ipu",
        kind="bsp",
        eus=tiles,
        compute=ComputeUnit(
            vector_bytes=8,
            registers=16,
            fma_ports=2,
            fma_latency=1,
            load_ports=2,
            ghz=ghz,
            peaks=(("f32", 18900.0 / tiles),),
        ),
        memory=(
            MemoryLevel("tile", memory, 8, 1, 16 * ghz, 16 * ghz),
            MemoryLevel(
                "exchange", tiles * memory, 8, 1, exchange / tiles, exchange, shared_by=tiles
            ),
        ),
        costs=Costs(
            task_ns=50.0,
            hand_off_ns=500.0,  # nobody waits for one EU alone: as much as a barrier
            barrier_ns=500.0,
            launch_ns=10000.0,
            min_task_ns=500.0,
            signals=False,
        ),
        level_name="gc2",
    )


BSP = {device.name: device for device in (_ipu(),)}
