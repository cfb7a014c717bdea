"""The checker of certificates: whether a compiled schedule may run, decided before it does.

    check(Facts(...))      # raises Refused(rule, text)

The compiler proves its schedules while it makes them; this checks them again when a file is loaded,
from the words that will run. It shares no code with the compiler and imports nothing but numpy, so
that a fault has to be made twice to pass. What is hard to find lies in the file as a certificate:
after each wait of each EU, how many instructions of every EU are over. That is easy to check, step
by step (`order`), and decides who comes before whom; `memory` holds the bytes against it.

Believed: what the kernels' code touches (the boxes), and that the code computes its operators.
"""

from rcompiler.checker.check import check
from rcompiler.checker.facts import Facts, Launch, Refused

__all__ = ["Facts", "Launch", "Refused", "check"]
