"""Memory of the process that compiles, beside that of a session of onnxruntime.

    python tools/bench memory                            # all cases, with weights of 364 MB
    python tools/bench memory external --megabytes=2400  # one of them
    python tools/bench memory --compilations=1000        # and what so many compilations leave

Cases are "products" (Gemm's weights), "external" (the same in a file beside the model), "filters"
(3x3 convolutions) and "session" (the products for an open number of rows, called with three). Each
figure is that of a process of its own, in MB: its peak, what stays when the model is ready, and the
same of onnxruntime. "peak / weights" is to be at most 2.5; what stays, 1.15 times what
onnxruntime has, and 50 MB. The models are written into a temporary folder, and removed.

Compilations are of small networks with weights and shapes of their own in one process: what the
heap has in use, and what is resident, after the first ten and after the last; at most 1 MB more.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rcompiler.errors import CompilerError
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, positive, report, table
from rcompiler.tools._record import keep

CASES = ("products", "external", "filters", "session")
MOST_PEAK, MOST_SHARE, MOST_MORE, MOST_GROWTH = 2.5, 1.15, 50.0, 1.0
_STEP = Path(__file__).with_name("_memory_step.py")
_COLUMNS = ("case", "weights", "peak", "stays", "peak / weights", "onnxruntime", "at most", "")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--megabytes", type=positive, default=364, metavar="N", help="of weights")
    parser.add_argument("--compilations", type=positive, metavar="N", help="in one process")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a figure is above what it is to be."""
    for case in options.cases:
        if case not in CASES:
            raise CompilerError(f"there is no case {case!r}; there are: {', '.join(CASES)}")
    failed: list[str] = []
    rows = [] if options.compilations and not options.cases else options.cases or CASES
    found = [_measured(case, options.megabytes) for case in rows]
    if found:
        table(_COLUMNS, [_row(each, failed) for each in found])
    growth = _growth(options.compilations, failed) if options.compilations else None
    keep(options, cases=found, growth=growth, failed=failed)
    return report("memory", failed)


def _measured(case: str, megabytes: int) -> dict[str, float | str]:
    """All figures of one case."""
    doing(case)
    with tempfile.TemporaryDirectory(prefix="rc-memory-") as folder:
        path = f"{folder}/model.onnx"
        made = _asked("write", case, path, str(megabytes))
        ours, other = _asked("compile", case, path), _asked("onnxruntime", case, path)
    return {"case": case, **made, **ours, "onnxruntime": other["stays"]}


def _row(found: dict[str, float | str], failed: list[str]) -> Sequence[str]:
    weights, peak, stays, other = (
        float(found[name]) for name in ("weights", "peak", "stays", "onnxruntime")
    )
    most = MOST_SHARE * other + MOST_MORE
    wrong = [f"peak above {MOST_PEAK} x"] * (peak > MOST_PEAK * weights)
    wrong += ["stays above what it may"] * (stays > most)
    failed += [f"{found['case']}: {each}" for each in wrong]
    figures = f"{weights:.0f}", f"{peak:.0f}", f"{stays:.0f}", f"{peak / weights:.2f}"
    return str(found["case"]), *figures, f"{other:.0f}", f"{most:.0f}", "; ".join(wrong)


def _growth(count: int, failed: list[str]) -> dict[str, float]:
    """What compilations in one process leave."""
    doing(f"{count} compilations")
    found = _asked("repeat", str(count))
    more = found["resident"] - found["resident_first"]
    print(
        f"{count} compilations: heap in use {found['heap_first']:.1f} -> {found['heap']:.1f} MB, "
        f"resident {found['resident_first']:.1f} -> {found['resident']:.1f} MB"
    )
    if more > MOST_GROWTH:
        failed.append(f"{more:.1f} MB more are resident after {count} compilations")
    return found


def _asked(*question: str) -> dict[str, float]:
    """The figures that a process of its own prints at the end. Raises CompilerError."""
    done = subprocess.run([sys.executable, str(_STEP), *question], capture_output=True, text=True)
    if done.returncode:
        raise CompilerError(f"{' '.join(question)}: {done.stderr.strip()[-300:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


main = Command(__name__, __doc__, _options, _run)
