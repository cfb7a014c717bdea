"""Conflicts of live ranges, and the bytes that they forbid: as pairs compared one by one say."""

import random
import tracemalloc

import numpy as np
import pytest

from rcompiler.rammer.live_conflicts import GROUP, LiveConflicts
from rcompiler.rammer.occupied import Occupied


def run_ahead(n):
    """Numbers that one EU makes without waiting, and what another one makes of each."""
    k = np.arange(n, dtype=np.int32)
    numbers = np.stack([0 * k, k], 1), np.stack([3 * k + 2, k + 1], 1)
    values = np.stack([3 * k + 1, k + 1], 1), np.stack([3 * k + 5, 0 * k], 1)
    starts, ends = (np.stack(pair, 1).reshape(-1, 2) for pair in zip(numbers, values, strict=True))
    return ends, starts


def anything(n, seed, eus=3):
    """Ranges of all lengths."""
    draw = np.random.default_rng(seed)
    starts = draw.integers(0, n, (n, eus)).astype(np.int32)
    return starts + draw.choice([1, 3, n // 4], (n, 1)).astype(np.int32), starts


def apart(n):
    """What two EUs make that never wait for each other."""
    k, side = np.arange(n, dtype=np.int32), np.arange(n)[:, None] % 2 == np.arange(2)
    return np.where(side, k[:, None] + 1, 0), np.where(side, k[:, None], 0)


# the first is over before the second, and that before the third, which does not wait for the first
UNEVEN = np.array([[1, 5], [2, 0], [9, 9]], np.int32), np.array([[0, 0], [1, 5], [7, 0]], np.int32)
CASES = [
    UNEVEN,
    run_ahead(3),
    run_ahead(200),
    apart(500),
    *(anything(400, seed) for seed in range(3)),
]


def meet(ends, starts):
    """(n, n): whether two are in conflict."""
    after = (ends[:, None] <= starts[None]).all(axis=2)
    found = ~(after | after.T)
    np.fill_diagonal(found, False)
    return found


@pytest.mark.parametrize("case", CASES)
def test_conflicts_are_those_of_all_pairs(case):
    wanted, found = meet(*case), LiveConflicts(*case)
    for block, row in enumerate(wanted):
        np.testing.assert_array_equal(found.blocks(block), np.flatnonzero(row))


@pytest.mark.parametrize("case", CASES)
def test_bytes_around_are_those_of_placed_blocks_in_conflict(case):
    wanted, conflicts = meet(*case), LiveConflicts(*case)
    draw, n = random.Random(0), len(wanted)
    size = np.array([draw.choice([0, 64, 64, 192]) for _ in range(n)])
    occupied = Occupied(conflicts, size)
    for number, block in enumerate(draw.sample(range(n), n)):
        if number % 16 == 0:
            mine = np.flatnonzero(wanted[block] & (occupied.offset >= 0))
            taken = {int(b) for j in mine for b in occupied.offset[j] + np.arange(0, size[j], 64)}
            around = occupied.around(block)
            assert {b for low, high in around.tolist() for b in range(low, high, 64)} == taken
            assert (around[1:, 0] > around[:-1, 1]).all()  # merged
        occupied.put(block, 64 * draw.randrange(n))


@pytest.mark.parametrize("case", CASES)
def test_blocks_in_turn_are_those_without_a_conflict(case):
    wanted, conflicts = meet(*case), LiveConflicts(*case)
    draw, n = random.Random(1), len(wanted)
    some = [np.array(draw.sample(range(n), min(n, 3))) for _ in range(200)]
    some += [np.arange(n), *(np.arange(first, n, 2) for first in (0, 1))]
    for blocks in some:
        assert conflicts.are_in_turn(blocks) == (not wanted[np.ix_(blocks, blocks)].any())


def test_like_blocks_are_grouped():
    """Nearly all answers are of groups, however many pairs there are."""
    conflicts = LiveConflicts(*run_ahead(40 * GROUP))
    for block in range(0, 80 * GROUP, 999):
        assert len(conflicts.of(block).blocks) <= 4 * GROUP


def test_memory_does_not_grow_with_pairs():
    ends, starts = run_ahead(8000)
    tracemalloc.start()
    conflicts = LiveConflicts(ends, starts)
    occupied = Occupied(conflicts, np.full(len(ends), 64))
    for block in range(0, 16000, 2):
        occupied.put(block, 32 * block)
    assert occupied.around(8001).shape == (1, 2)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()
