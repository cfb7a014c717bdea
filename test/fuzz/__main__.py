"""The entry: python test/fuzz."""

import sys
from pathlib import Path

TEST = Path(__file__).parents[1]
sys.path[:0] = [str(TEST), str(TEST.parent / "tools" / "bench")]

from fuzz.runner import main  # noqa: E402

sys.exit(main())
