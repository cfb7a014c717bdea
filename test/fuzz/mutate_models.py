"""ONNX files with bytes changed: read or refused, never anything else."""

from __future__ import annotations

import random
from collections.abc import Sequence

import rcompiler
from rcompiler.errors import CompilerError
from rcompiler.frontend import import_onnx

from . import graphs
from .judge import Outcome, Report, key_of
from .maker import Reject

MUTANTS = 100
_COMPILED = 0.05  # of those that can be imported


def models(seed: int, targets: Sequence[str], report: Report) -> Outcome:
    """The file of a case, mutated; each mutant is imported, a few are compiled."""
    report("generate")
    try:
        case = graphs.case_of(seed, targets)
    except Reject:
        return Outcome("no graph")
    data, chosen = case.model.SerializeToString(), random.Random(seed)
    for number in range(MUTANTS):
        mutant = mutated(data, chosen)
        report(f"mutant {number}")
        try:
            import_onnx(mutant)
            if chosen.random() < _COMPILED:
                rcompiler.compile_onnx(mutant, target="cpu")
        except CompilerError as error:
            if "defect of the compiler" in str(error):
                return Outcome("untyped", f"mutant {number}: {error}", key_of(error))
        except Exception as error:  # whatever a defect raises
            what = f"mutant {number}: {type(error).__name__}: {error}"
            return Outcome("internal", what, key_of(error))
    return Outcome("ok")


def mutated(data: bytes, chosen: random.Random) -> bytes:
    """One to four changes of bytes."""
    out = bytearray(data)
    for _ in range(chosen.choice([1, 1, 2, 4])):
        at = chosen.randrange(len(out))
        size = min(chosen.choice([1, 1, 2, 4, 16]), len(out) - at)
        match chosen.randrange(6):
            case 0:
                out[at] ^= 1 << chosen.randrange(8)
            case 1:
                out[at] = chosen.choice([0, 1, 2, 7, 127, 128, 255])
            case 2:
                del out[at : at + size]
            case 3:
                out[at:at] = chosen.randbytes(size)
            case 4:
                out[at : at + size] = chosen.randbytes(size)
            case _:
                other = chosen.randrange(len(out))
                out[at : at + size] = out[other : other + size]
        if not out:
            return data
    return bytes(out)
