"""Compiled files with changed bytes, loaded and run in a child that may die of them.

    python test/fuzz/artifact_bytes.py --mutations=100000 --seed=1

Two kinds of change. "raw": bytes anywhere, hashes as they were: every such file must be refused.
"rehashed": header, notes, certificate, tables and texts, with all hashes right again: the file is
refused with a typed error, or it is as good as the one that it was made of and gives its results.
Code and weights are not changed with right hashes: they are believed. So is which of the weights an
operator reads, where tables and proof agree on another one: such a file is another model, and has
to give the results of the first one with that weight in the other's place.

The child goes on from mutation to mutation; only a crash or a hang makes a new one. A mutation is
known by seed and number: `--first=N --mutations=1` does it again, `--keep=FILE` writes its bytes.
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from recrafted import joined, split  # noqa: E402

import rcompiler  # noqa: E402
from rcompiler.errors import CompilerError  # noqa: E402
from rcompiler.runtime import tables  # noqa: E402
from rcompiler.runtime.artifact import Artifact  # noqa: E402
from rcompiler.support.random_inputs import random_inputs  # noqa: E402
from rcompiler.tools import models  # noqa: E402

_PATIENCE_S = 60.0  # for one mutation, on a busy machine
_MEMORY = 8 << 30  # bytes of address space of the child
_OTHER = "other results"
_MOST_STARTS = 200  # children before the search gives up: each death is a finding already
# name -> model, sizes and options: each kind of thing that a file can hold
_BASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "branch": ("two_branch", {"rows": 64, "width": 32}, {"eus": 2}),
    "queues": ("tiny_matmul_chain", {"ops": 4, "width": 128}, {"eus": 2, "policy": "dynamic"}),
    "launches": ("tiny_matmul_chain", {"ops": 4, "width": 128}, {"eus": 3, "policy": "wave"}),
    "barriers": ("tiny_matmul_chain", {"ops": 4, "width": 128}, {"eus": 2, "policy": "bsp"}),
    "loops": ("lstm2", {"sequence": 24, "features": 32, "hidden": 32}, {"eus": 2}),
    "tied": (
        "gpt2_small",
        {"sequence": 8, "layers": 1, "hidden": 64, "heads": 2, "vocabulary": 1001},
        {"eus": 2},
    ),
    "filters": ("unet", {"image": 16, "width": 48, "depth": 1}, {"eus": 2, "roots": "winograd2"}),
    "gpu": ("two_branch", {"rows": 64, "width": 32}, {"target": "cuda:sm_80"}),
}


@dataclass
class Findings:
    """counts: verdicts of all mutations, by kind of change; wrong: what must not be."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def mutations(self) -> int:
        """How many were judged."""
        return sum(self.counts.values())


def fuzz(seed: int, mutations: int, *, first: int = 0, seconds: float = float("inf")) -> Findings:
    """Judge mutations number `first` and following, until there are enough or time is over."""
    found, end = Findings(), time.monotonic() + seconds
    with folder_in_memory() as name:
        folder = Path(name)
        make_bases(folder)
        number, starts = first, 0
        while number < first + mutations and time.monotonic() < end and starts < _MOST_STARTS:
            number = _one_child(folder, seed, number, first + mutations, end, found)
            starts += 1
    return found


def folder_in_memory() -> tempfile.TemporaryDirectory[str]:
    """A folder for files that live for a moment: a disk would take longer to keep them than the
    loader takes to read them."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="rc-fuzz-", dir=memory if memory.is_dir() else None)


def make_bases(folder: Path) -> None:
    """Compile the files that are changed, each with its inputs and its results."""
    for name, (model, sizes, options) in _BASES.items():
        compiled = rcompiler.compile_onnx(models.build(model, **sizes), **options)
        compiled.save(folder / f"{name}.rcx")
        inputs = random_inputs(compiled.inputs)
        arrays = {f"in:{key}": value for key, value in inputs.items()}
        if "target" not in options:
            results = compiled(**inputs)
            arrays |= {f"out:{i}": value for i, value in enumerate(results)}
        np.savez(folder / f"{name}.npz", **arrays)
        compiled.close()


def _one_child(
    folder: Path, seed: int, first: int, end: int, deadline: float, found: Findings
) -> int:
    """Let a child judge mutations until all are done or it dies; the number of the next one."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_judge_all, args=(theirs, str(folder), seed, first, end))
    child.start()
    theirs.close()
    number, told = first, "start"
    try:
        while number < end and time.monotonic() < deadline:
            if not ours.poll(_PATIENCE_S):
                found.counts["hang"] += 1
                found.wrong.append(f"mutation {number} of seed {seed}: it hangs")
                return number + 1
            kind, verdict, words = ours.recv()
            told = kind
            found.counts[f"{kind}: {verdict}"] += 1
            if verdict == "wrong":
                found.wrong.append(f"mutation {number} of seed {seed}, {kind}: {words}")
            number += 1
    except EOFError:
        child.join(10)
        if child.exitcode:
            ended = child.exitcode
            how = signal.Signals(-ended).name if ended < 0 else f"status {ended}"
            found.counts["crash"] += 1
            found.wrong.append(f"mutation {number} of seed {seed}, after {told}: {how}")
            return number + 1
    finally:
        child.kill()
        child.join()
        ours.close()
    return number


def _judge_all(pipe: Any, folder: str, seed: int, first: int, end: int) -> None:
    """The child."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    bases = [Base(Path(folder), name) for name in _BASES]
    file = Path(folder, f"{os.getpid()}.rcx")
    for number in range(first, end):
        pipe.send(judge(bases, file, seed, number))


class Base:
    """A file that is changed: its bytes, its parts, and what it computes."""

    def __init__(self, folder: Path, name: str) -> None:
        path = folder / f"{name}.rcx"
        self.data = path.read_bytes()
        self.header, self.sections = split(path)
        self.weights = Artifact.load(path).constants  # with those that a load makes
        with np.load(folder / f"{name}.npz") as arrays:
            self.inputs = {k[3:]: arrays[k] for k in arrays.files if k.startswith("in:")}
            outputs = [k for k in arrays.files if k.startswith("out:")]
            self.outputs = [arrays[k] for k in outputs]


def judge(bases: list[Base], file: Path, seed: int, number: int) -> tuple[str, str, str]:
    """(kind of change, verdict, reason) of one mutation; its file is left."""
    rng = random.Random(f"{seed} {number}")
    base = rng.choice(bases)
    kind = change(rng, base, file)
    try:
        model = rcompiler.load(file, eus=None if not base.outputs else 2, wait_limit_s=20.0)
        try:
            verdict = _use(model, base)
        finally:
            model.close()
        if verdict == _OTHER and kind != "raw" and (outputs := _with_other_weights(base, file)):
            with closing(rcompiler.load(file, eus=2, wait_limit_s=20.0)) as model:
                verdict = _use(model, base, outputs)
    except CompilerError as error:
        return kind, "refused", type(error).__name__ if len(str(error)) < 5000 else "too long"
    except Exception as error:  # what must not leave
        return kind, "wrong", f"{type(error).__name__}: {error}"[:500]
    if kind == "raw" and file.read_bytes() != base.data:
        return kind, "wrong", "a changed file was loaded"
    return kind, "wrong" if verdict else "as good", verdict


def _with_other_weights(base: Base, file: Path) -> list[np.ndarray]:
    """What the base computes with the weights that the proof of a file says its operators read; []
    where it says nothing of that kind.
    """
    header, _ = split(file)
    before, after = (
        [p["operators"] for p in h["proof"]["programs"]] for h in (base.header, header)
    )
    if header["proof"]["buffers"] != base.header["proof"]["buffers"]:
        return []
    buffers = [*zip(*base.header["proof"]["buffers"], strict=True)]
    constant = tables.BUFFER_KINDS.index("constant")
    sections = {name: data.copy() for name, data in base.sections.items()}
    sections["weights"], moved = base.weights.copy(), 0
    for old, new in zip(before, after, strict=True):
        for name, (kernel, operands) in old.items():
            _, others = new.get(name, (kernel, operands))
            for was, now in zip(operands, others, strict=True):
                ours, theirs = (buffers[k] for k in (was, now))
                if was == now or {ours[1], theirs[1]} != {constant} or ours[3] != theirs[3]:
                    continue
                (to, size), start = ours[2:4], theirs[2]
                sections["weights"][to : to + size] = base.weights[start : start + size]
                moved += 1
    if not moved:
        return []
    other = file.with_suffix(".other.rcx")
    joined(other, {k: v for k, v in base.header.items() if k != "weights"}, sections)
    with closing(rcompiler.load(other, eus=2)) as model:
        return [np.array(result) for result in model(*base.inputs.values())]


def _use(model: Any, base: Base, outputs: Sequence[np.ndarray] | None = None) -> str:
    """Everything that a user may ask of a loaded model; what is wrong with it, or nothing.

    outputs: what it has to compute, by default what the base does.
    """
    for name in list(model.artifact.stages):
        try:
            model.stage(name) if name != "report" else model.report()
        except CompilerError:
            pass
    if not base.outputs:
        return ""
    try:
        results = model(*base.inputs.values())
    except CompilerError as error:  # of a signature that was changed
        return f"it stopped: {error}" if "no EU made progress" in str(error) else ""
    # An output without elements more or less is another signature, as another name is: nothing
    # that computes writes it, and no byte of a result differs.
    expected = base.outputs if outputs is None else outputs
    made, wanted = ([a.tobytes() for a in arrays if a.size] for arrays in (results, expected))
    return "" if made == wanted else _OTHER


def change(rng: random.Random, base: Base, file: Path) -> str:
    """Write a changed file; the kind of change."""
    if rng.random() < 0.4:
        file.write_bytes(_raw(rng, base.data))
        return "raw"
    header, sections = base.header, dict(base.sections)
    kind = rng.choice(("header", "header", "tables", "tables", "texts", "both"))
    if kind in ("tables", "both"):
        sections["tables"] = _words(rng, sections["tables"])
    if kind == "texts":
        texts = [name for name in sections if name.startswith("stage:")]
        name = rng.choice(texts)
        sections[name] = np.frombuffer(_raw(rng, sections[name].tobytes()), np.uint8)
    if kind in ("header", "both"):
        header = copy.deepcopy(header)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            _leaf(rng, header)
    joined(file, header, sections)
    return f"rehashed {kind}"


def _raw(rng: random.Random, data: bytes) -> bytes:
    """Bits turned, bytes replaced, inserted or removed; most often one."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8, 64))):
        at = rng.randrange(len(changed)) if changed else 0
        way = rng.random()
        if way < 0.5 and changed:
            changed[at] ^= 1 << rng.randrange(8)
        elif way < 0.8 and changed:
            changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif way < 0.9:
            changed[at:at] = rng.randbytes(rng.choice((1, 4, 8, 64)))
        else:
            del changed[at : at + rng.choice((1, 4, 8, 64, 4096))]
    return bytes(changed)


def _words(rng: random.Random, table: np.ndarray) -> np.ndarray:
    """Words of streams replaced by near, odd, huge or other words."""
    words = table.copy().view("<i8")
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(words))
        words[at] = _number(rng, int(words[at]), words.tolist())
    return words.view(np.uint8)


def _number(rng: random.Random, now: int, others: list[int]) -> int:
    ways = (
        *(now + 1, now - 1, now + 64, now - 64, -now, 0, now * 2),
        *(rng.choice(others), rng.choice(others), rng.randint(-4, 4096)),
        *(1 << rng.randrange(62), (1 << 62) - 1, -(1 << 62)),
    )
    return max(-(1 << 63), min((1 << 63) - 1, rng.choice(ways)))


def _leaf(rng: random.Random, node: Any) -> None:
    """Change something somewhere inside of JSON data, each branch as likely as its sisters."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = rng.choice(keys)
        inner = node[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.93:
            node = inner
            continue
        break
    way = rng.random()
    if way < 0.08:
        del node[key]
    elif way < 0.14 and isinstance(node, list):
        node.insert(key, copy.deepcopy(inner))
    elif way < 0.24 and len(keys) > 1:
        other = rng.choice(keys)
        node[key], node[other] = node[other], node[key]
    else:
        node[key] = _other_value(rng, inner)


def _other_value(rng: random.Random, now: Any) -> Any:
    if isinstance(now, int) and not isinstance(now, bool) and rng.random() < 0.85:
        return _number(rng, now, [now, 0, 1])
    if isinstance(now, str) and rng.random() < 0.7:
        return _raw(rng, now.encode("utf-8", "surrogatepass")).decode("latin-1")
    odd = (None, True, -1, 1.5, 10**400, "", "\ud800", "x" * 3000, [], {}, [[]], {"": 0})
    return copy.deepcopy(rng.choice(odd))


def main() -> int:
    """Exit code: 0 nothing was wrong, 1 something was."""
    parser = argparse.ArgumentParser(prog="artifact_bytes", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutation")
    parser.add_argument("--mutations", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--keep", help="write the first of these files here, and do nothing else")
    options = parser.parse_args()
    if options.keep:
        with tempfile.TemporaryDirectory() as name:
            make_bases(Path(name))
            bases = [Base(Path(name), base) for base in _BASES]
            rng = random.Random(f"{options.seed} {options.first}")
            print(change(rng, rng.choice(bases), Path(options.keep)))
        return 0
    start = time.monotonic()
    found = fuzz(options.seed, options.mutations, first=options.first, seconds=options.seconds)
    for text in found.wrong:
        print(f"wrong: {text}")
    print(json.dumps(dict(sorted(found.counts.items())), indent=1))
    seconds = time.monotonic() - start
    print(f"{found.mutations} mutations in {seconds:.0f} s, {len(found.wrong)} wrong")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
