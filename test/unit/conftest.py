"""Tests may import the helper modules beside them and those in test/support: importlib mode leaves
sys.path alone.
"""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]
