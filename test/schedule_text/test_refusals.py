"""Texts in the schedule form that are refused: where, why, and what to do."""

import pickle
import random

import pytest
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.errors import InvalidModel, ScheduleTextError
from rcompiler.schedule_text import is_schedule_form, mlir_form

GOOD = """// A comment.
schedule 1

main(x: 64xf32) -> (y: 64xf32) {
  launch p
}

device d with 2 eus

program p on d arena 1024 constants 256 {
  input 0 x: 64xf32
  constant w: 64xf32 at 0 = dense<1.0>
  output 0 y: 64xf32
  repeat i < 3 {
    temp t{0+i}: 64xf32 at 0 + 256i
    event t{0+i}.done
  }
  eu 0 {
    run first: k[0..7](x) -> t0  // both EUs read it
    signal t0.done
    repeat i < 2 {
      run step{1+i}: k[0 + 1i](t{0+i}) -> t{1+i}
    }
  }
  eu 1 {
    wait t0.done >= 1
    run last: k[0..6 step 2](t0) -> y
  }
}

kernel k(%x: tensor<64xf32>) attributes {kind = "elementwise", grid = array<i64: 64>, tasks = 64,
    tile = array<i64: 1>, register_tile = array<i64: 1>, vector_dim = 0, lanes = 1,
    on_chip_bytes = 8, registers = 1, estimated_ns = 3.0, source = "a person "
    "at a desk", reads = [[array<i64: 0, 1, 0, 1>]], writes = [[array<i64: 0, 1, 0, 1>]]} {
  "rtask.yield"(%x) : (tensor<64xf32>) -> ()
}
"""


def parse(text):
    """The module, or what MLIR says."""
    form = mlir_form(text)
    with dialects.load(ir.Context()), ir.Location.unknown():
        try:
            return ir.Module.parse(form.text).operation.get_asm()
        except ir.MLIRError as error:
            return form.explained(str(error))


def test_it_is_right_before_it_is_changed():
    found = parse(GOOD)
    assert 'source = "a person at a desk"' in found and "offset_steps = array<i64: 256>" in found
    assert is_schedule_form(GOOD) and is_schedule_form("\n// x\n schedule")
    assert not any(map(is_schedule_form, ("", "// schedule", "scheduled", "module {}")))


WRONG_TOKENS = [
    ("schedule 1", "schedule 2", "2:10 the version is not 1; print the schedule with this version"),
    ("schedule 1", "schedule one", "2:10 expected the version, not 'one'; write a whole number"),
    ("schedule 1", "schedule 1 in", "4:1 expected 'order', not 'main'; write 'in order' behind"),
    ("program p", "progam p", "10:1 expected an item, not 'progam'; write main, device, program"),
    ("program p", "module module program p", "10:15 the text has two modules; put each into a"),
    ("with 2 eus", "with 2", "10:1 expected 'eus', not 'program'; write device NAME with N eus"),
    (
        " constants 256",
        "",
        "10:27 expected 'constants', not '{'; write program NAME on DEVICE arena",
    ),
    ("x: 64xf32\n", "x 64xf32\n", "11:13 expected ':', not '64xf32'; write NAME: TYPE"),
    ("64xf32 at 0 +", "64x at 0 +", "15:18 expected a type, not '64x'; write sizes and a type"),
    ("at 0 + 256i", "at 0 + 256eu", "15:35 there is no step for 'eu' here; write i behind it"),
    ("  event t", "  signal t", "16:5 'signal' may not stand here; write one of input, output,"),
    (
        "signal t0",
        "signals t0",
        "20:5 'signals' may not stand here; write one of run, wait, signal",
    ),
    (">= 1", "> 1", "26:18 expected '>=', not '>'; write wait EVENT >= N"),
    ("[0..7](x)", "[0..7] x", "19:24 expected '(', not 'x'; put the operands between ( and )"),
    ("k[0 + 1i]", "k[0 + 1i + 2i]", "22:34 a second step for 'i'; write their sum"),
    ("k[0 + 1i]", "k[0 + 1j]", "22:29 there is no step for 'j' here; write i or eu behind it"),
    ("repeat i < 2", "repeat j < 2", "21:12 expected 'i', not 'j'; call the iteration i: repeat i"),
    ("dense<1.0>", "dense<[1.0>", "12:39 expected ']', not '>'; close the '[' of line 12"),
    (
        "dense<1.0>",
        "1.0",
        "12:29 expected a value, not '1.0'; write dense<...>, dense_resource<...>",
    ),
    ("{\n  launch p\n}", "", "6:1 expected '{', not 'device'; write main(INPUTS) -> (OUTPUTS)"),
    (' {\n  "rtask', '\n  "rtask', "35:3 expected the body of the kernel: '{', lines and '}' in"),
]
NOT_THERE = [
    (
        "(x) -> t0",
        "(xx) -> t0",
        "19:24 'xx' is no buffer of this program; write 'x', or declare it",
    ),
    ("(t{0+i})", "(s{0+i})", "22:32 's{0+i}' is no buffer of this program; write 't{0+i}', or"),
    ("wait t0.done", "wait zero", "26:10 'zero' is no event of this program; declare the event"),
    ("last: k[", "last: kk[", "27:15 'kk' is no kernel of this text; write 'k', or declare it"),
    ("launch p", "launch q", "5:10 'q' is no program of this text; declare the program"),
    ("p on d ", "p on e ", "10:14 'e' is no device of this text; declare the device"),
]
OUT_OF_RANGE = [
    ("arena 1024", f"arena {1 << 63}", "10:22 the number behind 'arena' is out of range; write a"),
    ("arena 1024", f"arena {'9' * 9999}", "10:22 the number behind 'arena' is out of range; write"),
    (
        "with 2 eus",
        "with 0 eus",
        "8:15 the number of EUs is out of range; write a whole number from",
    ),
    (
        "repeat i < 3",
        "repeat i < 0",
        "14:14 the number of iterations is out of range; write a whole",
    ),
    (">= 1", ">= -1", "26:21 expected the number of signals, not '-'; write a whole number from 1"),
    ("eu 0 {", "eu 1..0 {", "18:6 the range 1..0 is empty; write FIRST..LAST"),
    (
        "6 step 2",
        "7 step 2",
        "27:17 steps of 2 do not end at 7; end with a task that is a multiple",
    ),
    (
        "y: 64xf32\n",
        "y: 9999999999999999x999xf32\n",
        "13:15 a 9999999999999999x999xf32 has too many",
    ),
]


@pytest.mark.parametrize("old, new, message", [*WRONG_TOKENS, *NOT_THERE, *OUT_OF_RANGE])
def test_what_is_not_of_the_grammar(old, new, message):
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    with pytest.raises(ScheduleTextError) as caught:
        mlir_form(text)
    error = caught.value
    assert isinstance(error, InvalidModel)
    assert f"{error.line}:{error.column} {error.reason}".startswith(message)
    assert str(error) == f"line {error.line}, column {error.column}: {error.reason}"


UNVERIFIED = [
    (
        "k[0..7]",
        "k[60..67]",
        "line 19, column 5: 'vdevice.run' op runs task 67 of @k, which has 64",
    ),
    ("eu 1 {", "eu 2 {", "line 25, column 3: 'vdevice.eu' op names EU 2 of a device with 2"),
    (
        "arena 1024",
        "arena 512",
        "line 15, column 5: 'vdevice.buffer' op ends at byte 768, past the",
    ),
    (
        "repeat i < 2",
        "repeat i < 9",
        "line 22, column 7: 'vdevice.run' op refers to @t3, which is no",
    ),
    ("tasks = 64", "tasks = 63", "line 31, column 1: 'rtask.kernel' op expects"),
    ('"rtask.yield"(%x)', '"rtask.yield"(%q)', "line 35, column 17: use of undeclared SSA value"),
    ("vector_dim = 0", "vector_dim = ", "line 32, column 70: expected attribute value"),
]


@pytest.mark.parametrize("old, new, message", UNVERIFIED)
def test_mlir_speaks_of_the_text_that_was_written(old, new, message):
    text = GOOD.replace(old, new, 1)
    assert text != GOOD and parse(text).startswith(message)


def test_any_small_change_is_read_or_refused():
    """Nothing else comes out, and soon."""
    chosen = random.Random(0)
    pieces = ["", "{", "}", '"', "<", ">", "(", "x", " ", "\n", "8", "@", "//", "-", "#", "\\"]
    refused = 0
    for _ in range(3000):
        at, length = chosen.randrange(len(GOOD)), chosen.choice([0, 1, 1, 2, 5, 40])
        try:
            mlir_form(GOOD[:at] + chosen.choice(pieces) + GOOD[at + length :])
        except ScheduleTextError:
            refused += 1
    assert 1000 < refused < 3000


def test_the_error_survives_another_process():
    with pytest.raises(ScheduleTextError) as caught:
        mlir_form("schedule 3")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.line, again.column) == (str(caught.value), 1, 10)
