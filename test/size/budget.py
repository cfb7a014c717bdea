"""What the product may have: budgets of lines, each with the reasons of its raises, in one file.

An account is what one budget is for:

- a folder of core or of periphery, in lines. A file's is that of the first two of its path
  (`File.folder`), so a new folder needs one; or that of a folder below, where one has its own;
- a folder's lines of code, without comments, docstrings and blank lines ([code]): where what
  counts is that people read all of it;
- the small files of all folders ([files]).
"""

from __future__ import annotations

import datetime
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .count import File

BUDGET = Path(__file__).with_name("budget.toml")
CORE, PERIPHERY, CODE, FILES = "core", "periphery", "code", "files"
FOLDERS = (CORE, PERIPHERY)
SMALL_FILES = "small"
SLACK_PERCENT = 5  # what an account may have above its budget before somebody has to say why
_ENTRY = '{ lines = %d, date = YYYY-MM-DD, reason = "..." }'


class BadBudget(Exception):
    """The file of budgets is not as it has to be; each line says where, and what to write."""


@dataclass(frozen=True)
class Account:
    """kind: CORE, PERIPHERY, CODE or FILES. name: a folder, or SMALL_FILES. lines: its budget by
    the last raise (a number of files where the kind is FILES).
    """

    kind: str
    name: str
    lines: int

    @property
    def limit(self) -> int:
        """What it may have without a raise."""
        return self.lines + self.lines * SLACK_PERCENT // 100

    def holds(self, file: File) -> bool:
        return _within(str(file.path.parent), self.name)


def _within(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith(f"{outer}/")


def accounts(path: Path = BUDGET) -> list[Account]:
    """All of a file's, in its order; BadBudget where a raise has no reason, date or lines, and
    where a folder is core and periphery.
    """
    try:
        told = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise BadBudget(f"{path.name} is no TOML: {error}") from None
    wrong = [f"[{kind}]: there is no such table" for kind in told.keys() - {*FOLDERS, CODE, FILES}]
    found = []
    for kind in (*FOLDERS, CODE, FILES):
        for name, raises in told.get(kind, {}).items():
            faults = [*_faults(raises)]
            wrong += [f"[{kind}] {name}: {fault}" for fault in faults]
            if not faults:
                found.append(Account(kind, name, raises[-1]["lines"]))
    wrong += [
        f"[{CORE}] and [{PERIPHERY}] both have {name}"
        for name in told.get(CORE, {}).keys() & told.get(PERIPHERY, {}).keys()
    ]
    if wrong:
        raise BadBudget("\n".join(sorted(wrong)))
    return found


def _faults(raises: Any) -> Iterable[str]:
    """What is wrong with the raises of one account, the first of which is where it began."""
    if not isinstance(raises, list) or not raises or not all(isinstance(r, dict) for r in raises):
        yield f"is no list of {_ENTRY % 100}"
        return
    for number, entry in enumerate(raises, 1):
        if entry.keys() != {"lines", "date", "reason"}:
            yield f"entry {number} has {', '.join(entry) or 'nothing'} instead of {_ENTRY % 100}"
            return
        if type(entry["lines"]) is not int or entry["lines"] < 0:
            yield f"entry {number}: {entry['lines']!r} is no number of lines"
        if type(entry["date"]) is not datetime.date:
            yield f"entry {number}: {entry['date']!r} is no date as 2026-11-30"
        if not isinstance(entry["reason"], str) or not entry["reason"].strip():
            yield f"entry {number} has no reason"
    dates = [entry["date"] for entry in raises if type(entry["date"]) is datetime.date]
    if dates != sorted(dates):
        yield "the dates are not in order: the newest raise stands last"


def account_of(file: File, folders: Sequence[Account]) -> Account | None:
    """Of the folders that hold a file the deepest; None: its folder has no budget yet."""
    fitting = [a for a in folders if a.holds(file) and _within(a.name, file.folder)]
    return max(fitting, key=lambda account: len(account.name), default=None)


def used(found: Sequence[File], budget: Sequence[Account]) -> dict[Account, int]:
    """What each account has: lines, lines of code, or files."""
    sums = dict.fromkeys(budget, 0)
    folders = [account for account in budget if account.kind in FOLDERS]
    for file in found:
        if account := account_of(file, folders):
            sums[account] += file.lines
        for account in budget:
            if account.kind == CODE and account.holds(file):
                sums[account] += file.code
            if account == _small(budget):
                sums[account] += file.small
    return sums


def _small(budget: Sequence[Account]) -> Account | None:
    return next((a for a in budget if (a.kind, a.name) == (FILES, SMALL_FILES)), None)


def without_budget(found: Sequence[File], budget: Sequence[Account]) -> Mapping[str, int]:
    """Lines of the folders that have no account."""
    folders = [account for account in budget if account.kind in FOLDERS]
    missing: Counter[str] = Counter()
    for file in found:
        if account_of(file, folders) is None:
            missing[file.folder] += file.lines
    return missing


def failures(found: Sequence[File], budget: Sequence[Account]) -> list[str]:
    """A line for each account that has too much, each that has nothing any more, and each folder
    that has no account; it says what to write.
    """
    lines = [
        f"{folder}: {number} lines, and no budget: write "
        f'"{folder}" = [{_ENTRY % number}] under [{CORE}] or [{PERIPHERY}] of test/size/budget.toml'
        for folder, number in sorted(without_budget(found, budget).items())
    ]
    if _small(budget) is None:
        lines.append(f"test/size/budget.toml has no {SMALL_FILES} under [{FILES}]")
    for account, number in used(found, budget).items():
        if number > account.limit:
            lines.append(
                f"[{account.kind}] {account.name}: {number}, which is {number - account.lines} "
                f"more than its budget of {account.lines} (to {account.limit} nobody asks): make "
                f"it smaller, or write {_ENTRY % number} as its last line in test/size/budget.toml"
            )
        elif not number and account.kind != FILES:
            lines.append(f"[{account.kind}] {account.name} has no file: take its budget away")
    return lines
