"""Sign a compiled file, so that `rcompiler.load(path, key=...)` takes it and no other.

openssl genpkey -algorithm ed25519 -out key.pem && openssl pkey -in key.pem -pubout -out public.pem
python -m rcompiler.tools.sign model.rcx --key=key.pem     # writes model.rcx.sig
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rcompiler.driver.signing import sign
from rcompiler.tools._command import Command


def _run(options: argparse.Namespace) -> int:
    print(sign(Path(options.model), options.key))
    return 0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="an .rcx file")
    parser.add_argument("--key", required=True, metavar="FILE", help="the private key, PEM")


main = Command("sign", __doc__, _options, _run)


if __name__ == "__main__":
    sys.exit(main())
