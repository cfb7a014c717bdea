"""The entry: python test/oracles; an oracle's name and its options follow."""

import os
import sys
from pathlib import Path

os.environ["RC_CACHE_MODELS"] = "0"  # what is tried is the compiler
sys.path.insert(0, str(Path(__file__).parents[1]))

import oracles  # noqa: E402
from rcompiler.tools._command import run_one_of  # noqa: E402

sys.exit(run_one_of(oracles, "python test/oracles"))
