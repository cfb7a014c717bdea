"""What rc-opt hands to the process that does the work; running that, and explaining its death.

MLIR reports some errors by aborting, and deep input can overflow its stack; neither can be
caught inside the process. The worker notes its progress in a file: the module it is at, then
`done`. After a crash it runs once more with a mark before each pass, to learn which one it was.
"""

import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

# -P: the folder of the caller is no place to import from.
_WORKER = (sys.executable, "-P", "-m", "rcompiler.tools._rc_opt_worker")


@dataclass(frozen=True)
class Job:
    """The arguments of rc-opt, each under the name of its flag."""

    input: str
    output: str
    pass_pipeline: str
    reproducer: str
    run_reproducer: bool
    split_input_file: bool
    verify_diagnostics: bool
    allow_unregistered_dialect: bool
    dump_pass_pipeline: bool
    print_ir_before_all: bool
    print_ir_after_all: bool
    timing: bool
    list_passes: bool
    progress: str = ""  # a file in which the worker notes how far it came
    trace: bool = False  # note each pass, too; its markers would show in --print-ir-*

    def to_json(self) -> str:
        """One line of text; `from_json` is the inverse."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Chunk:
    """One module of the input: its text and how many lines of the file stand before it."""

    text: str
    first_line: int


def chunks(text: str, split: bool) -> list[Chunk]:
    """The modules of a file: divided at lines of `// -----` if `split`, else one."""
    found: list[Chunk] = []
    lines: list[str] = []
    first = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if split and line.startswith("// -----"):
            found.append(Chunk("".join(lines), first))
            lines, first = [], number
        else:
            lines.append(line)
    return [*found, Chunk("".join(lines), first)]


def run(job: Job, text: str) -> int:
    """The exit code of the job over the input `text`; a crash is 1, after one line about it."""
    with tempfile.TemporaryDirectory(prefix="rc-opt-") as folder:
        job = replace(job, progress=str(Path(folder, "progress")))
        code = _work(job, text, quiet=False)
        notes = _notes(job)
        if notes[-1] == "done":
            return code
        if code == 130:  # interrupted
            return code
        _work(replace(job, trace=True, output="", reproducer=""), text, quiet=True)
        place = _notes(job)[-1]
        print(f"rc-opt: {_obituary(job, text, code, place)}", file=sys.stderr)
    return 1


def _work(job: Job, text: str, quiet: bool) -> int:
    Path(job.progress).write_text("start\n")
    sink = subprocess.DEVNULL if quiet else None
    sys.stdout.flush()
    return subprocess.run(
        [*_WORKER, job.to_json()], input=text.encode(), stdout=sink, stderr=sink, check=False
    ).returncode


def _notes(job: Job) -> list[str]:
    return Path(job.progress).read_text().splitlines()


def _obituary(job: Job, text: str, code: int, place: str) -> str:
    """One line: what happened, where, and the reproducer that was written."""
    from rcompiler.passes import _reproducer

    index, _, what = place.partition(" ")
    if not index.isdigit():
        return f"{job.input}: {_cause(code)} at '{place}', before the first module"
    chunk = chunks(text, job.split_input_file)[int(index)]
    path = job.reproducer
    if not path:
        handle, path = tempfile.mkstemp(prefix="rc-opt-", suffix=".mlir")
        open(handle, "w").close()
    _reproducer.write(path, chunk.text, job.pass_pipeline, job.allow_unregistered_dialect)
    return (
        f"{job.input}:{chunk.first_line + 1}: {_cause(code)} in {what}; to see it again: "
        f"rc-opt --run-reproducer {path}"
    )


def _cause(code: int) -> str:
    if code >= 0:
        return "MLIR ended the process"
    hint = {
        signal.SIGSEGV: ", a fault or a stack overflow",
        signal.SIGKILL: ", perhaps for want of memory",
    }
    number = signal.Signals(-code)
    return f"MLIR crashed ({number.name}{hint.get(number, '')})"
