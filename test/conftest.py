"""No test depends on measured figures: tiles are chosen by the defaults, also in subprocesses."""

import os

os.environ["RC_DEVICE"] = "default"
