"""Which unit computes a product, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rcompiler.kernelgen.simt.emitter import SimtEmitter
from rcompiler.kernelgen.simt.evaluator import SimtEvaluator
from rcompiler.kernelgen.simt.matrix_product import MatrixProducts
from rcompiler.kernelgen.simt.product import Element
from rcompiler.kernelgen.simt.scalar_product import ScalarProducts
from rcompiler.kernelgen.simt.source import Reading
from rcompiler.kernelgen.simt.tensor_maps import TensorMaps
from rcompiler.kernelgen.simt.units import Units
from rcompiler.kernelgen.simt.warpgroup_product import WarpgroupProducts
from rcompiler.kernelgen.simt.workspace import Workspace
from rcompiler.kernelgen.tiling import Tiling
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Coordinates, Linear
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.product import Form, form_of


class Planned(Protocol):
    """How a block computes a tile of a product. end: byte of the workspace behind it."""

    @property
    def form(self) -> Form: ...

    @property
    def end(self) -> int: ...


class Unit(Protocol):
    """Computes products of one kind. A `product` is one that its `plan` made."""

    def box(self, form: Form, extents: Sequence[int], tiling: Tiling) -> list[int]:
        """The part of a tile that is computed at once; of such a part, itself."""

    def plan(self, reading: Reading, extents: Sequence[int], tiling: Tiling) -> Planned | None:
        """Of a part. None if each thread had better compute its own sums, whose bits are those."""

    def elements(self, product: Any, rank: int) -> list[Element]:
        """Every sum of a thread; rank: of the result."""

    def sums(self, product: Any, reading: Reading, begin: Sequence[Val]) -> list[Val]:
        """The sums of a thread; begin: what they start with."""


class Products:
    """The products of one kernel."""

    def __init__(
        self,
        evaluator: SimtEvaluator,
        emitter: SimtEmitter,
        workspace: Workspace,
        units: Units,
        maps: TensorMaps | None,
    ) -> None:
        """maps: tensor maps of the kernel, None where the device has neither TMA nor wgmma."""
        self._evaluator, self._e = evaluator, emitter
        self._units = units
        self._scalar = ScalarProducts(evaluator, emitter, workspace)
        self._matrix = MatrixProducts(evaluator, emitter, workspace)
        self._warpgroups = None
        if maps is not None:
            self._warpgroups = WarpgroupProducts(evaluator, emitter, workspace, maps)

    def form(self, root: Generic, at: Coordinates, symbols: Sequence[str]) -> Form | None:
        """See `linalg.product.form_of`."""
        return form_of(root, at, symbols, self._units.element(root))

    def _of(self, form: Form) -> Unit:
        """Who computes a product: by the operator and the device, whatever the tile."""
        if form.unit is None:
            return self._scalar
        if self._warpgroups is not None and self._warpgroups.multiplies(form):
            return self._warpgroups
        return self._matrix

    def box(self, form: Form, extents: Sequence[int], tiling: Tiling) -> list[int]:
        """The part of a tile that is computed at once."""
        return self._of(form).box(form, extents, tiling)

    def plan(
        self, form: Form, starts: Sequence[Linear], extents: Sequence[int], tiling: Tiling
    ) -> Planned | None:
        """starts, extents: of the tile. None if each thread had better compute its part of it by
        itself.
        """
        product = self._of(form).plan(Reading(form, starts), extents, tiling)
        if product is not None:
            self._e.shared = max(self._e.shared, product.end)
        return product

    def elements(self, product: Planned, rank: int) -> list[Element]:
        """Every sum of a thread; rank: of the result."""
        return self._of(product.form).elements(product, rank)

    def sums(
        self, product: Planned, starts: Sequence[Linear], positions: Sequence[Coordinates]
    ) -> list[Val]:
        """The sums of a thread, which are those at `positions` of the root's result; starts: of the
        tile.
        """
        begin = self._evaluator.reducer.begin(product.form.root, list(positions), 0)
        return self._of(product.form).sums(product, Reading(product.form, starts), begin)
