"""Compile the body of one rKernel for a GPU with any tiling and run it on the emulated one."""

import math
from collections.abc import Sequence
from functools import cache

import ml_dtypes
import numpy as np
from kernel_cases import Tile, rkernel
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.codegen.ptx import ptx
from rcompiler.device.target import find_device
from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.kernelgen.kernel import KernelWriter
from rcompiler.kernelgen.simt.target import SimtFeatures, SimtTarget
from rcompiler.passes._pipeline_text import runner
from rcompiler.passes.roller_tidy_tasks import RollerTidyTasks
from rcompiler.passes.roller_tile_tasks import RollerTileTasks
from rcompiler.passes.roller_tile_threads import RollerTileThreads
from rcompiler.passes.vdevice_attach_device import VdeviceAttachDevice

UNITS = frozenset(("f16", "bf16", "tf32"))
PRECISIONS = ("f32", "tf32", "f16", "bf16")
BASES = 3  # of the memories that operands lie in: as many as a schedule has, and more than one

# The blocks share the tasks of @k: block b takes tasks b, b + blocks, ...
_ENTRY = """
gpu.module @test {{
  llvm.mlir.global external @veu_shared() {{addr_space = 3 : i32, alignment = 128 : i64, dso_local}}
    : !llvm.array<0 x i8>
  {function}
  gpu.func @run(%words: !llvm.ptr<1>, %bases: !llvm.ptr<1>, %tasks: i64) kernel
      attributes {{known_block_size = array<i32: {threads}, 1, 1>}} {{
    %block_index = gpu.block_id x
    %blocks_index = gpu.grid_dim x
    %block = arith.index_cast %block_index : index to i64
    %blocks = arith.index_cast %blocks_index : index to i64
    %left = arith.subi %tasks, %block : i64
    %count = arith.ceildivsi %left, %blocks : i64
    %room = llvm.mlir.addressof @veu_shared : !llvm.ptr<3>
    func.call @k(%words, %bases, %bases, %block, %count, %blocks, %room, %bases)  // no boxes
      : (!llvm.ptr<1>, !llvm.ptr<1>, !llvm.ptr<1>, i64, i64, i64, !llvm.ptr<3>, !llvm.ptr<1>) -> ()
    gpu.return
  }}
}}"""


class GpuKernel:
    """One compiled kernel; its operands are %a0, %a1, ... and it yields `results`.

    source: of the device function; text: the PTX; shared: bytes that a block needs.
    """

    def __init__(
        self,
        body: str,
        results: Sequence[str],
        inputs: Sequence[np.ndarray],
        outputs: Sequence[tuple[Sequence[int], str]],
        tile: Tile,
        features: SimtFeatures,
        kind: str = "elementwise",
    ) -> None:
        self._inputs = [np.ascontiguousarray(x) for x in inputs]
        self._outputs, self._threads = outputs, features.block.threads
        self.tasks = math.prod(tile.grid)
        context = dialects.load(ir.Context())
        with context, ir.Location.unknown():
            module = ir.Module.parse(rkernel(body, results, inputs, outputs, tile, kind))
            _tiling(features.block.threads)(module)
            kernel = module.body.operations[0].operation
            target = SimtTarget(kernel, features)
            self.source, _ = KernelWriter(kernel, target).write()
            self.shared = target.shared
            entry = _ENTRY.format(function=self.source, threads=features.block.threads)
            generated = ir.Module.parse(entry)
            _lowering(context)(generated)
            self.text = ptx(generated).text

    def run(self, blocks: int = 1, seed: int | None = None) -> list[np.ndarray]:
        """All results; races, uninitialised reads and accesses beside operands are faults.

        seed: of a hostile order of the blocks, None: all together.
        """
        hostile = {} if seed is None else {"interleave": True, "seed": seed}
        driver = EmulatedDriver(capability=(8, 0), multiprocessors=blocks, **hostile)
        places, bases = [], []
        shapes = [(x.nbytes, x) for x in self._inputs]
        shapes += [(math.prod(s) * np.dtype(_dtype(d)).itemsize, None) for s, d in self._outputs]
        for size, array in shapes:
            at = driver.allocate(max(size, 1))
            if array is not None and size:
                driver.write(at, array.reshape(-1).view(np.uint8))
            places.append(at)
        # each operand lies some bytes behind one of the bases, as in a schedule
        bases = [min(places[k::BASES], default=0) for k in range(BASES)]
        words = [w for k, at in enumerate(places) for w in (k % BASES, at - bases[k % BASES])]
        tables = []
        for numbers in (words, bases):
            tables.append(driver.allocate(8 * len(numbers)))
            driver.write(tables[-1], np.array(numbers, np.int64).view(np.uint8))
        function = driver.function(driver.load(self.text), "run")
        arguments = [np.int64(v) for v in (*tables, self.tasks)]
        driver.launch(function, (blocks, 1, 1), (self._threads, 1, 1), self.shared, arguments, True)
        found = []
        for (shape, dtype), at in zip(self._outputs, places[len(self._inputs) :], strict=True):
            size = math.prod(shape) * np.dtype(_dtype(dtype)).itemsize
            found.append(driver.read(at, size).view(_dtype(dtype)).reshape(shape))
        return found


def _tiling(threads: int):
    """What makes the body of one task of a kernel whose threads each make what they store."""
    attach = VdeviceAttachDevice(find_device("cuda:sm_80"), "f32", "cuda:sm_80")
    passes = [attach, RollerTileTasks(by_threads=True), RollerTileThreads(threads)]
    return runner([*passes, RollerTidyTasks()], ir.Context.current, verify=False)


@cache
def _lowering(context: ir.Context):
    return runner("gpu-to-nvvm{chip=sm_80}", context)


def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def factor(values: np.ndarray, precision: str) -> np.ndarray:
    """Factors as the unit of a precision multiplies them, exact in float64."""
    if precision == "tf32":  # 13 bits of the fraction go, half of them away from zero
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        values = ((bits + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)).view(np.float32)
    elif precision != "f32":
        values = values.astype({"f16": np.float16, "bf16": ml_dtypes.bfloat16}[precision])
    return values.astype(np.float64)
