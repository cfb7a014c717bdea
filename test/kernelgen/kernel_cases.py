"""Compile the body of one rKernel with any tiling and run it on arrays."""

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.codegen.cpu import Target, compile_object
from rcompiler.codegen.link import link
from rcompiler.kernelgen.kernel import CpuFeatures, KernelWriter
from rcompiler.kernelgen.lower import lower_to_llvm
from rcompiler.runtime.image import LoadedImage
from rcompiler.runtime.memory import aligned_empty

HOST = Target.named("host")
HAS_FMA = "fma" in HOST.required
FEATURES = [CpuFeatures(lanes, fma) for lanes in (16, 8, 4) for fma in {HAS_FMA, False}]
NAMES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "i1"}
GUARD = 64  # elements around every result that a kernel must leave alone


def type_of(shape: Sequence[int], dtype: str = "float32") -> str:
    """Tensor type as text."""
    element = NAMES.get(dtype, dtype.replace("uint", "i").replace("int", "i"))
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


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


class Kernel:
    """One compiled kernel; its operands are %a0, %a1, ... and it yields `results`."""

    def __init__(
        self,
        body: str,
        results: Sequence[str],
        inputs: Sequence[np.ndarray],
        outputs: Sequence[tuple[Sequence[int], str]],
        tile: Tile,
        features: CpuFeatures,
        kind: str = "elementwise",
    ) -> None:
        self._inputs = [np.ascontiguousarray(x) for x in inputs]
        self._outputs = outputs
        self.tasks = math.prod(tile.grid)
        types = [type_of(shape, dtype) for shape, dtype in outputs]
        arguments = ", ".join(
            f"%a{k}: {type_of(x.shape, x.dtype.name)}" for k, x in enumerate(inputs)
        )
        value, kinds = results[0], types[0]
        if len(results) > 1:
            kinds = f"tuple<{', '.join(types)}>"
            body += (
                f"\n%all = builtin.unrealized_conversion_cast {', '.join(results)} : "
                f"{', '.join(types)} to {kinds}"
            )
            value = "%all"
        attributes = tile.attributes([x.shape for x in inputs], len(results))
        self.text = (
            f'"rtask.kernel"() ({{\n^bb0({arguments}):\n{body}\n"rtask.yield"({value}) : ({kinds})'
            f' -> ()\n}}) {{sym_name = "k", kind = "{kind}", {attributes}}} : () -> ()'
        )
        self.source, self.address = self._compile(features)

    def _compile(self, features: CpuFeatures) -> tuple[str, int]:
        with dialects.load(ir.Context()), ir.Location.unknown():
            module = ir.Module.parse(self.text)
            source, externals = KernelWriter(module.body.operations[0].operation, features).write()
            generated = ir.Module.parse("\n".join([*externals.values(), source]))
            lower_to_llvm(generated)
            self.module = str(generated)
            self._image = LoadedImage(link([compile_object(generated, HOST)]))
        return source, self._image.function("k")

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
        function = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
        )(self.address)
        if tasks is None:  # every second one, then the others
            function(pointers, 0, (self.tasks + 1) // 2, 2)
            if self.tasks > 1:
                function(pointers, 1, self.tasks // 2, 2)
        else:
            for task in tasks:
                function(pointers, task, 1, 1)
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
