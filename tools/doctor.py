"""doctor: say what works on this machine, what does not, and what to do about it.

python -m rcompiler doctor              a line for each; exit code 1 if something needed fails
python -m rcompiler doctor --json       the same as data
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from rcompiler.tools._console import CACHE_HELP, Parser, guard
from rcompiler.tools._doctor import FAILED, OK, Finding, findings

_WIDTH = 20  # of the name of what was looked at


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 all that is needed works, 1 something does not, 2 wrong arguments."""
    options = _options(argv)
    return guard("python -m rcompiler doctor", lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    found: list[Finding] = []
    for finding in findings():
        found.append(finding)
        if not options.json:  # as they come: compiling takes seconds
            _print(finding)
    failed = [finding.name for finding in found if finding.state == FAILED]
    if options.json:
        print(json.dumps({"works": not failed, "findings": [asdict(f) for f in found]}, indent=1))
    elif failed:
        print(f"does not work, and is needed: {', '.join(failed)}")
    else:
        print("all that is needed works")
    return 1 if failed else 0


def _print(finding: Finding) -> None:
    print(f"{finding.state:7} {finding.name:{_WIDTH}} {finding.detail}", flush=True)
    if finding.state != OK and finding.remedy:
        print(f"{'':7} {'':{_WIDTH}} -> {finding.remedy}", flush=True)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(
        "python -m rcompiler doctor",
        "Say what works on this machine, what does not, and what to do about it.",
        epilog=CACHE_HELP,
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
