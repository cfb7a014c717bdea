"""Named linalg ops in the bodies of rKernels as linalg.generic, which code is generated from.

The passes write linalg.generic only. Who writes a kernel by hand may write linalg.matmul,
linalg.exp, linalg.map, linalg.reduce, a convolution or a pooling as well: each of them has the body
and the maps of a linalg.generic, which take its place here.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch_mlir import ir
from torch_mlir.dialects import linalg

from rcompiler.linalg.maps import dims_of
from rcompiler.passes.ir.operators import ops_in_module
from rcompiler.passes.ir.tensor_ir import generic

_PLAIN = ("linalg.generic", "linalg.fill", "linalg.index", "linalg.yield")


def generalise(module: ir.Operation) -> None:
    """Rewrite the named ops of all kernels of a module; those without maps stay as they are."""
    for kernel in ops_in_module(module, "rtask.kernel"):
        for op in list(_named(kernel)):
            _generalise(op)


def _named(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                inner = view.operation
                if inner.name.startswith("linalg.") and inner.name not in _PLAIN:
                    yield inner
                elif inner.name not in _PLAIN:
                    yield from _named(inner)


def _generalise(op: ir.Operation) -> None:
    maps = linalg.get_indexing_maps(op)
    if maps is None:
        return
    stored = ir.AffineMapAttr(list(maps)[-len(op.results)]).value
    kept = set().union(*(dims_of(expression) for expression in stored.results))
    kinds = ["parallel" if dim in kept else "reduction" for dim in range(stored.n_dims)]
    operands, count = list(op.operands), len(op.operands) - len(op.results)
    with ir.InsertionPoint(op), op.location:
        all_maps = [ir.AffineMapAttr(map_).value for map_ in maps]
        made = generic(operands[:count], operands[count:], all_maps, kinds)
    op.regions[0].blocks[0].append_to(made.regions[0])
    for old, new in zip(op.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
