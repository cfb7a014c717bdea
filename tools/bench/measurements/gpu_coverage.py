"""ONNX's standard backend tests on a GPU, in two steps: compiled here, run where the GPU is.

    python tools/bench gpu_coverage compile -o DIR         # no GPU; all compiler packages
    python tools/bench gpu_coverage run DIR --json=gpu.json   # a GPU; numpy, cuda-bindings

compile adds the cases of `backend_coverage` to DIR: artifacts with PTX alone and without stage
texts, inputs, what ONNX expects and how nearly, and why the others are refused. Whole networks only
where they are asked for.

run has the verdicts of `backend_coverage`: pass; wrong: another result; crash: the model cannot be
loaded or launched, or its process ended or is late; refused, as compile has said. A case that is
wrong or a crash does not end the others.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, pattern, positive, seconds

if TYPE_CHECKING:
    from measurements._case_pool import Outcome
    from measurements._gpu_coverage_cases import Case
    from measurements._packed_folder import PackedFolder

NAME = "gpu_coverage"
_OFTEN = 100  # cases from one record to the next of a run, or a compilation, that may be ended


# -- compile ---------------------------------------------------------------------------------------
def _compile(given: argparse.Namespace) -> int:
    from measurements._case_pool import run_cases
    from measurements._gpu_bench_compile import nvidia_gpu
    from measurements._gpu_coverage_cases import add_cases
    from measurements._gpu_coverage_compile import Recorder, compiling
    from measurements._packed_folder import PackedFolder
    from measurements.backend_coverage import NETWORKS
    from rcompiler.tools._record import SOURCES, commit

    nvidia_gpu(given.target)  # refuse a wrong one here, not in every case
    folder = PackedFolder(given.output)
    folder.create()
    recorder = Recorder(given.only.pattern, given.target)
    names = sorted(n for n in recorder.tests if given.networks or not NETWORKS.search(n))
    job, made_by = compiling(folder, recorder), commit(SOURCES)
    cases: list[Case] = []
    with tempfile.TemporaryDirectory() as home:
        os.environ["ONNX_HOME"] = home  # where onnx writes the data of its light models
        for outcome in run_cases(names, job, given.jobs, given.timeout):
            cases.append(_case(outcome, given.target, made_by))
            doing(f"{len(cases)}/{len(names)} {outcome.case[:60]}")
            if len(cases) % _OFTEN == 0:
                add_cases(folder, cases)
    add_cases(folder, cases)
    return _told(folder, cases)


def _case(outcome: Outcome, target: str, commit: str | None) -> Case:
    from measurements._gpu_coverage_cases import Case, Run

    facts = dict(outcome.facts)
    runs = [Run(**run) for run in facts.pop("runs", [])]
    about = outcome.case, outcome.subject, target, outcome.status, outcome.reason
    return Case(*about, facts, runs, commit)


def _told(folder: PackedFolder, cases: Sequence[Case]) -> int:
    from measurements._gpu_coverage_cases import COMPILED
    from rcompiler.tools._console import report

    done = sum(case.status == COMPILED for case in cases)
    refused = sum(case.status == "refused" for case in cases)
    size = f"{folder.nbytes / 1e6:.1f} MB in all"
    print(f"{folder.path}: {done} cases compiled, {refused} refused of {len(cases)}; {size}")
    failed = [case for case in cases if case.status not in (COMPILED, "refused")]
    return report(NAME, (f"{case.status}: {case.name}: {case.reason}" for case in failed))


# -- run -------------------------------------------------------------------------------------------
def _run(given: argparse.Namespace) -> int:
    """Exit code 1: a wrong result or a crash."""
    from measurements._coverage_table import counted, print_outcomes
    from measurements._packed_folder import PackedFolder

    folder = PackedFolder(given.folder)
    cases = _chosen(folder, given)
    device = _device(folder, cases)
    outcomes: list[Outcome] = []
    for outcome in _outcomes(folder, cases, given):
        outcomes.append(outcome)
        doing(f"{len(outcomes)}/{len(cases)} {outcome.case[:60]}")
        if given.json and (len(outcomes) % _OFTEN == 0 or len(outcomes) == len(cases)):
            _write(given, device, cases, outcomes)
    print_outcomes(sorted(outcomes, key=lambda outcome: outcome.case), given.verbose)
    counts = counted(outcomes)
    return 1 if counts["wrong"] or counts["crash"] else 0


def _chosen(folder: PackedFolder, given: argparse.Namespace) -> dict[str, Case]:
    """By names; those for several targets are told apart."""
    from measurements._gpu_coverage_cases import read_cases
    from rcompiler.errors import CompilerError

    found = [case for case in read_cases(folder) if given.only.search(case.name)]
    if not found:
        raise CompilerError(
            f"{given.folder}: holds no such case; make it with {NAME} compile -o {given.folder}"
        )
    targets = sorted({case.target for case in found})
    several = len(targets) > 1
    return {f"{case.name}, {case.target}" if several else case.name: case for case in found}


def _device(folder: PackedFolder, cases: dict[str, Case]) -> dict[str, Any]:
    """What the cases run on, asked in a process of its own: one that forks must not open it.

    Raises DeviceError where there is nothing.
    """
    from measurements._case_pool import run_cases
    from measurements._gpu_coverage_run import describing
    from rcompiler.errors import CompilerError, DeviceError

    first = next((name for name, case in cases.items() if case.runs), None)
    if first is None:
        raise CompilerError(f"{folder.path}: nothing of this is compiled; there is nothing to run")
    [told] = run_cases([first], describing(folder, cases[first].runs[0]), 1, 120.0)
    if told.status != "pass":
        raise DeviceError(told.reason)
    return dict(told.facts)


def _outcomes(
    folder: PackedFolder, cases: dict[str, Case], given: argparse.Namespace
) -> Iterator[Outcome]:
    """Of those that are not compiled, what compile has said of them."""
    from measurements._case_pool import Outcome, run_cases
    from measurements._gpu_coverage_run import running

    for name, case in cases.items():
        if not case.runs:
            yield Outcome(name, case.operator, case.status, case.reason, 0.0)
    names = [name for name, case in cases.items() if case.runs]
    yield from run_cases(names, running(folder, cases, given.wait_limit), given.jobs, given.timeout)


def _write(
    given: argparse.Namespace,
    device: dict[str, Any],
    cases: dict[str, Case],
    outcomes: Sequence[Outcome],
) -> None:
    from measurements._coverage_table import counted, kept_as_inputs
    from rcompiler.tools._record import keep

    keep(
        given,
        gpu=device,
        targets=sorted({case.target for case in cases.values()}),
        compiled_by=sorted({case.commit or "unknown" for case in cases.values()}),
        counts=counted(outcomes),
        passed=kept_as_inputs(outcomes),
        cases=[asdict(o) for o in sorted(outcomes, key=lambda outcome: outcome.case)],
    )


# -- options ---------------------------------------------------------------------------------------
def _options(parser: argparse.ArgumentParser) -> None:
    parts = parser.add_subparsers(required=True, dest="command", metavar="compile|run")
    made = parts.add_parser(
        "compile", description="Compile cases into a folder; needs no GPU.", help="no GPU needed"
    )
    _common(made)
    made.add_argument("--target", default="cuda:h200", metavar="NAME", help="default: cuda:h200")
    made.add_argument("--networks", action="store_true", help="with the whole networks")
    made.add_argument("-o", "--output", required=True, metavar="DIR", help="folder to add to")
    run = parts.add_parser("run", description="Run what a folder holds.", help="run a folder")
    run.add_argument("folder", metavar="DIR", help=f"made by {NAME} compile")
    _common(run)
    run.add_argument(
        "--wait-limit", type=seconds, default=10.0, metavar="S",
        help="a wait inside of a kernel that takes longer ends it; default: 10",
    )  # fmt: skip
    run.add_argument("--json", metavar="FILE", help="write verdicts and their circumstances")
    run.add_argument("--verbose", action="store_true", help="print each case that fails in full")


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only",
        type=pattern,
        default=pattern(""),
        metavar="REGEX",
        help="cases whose name matches",
    )
    parser.add_argument("--jobs", type=positive, default=2, metavar="N", help="default: 2")
    parser.add_argument(
        "--timeout", type=seconds, default=120.0, metavar="S", help="seconds per case; default: 120"
    )


def _work(given: argparse.Namespace) -> int:
    return {"compile": _compile, "run": _run}[given.command](given)


main = Command(__name__, __doc__, _options, _work)
