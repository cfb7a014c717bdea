"""Reductions along the rows of a task, and the row that waits on its stack."""

import numpy as np
import pytest
from kernel_cases import FEATURES, Kernel, Tile, softmax


def kernel(rows: int, width: int) -> tuple[Kernel, np.ndarray]:
    x = np.random.default_rng(0).standard_normal((rows, width)).astype(np.float32)
    tile = Tile(x.shape, register_tile=[1, 64], vector_dim=1, lanes=16)
    shape = [(x.shape, "float32")]
    return Kernel(softmax(x.shape, 1), ["%r"], [x], shape, tile, FEATURES[0], "reduction"), x


def test_every_reduction_of_a_row_is_written_once():
    source = kernel(4, 512)[0].source
    # rows, maximum, powers, sum, products
    assert source.count("scf.for") == 5 and source.count("vector.reduction <add>") == 1


@pytest.mark.parametrize("rows, asked", [(4, False), (128, True)])
def test_the_next_row_is_asked_for_while_one_is_computed(rows: int, asked: bool):
    softmax_kernel, x = kernel(rows, 512)
    lines = softmax_kernel.source.splitlines()
    where = [k for k, line in enumerate(lines) if "prefetch" in line]
    assert len(where) == asked
    if asked:
        assert "[512]" in lines[where[0] - 1]  # one row ahead, which is why it lies in memory
    powers = np.exp(x - x.max(1, keepdims=True))
    found = softmax_kernel.run()[0]
    np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True), rtol=1e-5)


def test_a_row_before_a_loop_does_not_share_memory_with_rows_inside():
    """The last two columns are no part of a loop, so their rows are written before all loops."""
    x = np.random.default_rng(0).standard_normal((10, 14)).astype(np.float32)
    tile = Tile(x.shape, register_tile=[1, 3])
    shape = [(x.shape, "float32")]
    found = Kernel(softmax(x.shape, 0), ["%r"], [x], shape, tile, FEATURES[0], "reduction").run()[0]
    powers = np.exp(x - x.max(0))
    np.testing.assert_allclose(found, powers / powers.sum(0), rtol=1e-5)
