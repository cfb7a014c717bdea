"""doctor: say what works on this machine, what does not, and what to do about it.

python -m rcompiler doctor              a line for each; exit code 1 if something needed fails
python -m rcompiler doctor --json       the same as data
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from rcompiler.tools._command import Command
from rcompiler.tools._console import CACHE_HELP
from rcompiler.tools._doctor import FAILED, OK, Finding, findings

_WIDTH = 20  # of the name of what was looked at


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: something that is needed does not work."""
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


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


main = Command("python -m rcompiler doctor", __doc__, _options, _run, writes=(), epilog=CACHE_HELP)


if __name__ == "__main__":
    sys.exit(main())
