"""The entry: python test/interpret."""

import os
import sys
from pathlib import Path

os.environ["RC_DEVICE"] = "default"
os.environ["RC_CACHE_MODELS"] = "0"  # what is tried is the compiler
TEST = Path(__file__).parents[1]
sys.path[:0] = [str(TEST), str(TEST / "support"), str(TEST.parent / "tools" / "bench")]

from interpret.runner import main  # noqa: E402

sys.exit(main())
