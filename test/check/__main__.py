"""The entry: python test/check, which .ci/run is."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])

from check.runner import main  # noqa: E402

sys.exit(main())
