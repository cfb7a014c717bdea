"""Tests may import the helper modules beside them and those in test/support: importlib mode leaves
sys.path alone.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
