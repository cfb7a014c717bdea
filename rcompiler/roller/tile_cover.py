"""Register tiles on the tile registers of a core (AMX): which of them a product takes.

    c[rows, 16] += a[rows, 16 words] * b[16 words, 16 words]    a word: 4 bytes, whose products add

A register tile of rows by vectors is covered by `down` x `across` tiles of sums, and a step takes
`down` tiles of the first factor and `across` of the second: with two of each, which fill the eight
registers, four products use four loads. Twice as many columns are two such groups, one after the
other: the second one is multiplied while vectors take the sums of the first, so that a register
tile waits only once for a last product. Hardware alignment (Roller §3.1): as many rows in each
tile, whole vectors of columns, and as many words in a step as leave no rest of the reduction.
"""

from dataclasses import dataclass

from rcompiler.device.matrix_unit import MatrixUnit

MOST = 2  # tiles of each factor
GROUPS = 2  # of columns
# Rows of a tile: below, products of vectors are as fast; not those of bf16, which they take in two
# halves there, to add up in the order of tile registers.
LEAST_ROWS = {"i8": 4, "bf16": 1}
LEAST_WORDS = 4  # of a step, likewise


@dataclass(frozen=True)
class TileCover:
    """`down` tiles of `rows` rows each, `across` tiles of one vector each, in `groups`."""

    rows: int
    down: int
    across: int

    @property
    def groups(self) -> tuple[range, ...]:
        """The tiles across that are multiplied at once."""
        starts = range(0, self.across, MOST)
        return tuple(range(n, min(n + MOST, self.across)) for n in starts)

    @property
    def registers(self) -> int:
        """Of the sums and of both factors."""
        across = min(self.across, MOST)
        return self.down * across + self.down + across


def tile_cover(run: int, runs: int, vectors: int, unit: MatrixUnit) -> TileCover | None:
    """How tiles of a unit cover `runs` times `run` rows, each run at equal distances, by `vectors`
    vectors; None where they do not fit, or do not pay.
    """
    each = next((n for n in range(1, MOST + 1) if run % n == 0 and run // n <= unit.rows), 0)
    if not each or run // each < LEAST_ROWS[unit.element] or each * runs > MOST:
        return None
    if vectors > MOST and vectors != GROUPS * MOST:
        return None
    return TileCover(run // each, each * runs, vectors)


def words_of_step(words: int, most: int) -> int:
    """Words of the reduction that a step takes: as many as fit without a rest at the end; 0 where
    these are too few to pay.
    """
    step = next((n for n in range(min(words, most), 0, -1) if words % n == 0), 0)
    return step if step >= LEAST_WORDS else 0
