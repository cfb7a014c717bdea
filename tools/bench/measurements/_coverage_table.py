"""What runs of ONNX's standard backend tests have found, as a table: of what does not pass."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from measurements._case_pool import Outcome
from rcompiler.tools._console import table

STATUSES = ("pass", "wrong", "crash", "refused")
_WIDTH = 100  # of a reason in the table


def counted(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many have each status."""
    counts = Counter(outcome.status for outcome in outcomes)
    return {status: counts[status] for status in STATUSES}


def kept_as_inputs(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many of the cases that pass prove what: the numbers of cases by what their models run.

    inputs: every input is one at run time; baked: the values of some were needed while compiling;
    folded: those of all, or the case has no inputs, so that the compiler found the result.
    """
    counts = Counter(
        "folded" if not o.facts["kept"] else "baked" if o.facts["baked"] else "inputs"
        for o in outcomes
        if o.status == "pass"
    )
    return {kind: counts[kind] for kind in ("inputs", "baked", "folded")}


def print_outcomes(outcomes: Sequence[Outcome], verbose: bool) -> None:
    """verbose: each that does not pass, with all of its reason; else how many have the same one."""
    failed = [outcome for outcome in outcomes if outcome.status != "pass"]
    if verbose:
        for outcome in failed:
            print(f"{outcome.status}: {outcome.case} ({outcome.subject})\n  {outcome.reason}")
    elif failed:
        grouped = Counter((o.subject, o.status, brief(o.reason)) for o in failed)
        rows = [(*key, count) for key, count in sorted(grouped.items())]
        table(("op", "status", "reason", "count"), rows)
    counts = counted(outcomes)
    print(", ".join(f"{status} {counts[status]}" for status in STATUSES), f"of {len(outcomes)}")
    kinds = kept_as_inputs(outcomes)
    print(
        f"of those that pass, {kinds['inputs']} keep all inputs, {kinds['baked']} have some "
        f"compiled in, and {kinds['folded']} all"
    )


def brief(reason: str) -> str:
    """One line without the numbers and names that tell equal reasons apart."""
    text = " ".join(re.sub(r"\d+", "#", re.sub(r"'[^']*'", "'…'", reason)).split())
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
