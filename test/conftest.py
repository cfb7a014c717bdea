"""What holds for all tests.

No test depends on measured figures: tiles are chosen by the defaults, also in subprocesses. None
asserts wall-clock time: hypothesis' own deadline of 200 ms would. Tools tell of long work, which on
a slow machine is any work; here nobody waits for them.
"""

import os

from hypothesis import settings

from rcompiler.tools import _progress

os.environ["RC_DEVICE"] = "default"
_progress.PATIENCE_S = float("inf")
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
