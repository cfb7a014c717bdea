"""The end of a run: what took how long, what was not run and why, and how it ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from .lanes import Done

_SLOWEST = 20  # files of tests that are named


def lines(
    done: Sequence[Done], unchanged: Mapping[str, str], seconds: Mapping[str, float], total: float
) -> list[str]:
    """unchanged: the commit on which each unit passed that was not run; seconds: of test files."""
    found = ["", "== steps by seconds (CPU seconds)"]
    for step in sorted(done, key=lambda each: -each.seconds):
        failed = f"  FAILED with exit status {step.status}" if step.status else ""
        found.append(f"{step.seconds:7.0f} {step.cpu:9.0f}  {step.name}{failed}")
    found.append(f"{total:7.0f} {sum(step.cpu for step in done):9.0f}  all")
    slowest = sorted(seconds, key=lambda file: -seconds[file])[:_SLOWEST]
    if slowest:
        found += ["", "== slowest files of tests, by the seconds of their tests"]
        found += [f"{seconds[file]:7.1f}  {file}" for file in slowest]
    return found + _unchanged(unchanged)


def _unchanged(units: Mapping[str, str]) -> list[str]:
    if not units:
        return []
    found = ["", "== not run, as nothing that they may read has changed since they passed"]
    folders: dict[tuple[str, str], list[str]] = defaultdict(list)
    for unit, commit in units.items():
        path = PurePath(unit)
        folders[_short(commit), "" if len(path.parts) == 1 else str(path.parent)].append(path.name)
    for (commit, folder), names in sorted(folders.items()):
        where = f"{folder}: " if folder else ""
        found.append(f"on {commit}: {where}{' '.join(sorted(names))}")
    return found


def _short(commit: str) -> str:
    name, dash, dirty = commit.partition("-")
    return name[:12] + dash + dirty


def closing(
    done: Sequence[Done], counts: Mapping[str, int], unchanged: Mapping[str, str]
) -> list[str]:
    """The last lines: what failed, by name, and the counts, alone on a line. Counted are tests,
    and the other steps that failed; where no test ran, the steps.
    """
    bad = [step.name for step in done if step.status]
    found = [f"failed: {', '.join(bad)}"] if bad else []
    if counts.get("passed", 0) + counts.get("failed", 0):
        # pytest may fail with no test that does: in a plugin, say
        failed = counts.get("failed", 0) + len([name for name in bad if name != "pytest"])
        passed, failed = counts.get("passed", 0), max(failed, len(bad))
    else:
        passed, failed = len(done) - len(bad), len(bad)
        if unchanged:
            found.append(f"no test had to run: {len(unchanged)} units are unchanged")
    skipped = counts.get("skipped", 0)
    return [
        *found,
        f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""),
    ]
