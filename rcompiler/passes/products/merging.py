"""What products with constant weights take, alone and as one, and which of them to merge: without
the IR.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from rcompiler.device.model import Device
from rcompiler.roller.construct import construct
from rcompiler.roller.cost import FIT
from rcompiler.roller.expr import TensorAccess, TensorExpr, floordiv, index, mod, tensor_expr

MAX_BYTES = 1 << 26  # of merged weights: the constants are concatenated in memory once
# predicted, starts included; below it, measurements show no gain (docstring of the pass)
LEAST_GAIN = 1.15


@dataclass(frozen=True)
class Product:
    """x [rows, depth] times constant weights: [depth, columns], or [columns, depth] if `by_rows`.

    `itemsize`: bytes of an element of the widest operand.
    """

    rows: int
    columns: int
    depth: int
    itemsize: int
    by_rows: bool = False

    @property
    def bytes(self) -> int:
        """Of the weights."""
        return self.columns * self.depth * self.itemsize


def merged(products: Sequence[Product]) -> Product:
    """The product with the weights of all of `products`, which differ in `columns` only."""
    return replace(products[0], columns=sum(p.columns for p in products))


def stacked(products: Sequence[Product]) -> Product:
    """The product with the rows of all of `products`, which differ in `rows` only."""
    return replace(products[0], rows=sum(p.rows for p in products))


def deepened(products: Sequence[Product]) -> Product:
    """The product with the depths of all of `products`, which differ in `depth` only: their sum."""
    return replace(products[0], depth=sum(p.depth for p in products))


def groups(keys: Iterable[tuple[int, Hashable]]) -> list[list[int]]:
    """Numbers with equal keys, two or more, in the order of their first one."""
    found: dict[Hashable, list[int]] = {}
    for number, key in keys:
        found.setdefault(key, []).append(number)
    return [members for members in found.values() if len(members) > 1]


@dataclass
class Profit:
    """Decides by the cost model for one device; remembers what a product takes."""

    device: Device

    def __post_init__(self) -> None:
        self._known: dict[tuple[Product, bool], float] = {}

    def narrow(self, product: Product) -> bool:
        """At most two vectors of columns: too few for the register tile of a product.

        A wider one fills it alone; what the model then sees in a merger is another cut into tasks.
        """
        return product.columns <= 2 * self.device.lanes(4)

    def merging_pays(self, products: Sequence[Product]) -> bool:
        """Whether one product with all columns takes less EU time than `products`, by LEAST_GAIN.

        An operator more is charged to the merged form: epilogues that differ among the siblings
        leave it.
        """
        if len(products) < 2:
            return False
        whole = merged(products)
        return whole.bytes <= MAX_BYTES and self._gains(products, whole)

    def stacking_pays(self, products: Sequence[Product]) -> bool:
        """The same of one product with all rows, of the same weights."""
        return self._gains(products, stacked(products))

    def _gains(self, products: Sequence[Product], whole: Product) -> bool:
        if 0 in (whole.rows, whole.columns, whole.depth):
            return False
        apart = sum(self.ns(p) for p in products)
        return apart >= LEAST_GAIN * (self.ns(whole) + self.device.costs.task_ns)

    @property
    def private_bytes(self) -> float:
        """How many bytes of weights an EU keeps for itself from one product to the next."""
        return FIT * self.device.private_bytes

    def shares(self, product: Product) -> int:
        """How many EUs a product can keep busy."""
        tasks = product.rows * -(-product.columns // self.device.lanes(4))
        return max(1, min(self.device.eus, tasks))

    def resident_ns(self, product: Product) -> float:
        """As `ns`, with weights that the EUs have kept in caches of their own."""
        private = [level.bandwidth for level in self.device.private]
        if not private:
            return self.ns(product)
        moved = product.bytes / private[-1]
        return min(self.ns(product), max(moved, self._ns(product, resident=True)))

    def ns(self, product: Product) -> float:
        """EU time of a product and its start, by the tile that Roller makes for it."""
        return self._ns(product, resident=False)

    def _ns(self, product: Product, *, resident: bool) -> float:
        if (product, resident) not in self._known:
            made = expression(product, self.device.lanes(4), resident=resident)
            decision = construct(made, self.device)[0]
            spent = decision.tasks * decision.estimated_ns
            self._known[product, resident] = spent + self.device.costs.task_ns
        return self._known[product, resident]


def expression(product: Product, lanes: int, *, resident: bool = False) -> TensorExpr:
    """The tensor expression of a product with an epilogue of one operation per element.

    Weights of 2 * lanes columns or more are in panels, as rtask-pack-weights stores them. resident:
    moving them takes nothing.
    """
    m, n, k = index((1, 0)), index((1, 1)), index((1, 2))
    rows, columns, depth = product.rows, product.columns, product.depth
    if columns >= 2 * lanes:
        shape: tuple[int, ...] = (-(-columns // lanes), depth, lanes)
        weights = TensorAccess(
            shape, product.itemsize, (index((1, floordiv(n, lanes))), k, index((1, mod(n, lanes))))
        )
    elif product.by_rows:
        weights = TensorAccess((columns, depth), product.itemsize, (n, k))
    else:
        weights = TensorAccess((depth, columns), product.itemsize, (k, n))
    weights = replace(weights, kept=resident)
    return tensor_expr(
        axes=[("m", rows, "parallel"), ("n", columns, "parallel"), ("k", depth, "reduction")],
        inputs=[TensorAccess((rows, depth), product.itemsize, (m, k)), weights],
        outputs=[TensorAccess((rows, columns), product.itemsize, (m, n))],
        kind="contraction",
        ops=2.0,
        epilogue_ops=2.0,
    )
