"""Compile the body of one rKernel with any tiling and run it on arrays."""

import ctypes
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st
from oracles.tile_registers import TileRegisters
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.codegen.assembly import assembly
from rcompiler.codegen.cpu import Target as Cpu
from rcompiler.codegen.cpu import compile_object
from rcompiler.codegen.link import link
from rcompiler.kernelgen.cpu import CpuFeatures, CpuTarget
from rcompiler.kernelgen.kernel import KernelWriter
from rcompiler.kernelgen.lower import lower_to_llvm
from rcompiler.kernelgen.stages import workspace_bytes
from rcompiler.kernelgen.target import Target
from rcompiler.kernelgen.tiling import Tiling
from rcompiler.passes._pipeline_text import runner
from rcompiler.pipelines.rc_tile_kernels import RcTileKernels
from rcompiler.runtime.image import LoadedImage
from rcompiler.runtime.memory import aligned_empty

HOST = Cpu.named("host")
HAS_FMA = "fma" in HOST.required
HAS_SCALEF = {"avx512f", "avx512vl", "avx512dq"} <= set(HOST.required)
FEATURES = [CpuFeatures(lanes, fma) for lanes in (16, 8, 4) for fma in {HAS_FMA, False}]
FEATURES += [CpuFeatures(16, HAS_FMA, has_scalef=True)] * HAS_SCALEF
# for f16: with its own arithmetic, too
HALF_FEATURES = FEATURES[::2] + [
    CpuFeatures(n, HAS_FMA, has_scalef=True, has_f16=True) for n in (16, 4)
] * ("avx512fp16" in HOST.required)
NAMES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "i1"}
GUARD = 64  # elements around every result that a kernel must leave alone


def type_of(shape: Sequence[int], dtype: str = "float32") -> str:
    """Tensor type as text."""
    element = NAMES.get(dtype, dtype.replace("uint", "i").replace("int", "i"))
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def random(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@dataclass
class Tile:
    """A tiling of the first result; the defaults are one task, one element at a time."""

    shape: Sequence[int]
    tile: Sequence[int] = ()
    register_tile: Sequence[int] = ()
    order: Sequence[int] = ()
    vector_dim: int = -1
    lanes: int = 1
    reduction_tile: Sequence[int] = ()
    grid: list[int] = field(init=False)

    def __post_init__(self) -> None:
        rank = len(self.shape)
        self.tile = list(self.tile) or [max(n, 1) for n in self.shape]
        self.register_tile = list(self.register_tile) or [1] * rank
        self.order = list(self.order) or list(range(rank))
        pairs = zip(self.shape, self.tile, strict=True)
        self.grid = [max(-(-n // t), 1) for n, t in pairs]

    def attributes(self, arguments: Sequence[Sequence[int]], results: int) -> str:
        def array(values: Sequence[int]) -> str:
            return f"array<i64: {', '.join(map(str, values))}>" if len(values) else "array<i64>"

        whole = "array<i64: -1, 0, 0, 0>"
        reads = ", ".join(f"[{', '.join([whole] * len(a))}]" for a in arguments)
        write = ", ".join(
            array([d, t, 0, t]) if g > 1 else whole
            for d, (t, g) in enumerate(zip(self.tile, self.grid, strict=True))
        )
        parts = f"reduction_tile = {array(self.reduction_tile)}, " if self.reduction_tile else ""
        return parts + (
            f"grid = {array(self.grid)}, tile = {array(self.tile)}, order = {array(self.order)}, "
            f"register_tile = {array(self.register_tile)}, vector_dim = {self.vector_dim} : i64, "
            f"lanes = {self.lanes} : i64, tasks = {math.prod(self.grid)} : i64, "
            f"on_chip_bytes = 0 : i64, registers = 1 : i64, estimated_ns = 1.0 : f64, "
            f'source = "test", reads = [{reads}], writes = [{", ".join([f"[{write}]"] * results)}]'
        )


@st.composite
def tilings(
    draw: st.DrawFn,
    shape: tuple[int, ...],
    lanes: int,
    fixed: tuple[int, ...] = (),
    *,
    in_parts: bool = False,
):
    """Any tiling of `shape`; the dims in `fixed` are not cut; `in_parts`: the reduction may be."""
    rank = len(shape)
    tile = [n if d in fixed else draw(st.integers(1, n)) for d, n in enumerate(shape)]
    register_tile = [draw(st.integers(1, 4)) for _ in shape]
    vector_dim = draw(st.sampled_from([-1, *range(rank)]))
    if vector_dim >= 0:
        register_tile[vector_dim] = draw(st.integers(1, 3 * lanes))
    order = draw(st.permutations(range(rank)))
    parts = st.tuples(st.integers(0, rank), st.integers(1, 40)) if in_parts else st.just(())
    lanes = lanes if vector_dim >= 0 else 1
    return Tile(shape, tile, register_tile, order, vector_dim, lanes, draw(parts))


def rkernel(
    body: str,
    results: Sequence[str],
    inputs: Sequence[np.ndarray],
    outputs: Sequence[tuple[Sequence[int], str]],
    tile: Tile,
    kind: str = "elementwise",
) -> str:
    """The rtask.kernel @k; its operands are %a0, %a1, ... and it yields `results`."""
    types = [type_of(shape, dtype) for shape, dtype in outputs]
    arguments = ", ".join(f"%a{k}: {type_of(x.shape, x.dtype.name)}" for k, x in enumerate(inputs))
    value, kinds = results[0], types[0]
    if len(results) > 1:
        kinds = f"tuple<{', '.join(types)}>"
        body += (
            f"\n%all = builtin.unrealized_conversion_cast {', '.join(results)} : "
            f"{', '.join(types)} to {kinds}"
        )
        value = "%all"
    attributes = tile.attributes([x.shape for x in inputs], len(results))
    return (
        f'"rtask.kernel"() ({{\n^bb0({arguments}):\n{body}\n"rtask.yield"({value}) : ({kinds})'
        f' -> ()\n}}) {{sym_name = "k", kind = "{kind}", {attributes}}} : () -> ()'
    )


class Kernel:
    """One compiled kernel; its operands are %a0, %a1, ... and it yields `results`."""

    def __init__(
        self,
        body: str,
        results: Sequence[str],
        inputs: Sequence[np.ndarray],
        outputs: Sequence[tuple[Sequence[int], str]],
        tile: Tile,
        features: CpuFeatures | Target,
        kind: str = "elementwise",
        *,
        tiles: TileRegisters | None = None,
    ) -> None:
        """features: of the core that will run it, or any other target; tiles: what runs the
        instructions of tile registers, None: the core.
        """
        self._tiles = tiles
        self._inputs = [np.ascontiguousarray(x) for x in inputs]
        self._outputs = outputs
        self.tasks = math.prod(tile.grid)
        self.text = rkernel(body, results, inputs, outputs, tile, kind)
        target = CpuTarget(features) if isinstance(features, CpuFeatures) else features
        self.source, self.address = self._compile(target)

    def _compile(self, target: Target) -> tuple[str, int]:
        with dialects.load(ir.Context()), ir.Location.unknown():
            module = ir.Module.parse(self.text)
            if "reduction_tile" in self.text:  # what code generation leaves to passes
                runner([RcTileKernels()], module.context, verify=False)(module)
            kernel = module.body.operations[0].operation
            source, externals = KernelWriter(kernel, target).write()
            if self._tiles is not None:
                source = self._tiles.rewritten(source)
            self.workspace = workspace_bytes(kernel, Tiling.of(kernel).tile)
            generated = ir.Module.parse("\n".join([*externals.values(), source]))
            lower_to_llvm(generated)
            self.lowered = str(generated)
            self._image = LoadedImage(link([compile_object(generated, HOST)]))
        return source, self._image.function("k")

    def loop(self, target: Cpu, operation: str) -> list[str]:
        """Instructions of the basic block with the most lines that `operation` occurs in."""
        text = assembly(self.lowered, target.cpu, target.features)
        blocks = re.split(r"^\S+:.*$", text, flags=re.MULTILINE)
        return max(blocks, key=lambda block: block.count(operation)).splitlines()

    def run(self, tasks: Sequence[int] | None = None) -> list[np.ndarray]:
        """All results; checks that nothing was written outside of them."""
        buffers = []
        for shape, dtype in self._outputs:
            raw = aligned_empty((math.prod(shape) + 2 * GUARD,), np.dtype(dtype))
            raw.view(np.uint8)[:] = 0x5A
            buffers.append(raw)
        results = [raw[GUARD : raw.size - GUARD] for raw in buffers]
        arrays = [*self._inputs, *results]
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        types = (ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_void_p)
        function = ctypes.CFUNCTYPE(None, *types)(self.address)
        workspace = aligned_empty((self.workspace + 2 * GUARD,), np.dtype(np.uint8))
        workspace[:] = 0x5A
        place = workspace.ctypes.data + GUARD
        if tasks is None:  # every second one, then the others
            function(pointers, 0, (self.tasks + 1) // 2, 2, place)
            if self.tasks > 1:
                function(pointers, 1, self.tasks // 2, 2, place)
        else:
            for task in tasks:
                function(pointers, task, 1, 1, place)
        edges = (workspace[:GUARD], workspace[workspace.size - GUARD :])
        assert all((edge == 0x5A).all() for edge in edges), "a kernel wrote beside its workspace"
        for raw in buffers:
            for edge in (raw[:GUARD], raw[raw.size - GUARD :]):
                assert (edge.view(np.uint8) == 0x5A).all(), "a kernel wrote outside of its result"
        shapes = (shape for shape, _ in self._outputs)
        return [r.reshape(shape) for r, shape in zip(results, shapes, strict=True)]


def elementwise(op: str, inputs: Sequence[np.ndarray], dtype: str, names: Sequence[str]) -> str:
    """A generic of equal shapes; the body `op` over %x0, %x1, ... defines %y; the result is %r."""
    shape = inputs[0].shape
    dims = ", ".join(f"d{k}" for k in range(len(shape)))
    identity = f"affine_map<({dims}) -> ({dims})>"
    result = type_of(shape, dtype)
    element = type_of((), dtype)[7:-1]
    types = ", ".join(type_of(x.shape, x.dtype.name) for x in inputs)
    arguments = ", ".join(f"%x{k}: {type_of((), x.dtype.name)[7:-1]}" for k, x in enumerate(inputs))
    parallel = ", ".join(['"parallel"'] * len(shape))
    return (
        f"%e = tensor.empty() : {result}\n"
        f"%r = linalg.generic {{indexing_maps = [{', '.join([identity] * (len(inputs) + 1))}], "
        f"iterator_types = [{parallel}]}} "
        f"ins({', '.join(names)} : {types}) outs(%e : {result}) {{\n"
        f"^bb0({arguments}, %o: {element}):\n{op}\nlinalg.yield %y : {element}\n}} -> {result}"
    )


def reduction(op: str, shape: Sequence[int], axis: int, dtype: str, start: str) -> str:
    """%a0 reduced along one axis by an arith op of two operands; the result is %r."""
    rest = [n for d, n in enumerate(shape) if d != axis]
    dims = [f"d{d}" for d in range(len(shape))]
    row = ", ".join(x for d, x in enumerate(dims) if d != axis)
    whole = f"affine_map<({', '.join(dims)}) -> ({', '.join(dims)})>"
    kinds = ", ".join('"reduction"' if d == axis else '"parallel"' for d in range(len(shape)))
    kind, result = type_of(shape, dtype), type_of(rest, dtype)
    element = type_of((), dtype)[7:-1]
    return f"""%start = arith.constant {start} : {element}
      %e = tensor.empty() : {result}
      %f = linalg.fill ins(%start : {element}) outs(%e : {result}) -> {result}
      %r = linalg.generic {{indexing_maps = [{whole}, affine_map<({", ".join(dims)}) -> ({row})>],
          iterator_types = [{kinds}]}} ins(%a0 : {kind}) outs(%f : {result}) {{
      ^bb0(%u: {element}, %acc: {element}):
        %v = arith.{op} %acc, %u : {element}
        linalg.yield %v : {element}
      }} -> {result}"""


def softmax(shape: Sequence[int], axis: int) -> str:
    """Softmax of %a0 (float32) along one axis; the result is %r."""
    rest = tuple(n for d, n in enumerate(shape) if d != axis)
    dims = ", ".join(f"d{d}" for d in range(len(shape)))
    row = ", ".join(f"d{d}" for d in range(len(shape)) if d != axis)
    whole, some = f"affine_map<({dims}) -> ({dims})>", f"affine_map<({dims}) -> ({row})>"
    kinds = ", ".join('"reduction"' if d == axis else '"parallel"' for d in range(len(shape)))
    parallel = ", ".join(['"parallel"'] * len(shape))
    t, r = type_of(shape), type_of(rest)

    def reduce(name: str, source: str, init: str, op: str) -> str:
        return f"""%{name} = linalg.generic {{indexing_maps = [{whole}, {some}],
          iterator_types = [{kinds}]}} ins(%{source} : {t}) outs(%{init} : {r}) {{
        ^bb0(%u: f32, %acc: f32):
          %v = arith.{op} %acc, %u : f32
          linalg.yield %v : f32
        }} -> {r}"""

    def combine(name: str, source: str, other: str, ops: str) -> str:
        return f"""%{name} = linalg.generic {{indexing_maps = [{whole}, {some}, {whole}],
          iterator_types = [{parallel}]}} ins(%{source}, %{other} : {t}, {r}) outs(%e : {t}) {{
        ^bb0(%u: f32, %w: f32, %o: f32):
          {ops}
          linalg.yield %y : f32
        }} -> {t}"""

    shifted = "%d = arith.subf %u, %w : f32\n%y = math.exp %d : f32"
    scaled = "%i = arith.divf %one, %w : f32\n%y = arith.mulf %u, %i : f32"
    return f"""%zero = arith.constant 0.0 : f32
      %one = arith.constant 1.0 : f32
      %low = arith.constant 0xFF800000 : f32
      %e = tensor.empty() : {t}
      %er = tensor.empty() : {r}
      %f0 = linalg.fill ins(%low : f32) outs(%er : {r}) -> {r}
      %f1 = linalg.fill ins(%zero : f32) outs(%er : {r}) -> {r}
      {reduce("max", "a0", "f0", "maxnumf")}
      {combine("exp", "a0", "max", shifted)}
      {reduce("sum", "exp", "f1", "addf")}
      {combine("r", "exp", "sum", scaled)}"""


def sum_of_products(
    loops: str,
    maps: tuple[str, str, str],
    shapes: Sequence[Sequence[int]],
    dtype: str = "float32",
    factors: str = "%a0, %a1",
) -> str:
    """%r of %a0 and %a1 (or other `factors`), summed over the loops that the result does not have.

    loops, maps: as "m, n, k" and ("m, k", "k, n", "m, n"), of the operands and the result; shapes:
    of these three; dtype: of the operands, the sum is one of float32.
    """
    extend = ("arith.extf", "arith.extf") if NAMES[dtype] != "f32" else None
    return _summed(loops, maps, shapes, (dtype, "float32"), extend, factors)


def sum_of_bytes(
    loops: str, maps: tuple[str, str, str], shapes: Sequence[Sequence[int]], signed: Sequence[bool]
) -> str:
    """As `sum_of_products`, of bytes in int32; signed: whether each factor has a sign."""
    first, second = ("arith.extsi" if sign else "arith.extui" for sign in signed)
    return _summed(loops, maps, shapes, ("int8", "int32"), (first, second), "%a0, %a1")


def _summed(
    loops: str,
    maps: tuple[str, str, str],
    shapes: Sequence[Sequence[int]],
    dtypes: tuple[str, str],
    extend: tuple[str, str] | None,
    factors: str,
) -> str:
    """dtypes: of operands and sums; extend: the ops that make one of the other, None: none do."""
    first, second = (type_of(shape, dtypes[0]) for shape in shapes[:2])
    out = type_of(shapes[2], dtypes[1])
    element, total = (type_of((), dtype)[len("tensor<") : -1] for dtype in dtypes)
    kind, zero = ("i", "0") if total[0] == "i" else ("f", "0.0")
    wide, x, y = "", "%x", "%y"
    if extend is not None:
        wide, x, y = (
            f"%wx = {extend[0]} %x : {element} to {total}\n"
            f"%wy = {extend[1]} %y : {element} to {total}\n",
            "%wx",
            "%wy",
        )
    indexing = ", ".join(f"affine_map<({loops}) -> ({r})>" for r in maps)
    kept = maps[2].split(", ")
    kinds = ", ".join('"parallel"' if d in kept else '"reduction"' for d in loops.split(", "))
    return f"""%zero = arith.constant {zero} : {total}
      %e = tensor.empty() : {out}
      %f = linalg.fill ins(%zero : {total}) outs(%e : {out}) -> {out}
      %r = linalg.generic {{indexing_maps = [{indexing}], iterator_types = [{kinds}]}}
           ins({factors} : {first}, {second}) outs(%f : {out}) {{
      ^bb0(%x: {element}, %y: {element}, %acc: {total}):
        {wide}%p = arith.mul{kind} {x}, {y} : {total}
        %s = arith.add{kind} %acc, %p : {total}
        linalg.yield %s : {total}
      }} -> {out}"""


def contraction(m: int, n: int, k: int, right: str = "k, n") -> str:
    """%r of %a0 [m, k] and %a1, whose dims are `right`."""
    shapes = {"k, n": (k, n), "n, k": (n, k)}
    return sum_of_products("m, n, k", ("m, k", right, "m, n"), ((m, k), shapes[right], (m, n)))
