"""Seeded faults in what is rounded to 16 bits, and the checks that find them."""

from .fault import Fault

FAULTS = (
    Fault(
        "halves-what-is-moved-to-be-returned",
        "passes/halves/stored.py",
        "elif not moves(op) or op.results[0] in found:",
        "elif not moves(op):",
        "e2e/test_halves_random.py",
        "result",
        "Mismatched|assert",
    ),
    Fault(
        "halves-rounded-between",
        "passes/rtask_widen_halves.py",
        "self._stored = handed_on(ops,",
        "self._stored = {v for op in ops for v in op.results} | handed_on(ops,",
        "e2e/test_halves_random.py",
        "result",
        "Mismatched|assert",
    ),
    Fault(
        "halves-factors-that-units-read",
        "passes/rtask_widen_halves.py",
        "return found if len(found) > 1 and",
        "return found if len(found) > 2 and",
        "passes/rtask-widen-halves-operators.mlir",
        "text",
        "error",
    ),
    Fault(
        "halves-variances-between-operators",
        "pipelines/rc_gpu.py",
        "            RTaskWidenHalves(sums=True),\n",
        "",
        "e2e/test_halves.py::test_norms_and_scores_that_leave_f16_on_a_gpu",
        "result",
        "assert",
    ),
)
