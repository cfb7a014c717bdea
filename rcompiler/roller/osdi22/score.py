"""Data-reuse scores: which axis gains most from a larger tile (OSDI'22 §3.2)."""

from collections.abc import Callable, Sequence

from rcompiler.roller.osdi22.expression import Expression, Tile
from rcompiler.roller.osdi22.quantities import footprint, output_traffic, traffic, work

Padding = Callable[[Tile], Tile]  # a tile -> elements per row, per input


def intensity_scores(expr: Expression, tile: Tile, padding: Padding) -> list[float]:
    """W / Q of the tile with one more element on the axis.

    Quirk (parity): one element, not the next aligned size, and no footprint, unlike the paper.
    """
    scores = []
    for axis, size in enumerate(tile):
        larger = _replace(tile, axis, size + 1)
        moved = traffic(expr, larger, padding(larger))
        scores.append(work(expr, larger) / moved if moved else 0.0)
    return scores


def paper_scores(
    expr: Expression, tile: Tile, following: Sequence[int | None], padding: Padding
) -> list[float]:
    """(Q(T) - Q(T')) / (F(T') - F(T)), T' with the next aligned size on the axis.

    Q is per byte of output, so that tiles of different sizes compare. 0 for an axis without a
    next size (None), and where Q or F does not change.
    """
    before, held = _traffic_per_byte(expr, tile, padding), footprint(expr, tile, padding(tile))
    scores = []
    for axis, size in enumerate(following):
        if size is None:
            scores.append(0.0)
            continue
        larger = _replace(tile, axis, size)
        saved = before - _traffic_per_byte(expr, larger, padding)
        added = footprint(expr, larger, padding(larger)) - held
        scores.append(saved / added if added else 0.0)
    return scores


def _traffic_per_byte(expr: Expression, tile: Tile, padding: Padding) -> float:
    written = output_traffic(expr, tile)
    return traffic(expr, tile, padding(tile)) / written if written else 0.0


def _replace(tile: Tile, axis: int, size: int) -> Tile:
    return (*tile[:axis], size, *tile[axis + 1 :])


def best_first(scores: Sequence[float]) -> list[int]:
    """Axes by falling score; equal scores keep the order of the axes.

    Quirk (parity): numpy's argsort of 2022 sorted up to 16 values by insertion, which keeps ties
    in order. Later versions use vector instructions and do not, so numpy must not be called here.
    """
    return sorted(range(len(scores)), key=lambda axis: -scores[axis])
