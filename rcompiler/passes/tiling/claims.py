"""What an rtask.kernel says of its rTasks, against what its body and tile mean.

The proof of a schedule rests on the boxes of `reads` and `writes`. roller-tile derives them; in a
text that was edited by hand they are claims, and are derived again here.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from rcompiler.dialects.rtask import is_task_body
from rcompiler.errors import InvalidModel
from rcompiler.linalg.independent_loops import updated_operands
from rcompiler.linalg.kept_stages import stages_inside
from rcompiler.linalg.pieces import core_of
from rcompiler.linalg.values import STAGE, integers, ops_of, shape_of, string, yielded
from rcompiler.passes.ir.operators import ops_in_module
from rcompiler.passes.tiles.task_claims import check_task_body
from rcompiler.passes.tiling.task_boxes import in_place_pairs, read_box, stage_axes, write_box
from rcompiler.passes.tiling.tensor_expr import Tracer

Boxes = list[list[tuple[int, ...]]]


def check_claims(module: ir.Operation) -> None:
    """Every kernel's boxes, tile and in-place pairs. Raises InvalidModel naming the kernel and the
    attribute.
    """
    for kernel in ops_in_module(module, "rtask.kernel"):
        check_kernel(kernel)


def check_kernel(op: ir.Operation) -> None:
    """The same of one kernel."""
    if is_task_body(op.regions[0].blocks[0]):
        _check_tile(op)
        _check_loops(op)
        check_task_body(op)
        return
    name = string(op, "sym_name")
    block = op.regions[0].blocks[0]
    grid, tile = (list(integers(op, key)) for key in ("grid", "tile"))
    results = yielded(block)
    if not results:  # what it asks for changes nothing
        return
    first = shape_of(results[0])
    if not len(grid) == len(tile) == len(first):
        raise _wrong(
            name,
            "tile",
            tile,
            f"one size and one grid entry for each of the {len(first)} dims of the result",
        )
    _check_uncut(name, first, grid, tile)
    traced = Tracer(list(block.arguments), results).trace()
    for dim in sorted(traced.uncut):
        if grid[dim] > 1:
            raise _wrong(name, "grid", grid, f"1 in dim {dim}, which a loop goes over in order")
    low = core_of(results[0])[1]
    reads = [
        read_box(v, traced.reads[k], tile, grid, traced, low) for k, v in enumerate(block.arguments)
    ]
    writes = [write_box(r, first, tile, grid) for r in results]
    for key, meant in (("reads", reads), ("writes", writes)):
        said = _boxes(op.attributes[key])
        if said != meant:
            raise _wrong(name, key, said, f"{meant}, by its body and tile")
    for stage in (op for op in ops_of(block) if op.name == STAGE):
        said_axes, axes = (
            integers(stage, "axes"),
            stage_axes(stage, traced),
        )
        if said_axes != axes:
            raise _wrong(name, "axes", said_axes, f"{axes} for this stage, by the body")
    if "in_place" in op.attributes:
        said_pairs = integers(op, "in_place")
        pairs = in_place_pairs(block, traced)
        if not set(zip(said_pairs[::2], said_pairs[1::2], strict=False)) <= set(
            zip(pairs[::2], pairs[1::2], strict=True)
        ):
            raise _wrong(name, "in_place", said_pairs, f"some of {pairs}, by its body")
    said_updates = integers(op, "updates") if "updates" in op.attributes else ()
    updated = updated_operands(results, list(block.arguments))
    if said_updates != updated:
        raise _wrong(name, "updates", said_updates, f"{updated}, by its body")
    if updated and ("in_place" not in op.attributes or integers(op, "in_place") != updated):
        raise _wrong(name, "in_place", "not of what it updates", f"{updated}, by its body")


def _check_uncut(name: str, first: Sequence[int], grid: list[int], tile: list[int]) -> None:
    """Of the tile of a kernel, for a first result of the shape `first`."""
    for dim, size in enumerate(first):
        if grid[dim] == 1 and tile[dim] < size:
            raise _wrong(name, "tile", tile, f"{size} in dim {dim}, which is not cut into a grid")


def _check_tile(op: ir.Operation) -> None:
    """Of the body of one task: `tile`, which nothing is computed from any more, against `writes`,
    which is proved of the body.
    """
    grid, tile = (list(integers(op, key)) for key in ("grid", "tile"))
    name = string(op, "sym_name")
    results = yielded(op.regions[0].blocks[0])
    if results and len(grid) == len(shape_of(results[0])):  # one by hand may have other axes
        _check_uncut(name, shape_of(results[0]), grid, tile)
    for box in _boxes(op.attributes["writes"]):
        for axis, *_, extent in box:
            if axis >= 0 and extent != tile[axis]:
                raise _wrong(name, "tile", tile, f"{extent} in dim {axis}, as in 'writes'")


def _check_loops(op: ir.Operation) -> None:
    """Of the body of one task: no loops beside its own."""
    name = string(op, "sym_name")
    for stage in (None, *stages_inside(op.regions[0].blocks[0])):
        for key in ("order", "reduction_tile"):
            if key in (op if stage is None else stage).attributes:
                raise InvalidModel(
                    f"rKernel @{name}: {'it' if stage is None else 'a stage'} has '{key}' beside "
                    "the body of one task, whose loops say that; remove the attribute, or run "
                    "rc-tile-kernels, which makes the loops of it"
                )


def _boxes(attribute: ir.Attribute) -> Boxes:
    return [
        [tuple(ir.DenseI64ArrayAttr(dim)) for dim in ir.ArrayAttr(entry)]
        for entry in ir.ArrayAttr(attribute)
    ]


def _wrong(kernel: str, key: str, said: object, meant: str) -> InvalidModel:
    return InvalidModel(
        f"rKernel @{kernel}: '{key}' is {said}, and should be {meant}; undo the edit, or make the "
        "kernels again from stage rtask with roller-tile"
    )
