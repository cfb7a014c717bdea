"""The tile of one task by the threads of a block: products together, all else by its groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from torch_mlir import ir

from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.elements import Elements, Source, sources_of
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.simt.emitter import ACCESS, SimtEmitter
from rcompiler.kernelgen.simt.group_tiles import GroupTiles, for_groups, for_threads
from rcompiler.kernelgen.simt.product import Element
from rcompiler.kernelgen.simt.products import Planned, Products
from rcompiler.kernelgen.simt.source import is_multiple
from rcompiler.kernelgen.tiling import Range, Tiling
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import LANE, Linear
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.pieces import Piece
from rcompiler.linalg.product import Form
from rcompiler.linalg.roots import product_root

_AT_ONCE = 8  # sums whose epilogues may run at the same time: more of them take too many registers


@dataclass(frozen=True)
class _Product:
    """A tile of a product that all threads compute together, and what is computed from it."""

    plan: Planned
    starts: list[Linear]
    source: Source

    def position(self, relative: list[Linear]) -> list[Linear]:
        """Of an element of the tile in the result."""
        return [start + c for start, c in zip(self.starts, relative, strict=True)]


@dataclass(frozen=True)
class _Result:
    """An element of a result: where it is stored, and an i1 whether it is, None: it is."""

    offset: Linear
    active: str | None
    value: Val


class SimtTileWriter:
    """Writes boxes of results: products by all threads of a block together, if that is worth it."""

    def __init__(
        self,
        name: str,
        tiling: Tiling,
        evaluator: Evaluator,
        emitter: SimtEmitter,
        products: Products,
    ) -> None:
        self._tiling = for_threads(tiling, emitter.width)
        self._evaluator, self._elements = evaluator, Elements(name, evaluator)
        self._simt, self._products = emitter, products

    def write(
        self, piece: Piece, ranges: list[Range], results: list[ir.Value], outputs: list[Buffer]
    ) -> None:
        """The coordinates `ranges` of `results`, which lie in `piece`."""
        sources = sources_of(piece, results)
        found = self._form(sources, ranges)
        if found is None:
            self._write_alone(ranges, sources, outputs)
            return
        form, multiplied = found

        def box(own: list[Range]) -> None:
            extents = [span.extent or 0 for span in own]
            sizes = self._products.box(form, extents, self._tiling)
            if sizes != extents:  # what is left at the end of a tile may need smaller ones again
                self._in_boxes(own, sizes, [], box)
                return
            starts = [span.start for span in own]
            plan = self._products.plan(form, starts, extents, self._tiling)
            if plan is None:
                self._write_alone(own, sources, outputs)
            else:
                self._write_product(_Product(plan, starts, multiplied), sources, outputs)

        box(ranges)

    def _in_boxes(
        self,
        ranges: list[Range],
        sizes: Sequence[int],
        done: list[Range],
        write: Callable[[list[Range]], None],
    ) -> None:
        """One box of at most `sizes` after the other."""
        if len(done) == len(ranges):
            write(done)
            return
        span, size = ranges[len(done)], sizes[len(done)]
        count, rest = divmod(span.extent or 0, size)

        def box(number: Linear, _: list[Val], extent: int = size) -> None:
            start = span.start + number * size
            own = Range(start, extent, start + extent)
            self._in_boxes(ranges, sizes, [*done, own], write)

        self._simt.loop(Linear(0), Linear(count), 1, [], box)
        if rest:
            box(Linear(count), [], rest)

    # -- products
    def _form(self, sources: Sequence[Source], ranges: list[Range]) -> tuple[Form, Source] | None:
        """The product that values may be computed from by all threads together, and the first of
        them.
        """
        for source in sources:
            root = None if source[0] is None else product_root(source[0])
            if root is not None:
                break
        else:
            return None
        if any(not span.extent for span in ranges):
            return None
        symbols = [f"<{d}>" for d in range(len(ranges))]
        at = [[Linear.of(s) for s in symbols]]
        [place] = self._elements.root_positions(source, at, 0)
        form = self._products.form(self._evaluator.generic(root), place, symbols)
        return None if form is None else (form, source)

    def _write_product(
        self, product: _Product, sources: Sequence[Source], outputs: Sequence[Buffer]
    ) -> None:
        self._simt.sharing = self._simt.groups
        elements = self._products.elements(product.plan, len(product.starts))
        with self._simt.renewed():
            positions = [product.position(element()[0]) for element in elements]
            root_at = self._elements.root_positions(product.source, positions, 0)
            sums = self._products.sums(product.plan, product.starts, root_at)
        for first in range(0, len(sums), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            with self._simt.renewed():
                self._write_sums(product, sources, elements[some], sums[some], outputs)

    def _write_sums(
        self,
        product: _Product,
        sources: Sequence[Source],
        elements: Sequence[Element],
        sums: Sequence[Val],
        outputs: Sequence[Buffer],
    ) -> None:
        """The epilogue of each sum, then the stores, of neighbours as one."""
        e, found = self._simt, [list[_Result]() for _ in outputs]
        for element, value in zip(elements, sums, strict=True):
            relative, active = element()
            at = product.position(relative)
            [there] = self._elements.root_positions(product.source, [at], 0)
            self._evaluator.reducer.finish(product.plan.form.root, there, value)
            results = self._elements.values(sources, at, 0)
            for own, output, result in zip(found, outputs, results, strict=True):
                own.append(_Result(output.offset(at), active, result))
        for own, output in zip(found, outputs, strict=True):
            for run in _neighbours(own):
                first, values = run[0], [result.value for result in run]
                vector = e.gather_lanes(values) if len(values) > 1 else values[0]
                offset = first.offset + Linear.of(LANE, min(vector.lanes, 1))
                store = partial(self._elements.store, vector, output, offset, vector.lanes)
                e.only(first.active, store)

    def _write_alone(
        self, ranges: list[Range], sources: list[Source], outputs: list[Buffer]
    ) -> None:
        """Each group of threads for itself."""
        tiling = for_groups(self._tiling, ranges, self._simt.groups)
        parts = self._simt, self._evaluator, self._elements, tiling, sources, outputs
        GroupTiles(*parts).write(ranges)


def _neighbours(results: Sequence[_Result]) -> Iterator[list[_Result]]:
    """Runs of results that one access stores."""
    k = 0
    while k < len(results):
        first = results[k]
        for count in (4, 2, 1):
            run = list(results[k : k + count])
            whole = ACCESS % (count * item_bytes(first.value.element)) == 0
            wanted = [(first.offset + n, first.active) for n in range(count)]
            if count == 1 or (
                whole
                and first.value.element != "i1"
                and [(result.offset, result.active) for result in run] == wanted
                and is_multiple(first.offset, count)
            ):
                yield run
                k += count
                break
