"""Whether programs that take several lengths compute what that of exactly one length does.

    python tools/bench exact_lengths --exact=1..128+200+512
    python tools/bench exact_lengths --layers=2 --octave=8 --json=exact.json

The model and its buckets are those of `lengths`. For each length a program is compiled that takes
nothing else, and a request of random words is given to both. What comes is to be equal but for the
rounding of f32: a program for another length adds in another order.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from rcompiler.errors import CompilerError
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, several, table
from rcompiler.tools._record import keep

from .lengths import feeds_of, in_buckets, model, model_options

_TOLERANCE = 1e-5  # of numbers near 1 that come of sums of some thousand products in f32


def apart(found: Sequence[np.ndarray], exact: Sequence[np.ndarray], length: int) -> float:
    """How far two answers are from each other: the largest difference of two numbers.

    Args:
        found: of the program for several lengths.
        exact: of the program for one, in the same order.
        length: of the request, for messages.

    Raises:
        CompilerError: they have other shapes, or differ by more than f32 rounds.
    """
    worst = 0.0
    for a, b in zip(found, exact, strict=True):
        if a.shape != b.shape:
            raise CompilerError(f"at {length} tokens: shape {a.shape} instead of {b.shape}")
        difference = float(np.abs(a - b).max())
        if not difference <= _TOLERANCE:
            raise CompilerError(f"at {length} tokens results differ by {difference:.3g}")
        worst = max(worst, difference)
    return worst


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a result differs by more than f32 rounds."""
    import rcompiler

    if max(options.exact) > options.most:
        raise CompilerError(f"--exact asks for {max(options.exact)} of {options.most} tokens")
    proto = model(options.most, options.vocabulary, options.layers)
    buckets = in_buckets(proto, options.most, options.threads, options.octave)
    rng = np.random.default_rng(options.seed)
    found = {}
    for length in options.exact:
        doing(f"{length} tokens")
        feeds = feeds_of(length, options.vocabulary, rng)
        shapes = {"batch": 1, "sequence": length}
        with rcompiler.compile_onnx(proto, shapes=shapes, eus=options.threads) as alone:
            found[length] = apart(buckets(feeds), alone(feeds), length)
    same = sum(not difference for difference in found.values())
    table(
        ["lengths", "the same bits", "largest difference"],
        [[str(len(found)), str(same), f"{max(found.values()):.2g}"]],
    )
    keep(options, apart=found)
    return 0


def _options(parser: argparse.ArgumentParser) -> None:
    model_options(parser)
    parser.add_argument(
        "--exact",
        type=several,
        default=several("1..128+160+200+256+300+384+450+512"),
        metavar="N..N+N",
        help="lengths to compare; default: 1..128 and some above",
    )
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--json", metavar="FILE", help="write figures and their circumstances")


main = Command(__name__, __doc__, _options, _run)
