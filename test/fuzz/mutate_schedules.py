"""The text of a schedule with an instruction moved, dropped or changed: refused, or as right."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rcompiler.compile import compile_onnx
from rcompiler.driver.from_schedule import schedule_artifact
from rcompiler.errors import CompilerError
from rcompiler.model import model_of
from rcompiler.options import checked_cache
from rcompiler.support.random_keys import set_seed

from . import graphs
from .judge import Outcome, Report, key_of
from .maker import Reject

MUTANTS = 8
FORMS = ("vdevice", "schedule")  # as MLIR prints it; as short text
_INSTRUCTION = re.compile(r'\s*(?:"vdevice\.)?(run|wait|signal|barrier)\b')
# Of the schedule form: lines with numbers, and numbers that are of no name and no type.
_STATEMENT = re.compile(r"\s*(program|temp|constant|pinned|eu|queue|repeat|run|wait)\b")
_NUMBER = re.compile(r"(?:(?<=[ \[])|(?<=\.\.))\d+(?![\dx])")


def schedules(seed: int, targets: Sequence[str], report: Report) -> Outcome:
    """A case compiled, and mutants of its schedule compiled from their text alone."""
    report("generate")
    try:
        case = graphs.case_of(seed, targets)
        case = replace(case, options={**case.options, "policy": _policy(seed)})
        report("compile")
        model = compile_onnx(case.model, **case.options)
        right = _bits(model, case, seed)
    except (Reject, CompilerError):
        return Outcome("no graph", tried=0)
    chosen, constants = random.Random(seed), model.constants()
    text = model.stage(chosen.choice(FORMS))
    for number in range(MUTANTS):
        what, mutant = mutated(text, chosen)
        report("compile")
        try:
            made = model_of(schedule_artifact(mutant, constants, cache=checked_cache(None)))
            report("run")
            found = _bits(made, case, seed)
        except CompilerError:
            continue
        except Exception as error:  # whatever a defect raises
            what = f"{what}: {type(error).__name__}: {error}"
            return Outcome("internal", what, key_of(error), tried=number + 1)
        if found != right:
            key = what.partition(":")[0]
            why = f"accepted, and other bits: {what}"
            return Outcome("wrong", why, key, tried=number + 1)
    return Outcome("ok", tried=MUTANTS)


def _policy(seed: int) -> str:
    return ("rammer", "list", "merge", "bsp", "wave")[seed % 5]


def _bits(model: Any, case: graphs.Case, seed: int) -> list[bytes]:
    """Of the results; random operators draw the same numbers in each program."""
    set_seed(seed)
    return [np.asarray(y).tobytes() for y in model(**case.feeds)]


def mutated(text: str, chosen: random.Random) -> tuple[str, str]:
    """(what was done, the text): one or two changes of instructions, offsets or thresholds."""
    lines, done = text.split("\n"), []
    for _ in range(chosen.choice([1, 1, 2])):
        change = chosen.choice([_swap, _drop, _repeat, _number, _number])
        done.append(change(lines, chosen))
    return "; ".join(done), "\n".join(lines)


def _instructions(lines: list[str]) -> list[slice]:
    """The lines of each instruction: one, and those that go on with it, which are indented more."""
    found = []
    for first, line in enumerate(lines):
        if _INSTRUCTION.match(line):
            end = first + 1
            while end < len(lines) and _margin(lines[end]) > _margin(line):
                end += 1
            found.append(slice(first, end))
    return found


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())


def _said(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines)


def _swap(lines: list[str], chosen: random.Random) -> str:
    places = _instructions(lines)
    if len(places) < 2:
        return "nothing"
    one, other = sorted(chosen.sample(places, 2), key=lambda place: place.start)
    front, back = lines[one], lines[other]
    lines[other], lines[one] = front, back  # the one behind first: the other's place moves with it
    return f"swap: {_said(front)} with {_said(back)}"


def _drop(lines: list[str], chosen: random.Random) -> str:
    places = _instructions(lines)
    if not places:
        return "nothing"
    place = chosen.choice(places)
    dropped, lines[place] = lines[place], []
    return f"drop: {_said(dropped)}"


def _repeat(lines: list[str], chosen: random.Random) -> str:
    places = _instructions(lines)
    if not places:
        return "nothing"
    place = chosen.choice(places)
    repeated = lines[place]
    lines[place] = repeated * 2
    return f"repeat: {_said(repeated)}"


def _number(lines: list[str], chosen: random.Random) -> str:
    """A number of any line of the program: an offset, a size, a threshold, a task."""
    places = [i for i, line in enumerate(lines) if _numbers(line)]
    if not places:
        return "nothing"
    i = chosen.choice(places)
    found = chosen.choice(_numbers(lines[i]))
    number = int(found[0])
    other = chosen.choice([number + 1, max(number - 1, 0), number + 64, number * 2, 0])
    old = lines[i].strip()
    lines[i] = lines[i][: found.start()] + str(other) + lines[i][found.end() :]
    return f"number: {old} -> {lines[i].strip()}"


def _numbers(line: str) -> list[re.Match[str]]:
    """Those of a line that may become others: none of a weight or of a tensor of the caller."""
    if '"vdevice.' in line:
        program = line.partition("value = ")[0]
        return [n for n in re.finditer(r"\d+", program) if not _means(program, n.start())]
    if _STATEMENT.match(line):
        found = _NUMBER.finditer(line.partition(" = ")[0])
        return [n for n in found if not _tells_a_part(line, n)]
    return []


def _tells_a_part(line: str, number: re.Match[str]) -> bool:
    """Whether a number of the schedule form tells which part of another buffer one is."""
    return line[: number.start()].endswith(" at ") and line[number.end() :].startswith(" in ")


def _means(line: str, at: int) -> bool:
    """Whether the number at a column tells which part of which tensor of the caller, or of which
    other buffer, a buffer is, or is of the name of a buffer that a task reads or writes: a program
    of another one that fits is another program, and as legal."""
    if re.search(r"\bbuffers = \[[^\]]*$", line[:at]):
        return True
    of_another = re.search(r'kind = "(input|output)"|\balias_of = ', line) is not None
    return of_another and re.search(r"\b(index|offset) = $", line[:at]) is not None
