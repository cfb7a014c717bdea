"""The entry: python tools/bench; a measurement's name and its options follow."""

import os
import sys
from pathlib import Path

os.environ["RC_CACHE_MODELS"] = "0"  # what is measured is compiled now
sys.path.insert(0, str(Path(__file__).parent))

import measurements  # noqa: E402

from rcompiler.tools._command import run_one_of  # noqa: E402

sys.exit(run_one_of(measurements, "python tools/bench"))
