import sys
from pathlib import Path

# importlib mode leaves sys.path alone
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))  # for `reference`
