"""Sizes of steps that cover an extent exactly: a multi-size cover instead of padding."""

from __future__ import annotations


def lane_cover(extent: int, lanes: int) -> list[int]:
    """Vector widths, widest first, that cover `extent` exactly: a multi-size cover instead of
    padding.
    """
    widths, left, width = [], extent, max(lanes, 1)
    while left:
        if left >= width:
            widths.append(width)
            left %= width
        width //= 2
    return widths


def step_cover(extent: int, step: int, *, even: bool) -> list[tuple[int, int]]:
    """(size, count) of the register tiles that cover `extent`: those of `step`, then what is left.

    even: the last two are of equal size if less than half a tile is left and that can be. The cost
    model (`RegisterModel.total`) counts a whole and a short one, which take as long or longer.
    """
    step = max(min(step, extent), 1)
    count, left = divmod(extent, step)
    if not left:
        return [(step, count)]
    if even and 2 * left < step and (step + left) % 2 == 0:
        return [(step, count - 1), ((step + left) // 2, 2)]
    return [(step, count), (left, 1)]
