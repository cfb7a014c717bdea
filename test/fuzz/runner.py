"""Cases of many seeds in worker processes, counted, and the findings made small."""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import onnx
from measurements._case_pool import LATE, Outcome, Verdict, run_cases

from rcompiler.errors import CompilerError
from rcompiler.tools._command import Command, Misused
from rcompiler.tools._console import doing, items, positive
from rcompiler.tools._record import commit

from . import graphs, judge, kinds, sweep
from .judge import Report
from .reduce import reduced

MEMORY = 12 << 30  # bytes of address space of a worker
_CORPUS = Path("build/fuzz")


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: findings. Refusals are counted, and are none; nor are defects of the fuzzer
    itself where a commit gives the seeds."""
    unknown = [k for k in options.kinds if k not in kinds.KINDS]
    if unknown:
        raise Misused(f"--kinds: no {unknown[0]}")
    bounded = options.kinds == ["sweep"] or options.cases < 1 << 40 or options.seconds < 1 << 40
    if options.seed is None and not bounded:
        raise Misused("give --seed, --cases or --seconds")
    # Tiles do not depend on who measured what where.
    os.environ.setdefault("RC_DEVICE", "default")
    return _many(options) if options.seed is None else _one(options)


def _seeds(options: argparse.Namespace) -> Iterator[str]:
    """Kind and seed of each case, until there are enough or the time is over."""
    first = _first(options)
    asked = options.kinds or list(kinds.SHARES)
    turns = [kind for kind in asked for _ in range(kinds.SHARES[kind] if not options.kinds else 1)]
    print(f"seeds from {first} on, of {', '.join(asked)}", flush=True)
    end = time.monotonic() + options.seconds
    seeds: Sequence[int] = range(first, first + options.cases)
    if asked == ["sweep"]:
        seeded = options.new_seeds or options.commit_seeds
        seeds = (sweep.turn(first) if seeded else range(sweep.size()))[: options.cases]
    for i, seed in enumerate(seeds):
        if time.monotonic() > end:
            return
        yield f"{turns[i % len(turns)]}:{seed}"


def _first(options: argparse.Namespace) -> int:
    """The first seed. Raises CompilerError where it is to be made of a commit and there is none."""
    if options.new_seeds:
        return int.from_bytes(os.urandom(4))
    if not options.commit_seeds:
        return int(options.first)
    found = commit(Path(__file__).parent)
    if found is None:
        raise CompilerError("these sources are no git checkout; give --first=N or --new-seeds")
    return int(found[:8], 16)


def _many(options: argparse.Namespace) -> int:
    counts: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    tried: Counter[str] = Counter()  # mutants of each kind, else cases
    aimed: Counter[str] = Counter()  # graphs of each target
    findings: dict[tuple[str, str], list[Outcome]] = {}
    begun = time.monotonic()

    def job(case: str, report: Report) -> Verdict:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        kind, seed = case.split(":")
        return _verdict(lambda: kinds.KINDS[kind](int(seed), options.targets, report))

    for outcome in run_cases(_seeds(options), job, options.workers, options.timeout):
        status, key = _classified(outcome)
        counts[status] += 1
        kind = outcome.case.partition(":")[0]
        spent[kind] += outcome.seconds
        if status not in judge.GOOD:
            findings.setdefault((status, key), []).append(outcome)
            print(f"{outcome.case} {status}: {key}", flush=True)
        elif options.verbose and status != "ok":
            print(f"{outcome.case} {status}: {outcome.reason[-300:]}")
        done = sum(counts.values())
        doing(f"{done} cases, {sum(map(len, findings.values()))} findings")
        tried[kind] += outcome.facts.get("tried", 0)  # none where it crashed
        aimed[outcome.facts.get("target", "")] += kind == "graph"
    seconds = time.monotonic() - begun
    total = sum(counts.values())
    print(", ".join(f"{n} {status}" for status, n in counts.most_common()), f"of {total}")
    shares = ", ".join(f"{tried[kind]} {kind} in {s:.0f} s" for kind, s in spent.most_common())
    print(f"{seconds:.0f} s, {total / max(seconds, 1e-9):.2f} cases/s; {shares}")
    graphs_of = ", ".join(f"{aimed[t]} on {t}" for t in graphs.TARGETS if aimed[t])
    bytes_of = ", ".join(f"{tried[k]} of {k}" for k in kinds.BYTES if k in tried)
    for what, counted in ("graphs judged", graphs_of), ("byte mutations", bytes_of):
        if counted:
            print(f"{what}: {counted}")
    for (status, key), outcomes in sorted(findings.items(), key=lambda f: -len(f[1])):
        _tell(status, key, outcomes, options)
    return 1 if any(status not in _no_failures(options) for status, _ in findings) else 0


def _no_failures(options: argparse.Namespace) -> tuple[str, ...]:
    """Findings that do not fail a run. With seeds of a commit, which tell of others at each commit,
    these are also defects of the fuzzer: they are told, and say nothing of the commit."""
    return ("refused", "harness") if options.commit_seeds else ("refused",)


def _outcome(judged: Callable[[], judge.Outcome]) -> judge.Outcome:
    """Of a case, also where judging it raises an error."""
    try:
        return judged()
    except Exception as error:
        return judge.raised(error)


def _verdict(judged: Callable[[], judge.Outcome]) -> Verdict:
    found = _outcome(judged)
    facts = {"key": found.key, "target": found.target, "tried": found.tried}
    return Verdict(found.status, found.reason, facts)


def _classified(outcome: Outcome) -> tuple[str, str]:
    """(status, key); of a crash also what was at work when the process ended."""
    if outcome.status == "crash":
        if outcome.subject in ("generate", "judge"):
            return "harness", f"{outcome.subject}: {outcome.reason[:80]}"  # a defect of the fuzzer
        if outcome.subject == "onnxruntime":
            return "reference crash", outcome.subject
        if outcome.reason == LATE:
            return "hang", outcome.subject
        return "crash", f"{outcome.subject}: {outcome.reason[:80]}"
    return outcome.status, str(outcome.facts["key"])


def _tell(status: str, key: str, outcomes: list[Outcome], options: argparse.Namespace) -> None:
    first = min(outcomes, key=lambda o: len(o.reason))
    warning = "warning: " if status in _no_failures(options) else ""
    print(f"\n{warning}{status.upper()} {key} ({len(outcomes)} times)")
    kind, seed = first.case.split(":")
    targets = f" --targets={','.join(options.targets)}" if options.targets != graphs.TARGETS else ""
    print(f"  python test/fuzz --kinds={kind} --seed={seed}{targets}")
    print("  also", " ".join(o.case for o in outcomes[:8]))
    print("  " + first.reason[-1500:].replace("\n", "\n  "))


def _one(options: argparse.Namespace) -> int:
    """One case here, made small in processes of its own where something is found."""
    (kind,) = options.kinds if len(options.kinds) == 1 else ("graph",)
    if kind not in kinds.OF_GRAPHS:
        found = kinds.KINDS[kind](options.seed, options.targets, lambda stage: None)
        print(f"{found.status}: {found.key}\n{found.reason}")
        return 0 if found.good else 1
    case_of, judged_by = kinds.OF_GRAPHS[kind]
    case = case_of(options.seed, options.targets)
    print(graphs.described(case.options))
    print(onnx.printer.to_text(case.model))
    judged = _apart(case, judged_by, options.timeout)
    print(f"{judged.status}: {judged.key}\n{judged.reason}")
    if judged.good:
        return 0
    ended = judged.status in ("crash", "hang")  # else a process for each try is waste
    small, outcome = reduced(
        case,
        lambda c: (
            _apart(c, judged_by, options.timeout) if ended else _outcome(lambda: judged_by(c))
        ),
    )
    _CORPUS.mkdir(parents=True, exist_ok=True)
    file = _CORPUS / f"seed{options.seed}.onnx"
    onnx.save(small.model, file)
    print(f"\nreduced, in {file}: {outcome.status}: {outcome.reason[-600:]}")
    print(f"rcompiler.compile_onnx('{file}', {graphs.described(small.options)})")
    print(onnx.printer.to_text(small.model))
    for name, array in small.feeds.items():
        print(f"{name} = {array.tolist() if array.size < 40 else array.shape}")
    return 1


def _apart(
    case: graphs.Case, judged_by: Callable[..., judge.Outcome], timeout_s: float
) -> judge.Outcome:
    """Judged in a process of its own, which may crash."""

    def job(_: str, report: Report) -> Verdict:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        return _verdict(lambda: judged_by(case, report))

    (outcome,) = run_cases(["graph:0"], job, 1, timeout_s)
    status, key = _classified(outcome)
    return judge.Outcome(status, outcome.reason, key)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, help="this case only, and make it small")
    parser.add_argument("--new-seeds", action="store_true", help="from a random seed on")
    parser.add_argument("--commit-seeds", action="store_true",
                        help="from a seed on that the commit gives: new with each one, and "
                        "the same for all who try it")  # fmt: skip
    parser.add_argument("--first", type=int, default=0, metavar="N", help="first seed; default: 0")
    parser.add_argument("--cases", type=positive, default=1 << 40, metavar="N", help="how many")
    parser.add_argument("--seconds", type=positive, default=1 << 40, metavar="S", help="how long")
    parser.add_argument("--targets", type=_targets, default=graphs.TARGETS, metavar="NAMES",
                        help=f"of {', '.join(graphs.TARGETS)}")  # fmt: skip
    parser.add_argument("--kinds", type=items, default=[], metavar="NAMES",
                        help=f"of {', '.join(kinds.KINDS)}; default: all")  # fmt: skip
    parser.add_argument("--workers", type=positive, default=2, metavar="N", help="default: 2")
    parser.add_argument("--timeout", type=positive, default=120, metavar="S", help="of a case")
    parser.add_argument("--verbose", action="store_true", help="what nothing can be said of, too")


def _targets(text: str) -> tuple[str, ...]:
    """Targets that begin with one of the names."""
    found = tuple(t for t in graphs.TARGETS for name in items(text) if t.startswith(name))
    if not found:
        raise argparse.ArgumentTypeError(f"no target is called {text!r}")
    return found


main = Command("fuzz", __doc__, _options, _run)
