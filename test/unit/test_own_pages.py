"""own_pages.py: large arrays that were let go are no memory of the process."""

from pathlib import Path

import numpy as np
import pytest

from rcompiler.support.own_pages import own_pages


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1])
def test_it_can_be_written_to(size):
    made = own_pages(size)
    made[...] = 7
    assert made.shape == (size,) and made.dtype == np.uint8 and made.sum(dtype=int) == 7 * size


def test_what_is_let_go_is_given_back():
    before = resident()
    for size in range(24 << 20, 32 << 20, 1 << 20):  # as the C library learns to keep more
        made = own_pages(size)
        made[...] = 1
        assert resident() > before + (20 << 20)
        del made
    assert resident() < before + (4 << 20)
