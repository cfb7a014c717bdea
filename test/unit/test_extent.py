"""Sizes that are known at run time, beside numbers worked out by hand and by counting."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcompiler.support.extent import Extent, InexactDivision, Symbol, at_most, divided, product

SEQ, BATCH = Symbol("seq", 1, 16), Symbol("batch", 2, 4)
seq, batch = Extent.of(SEQ), Extent.of(BATCH)


def test_polynomials_are_equal_where_they_are_for_all_counts():
    assert seq * batch == batch * seq
    assert (seq + 1) * (seq - 1) == seq * seq - 1
    assert seq + seq == 2 * seq
    assert seq != batch
    assert hash(seq + 1) == hash(1 + seq)


def test_what_comes_to_a_constant_is_an_int():
    assert seq - seq == 0
    assert type(seq - seq) is int
    assert type((seq + 3) - seq) is int
    assert type(seq * 0) is int


def test_quotients_and_what_is_left():
    assert divided(seq * 5 + batch * 2 - 7, 2) == (seq * 2 + batch - 4, seq + 1)
    assert divided(seq * 4 - batch * 2 + 3, 2) == (seq * 2 - batch + 1, 1)
    assert divided(20 - seq, 3) == (0, 20 - seq)


def test_quotients():
    assert (seq * 12 + 3) // 3 == seq * 4 + 1
    assert (seq * 2 + 3) // 2 == seq + 1  # rounded down for each seq
    assert (seq * batch * 6) // (batch * 2) == seq * 3
    assert (seq * seq - batch * batch) // (seq - batch) == seq + batch
    assert seq // seq == 1
    for a, b in ((seq, 2), (seq, batch), (seq * 3, seq * 2), (seq + 1, seq)):
        with pytest.raises(InexactDivision):
            _ = a // b
    with pytest.raises(InexactDivision):
        _ = 3 // seq
    with pytest.raises(ZeroDivisionError):
        _ = seq // 0


def test_extremes():
    assert ((seq - 1).lowest, (seq - 1).highest) == (0, 15)
    assert ((seq * (batch - 2)).lowest, (seq * (batch - 2)).highest) == (0, 32)
    assert ((3 - seq).lowest, (3 - seq).highest) == (-13, 2)
    assert at_most(seq, 16)
    assert at_most(1, seq)
    assert not at_most(2, seq)
    assert at_most(seq, seq + batch)


def test_extremes_of_what_is_left_of_a_quotient():
    half = Extent.of(Symbol("half", 0, 8, (seq, 2)))
    eighth = Extent.of(Symbol("eighth", 0, 2, (seq, 8)))
    assert ((seq - half * 2).lowest, (seq - half * 2).highest) == (0, 1)
    assert ((half - eighth * 4).lowest, (half - eighth * 4).highest) == (0, 3)
    missing = 4 - (seq - Extent.of(Symbol("fourth", 0, 4, (seq, 4))) * 4)
    assert (missing.lowest, missing.highest) == (1, 4)
    more = missing - Extent.of(Symbol("whole", 0, 1, (missing, 4))) * 4
    assert (more.lowest, more.highest) == (0, 3)
    assert ((seq + more).lowest, (seq + more).highest) == (4, 16)


def test_a_symbol_is_itself_whatever_is_known_of_it():
    known, other = Symbol("half", 0, 8, (seq, 2)), Symbol("half", 0, 8)
    assert known == other
    assert hash(known) == hash(other)
    assert not known < other
    assert "quotient" not in repr(known)


def test_text():
    assert str(seq * batch * 3 - seq + 1) == "3*batch*seq - seq + 1"
    assert str(-seq) == "-seq"
    assert str(seq * seq) == "seq*seq"


@st.composite
def polynomials(draw):
    sizes = st.sampled_from([seq, batch, 1, 2, -1, 3])
    count = draw(st.integers(1, 3))
    terms = [product(draw(st.lists(sizes, min_size=1, max_size=3))) for _ in range(count)]
    return sum(terms, 0)


COUNTS = [
    {"seq": s, "batch": b}
    for s, b in itertools.product(range(SEQ.low, SEQ.high + 1), range(BATCH.low, BATCH.high + 1))
]


def at(size, counts):
    return size.at(counts) if isinstance(size, Extent) else size


@given(polynomials(), polynomials())
def test_arithmetic_is_that_of_the_numbers(a, b):
    for counts in COUNTS[::7]:
        x, y = at(a, counts), at(b, counts)
        assert at(a + b, counts) == x + y
        assert at(a - b, counts) == x - y
        assert at(a * b, counts) == x * y
    if b != 0:
        assert a * b // b == a


@given(polynomials())
def test_no_number_is_beyond_the_extremes(size):
    numbers = [at(size, counts) for counts in COUNTS]
    if isinstance(size, Extent):
        assert size.lowest <= min(numbers)
        assert max(numbers) <= size.highest
        assert Extent.from_data(size.to_data(), [SEQ, BATCH]) == size


@given(polynomials(), st.lists(st.tuples(polynomials(), st.integers(1, 9)), max_size=2))
def test_no_number_is_beyond_the_extremes_of_quotients(size, quotients):
    rounded = [(size, size)]  # with a count in its place, and as numbers
    for number, (other, divisor) in enumerate(quotients):
        least, most = (other.lowest, other.highest) if isinstance(other, Extent) else (other, other)
        if least < 0 or not isinstance(other, Extent):
            continue
        symbol = Symbol(f"q{number}", least // divisor, most // divisor, (other, divisor))
        size = size + Extent.of(symbol) * (number - divisor)
        rounded.append((symbol, other))
    if not isinstance(size, Extent):
        return
    for counts in COUNTS:
        own = {s.name: at(other, counts) // s.quotient[1] for s, other in rounded[1:]}
        assert size.lowest <= size.at({**counts, **own}) <= size.highest


@pytest.mark.parametrize(
    "data",
    [
        None, [], [[]], [["seq"]], [[0, "seq"]], [[1.5, "seq"]], [[True, "seq"]], [[1, "x"]],
        [[1, 2]], [[3]], [[1, "seq"], [-1, "seq"]], [[1, *["seq"] * 40]], [[1, "seq"]] * 100,
        [[1 << 80, "seq"]], "seq",
    ],
)  # fmt: skip
def test_data_of_strangers_is_refused(data):
    with pytest.raises(TypeError):
        Extent.from_data(data, [SEQ, BATCH])
