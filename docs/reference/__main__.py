"""Write what is generated in this folder: python docs/reference [--check]."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from reference.documents import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
