"""The entry: python test/replay."""

import sys
from pathlib import Path

TEST = Path(__file__).parents[1]
sys.path[:0] = [str(TEST), str(TEST.parent / "tools" / "bench")]

from replay.runner import main  # noqa: E402

sys.exit(main())
