"""python test/replay/compare_gpu.py BEFORE NOW: GPU code of two commits, without a GPU.

    git worktree add build/before COMMIT
    (cd build/before && PYTHONPATH=. python test/replay --only=cuda --texts=../texts-before)
    python test/replay --only=cuda --texts=build/texts-now
    python test/replay/compare_gpu.py build/texts-before build/texts-now

Of each case that both folders have: the estimated time of the schedule, and, of its PTX as ptxas
assembles it, the bytes that a thread spills and the registers that it has.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rcompiler.codegen.ptx import PtxModule
from rcompiler.codegen.ptxas import assemble
from rcompiler.errors import CompilerError
from rcompiler.tools._console import Parser, doing, guard, positive

_TARGET = re.compile(rb"^\.target (\w+)", re.MULTILINE)
_SAME = 1.001  # ratios of estimates that are called equal


@dataclass(frozen=True)
class Figures:
    """Of the code of a case: the makespan in ns, bytes that are spilled, registers of a thread."""

    estimate: float
    spilled: int
    registers: int


@dataclass(frozen=True)
class Pair:
    """A case before and now."""

    name: str
    before: Figures
    now: Figures

    @property
    def ratio(self) -> float:
        """Of the estimates, now to before: below 1 is faster now."""
        return self.now.estimate / self.before.estimate

    @property
    def is_worse(self) -> bool:
        return self.ratio > _SAME or self.now.spilled > self.before.spilled


def figures_of(folder: Path) -> Figures:
    """Of a case whose texts `--texts` wrote. Raises CompilerError without ptxas."""
    report = json.loads((folder / "report.txt").read_text())
    text = (folder / "code.bin").read_bytes()
    chip = _TARGET.search(text)
    if chip is None:
        raise CompilerError(f"{folder / 'code.bin'} is no PTX; write the texts with --only=cuda")
    functions = assemble(PtxModule(chip[1].decode(), text)).functions
    return Figures(
        report["makespan_ns"],
        sum(f.spill_stores + f.spill_loads for f in functions),
        max(f.registers for f in functions),
    )


def table(pairs: Sequence[Pair]) -> list[str]:
    """What differs, and the totals."""
    lines = []
    for pair in sorted(pairs, key=lambda p: p.ratio):
        a, b = pair.before, pair.now
        if a != b:
            lines.append(
                f"{pair.ratio:.3f}  {a.spilled:5} -> {b.spilled:5} bytes  {a.registers:3} -> "
                f"{b.registers:3} registers  {pair.name}" + "  WORSE" * pair.is_worse
            )
    mean = math.exp(sum(math.log(pair.ratio) for pair in pairs) / len(pairs))
    spilled = [sum(getattr(p, side).spilled for p in pairs) for side in ("before", "now")]
    lines.append(
        f"{len(pairs)} cases: estimates {mean:.3f} of those before (geometric mean), spilled bytes "
        f"{spilled[0]} -> {spilled[1]}, {sum(p.is_worse for p in pairs)} worse"
    )
    return lines


def compare(before: Path, now: Path, workers: int) -> list[Pair]:
    """The cases of both folders. Raises CompilerError where there are none."""
    names = sorted({p.name for p in before.iterdir()} & {p.name for p in now.iterdir()})
    if not names:
        raise CompilerError(f"{before} and {now} have no case in common; write both with --texts")
    pairs = []

    def pair(name: str) -> Pair:
        return Pair(name, figures_of(before / name), figures_of(now / name))

    with ThreadPoolExecutor(workers) as pool:
        for found in pool.map(pair, names):
            pairs.append(found)
            doing(f"{len(pairs)}/{len(names)} {found.name}")
    return pairs


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 nothing is worse, 1 something is, 2 wrong arguments."""
    parser = Parser("compare_gpu", "Compare estimates and spills of GPU code of two commits.")
    parser.add_argument("before", type=Path, help="a folder that replay --texts wrote")
    parser.add_argument("now", type=Path, help="another one")
    parser.add_argument("--workers", type=positive, default=2, metavar="N", help="default: 2")
    options = parser.parse_args(argv)

    def run() -> int:
        pairs = compare(options.before, options.now, options.workers)
        print("\n".join(table(pairs)))
        return 1 if any(pair.is_worse for pair in pairs) else 0

    return guard("compare_gpu", run)


if __name__ == "__main__":
    sys.exit(main())
