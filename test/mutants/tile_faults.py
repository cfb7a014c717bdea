"""Seeded faults in how rKernels are tiled, which show in what schedules compute in numpy."""

from .fault import Fault

_CASES = "interpret/test_interpret.py::test_tiles_make_what_the_operators_are"

FAULTS = (
    Fault(
        "tiles-of-registers-that-overlap",
        "passes/tiles/nest.py",
        "position = end\n",
        "position = position + size\n",
        f"{_CASES}[cpu:v4-averagepool_2d_default]",
        "result",
        "assert '(wrong|crash)' == 'pass'",
    ),
    Fault(
        "tiles-of-threads-that-overlap",
        "passes/tiles/thread_nest.py",
        "start += size * count",
        "start += size",
        f"{_CASES}[cuda:h200-add_uint64]",
        "result",
        "assert '(wrong|crash)' == 'pass'",
    ),
)
