"""The documents of this folder, and whether they say what the code says today."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from reference import api, commands, dialects, operators, passes, tried

HERE = Path(__file__).parent
COMMAND = "python docs/reference"
DOCUMENTS: Mapping[str, Callable[[], str]] = {
    "api.md": api.text,
    "commands.md": commands.text,
    "dialects.md": dialects.text,
    "operators.md": operators.text,
    "passes.md": passes.text,
    "tried.md": tried.text,
}


def made(name: str) -> str:
    """What a document has to be."""
    note = f"<!-- made by `{COMMAND}`: change the docstrings of the code, not this file -->\n\n"
    return note + DOCUMENTS[name]().rstrip() + "\n"


def outdated(folder: Path = HERE) -> list[str]:
    """The documents that are not there, or say something else than the code."""
    files = {name: folder / name for name in DOCUMENTS}
    return [n for n, file in files.items() if not file.exists() or file.read_text() != made(n)]


def main(options: Sequence[str]) -> int:
    """Write the documents; with --check only say which are out of date. Exit code: 0, 1, or 2."""
    if [*options] not in ([], ["--check"]):
        print(f"usage: {COMMAND} [--check]")
        return 2
    if options:
        late = outdated()
        for name in late:
            print(f"{name} is out of date: {COMMAND}")
        return int(bool(late))
    for name in DOCUMENTS:
        (HERE / name).write_text(made(name))
    return 0
