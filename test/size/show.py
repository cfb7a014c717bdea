"""Lines and files of the product, folder by folder, beside the budget of each.

    python test/size            core, periphery, and what is over its budget
    python test/size --small    the names of the small files, too

Core is what a model passes on its way from a file of ONNX to its answers; periphery looks at it
from outside. `budget.toml` has the budgets, and the reason of each raise.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rcompiler.tools._command import Command
from rcompiler.tools._console import report, table

from . import budget
from .budget import CODE, CORE, FOLDERS, PERIPHERY, Account, BadBudget
from .count import File, files

_COLUMNS = ("folder", "files", "lines", "budget", "room", "installed", "small", "markers")


def _row(name: str, found: Sequence[File], allowed: Sequence[Account]) -> tuple[object, ...]:
    """allowed: the accounts whose budgets these files have together."""
    lines = sum(file.lines for file in found)
    return (
        name,
        len(found),
        lines,
        sum(account.lines for account in allowed),
        sum(account.limit for account in allowed) - lines,
        sum(file.lines for file in found if file.installed),
        sum(file.small for file in found),
        sum(file.marker for file in found),
    )


def _tables(found: Sequence[File], accounts: Sequence[Account]) -> None:
    """One for core and one for periphery, with their totals; then what is counted otherwise."""
    folders = [account for account in accounts if account.kind in FOLDERS]
    holders = [budget.account_of(file, folders) for file in found]
    for kind in (CORE, PERIPHERY):
        members = sorted((a for a in folders if a.kind == kind), key=lambda a: a.name)
        inside = {
            member: [f for f, holder in zip(found, holders, strict=True) if holder == member]
            for member in members
        }
        rows = [_row(member.name, inside[member], [member]) for member in members]
        rows.append(_row(f"all of {kind}", sum(inside.values(), []), members))
        table(_COLUMNS, rows)
        print()
    sums = budget.used(found, accounts)
    rows = [
        (
            f"{account.name}: lines of code" if account.kind == CODE else "small files",
            sums[account],
            account.lines,
            account.limit - sums[account],
        )
        for account in accounts
        if account.kind not in FOLDERS
    ]
    rows.append(("all lines", sum(f.lines for f in found), sum(a.lines for a in folders), ""))
    table(("", "there are", "budget", "room"), rows)


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: something has more than its budget and the slack, or no budget."""
    try:
        accounts = budget.accounts(budget.BUDGET)
    except BadBudget as error:
        return report("size", str(error).splitlines())
    found = files()
    _tables(found, accounts)
    if options.small:
        print(*(f"{file.lines:3} {file.path}" for file in found if file.small), sep="\n")
    return report("size", budget.failures(found, accounts))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--small", action="store_true", help="name the small files, too")


main = Command("size", __doc__, _options, _run)
