"""The documents of the repository: their fenced blocks, which run, and their links, which lead.

What a block is follows its info string: `python` blocks of one document run in order in one
namespace, `sh` blocks in bash with `set -e`, `console` blocks likewise (the lines behind "$ "), all
in one temporary folder; `mlir` is a whole module, which has to parse; `text` is not run. Comments
of HTML directly above a block say more about it:

    <!-- not run: why -->     a block that cannot run here
    <!-- needs: a b -->       a block that runs only where these packages are installed
    <!-- file: even.py -->    the block is written to that file of the folder, too
    <!-- from: s2.mlir -->    the block is an excerpt of that file, which blocks above have made
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from types import ModuleType

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from served.start import Served, wanted  # noqa: E402

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LANGUAGES = ("python", "sh", "console", "mlir", "text")
NOTES = ("not run", "needs", "file", "from")
NOTE = re.compile(r"\s*<!-- ([^:]*?)(?::(.*))?-->\s*$")
FENCE = re.compile(r"(\s*)```(.*)$")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:\.ci|dialects|docs|pipelines|rcompiler|test|tools)/[\w./-]*)`")
SECONDS = 240


class BadDocument(AssertionError):
    """What a document says does not hold; the message begins with its file and line."""


@dataclass
class Block:
    """A fenced block. line: of its first line of text, from 1; notes: what comments above say."""

    where: str
    line: int
    info: str
    text: str
    notes: dict[str, str] = field(default_factory=dict)

    def wrong(self, what: str) -> BadDocument:
        return BadDocument(f"{self.where}:{self.line}: {what}")


def blocks(text: str, where: str = "document") -> list[Block]:
    """All fenced blocks, in order. Raises BadDocument for what it cannot take as one."""
    found: list[Block] = []
    notes: dict[str, str] = {}
    block: Block | None = None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if block is None and fence:
            block = Block(where, number + 1, fence[2].strip(), "", notes)
            notes = {}
        elif block is not None and fence:
            block.text = dedent(block.text)
            _check(block)
            found.append(block)
            block = None
        elif block is not None:
            block.text += line + "\n"
        else:
            note = NOTE.match(line)
            notes = {**notes, note[1].strip(): (note[2] or "").strip()} if note else {}
    if block is not None:
        raise block.wrong("the block does not end")
    return found


def _check(block: Block) -> None:
    if block.info not in LANGUAGES:
        raise block.wrong(f"'{block.info}' is none of {', '.join(LANGUAGES)}")
    for note, value in block.notes.items():
        if note not in NOTES:
            raise block.wrong(f"'{note}' is none of {', '.join(NOTES)}")
        if not value:
            raise block.wrong(f"'{note}' without {'a reason' if note == 'not run' else 'a name'}")


def run(found: list[Block], folder: Path) -> None:
    """Run the blocks of one document in a folder, which is the current one of this process.

    Raises BadDocument for the first one that fails.
    """
    for name in ("test", "tools"):
        (folder / name).symlink_to(ROOT / name)
    module = ModuleType("document")
    before = {*sys.modules}
    sys.modules["document"] = module
    sys.path.insert(0, str(folder))
    try:
        for block in found:
            needed = block.notes.get("needs", "").split()
            if "not run" not in block.notes and all(map(find_spec, needed)):
                _run(block, folder, module)
    finally:
        sys.path.remove(str(folder))
        for name in {*sys.modules} - before:
            home = getattr(sys.modules[name], "__file__", None)
            if name == "document" or (home and Path(home).parent == folder):
                del sys.modules[name]


def _run(block: Block, folder: Path, module: ModuleType) -> None:
    if "file" in block.notes:
        (folder / block.notes["file"]).write_text(block.text)
    if "from" in block.notes:
        _excerpt(block, folder / block.notes["from"])
    elif block.info == "python":
        code = "\n" * (block.line - 1) + block.text
        try:
            exec(compile(code, block.where, "exec"), module.__dict__)
        except Exception as error:
            raise block.wrong(f"{type(error).__name__}: {error}") from error
    elif block.info == "sh":
        _bash(block, block.text, folder)
    elif block.info == "console":
        lines = block.text.splitlines()
        _bash(block, "\n".join(x[2:] for x in lines if x.startswith("$ ")), folder)
    elif block.info == "mlir":
        (folder / "block.mlir").write_text(block.text)
        _bash(block, "rc-opt block.mlir -o parsed.mlir", folder)


def _bash(block: Block, text: str, folder: Path) -> None:
    environment = _environment()
    if wanted():
        folder_of_commands = str(_served().folder)
        environment["PATH"] = os.pathsep.join([folder_of_commands, environment["PATH"]])
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            **{"cwd": folder, "env": environment, "timeout": SECONDS},
            **{"stdin": subprocess.DEVNULL, "capture_output": True, "text": True},
        )
    except subprocess.TimeoutExpired as error:
        raise block.wrong(f"it takes more than {SECONDS} seconds") from error
    if done.returncode:
        raise block.wrong(
            f"exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        )


def _environment() -> dict[str, str]:
    """A user's, in whose shell this environment is active."""
    paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(paths)}
    # a script finds what is beside it, as in a user's shell
    environment.pop("PYTHONSAFEPATH", None)
    return environment


@cache
def _served() -> Served:
    """Of all documents that this process runs."""
    return Served(_environment())


def _excerpt(block: Block, file: Path) -> None:
    """Its words are in the file, in this order; "..." is any text, also of several lines."""
    text, at = " ".join(file.read_text().split()), 0
    for part in block.text.split("..."):
        words = " ".join(part.split())
        found = text.find(words, at)
        if found < 0:
            raise block.wrong(f"{file.name} does not say there: {words}")
        at = found + len(words)


def prose(text: str) -> str:
    """The text without its blocks."""
    return re.sub(r"^(\s*)```.*?^\s*```\s*$", "", text, flags=re.S | re.M)


def anchors(text: str) -> set[str]:
    """What links may name behind '#', as GitHub makes it of headings."""
    found: set[str] = set()
    for heading in re.findall(r"^#+\s+(.*?)\s*$", prose(text), re.M):
        words = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
        name, number = words.replace(" ", "-"), 0
        while name in found:
            number += 1
            name = f"{words.replace(' ', '-')}-{number}"
        found.add(name)
    return found


def bad_links(path: Path, root: Path = ROOT) -> list[str]:
    """Links of a document that lead nowhere, and files that it names and that do not exist."""
    text = prose(path.read_text())
    bad = [f"`{name}`" for name in PATH.findall(text) if not (root / name).exists()]
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        if not file.exists() or root not in file.resolve().parents:
            bad.append(target)
        elif anchor and anchor not in anchors(file.read_text()):
            bad.append(target)
    return bad
