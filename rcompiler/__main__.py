"""python -m rcompiler: which commands there are; doctor says what works on this machine.

python -m rcompiler                 the commands, a line each
python -m rcompiler doctor          what works here, what does not, and what to do about it
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

PROG = "python -m rcompiler"
_DOCTOR = "doctor"
_TOOLS = ("rc-compile", "rc-run", "rc-opt", "rc-tune", "rc-bench", "rc-viz")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 success, 1 something needed does not work, 2 wrong arguments."""
    first, *rest = [*(sys.argv[1:] if argv is None else argv)] or ["--help"]
    if first == _DOCTOR:
        from rcompiler.tools import doctor

        return doctor.main(rest)
    if first in ("-h", "--help"):
        print("\n".join(_listing()))
        return 0
    if first == "--version":
        from rcompiler.tools._installed import own_version

        print(f"rcompiler {own_version()}")
        return 0
    if first in _TOOLS:
        hint = f"{first} is a program of its own: give '{first}', or 'python -m {_module(first)}'"
    else:
        hint = f"there is no command {first!r}; see {PROG} --help"
    print(f"{PROG}: {hint}", file=sys.stderr)
    return 2


def _listing() -> Iterator[str]:
    yield f"usage: {PROG} {_DOCTOR} [--json], or one of the rc-* programs (--help: its options)"
    yield ""
    from rcompiler.tools._command import summary

    for name in (_DOCTOR, *_TOOLS):
        path = Path(__file__).with_name("tools") / f"{name.replace('-', '_')}.py"
        yield f"  {name:12}{summary(path)}"


def _module(name: str) -> str:
    return f"rcompiler.tools.{name.replace('-', '_')}"


if __name__ == "__main__":
    sys.exit(main())
