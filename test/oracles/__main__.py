"""The entry: python test/oracles; an oracle's name and its options follow."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import oracles  # noqa: E402
from rcompiler.tools._command import run_one_of  # noqa: E402

sys.exit(run_one_of(oracles, "python test/oracles"))
