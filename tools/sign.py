"""Sign a compiled file, so that `rcompiler.load(path, key=...)` takes it and no other.

openssl genpkey -algorithm ed25519 -out key.pem && openssl pkey -in key.pem -pubout -out public.pem
python -m rcompiler.tools.sign model.rcx --key=key.pem     # writes model.rcx.sig
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rcompiler.driver.signature import sign
from rcompiler.tools._console import Parser, guard


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 success, 1 failure, 2 wrong arguments, 130 interrupted."""
    parser = Parser("sign", "Sign a compiled file with an Ed25519 key.")
    parser.add_argument("model", help="an .rcx file")
    parser.add_argument("--key", required=True, metavar="FILE", help="the private key, PEM")
    options = parser.parse_args(argv)
    return guard("sign", lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    print(sign(Path(options.model), options.key))
    return 0


if __name__ == "__main__":
    sys.exit(main())
