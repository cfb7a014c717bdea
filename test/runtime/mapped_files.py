"""Files of models whose weights are mapped, and what others do to them."""

import os
from pathlib import Path

import numpy as np
import small_models as sm

from rcompiler.runtime.container import STRONG_UP_TO

X = np.arange(sm.N, dtype=np.float32)


def saved(folder: Path, large: bool) -> Path:
    """A file whose weights are mapped if they are large."""
    constants = np.zeros(STRONG_UP_TO + 8192 if large else 4 * sm.N, np.uint8)
    constants[: 4 * sm.N] = sm.WEIGHTS.view(np.uint8)
    sm.artifact([sm.two_steps(1)], constants=constants).save(folder / "m.rcx")
    return folder / "m.rcx"


def write_into(path: Path) -> None:
    """Other weights, as `cp` leaves them."""
    with open(path, "r+b") as file:
        file.seek(-STRONG_UP_TO, os.SEEK_END)
        file.write(bytes(range(256)) * 16)
