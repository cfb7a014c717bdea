"""What is computed with: arrays, mostly of an element per lane, a thread of one of some blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int32]
WARP = 32  # lanes
