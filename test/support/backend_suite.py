"""Run ONNX's standard backend cases through the front end and the naive runner.

    python test/support/backend_suite.py [--op Softmax] [--name REGEX] [--kind node] [--verbose]

Prints per operator how many cases pass, are wrong, are refused (with reasons) or fail. Inputs that
an operator needs while compiling (a Reshape's shape ...) are fixed to the case's values.
"""

import argparse
import collections
import re
import sys
import time
import traceback
from dataclasses import dataclass

import numpy as np
from backend_cases import KINDS, Case, cached, load_case
from naive_linalg import Runner
from onnx.backend.test.runner import Runner as OnnxRunner

from rcompiler.errors import CompilerError
from rcompiler.frontend import import_onnx
from rcompiler.frontend.dtypes import numpy_dtype, to_storage

RANDOM = re.compile("bernoulli|training_dropout|random|multinomial")


@dataclass
class Outcome:
    name: str
    op: str
    status: str  # pass | wrong | refused | error | crash
    reason: str = ""


def translate(model, names, inputs):
    """Import; inputs whose values the front end asks for are fixed, others get shapes."""
    arrays = dict(zip(names, inputs, strict=True))
    values: dict = {}
    for _ in range(6):
        shapes = {
            n: np.shape(x)
            for n, x in arrays.items()
            if n not in values and isinstance(x, np.ndarray | np.generic)
        }
        try:
            return import_onnx(model, shapes, values)
        except CompilerError as error:
            gap = getattr(error, "gap", None)
            fresh = [n for n in gap.needs if n not in values] if gap is not None else []
            if not fresh:
                raise
            values |= {n: arrays[n] for n in fresh}
    raise RuntimeError("inputs are asked for again and again")


def run_case(case: Case, runner: Runner) -> Outcome:
    model, sets, op = case.model, case.sets, case.op
    weights = {t.name for t in model.graph.initializer}
    names = [v.name for v in model.graph.input if v.name not in weights]
    for inputs, expected in sets:
        names_here = names if len(names) == len(inputs) else [v.name for v in model.graph.input]
        try:
            imported = translate(model, names_here[: len(inputs)], inputs)
        except CompilerError as error:
            return Outcome(case.name, op, "refused", f"{type(error).__name__}: {error}")
        except Exception:
            return Outcome(case.name, op, "error", traceback.format_exc()[-900:])
        arrays = dict(zip(names_here, inputs, strict=False))
        feeds = [to_storage(np.asarray(arrays[s.name]), s.dtype) for s in imported.inputs]
        try:
            raw = runner.run(imported.module_text, imported.constants, feeds)
        except RuntimeError as error:
            kind = "crash" if type(error).__name__ == "Crash" else "error"
            return Outcome(case.name, op, kind, str(error))
        results = [_back(r, s.dtype) for r, s in zip(raw, imported.outputs, strict=True)]
        try:
            if RANDOM.search(case.name):  # other numbers are right too: types and shapes count
                results = [
                    e if (e.dtype, e.shape) == (r.dtype, r.shape) else r
                    for e, r in zip(expected, results, strict=True)
                ]
            OnnxRunner.assert_similar_outputs(expected, results, case.rtol, case.atol)
        except (AssertionError, TypeError) as error:
            return Outcome(case.name, op, "wrong", str(error))
    return Outcome(case.name, op, "pass")


def _back(array: np.ndarray, dtype: str) -> np.ndarray:
    wanted = numpy_dtype(dtype)
    return array if array.dtype == wanted else array.view(wanted)


def cases(kinds, name: str | None, ops: list[str] | None):
    """The chosen cases."""
    pattern = re.compile(name or ".")
    wanted = {op.lower() for op in ops or []}
    for kind in kinds:
        for path in sorted(cached(kind).glob("*/*.pkl")):
            op = path.parent.name
            if pattern.search(path.stem) and (not wanted or op.lower() in wanted):
                yield load_case(path)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--op", action="append", help="only cases of this operator")
    parser.add_argument("--name", help="only cases whose name matches this expression")
    parser.add_argument("--kind", action="append", choices=KINDS, help="default: all but real")
    parser.add_argument("--log", action="store_true", help="print failures as they come")
    parser.add_argument("--verbose", action="store_true", help="print every case that fails")
    options = parser.parse_args(arguments)
    runner, start = Runner(), time.time()
    table: dict = collections.defaultdict(collections.Counter)
    reasons: collections.Counter = collections.Counter()
    failed = []
    for case in cases(options.kind or KINDS[:-1], options.name, options.op):
        outcome = run_case(case, runner)
        table[outcome.op][outcome.status] += 1
        if outcome.status != "pass":
            failed.append(outcome)
            if options.log:
                print(
                    f"{outcome.status}: {outcome.name} ({outcome.op}) "
                    f"{' '.join(outcome.reason.split())[:300]}",
                    flush=True,
                )
            reasons[outcome.op, re.sub(r"\d+", "#", outcome.reason)[:160]] += 1
    runner.close()
    for op, counts in sorted(table.items()):
        if counts["pass"] != sum(counts.values()) or len(table) < 12:
            print(f"{op:28}", ", ".join(f"{k} {v}" for k, v in counts.items()))
    if options.verbose:
        for outcome in failed:
            print(f"\n{outcome.status}: {outcome.name} ({outcome.op})\n  {outcome.reason[:900]}")
    else:
        for (op, reason), count in sorted(reasons.items()):
            print(f"  {count} x {op}: {' '.join(reason.split())[:200]}")
    total: collections.Counter = collections.Counter()
    for counts in table.values():
        total.update(counts)
    print(dict(total), f"{time.time() - start:.1f} s")
    return 0 if set(total) <= {"pass", "refused"} else 1


if __name__ == "__main__":
    sys.exit(main())
