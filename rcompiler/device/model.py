"""Device: one machine as plain data (Roller's hardware abstraction layer, OSDI'22 §3.3).

A device is a list of equal execution units (EUs: cores of a CPU, streaming multiprocessors of a
GPU), one compute unit description that holds for each of them, and the memory levels from the
fastest to the slowest. Every algorithm reads its constants from here; a new machine is a new
record, no code.

Units: bytes, nanoseconds, GB/s = bytes/ns, gflops = operations/ns, all measured or estimated
for one EU unless a field says otherwise.
"""

import re
from dataclasses import dataclass, field

from rcompiler.device.checks import not_negative, positive, require
from rcompiler.device.host_flags import LEVELS
from rcompiler.device.matrix_unit import MatrixUnit
from rcompiler.device.measured import MeasurementOrigin, Recall
from rcompiler.device.residency import Residency
from rcompiler.errors import DeviceError

KINDS = ("cpu", "cuda", "rocm", "bsp")
# multiply-adds of one dot group: as many elements as fit a word
DOT_STEPS = {"i8": 4, "i16": 2, "bf16": 2}


@dataclass(frozen=True)
class MemoryLevel:
    """One level of the memory hierarchy.

    `capacity`: bytes of one instance. `line`: bytes of one cache line, or of one memory
    transaction. `ways`: associativity of a cache, or the number of banks of a scratchpad.
    `bandwidth`: GB/s one EU draws when it is alone. `shared_bandwidth`: GB/s of one instance when
    all EUs that share it draw at once. `shared_by`: EUs of the device per instance. `feed`: GB/s
    of operands that one EU draws while it multiplies them; None: as `bandwidth`.
    """

    name: str
    capacity: int
    line: int
    ways: int
    bandwidth: float
    shared_bandwidth: float
    shared_by: int = 1
    feed: float | None = None

    def __post_init__(self) -> None:
        positive(
            f"memory level {self.name}",
            capacity=self.capacity,
            line=self.line,
            ways=self.ways,
            bandwidth=self.bandwidth,
            shared_bandwidth=self.shared_bandwidth,
            shared_by=self.shared_by,
            feed=self.feed,
        )

    @property
    def sets(self) -> int:
        """Cache sets (rows of banks) of one instance."""
        return max(1, self.capacity // (self.line * self.ways))

    @property
    def way_bytes(self) -> int:
        """Addresses this far apart fall into the same set."""
        return self.sets * self.line

    @property
    def fed(self) -> float:
        """GB/s of operands that one EU draws while it multiplies them."""
        return self.bandwidth if self.feed is None else self.feed

    def share(self, active: int) -> float:
        """GB/s per EU when `active` of the EUs that share an instance draw at once."""
        drawing = max(1, min(active, self.shared_by))
        return min(self.bandwidth, self.shared_bandwidth / drawing)


@dataclass(frozen=True)
class ComputeUnit:
    """The arithmetic of one EU.

    `vector_bytes`: width of one vector register (of one warp-wide register on a GPU).
    `registers`: vector registers of one thread. `fma_ports`: vector FMAs started per cycle;
    `fma_latency`: cycles from one FMA to a dependent one, so `fma_ports * fma_latency` independent
    accumulators fill the unit. `load_ports`: vector loads per cycle. `ghz`: sustained frequency
    under vector load. `peaks`: measured operations/ns by type ("f32", "f64", "i8", "bf16"); a type
    that is not there is computed from the other fields. `matrix`: dense matrix-unit operations/ns.
    `window`: instructions in flight, among which those that have their operands go first.
    `matrix_units`: what multiplies at the rates of `matrix`, as far as code is written for it.
    """

    vector_bytes: int
    registers: int
    fma_ports: int
    fma_latency: int
    load_ports: int
    ghz: float
    warp: int = 1
    partitions: int = 1
    peaks: tuple[tuple[str, float], ...] = ()
    matrix: tuple[tuple[str, float], ...] = ()
    window: float = 224.0
    matrix_units: tuple[MatrixUnit, ...] = ()

    def __post_init__(self) -> None:
        positive(
            "compute unit",
            vector_bytes=self.vector_bytes,
            registers=self.registers,
            fma_ports=self.fma_ports,
            fma_latency=self.fma_latency,
            load_ports=self.load_ports,
            ghz=self.ghz,
            warp=self.warp,
            partitions=self.partitions,
            window=self.window,
        )
        for table in (self.peaks, self.matrix):
            require(
                len({name for name, _ in table}) == len(table),
                "compute unit: a type has two peaks",
                "name every type once",
            )
            for name, value in table:
                positive("compute unit", **{f"peak {name}": value})
        units = [(unit.instruction, unit.element) for unit in self.matrix_units]
        require(
            len(set(units)) == len(units),
            f"compute unit: matrix units {units}",
            "describe each of them once",
        )
        for unit in self.matrix_units:
            require(
                unit.element in dict(self.matrix),
                f"compute unit: no peak in `matrix` for {unit.name}",
                "give one",
            )

    def lanes(self, itemsize: int) -> int:
        """Elements of `itemsize` bytes in one vector register."""
        return max(1, self.vector_bytes // itemsize)

    def peak(self, itemsize: int) -> float:
        """Multiply-add operations/ns of one EU on elements of `itemsize` bytes (2 per FMA)."""
        name = {8: "f64", 4: "f32", 1: "i8"}.get(itemsize, "")
        known = dict(self.peaks)
        if name in known:
            return known[name]
        return 2.0 * self.lanes(itemsize) * self.fma_ports * self.ghz

    def matrix_unit(self, instruction: str, element: str) -> MatrixUnit | None:
        """What that instruction does with factors of `element`; None if the record does not say."""
        wanted = (
            u for u in self.matrix_units if (u.instruction, u.element) == (instruction, element)
        )
        return next(wanted, None)

    def matrix_rate(self, unit: MatrixUnit) -> float:
        """Operations/ns of one EU that products reach with this unit (2 per multiply-add)."""
        return dict(self.matrix)[unit.element] * unit.share

    @property
    def accumulators(self) -> int:
        """Independent accumulators that hide the FMA latency."""
        return self.fma_ports * self.fma_latency


MAYBE_FREE = ("signal_ns", "wait_ns")  # costs that may be 0


@dataclass(frozen=True)
class Costs:
    """What it costs to get work to an EU, in ns.

    Attributes:
        task_ns: start of one more run of rTasks on an EU that is already running.
        hand_off_ns: a signal on one EU until a waiting EU runs.
        signal_ns: what a signal keeps the EU that gives it; before that nobody sees it.
        wait_ns: what a wait keeps an EU, also where all signals are there.
        barrier_ns: all EUs.
        launch_ns: one warm launch of a program.
        min_task_ns: below this an rTask is not worth placing on its own.
        step_ns: the next rTask of a run: its place in the grid, which takes a few divisions.
        signals: whether an EU can wait for another one; else all of them meet in barriers, or
            between launches.
    """

    task_ns: float = 50.0
    hand_off_ns: float = 200.0
    signal_ns: float = 0.0
    wait_ns: float = 0.0
    barrier_ns: float = 200.0
    launch_ns: float = 500.0
    min_task_ns: float = 5000.0
    step_ns: float = 5.0
    signals: bool = True

    def __post_init__(self) -> None:
        free = {name: getattr(self, name) for name in MAYBE_FREE}
        not_negative("costs", **free)
        rest = vars(self).keys() - free.keys() - {"signals"}
        positive("costs", **{name: getattr(self, name) for name in sorted(rest)})


@dataclass(frozen=True)
class Device:
    """One machine.

    Attributes:
        name: of the record, in reports.
        kind: "cpu", "cuda", "rocm", or another accelerator's.
        eus: execution units.
        compute: what one of them computes with.
        memory: the levels from the fastest to the slowest.
        costs: of launches, barriers, signals and runs.
        level_name: the x86-64 feature level ("x86-64", "v3", "v4"), or the instruction set of a GPU
            ("sm_90a", "gfx906").
        features: instruction-set names that code generation may use.
        measured: whether the figures come from measurements on the machine, or are the conservative
            defaults.
        measurement: which, where and when, if that is known.
        recall: how the last cache keeps what was written; None where it was not fitted.
        residency: of GPUs, what an EU holds at once.

    Raises:
        DeviceError: a field is out of range.
    """

    name: str
    kind: str
    eus: int
    compute: ComputeUnit
    memory: tuple[MemoryLevel, ...]
    costs: Costs = field(default_factory=Costs)
    level_name: str = ""
    features: frozenset[str] = frozenset()
    measured: bool = False
    measurement: MeasurementOrigin | None = None
    recall: Recall | None = None
    residency: Residency | None = None

    def __post_init__(self) -> None:
        require(bool(self.name), "a device without a name", "give it one")
        require(self.kind in KINDS, f"device kind {self.kind!r}", f"it is one of {KINDS}")
        positive(f"device {self.name}", eus=self.eus)
        require(isinstance(self.eus, int), f"device {self.name}: eus {self.eus!r}", "whole units")
        require(bool(self.memory), f"device {self.name} has no memory level", "list at least one")
        names = [level.name for level in self.memory]
        require(
            len(set(names)) == len(names),
            f"device {self.name}: memory levels {names}",
            "every level needs its own name",
        )
        require(
            self.recall is None or len(names) > 2,
            f"device {self.name}: recall with memory levels {names}",
            "there are a cache of each EU, a last cache and memory",
        )
        sizes = [level.capacity for level in self.memory]
        require(
            sizes == sorted(sizes),
            f"device {self.name}: memory levels {names} shrink",
            "list them from the fastest (smallest) to the slowest (largest)",
        )

    @property
    def is_cpu(self) -> bool:
        """Whether its EUs are cores of a CPU."""
        return self.kind == "cpu"

    @property
    def shortest_loop(self) -> int:
        """Instructions in the body of a loop of a stream. A block of a GPU meets three times for
        each round and writes the body anew, some microseconds (BERT-base on an H200: 1.74 ms where
        loops have 12 instructions and more, 2.28 ms where they have any number).
        """
        return 1 if self.is_cpu else 12

    @property
    def is_nvidia(self) -> bool:
        """Whether it is a GPU of NVIDIA."""
        return self.kind == "cuda"

    @property
    def is_amd(self) -> bool:
        """Whether it is a GPU of AMD."""
        return self.kind == "rocm"

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU, of whomever."""
        return self.is_nvidia or self.is_amd

    def level(self, name: str) -> MemoryLevel:
        """The memory level of a name.

        Args:
            name: of the level.

        Raises:
            DeviceError: there is none.
        """
        for level in self.memory:
            if level.name == name:
                return level
        has = ", ".join(level.name for level in self.memory)
        raise DeviceError(f"device {self.name} has no memory level {name!r}; it has: {has}")

    @property
    def first_level(self) -> MemoryLevel:
        """The level that registers are loaded from: of a GPU shared memory."""
        return self.memory[0]

    @property
    def second_level(self) -> MemoryLevel:
        """Where the data of the first level comes from; that level itself where it is the only one:
        nothing comes from behind it.
        """
        return self.memory[min(1, len(self.memory) - 1)]

    @property
    def main_memory(self) -> MemoryLevel:
        """The slowest level, which holds everything."""
        return self.memory[-1]

    @property
    def caches(self) -> tuple[MemoryLevel, ...]:
        """All levels in front of the main memory."""
        return self.memory[:-1]

    @property
    def own_caches(self) -> tuple[MemoryLevel, ...]:
        """The caches that an EU shares with no other one."""
        return tuple(level for level in self.caches if level.shared_by == 1)

    @property
    def last_cache(self) -> MemoryLevel:
        """The largest of the caches.

        Raises:
            DeviceError: there is none.
        """
        return self._cache_from_the_end(1)

    @property
    def cache_before_last(self) -> MemoryLevel:
        """The cache in front of the last one.

        Raises:
            DeviceError: there is none.
        """
        return self._cache_from_the_end(2)

    def _cache_from_the_end(self, number: int) -> MemoryLevel:
        if number > len(self.caches):
            raise DeviceError(
                f"device {self.name} has {len(self.caches)} caches before its memory; give a "
                f"device with {number} or more"
            )
        return self.caches[-number]

    @property
    def transfers(self) -> tuple[tuple[MemoryLevel, MemoryLevel], ...]:
        """The ways that data takes, from the fastest on: a level, and the one it is filled from."""
        return tuple(zip(self.memory, self.memory[1:], strict=False))

    @property
    def private(self) -> tuple[MemoryLevel, ...]:
        """The memory levels that an EU has for itself, as far as tasks are cut for them: of a GPU
        shared memory, of others all in front of the last cache.
        """
        return self.memory[:1] if self.is_gpu else self.memory[:-2]

    @property
    def private_bytes(self) -> int:
        """Capacity of the largest of the private levels; 0 where there is none."""
        return max((level.capacity for level in self.private), default=0)

    @property
    def block_shared_bytes(self) -> int:
        """Of the first level, what one block of a GPU may take."""
        return self.residency.block_shared if self.residency else self.first_level.capacity

    @property
    def persistent_threads(self) -> int:
        """Threads of a block that has an EU of a GPU for itself.

        Whole warps, as many as may each have all registers that a thread can have. On all known
        GPUs they fill the schedulers once or twice.

        Raises:
            DeviceError: the record does not say what an EU holds.
        """
        holds, warp = self.known_residency, self.compute.warp
        return holds.block_registers // holds.thread_registers // warp * warp

    @property
    def known_residency(self) -> Residency:
        """The residency.

        Raises:
            DeviceError: the record does not say it.
        """
        if self.residency is None:
            raise DeviceError(
                f"device {self.name} does not say what its EUs hold at once; add `residency` to "
                "its record, or take a GPU"
            )
        return self.residency

    @property
    def sector_bytes(self) -> int:
        """Bytes of one access behind the first level, the least that moves: of a GPU a sector."""
        return self.second_level.line

    def lanes(self, itemsize: int) -> int:
        """The elements of one vector register.

        Args:
            itemsize: bytes of one element.
        """
        return self.compute.lanes(itemsize)

    @property
    def shared_bandwidth(self) -> float | None:
        """GB/s of the fastest memory level that all EUs share; None where there is none."""
        shared = [level.shared_bandwidth for level in self.memory if level.shared_by >= self.eus]
        return max(shared, default=None)

    @property
    def all_features(self) -> frozenset[str]:
        """Instruction sets, of a CPU also those of its feature level."""
        return self.features | LEVELS.get(self.level_name, frozenset())

    def _has(self, instructions: str) -> bool:
        """Whether an instruction set is there, of a CPU also by its feature level."""
        return instructions in self.all_features

    @property
    def has_fma(self) -> bool:
        """Whether multiply-adds are one instruction, as on all but the oldest CPUs."""
        return not self.is_cpu or self._has("fma")

    @property
    def has_scalef(self) -> bool:
        """Whether one instruction of a CPU multiplies vectors with powers of two."""
        return self.is_cpu and self._has("avx512f")

    @property
    def has_f16(self) -> bool:
        """Whether instructions of a CPU add, multiply and divide vectors of f16."""
        return self.is_cpu and self._has("avx512fp16")

    @property
    def broadcasts_loads(self) -> bool:
        """Whether a load fills a vector with one element, without a shuffle behind it."""
        return not self.is_cpu or self._has("avx")

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Of a GPU of NVIDIA, (9, 0) for sm_90a; (0, 0) of all others."""
        number = re.match(r"sm_(\d+)(\d)", self.level_name) if self.is_nvidia else None
        return (int(number[1]), int(number[2])) if number else (0, 0)

    @property
    def has_cp_async(self) -> bool:
        """Whether threads copy to shared memory without waiting: cp.async of NVIDIA."""
        return self.compute_capability >= (8, 0)

    @property
    def has_wgmma(self) -> bool:
        """Whether warpgroups multiply what TMA brings: wgmma, which no later architecture has. TMA
        is there on later ones, too, but nothing else is written for boxes.
        """
        return self.is_nvidia and self.level_name == "sm_90a"

    @property
    def has_tcgen05(self) -> bool:
        """Whether the peak of matrices is that of tcgen05, for which no code is made."""
        return self.compute_capability[0] == 10

    @property
    def matrix_elements(self) -> frozenset[str]:
        """Element types of the matrix units that products are written for: those of mma.sync as it
        is from compute capability 8.0 on.
        """
        if self.compute_capability < (8, 0):
            return frozenset()
        return frozenset(name for name, _ in self.compute.matrix) & {"f16", "bf16", "tf32", "i8"}

    @property
    def dots(self) -> frozenset[str]:
        """Element types of which one instruction multiplies groups of a word and adds them up."""
        known = {"v4": {"avx512vnni": "i8", "avx512bf16": "bf16"}, "v3": {"avxvnni": "i8"}}
        return frozenset(
            element
            for feature, element in known.get(self.level_name, {}).items()
            if feature in self.features
        )

    @property
    def tile_elements(self) -> frozenset[str]:
        """Element types that tile registers of a core (AMX) multiply: "i8", "bf16"."""
        units = self.compute.matrix_units if self.is_cpu else ()
        return frozenset(unit.element for unit in units if unit.instruction == "amx")

    @property
    def word_elements(self) -> frozenset[str]:
        """Element types of which instructions of a core multiply whole words: "i8", "bf16"."""
        return self.dots | self.tile_elements

    def dot_speed(self, element: str) -> float:
        """How many multiply-adds of dot groups take the time of one of f32.

        As measured; by default as many as the instruction does. Without one, bytes are multiplied
        in 16 bits (measured: 1.4, 1.4 and 1.6 for vectors of 64, 32 and 16 bytes), bf16 in f32.

        Args:
            element: type of the factors, "i8", "i16" or "bf16".
        """
        peaks = dict(self.compute.peaks)
        if element not in self.dots:
            return {"i8": 1.5, "i16": 1.5, "bf16": 1.0}[element]
        if element in peaks:
            return peaks[element] / self.compute.peak(4)
        return float(DOT_STEPS[element])

    @property
    def vector_registers(self) -> int:
        """Registers of an EU that hold vectors; of a GPU those of a thread."""
        return self.compute.registers
