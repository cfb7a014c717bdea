"""Where the numbers of Winograd's products stand: apart in the cache, as far out as that goes."""

import pytest

from rcompiler.device.model import MemoryLevel
from rcompiler.roller.product_layout import ProductTensor

L1 = MemoryLevel("L1", 48 << 10, 64, 12, 200, 200)


def products(channels: int, tiles: int, count: int = 6) -> ProductTensor:
    """[n, c / 16, ty, tx, 16] of `tiles` x `tiles` tiles, with i and j in [0, count)."""
    sizes = {"n": 1, "c": channels // 16, "y": tiles, "x": tiles, "l": 16}
    sizes |= {"i": count, "j": count}
    return ProductTensor(("n", "c", "y", "x", "l"), ("y", "x"), ("i", "j"), sizes, 4)


def order(found: ProductTensor) -> str:
    return "".join(map(str, found.without_conflicts(L1)))


def test_conflicts_by_hand():
    """16 channels of 8 x 8 tiles are 4 KiB, the distance of two lines of one set."""
    found = products(16, 8)
    assert found.conflicts(found.outermost(), L1) == 36
    # in front of x: j is 8 lines further, i 48: all of it is 36 * 8 lines of 64 sets, every 8th one
    assert found.conflicts(list("ncyijxl"), L1) == 5
    assert found.conflicts(list("ncyxijl"), L1) == 1


def test_outermost_where_nothing_conflicts():
    """49 tiles: neighbours are an odd number of lines apart."""
    found = products(16, 7)
    assert found.conflicts(found.outermost(), L1) == 1
    assert order(found) == "ijncyxl"


@pytest.mark.parametrize(
    ("channels", "tiles", "expected"),
    [(64, 14, "ijncyxl"), (256, 4, "incjyxl"), (256, 14, "incjyxl"), (32, 16, "nciyjxl")],
)
def test_the_first_order_without_conflicts(channels, tiles, expected):
    assert order(products(channels, tiles)) == expected


def test_the_fewest_conflicts_where_there_is_no_such_order():
    found = products(16, 64)
    chosen = found.without_conflicts(L1)
    assert found.conflicts(chosen, L1) > L1.ways
    for other in ("ijncyxl", "incjyxl", "nciyjxl", "ncyijxl"):
        assert found.conflicts(chosen, L1) <= found.conflicts(list(other), L1)


def test_one_window():
    sizes = {"n": 2, "x": 64, "l": 16, "i": 4}
    found = ProductTensor(("n", "x", "l"), ("x",), ("i",), sizes, 4)
    assert order(found) == "inxl"
    assert found.bytes == 2 * 64 * 16 * 4 * 4
