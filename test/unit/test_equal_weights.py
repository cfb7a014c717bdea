"""driver/equal_weights.py: blocks are shared where all of their bytes are equal."""

from dataclasses import dataclass

import numpy as np
import pytest

from rcompiler.driver.equal_weights import with_shared_weights


@dataclass(frozen=True, eq=False)
class Compiled:
    """What is asked of an artifact."""

    constants: np.ndarray


@pytest.mark.parametrize("size", [1 << 16, (1 << 16) + 5])
def test_blocks_that_differ_in_the_last_byte_are_two(size):
    first = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    other = first.copy()
    other[-1] ^= 1
    kept = with_shared_weights(Compiled(first))
    assert kept.constants is first
    assert with_shared_weights(Compiled(first.copy())).constants is first
    assert with_shared_weights(Compiled(other)).constants is other
