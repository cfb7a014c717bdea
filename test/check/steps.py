"""The steps of the check, in order. What each one may read decides whether it has to run."""

from __future__ import annotations

from dataclasses import dataclass

_PRODUCT = ("rcompiler/*", "dialects/*", "pipelines/*", "tools/*")


@dataclass(frozen=True)
class Step:
    """command: as in a shell without one; `{home}` stands for the folder of what is kept. reads:
    the files and folders (with a slash) that may change its outcome, with all that the `entries`,
    files of Python, can import. Where nothing is said to be read, it always runs.
    beside: it uses one core, and runs while others do. quick: it is a step of --changed, too.
    by_commit: it tests something else with each commit, so it always runs. needed: where it fails,
    no other step behind it can run.
    """

    name: str
    command: str
    reads: tuple[str, ...] = ()
    but: str = ""
    entries: tuple[str, ...] = ()
    beside: bool = False
    quick: bool = False
    by_commit: bool = False
    needed: bool = False


STEPS = (
    Step(
        "ruff",
        "ruff check --cache-dir {home}/ruff --output-format concise .",
        beside=True, quick=True,
    ),
    Step(
        "format",
        "ruff format --cache-dir {home}/ruff --check .",
        beside=True, quick=True,
    ),
    Step(
        "mypy",
        "mypy --cache-dir {home}/mypy -p rcompiler -p measurements -p oracles -p check",
        beside=True, quick=True,
    ),
    Step("lit", "lit -sv test", reads=(*_PRODUCT, "test/*"), but="*/test_*.py", quick=True),
    # Every case of ONNX's backend tests, each with the outcome that the record claims.
    Step(
        "conformance",
        "python tools/bench backend_coverage --json={home}/conformance.json "
        "--against=tools/bench/results/onnx-backend-coverage.json",
        reads=_PRODUCT,
    ),
    # A fixed set of compilations, whose stages and code are those of the record.
    Step(
        "replay",
        "python test/replay",
        reads=(*_PRODUCT, "test/replay/*"),
        entries=("test/replay/__main__.py",),
    ),
    # Every operator with each type of its inputs, on one of the CPU levels or the emulated GPU:
    # which one the commit says, so that a few commits have had all.
    Step("sweep", "python test/fuzz --kinds=sweep --commit-seeds", by_commit=True),
    # Operators with each type, attribute and optional input of each version, beside onnxruntime: a
    # part of them with each commit, and none may be worse than in the record.
    Step("operators", "python test/operators --commit-turn", by_commit=True),
    # The conformance cases as their schedules say, in numpy and without code, for a CPU and a GPU:
    # a part of them with each commit.
    Step("interpret", "python test/interpret --commit-turn", by_commit=True),
    # Cases of other projects' test suites, a part of them with each commit.
    Step("peers", "python test/peers --commit-turn", by_commit=True),
    # Random graphs, files and schedules: always the same ones ...
    Step(
        "fuzz",
        "python test/fuzz --cases=300",
        reads=(*_PRODUCT, "test/fuzz/*"),
        entries=("test/fuzz/__main__.py",),
    ),
    # ... and others that are new with each commit, with seeds of its hash, so that all who try it
    # try the same. What they find is printed with the command that makes it small.
    Step("new fuzz", "python test/fuzz --cases=250 --commit-seeds", by_commit=True),
)  # fmt: skip
