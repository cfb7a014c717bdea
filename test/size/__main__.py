"""The entry: python test/size."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from size.show import main  # noqa: E402

sys.exit(main())
