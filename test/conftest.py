"""What holds for all tests.

No test depends on measured figures: tiles are chosen by the defaults, also in subprocesses. None
asserts wall-clock time: hypothesis' own deadline of 200 ms would.
"""

import os

from hypothesis import settings

os.environ["RC_DEVICE"] = "default"
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
