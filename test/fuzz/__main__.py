"""The entry: python test/fuzz."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.runner import main  # noqa: E402

sys.exit(main())
