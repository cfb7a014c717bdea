"""The checker of certificates: whether a compiled schedule may run, decided before it does.

    check(Facts(...))      # raises Refused(rule, text)

The compiler proves its schedules while it makes them; this checks them again when a file is loaded,
from the words that will run. It shares no code with the compiler and imports nothing but numpy, so
that a fault has to be made twice to pass. What is hard to find lies in the file as a certificate:
after each wait of each EU, how many runs of every EU are over. That is easy to check, step by step
(`order`), and decides who comes before whom. What an operand is lies in the notes, as a number for
its value; `check` holds the bytes against both: whoever reads a value reads what was written of it.

From words to bytes: `streams` (what is executed), `order`, `boxes` (what kernels touch), `work`
(which run executes which tasks), `uses` (where operators read and write), `intervals` (which uses
follow one another on which bytes).

Believed: what the kernels' code touches (the boxes), and that the code computes its operators.
"""

from rcompiler.checker.check import check
from rcompiler.checker.facts import MOST, Facts, Refused

__all__ = ["MOST", "Facts", "Refused", "check"]
