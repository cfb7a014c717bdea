"""What is guessed of the sizes of calls that come, by those that have come."""

import pytest

from rcompiler.driver.size_guess import (
    Sum,
    agrees,
    bucket_for,
    holds,
    narrower,
    next_bucket,
    relations,
    tighter,
    within,
)

# batch, new, all, past of a decoder
FIRST = (True, False, False, False)
PROMPT, ONE, TWO = (1, 5, 5, 0), (1, 1, 6, 5), (1, 1, 7, 6)


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        ([PROMPT, ONE, TWO], {2: Sum((1, 3))}),
        ([(1, 1, 1, 0), (1, 1, 2, 1), (1, 1, 3, 2)], {2: Sum((1, 3))}),
        ([(1, 1, 6, 3), (1, 2, 9, 5), (2, 1, 5, 5)], {}),  # nothing holds for all
        ([(1, 4, 7, 2), (1, 5, 7, 2), (1, 6, 7, 2)], {}),
        ([(1, 4, 4, 4), (2, 5, 5, 5), (1, 6, 6, 6)], {2: Sum((1,)), 3: Sum((1,))}),
        ([(1, 4, 7, 0), (1, 5, 8, 0), (2, 9, 12, 0)], {2: Sum((1,), 3)}),
    ],
)
def test_how_sizes_depend_on_others(seen, wanted):
    found = relations(seen, FIRST)
    assert found == wanted
    assert all(agrees(sizes, found) for sizes in seen)


def test_the_last_calls_may_say_more_than_all():
    """A decoder whose first call has a past of one that counts nothing."""
    calls = [(1, 5, 5, 1), (1, 1, 6, 5), (1, 1, 7, 6), (1, 1, 8, 7)]
    assert relations(calls[:3], FIRST) == {}
    assert relations(calls, FIRST) == {2: Sum((1, 3))}
    both = [(2, 9, 3, 3), *calls[1:]]
    assert relations([(2, 9, 9, 3), (3, 4, 4, 2), *calls[1:3]], FIRST) == {}
    assert relations(both, FIRST) == {2: Sum((1, 3))}


def test_a_call_that_breaks_a_relation_does_not_agree():
    made = relations([PROMPT, ONE, TWO], FIRST)
    assert agrees((1, 1, 8, 7), made) and not agrees((1, 1, 9, 7), made)


@pytest.mark.parametrize(
    ("seen", "first", "wanted"),
    [
        ([(1,), (2,)], [True], None),
        ([(1,), (2,), (3,)], [True], ((1, 16),)),
        ([(9,), (40,), (20,)], [True], ((1, 64),)),
        ([(17,), (93,), (44,)], [False], ((1, 128),)),
        ([(17,), (93,), (94,)], [False], ((1, 256),)),  # one by one: twice as far
        ([(5, 0), (1, 5), (1, 6)], [False, False], ((1, 1), (1, 128))),  # new, past
        ([(5, 0), (1, 5), (1, 6), (12, 0)], [False, False], ((1, 32), (0, 0))),
        ([(2, 17), (1, 93), (3, 44)], [True, False], ((1, 16), (1, 128))),
        ([(2, 17), (1, 93), (2, 44)], [True, False], ((2, 2), (1, 64))),
        ([(0,), (1,), (2,)], [False], ((0, 128),)),
    ],
)
def test_the_third_size_makes_a_range(seen, first, wanted):
    assert bucket_for(seen, first) == wanted


def test_ranges_of_sizes_whose_axes_are_multiples():
    """As many elements as those of axes that are sizes themselves."""
    assert bucket_for([(1,), (3,), (2,)], [False], [32]) == ((1, 4),)
    assert bucket_for([(1,), (2,), (3,)], [False], [32]) == ((1, 8),)
    assert bucket_for([(1,), (3,), (2,)], [False], [2]) == ((1, 16),)


def test_the_next_range_is_asked_for_before_it_is_needed():
    bucket = ((1, 1), (1, 128))
    assert next_bucket(bucket, (1, 30), (1, 31)) is None
    assert next_bucket(bucket, (1, 32), (1, 33)) == ((1, 1), (1, 512))
    assert next_bucket(bucket, (1, 10), (1, 90)) is None
    assert next_bucket(bucket, (1, 10), (1, 97)) == ((1, 1), (1, 256))
    assert next_bucket(((1, 1), (128, 128)), (1, 128), (1, 128)) is None


def test_a_part_of_a_range():
    assert tighter(((1, 1), (1, 128)), (1, 20)) == ((1, 1), (1, 32))
    assert tighter(((1, 16),), (9,)) == ((1, 16),)
    assert tighter(((40, 128),), (41,)) == ((40, 64),)


def test_no_bucket_goes_beyond_what_was_refused():
    built, failed = [((1, 1), (1, 128))], [((1, 1), (1, 256))]
    assert within(((1, 16), (1, 256)), built, failed, (3, 9)) == ((1, 16), (1, 128))
    assert within(((1, 16), (1, 256)), built, [], (3, 9)) == ((1, 16), (1, 256))
    assert within(((1, 16), (1, 64)), built, failed, (3, 9)) == ((1, 16), (1, 64))


def test_no_bucket_begins_below_what_was_refused_unless_the_call_does():
    built, failed = [((1, 1), (8, 128))], [((1, 1), (1, 128))]
    assert within(((1, 16), (1, 32)), built, failed, (3, 11)) == ((1, 16), (8, 32))
    assert within(((1, 16), (1, 32)), built, failed, (3, 5)) == ((1, 16), (5, 32))
    assert within(((1, 16), (1, 32)), built, [], (3, 11)) == ((1, 16), (1, 32))


def test_what_holds_a_range_that_was_refused_is_refused():
    assert holds(((1, 64), (2, 2)), ((1, 32), (2, 2)))
    assert holds(((1, 32),), ((1, 32),))
    assert not holds(((12, 64),), ((1, 64),))


def test_what_is_left_of_a_range_that_is_refused():
    seen = [(1, 17), (1, 93), (2, 5), (1, 44)]
    assert narrower(((1, 1), (1, 128)), seen) == [((1, 1), (17, 128)), ((1, 1), (17, 93))]
