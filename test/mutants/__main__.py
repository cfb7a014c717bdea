"""The entry: python test/mutants."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mutants.kills import main  # noqa: E402

sys.exit(main())
