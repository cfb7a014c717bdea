"""Run ONNX's standard backend tests through rcompiler and count what passes.

    python tools/bench backend_coverage --only='softmax|conv' --json=coverage.json
    python tools/bench backend_coverage --target=cpu:v3

pass: right; wrong: another result; refused: a CompilerError says why not; crash: anything else (a
traceback, a signal, no result in time). Every case runs in one of a few worker processes. The table
groups what does not pass by operator (of the node that is refused, else the last one of the model).

Of the cases that pass, some prove less than others, and are counted apart: those whose operator
needs the value of an input while it is compiled (the target of a Reshape), and those that have no
other inputs, so that the compiler folded all of them.

With `--against=RECORD` the outcome of each case is compared with that in the record of an earlier
run, and a case that is in only one of the two, or has another status, is a failure.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import unittest
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx import ModelProto
from onnx.backend.base import Backend

from measurements._case_pool import Outcome, Report, Verdict, run_cases
from measurements._coverage_table import counted, kept_as_inputs, print_outcomes
from rcompiler.driver.host import target_device
from rcompiler.errors import CompilerError
from rcompiler.onnx_backend import Prepared, RCompilerBackend
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, pattern, positive
from rcompiler.tools._record import keep, read_record

if TYPE_CHECKING:
    from onnx.backend.test.runner import Runner

# The cases that are whole networks.
NETWORKS = re.compile("alexnet|densenet|inception|resnet|shufflenet|squeezenet|vgg|zfnet")
Test = Callable[[unittest.TestCase], None]


def operator_of(model: ModelProto) -> str:
    """The operator a case is about: of its last node that is not a Constant."""
    nodes = [n for n in model.graph.node if n.op_type != "Constant"] or list(model.graph.node)
    if not nodes:
        return "none"
    return f"{nodes[-1].domain}.{nodes[-1].op_type}".lstrip(".")


@dataclass
class Witness:
    """What is seen of the case at hand: called with its operator when its model is known, before it
    is compiled, and with what is refused.

    prepared: the case's model, None before it is known.
    """

    report: Report = lambda _: None
    prepared: Prepared | None = None

    def facts(self) -> dict[str, Any]:
        """baked: inputs that became constants; kept: those that are still inputs at run time."""
        if self.prepared is None:
            return {}
        return {"baked": list(self.prepared.baked), "kept": list(self.prepared.kept)}


def load_tests(
    pattern: str = "", witness: Witness | None = None, target: str = "cpu"
) -> dict[str, Test]:
    """Test functions by case name: node, simple, converted, operator and light model cases.

    target: to compile for, as for compile_onnx. witness: told of the model of each case.
    """
    from onnx.backend.test import BackendTest

    return tests_of(BackendTest, backend_of(witness or Witness(), target=target), pattern)


def backend_of(witness: Witness, **options: Any) -> type[RCompilerBackend]:
    """The backend that tests see. witness: told of each model. options: of its compilation."""

    class Observed(RCompilerBackend):
        @classmethod
        def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
            return True  # otherwise a refusal is a skipped test without its reason

        @classmethod
        def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
            witness.report(operator_of(model))
            witness.prepared = super().prepare(model, device, **options, **kwargs)
            return witness.prepared

    return Observed


def tests_of(runner: type[Runner], backend: type[Backend], pattern: str) -> dict[str, Test]:
    """Test functions by case name. runner: who calls a backend and compares what it gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the generators of the cases overflow on purpose
        classes = runner(backend).test_cases.values()
    wanted = re.compile(pattern)
    return {
        name.removesuffix("_cpu"): getattr(case, name)
        for case in classes
        for name in dir(case)
        if name.startswith("test_") and name.endswith("_cpu") and wanted.search(name)
    }


def run_test(test: Test, witness: Witness | None = None) -> Verdict:
    """The verdict on one case, in this process; witness: the one that `load_tests` was given."""
    seen = witness or Witness()
    seen.prepared = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            test(unittest.TestCase())
    except CompilerError as error:
        if error.gap is None:
            return Verdict("refused", str(error))
        if error.gap.op:
            seen.report(error.gap.op)
        return Verdict("refused", error.gap.reason)
    except unittest.SkipTest as error:
        return Verdict("refused", f"skipped: {error}")
    except AssertionError as error:
        return Verdict("wrong", str(error), seen.facts())
    except Exception as error:  # a bug of ours: counted, and named with where it came from
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        where = f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame else ""
        return Verdict("crash", f"{type(error).__name__} at {where}: {error}")
    return Verdict("pass", facts=seen.facts())


def differences(outcomes: Iterable[Outcome], record: Mapping[str, Any]) -> list[str]:
    """A line for each case whose status is not the one that `record` has of it."""
    claimed = {case["case"]: case["status"] for case in record["cases"]}
    found = {outcome.case: outcome.status for outcome in outcomes}
    return [
        f"{case}: {claimed.get(case, 'absent')} in the record, {found.get(case, 'absent')} here"
        for case in sorted(claimed.keys() | found.keys())
        if claimed.get(case) != found.get(case)
    ]


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a wrong result, a crash, or a difference from the record."""
    target_device(options.target)  # refuse a wrong one here, not in every case
    record = read_record(options.against) if options.against else None
    witness = Witness()
    tests = load_tests(options.only.pattern, witness, options.target)

    def job(case: str, report: Report) -> Verdict:
        witness.report = report
        return run_test(tests[case], witness)

    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ONNX_HOME"] = folder  # where onnx writes the data of its light models
        try:
            for outcome in run_cases(sorted(tests), job, options.workers, options.timeout):
                outcomes.append(outcome)
                doing(f"{len(outcomes)}/{len(tests)} {outcome.case[:60]}")
        except KeyboardInterrupt:
            print(f"interrupted after {len(outcomes)} of {len(tests)} cases", file=sys.stderr)
    outcomes.sort(key=lambda outcome: outcome.case)
    counts = counted(outcomes)
    print_outcomes(outcomes, options.verbose)
    keep(
        options,
        target=options.target,
        counts=counts,
        passed=kept_as_inputs(outcomes),
        cases=[asdict(outcome) for outcome in outcomes],
    )
    changed = differences(outcomes, record) if record is not None else []
    for line in changed:
        print(line)
    return 1 if counts["wrong"] or counts["crash"] or changed else 0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only", type=pattern, default=pattern(""), metavar="REGEX", help="cases by their names"
    )
    parser.add_argument(
        "--target", default="cpu", metavar="NAME", help="cpu (default), cpu:v3 or cpu:x86-64"
    )
    parser.add_argument("--workers", type=positive, default=2, metavar="N", help="default: 2")
    parser.add_argument(
        "--timeout", type=positive, default=120, metavar="S", help="seconds per case; default: 120"
    )
    parser.add_argument("--json", metavar="FILE", help="write counts and the outcome of each case")
    parser.add_argument(
        "--against", metavar="RECORD", help="a record of these cases, which must say the same"
    )
    parser.add_argument("--verbose", action="store_true", help="print each case that fails in full")


main = Command(__name__, __doc__, _options, _run)
