"""What rc-opt hands to the process that does the work."""

import json
from dataclasses import asdict, dataclass


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
    schedule_form: bool
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
