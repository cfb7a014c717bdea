"""Make the records of this commit: conformance, latencies and compile times, by one command.

    python tools/bench make_records --machine=zen5-2cpu
    python tools/bench make_records conformance

A record that was measured on changed sources says nothing of the commit that it names, so a tree
with changes is refused. Each record keeps a digest of the sources that it was made of, and a test
compares that with the commit. A record is replaced only when its command has ended well.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from measurements import command
from rcompiler.errors import CompilerError
from rcompiler.tools._command import Command
from rcompiler.tools._console import items
from rcompiler.tools._record import SOURCES, commit, sources_here

RESULTS = Path(__file__).resolve().parents[1] / "results"
_NETWORKS = (
    "resnet50,bert_base,mobilenet_v2,squeezenet1_1,shufflenet,densenet121,resnext29,vit_b16,"
    "gpt2_small,tiny_llama"
)
# Short and long kernels, many signals and few: what other programs disturb most and least.
_BESIDE = "deepspeech2_gru,shufflenet,mobilenet_v3,seq2seq,tiny_llama,resnet50"


@dataclass(frozen=True)
class Kind:
    """A record: the file, where {machine} stands for whose figures they are, and its command."""

    file: str
    command: tuple[str, ...]


KINDS = {
    "conformance": Kind("onnx-backend-coverage.json", ("backend_coverage",)),
    "latency": Kind(
        "latency-{machine}.json", ("rc_bench", f"--models={_NETWORKS}", "--threads=1,2")
    ),
    "beside": Kind(
        "latency-beside-{machine}.json",
        ("rc_bench", f"--models={_BESIDE}", "--threads=2", "--beside=0,1,2", "--seconds=10"),
    ),
    "compile": Kind("gpu-compile-f32.json", ("gpu_compile_bench", "--precisions=f32")),
    "operators": Kind("operators-{machine}.json", ("operator_bench",)),
}


def require_clean(folder: Path) -> None:
    """Raises CompilerError where `folder` is in no checkout, or in one with changes."""
    found = commit(folder)
    if found is None:
        raise CompilerError(f"'{folder}' is in no git checkout; make records in a clone")
    if found.endswith("-dirty"):
        raise CompilerError(
            f"files in '{folder}' differ from commit {found.removesuffix('-dirty')[:12]}, which "
            "the records would name; commit the changes first"
        )


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: one is not made."""
    require_clean(SOURCES)
    for name in options.records:
        kind = KINDS[name]
        if "{machine}" in kind.file and not options.machine:
            raise CompilerError(f"whose figures are those of '{name}'? say --machine=NAME")
    sources = sources_here(SOURCES)
    made: dict[Path, str] = {}
    try:
        for name in options.records:
            kind = KINDS[name]
            text = _measured(kind)
            if sources_here(SOURCES) != sources:
                raise CompilerError(f"sources changed while '{name}' was measured; make it again")
            made[RESULTS / kind.file.format(machine=options.machine)] = text
    finally:  # all at the end: a record that is written is a change of the tree
        for path, text in made.items():
            path.write_text(text)
            print(f"{path.name} is made")
    return 0


def _measured(kind: Kind) -> str:
    """The text of a record. Raises CompilerError where its command fails."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "record.json")
        module, *given = kind.command
        ours = [sys.executable, "-m", f"rcompiler.tools.{module}"]
        run = [*(ours if module == "rc_bench" else command(module)), *given, f"--json={file}"]
        print("$", *run[1:], flush=True)
        code = subprocess.run(run, check=False).returncode
        if code:
            raise CompilerError(f"{module} ended with exit code {code}; its record stays as it is")
        return file.read_text()


def _records(text: str) -> list[str]:
    for name in (names := items(text)):
        if name not in KINDS:
            raise argparse.ArgumentTypeError(f"no record {name!r}; there are: {', '.join(KINDS)}")
    return names


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "records",
        nargs="?",
        type=_records,
        default=list(KINDS),
        metavar="NAMES",
        help=f"some of {','.join(KINDS)}; default: all",
    )
    parser.add_argument("--machine", default="", metavar="NAME", help="in names of latency records")


main = Command(__name__, __doc__, _options, _run)
