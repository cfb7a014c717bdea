"""Long lines of MLIR in several, which mean the same."""

from hypothesis import given
from hypothesis import strategies as st

from rcompiler.schedule_text.folding import WIDTH, folded, joined

WORDS = st.text("ab.%#", min_size=1, max_size=30)
INSIDE = st.lists(st.sampled_from([*"ab ,(/{", "\\22", "\\\\", "\\0A"]), max_size=300).map("".join)
STRINGS = st.builds(
    '{}"{}"{}'.format, st.sampled_from(["", "(", "["]), INSIDE, st.sampled_from(",]")
)
OTHERS = st.sampled_from(["->", "=", "(a,", "b)", "<[1,", "2]>,", "{x", "=", "1}", "ins(%a)", ":"])


@given(st.integers(0, 8), st.lists(st.one_of(WORDS, STRINGS, OTHERS), min_size=1, max_size=60))
def test_a_folded_line_is_the_same_line(margin, words):
    line = " " * margin + " ".join(words)
    lines = folded(line)
    assert max(map(len, lines)) <= WIDTH
    again = joined("\n".join(lines))
    assert again.count("\n") == len(lines) - 1
    assert " ".join(filter(None, (part.strip() for part in again.split("\n")))) == line.strip()


def test_where_a_line_is_folded():
    operands = ", ".join(f"operand_{number}" for number in range(9))
    line = f"  run an_operator: k_0123456789abcdef[0..7]({operands}) -> a_result"
    first, second = folded(line)
    assert first.endswith("operand_6,") and second == "      operand_7, operand_8) -> a_result"
    first, second = folded(
        line.replace(", operand_7, operand_8", "").replace("a_result", "another")
    )
    assert first.endswith("operand_6)") and second == "      -> another"


def test_strings_stay_apart_where_they_are():
    assert joined('"a", "b"\n"c" x') == '"a", "bc"\n x'
    assert joined('"a" "b"') == '"a" "b"'
    assert joined('// "a"\n"b" // "c"\n"d"') == '// "a"\n"b" // "c"\n"d"'
