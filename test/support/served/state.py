"""What the start of a process settles, and a fork of a process that runs already cannot change."""

import os
import resource

# What commands may be given otherwise than the server was, as they read it while they run.
_READ_LATER = ("_", "COLUMNS", "HOME", "LINES", "OLDPWD", "PATH", "PWD", "SHLVL", "TEMP", "TEMPDIR",
               "TMP", "TMPDIR")  # fmt: skip
_READ_LATER_OF = ("LIT_", "PYTEST_", "RC_")
_LIMITS = sorted(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))


def start_state() -> str:
    """That of this process, as text to compare."""
    os.umask(umask := os.umask(0))
    variables = sorted(
        (name, value)
        for name, value in os.environ.items()
        if name not in _READ_LATER and not name.startswith(_READ_LATER_OF)
    )
    limits = [resource.getrlimit(limit) for limit in _LIMITS]
    return repr((variables, limits, umask, os.nice(0), sorted(os.sched_getaffinity(0))))
