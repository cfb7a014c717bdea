"""runtime/pieces.py: parts of several arrays, as of one."""

import itertools

import numpy as np

from rcompiler.runtime.pieces import Pieces

WHOLE = np.arange(12, dtype=np.uint8)
PIECES = Pieces([WHOLE[:5], WHOLE[5:5], WHOLE[5:6], WHOLE[6:]])


def test_every_part_is_that_of_the_whole():
    assert PIECES.size == 12
    for begin, end in itertools.combinations(range(13), 2):
        assert PIECES[begin:end].tolist() == WHOLE[begin:end].tolist()
    assert PIECES[:].tolist() == WHOLE.tolist() and PIECES[4:4].size == 0
    assert PIECES[3:].tolist() == WHOLE[3:].tolist() and PIECES[:-2].tolist() == WHOLE[:-2].tolist()
    assert Pieces([]).size == 0 and Pieces([])[:].dtype == np.uint8


def test_a_part_of_one_array_is_no_copy():
    assert np.shares_memory(PIECES[1:5], WHOLE) and np.shares_memory(PIECES[6:12], WHOLE)
    assert not np.shares_memory(PIECES[4:6], WHOLE)


def test_the_rest_is_in_pieces_too():
    for begin in range(13):
        rest = PIECES.since(begin)
        assert rest.size == 12 - begin and rest[:].tolist() == WHOLE[begin:].tolist()
    assert np.shares_memory(PIECES.since(2)[1:3], WHOLE)
