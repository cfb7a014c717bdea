"""Which matrix unit computes the sums of a body: the one that code generation will use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch_mlir import ir

from rcompiler.device.matrix_unit import MatrixUnit
from rcompiler.device.model import Device
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.simt.boxed import Chunks
from rcompiler.kernelgen.simt.source import Buffers
from rcompiler.kernelgen.simt.strides import strides_of
from rcompiler.kernelgen.simt.units import units_of
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.pieces import pieces_of
from rcompiler.linalg.product import Form, form_of
from rcompiler.linalg.roots import product_root
from rcompiler.linalg.values import element_of, shape_of
from rcompiler.passes.tiling.tensor_expr import Traced
from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.matrix_unit import UnitProduct


@dataclass(frozen=True)
class Multiplier:
    """The device whose matrix units may multiply, and how they do with factors of f32: "f32" for
    not at all, see `Units`.
    """

    device: Device
    precision: str = "f32"

    def on_unit(
        self,
        expr: TensorExpr,
        leaves: Sequence[ir.Value],
        results: Sequence[ir.Value],
        traced: Traced,
    ) -> TensorExpr:
        """The expression of `results`, with the unit that computes its sums.

        leaves: arguments and stages, to which the results were traced.
        """
        if not traced.products:
            return expr
        return replace(expr, unit=self._unit(leaves, results, traced))

    def _unit(
        self, leaves: Sequence[ir.Value], results: Sequence[ir.Value], traced: Traced
    ) -> UnitProduct | None:
        """None where multiply-adds compute the sums, and where there are several products."""
        fits = self.device.residency
        if fits is None:  # a CPU, or a record that does not say what a block may take
            return None
        values = [piece.value for result in results for piece in pieces_of(result)]
        roots = {r for v in values if v is not None and (r := product_root(v)) is not None}
        if len(traced.products) > 1 or roots != set(traced.products):
            return None
        [(root, at)] = traced.products.items()
        units = units_of(self.device, self.precision)
        generic, symbols = Generic(root), [f"a{axis}" for axis in range(len(traced.sizes))]
        form = form_of(generic, at, symbols, units.element(generic))
        memory = {
            v: Buffer("", shape_of(v), element_of(v), True)
            for v in leaves
            if isinstance(v.owner, ir.Block)
        }
        instruction = units.instruction(form, memory) if form is not None else None
        if form is None or form.unit is None or instruction is None:
            return None
        unit = self.device.compute.matrix_unit(instruction, form.unit)
        if unit is None:  # a record that does not describe it
            return None
        first, second = (set(dims) for dims in form.used)
        return UnitProduct(
            unit,
            units.threads,
            tuple(sorted(first - second)),
            tuple(sorted(second - first)),
            _steps(form, unit, units.chunks(form, memory) if unit.warpgroups else None),
            (_line(form, 0, memory), _line(form, 1, memory)) if unit.warpgroups else (-1, -1),
            fits.block_shared,
        )


def _steps(form: Form, unit: MatrixUnit, chunks: Chunks | None) -> int:
    """Of the reduction, with those that fill up the last instruction or chunk."""
    if chunks is None:
        return -(-form.steps // unit.depth) * unit.depth
    along = form.root.sizes[chunks.loop]
    return form.steps // along * (-(-along // chunks.size) * chunks.size)


def _line(form: Form, factor: int, memory: Buffers) -> int:
    """The axis along which a factor has neighbours in memory; -1: one of the reduction."""
    strides = strides_of(form, factor, memory, lambda buffer: True)
    place = form.loops[strides.inner] if strides and strides.inner is not None else None
    return -1 if place is None else place[0]
