"""What holds for all tests.

No test depends on measured figures: tiles are chosen by the defaults, also in subprocesses. None
asserts wall-clock time: hypothesis' own deadline of 200 ms would. Tools tell of long work, which on
a slow machine is any work; here nobody waits for them. Models are compiled, and not found in the
cache of an earlier run: what tests of finished models ask for themselves.

What a test patches meets nothing that the process made before, and leaves nothing: objects and code
of kernels that are remembered are forgotten with each patch, and when it is undone.
"""

import os
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
from hypothesis import settings

from rcompiler.support.lru_cache import clear_all
from rcompiler.tools import _progress

os.environ["RC_DEVICE"] = "default"
os.environ["RC_CACHE_MODELS"] = "0"
_progress.PATIENCE_S = float("inf")
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def _forgetting(patch: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(patch)
    def patched(*arguments: Any, **options: Any) -> Any:
        try:
            return patch(*arguments, **options)
        finally:
            clear_all()

    return patched


for _name in ("setattr", "delattr", "setitem", "delitem", "setenv", "delenv", "undo"):
    setattr(pytest.MonkeyPatch, _name, _forgetting(getattr(pytest.MonkeyPatch, _name)))


@pytest.fixture
def nothing_made():
    """Begin with nothing remembered; what it returns forgets again."""
    clear_all()
    return clear_all
