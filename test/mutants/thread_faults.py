"""Seeded faults in what is proved and written of tasks that the threads of a block share in."""

from .fault import Fault

FAULTS = (
    Fault(
        "passes-points-that-share-an-element",
        "passes/tiles/thread_boxes.py",
        "if step != reached:",
        "if reached is None or step > reached:",
        "passes/test_shared_tasks.py",
        "proof",
        "DID NOT RAISE|did not match",
    ),
    Fault(
        "passes-one-point-for-all",
        "passes/tiles/thread_boxes.py",
        "return all(n == 1 for n in idle)",
        "return True",
        "passes/test_shared_tasks.py",
        "proof",
        "DID NOT RAISE|did not match",
    ),
    Fault(
        "passes-in-place-at-one-point",
        "passes/tiles/task_claims.py",
        "**dict.fromkeys(forall.variables, 0), variable: 1}",
        "**dict.fromkeys(forall.variables, 0)}",
        "passes/test_shared_tasks.py",
        "proof",
        "DID NOT RAISE",
    ),
    Fault(
        "passes-box-of-the-first-thread",
        "passes/tiles/needed_boxes.py",
        "(a + first * s, b + (last - 1) * s + 1)",
        "(a + first * s, a + (last - 1) * s + 1)",
        "passes/test_shared_tasks.py",
        "proof",
        "DID NOT RAISE|did not match",
    ),
    Fault(
        "simt-lanes-beyond-the-last",
        "kernelgen/simt/thread_task.py",
        "e.only(e.is_active(forall.lanes), store)",
        "e.only(None, store)",
        "passes/vdevice-to-gpu.mlir",
        "text",
        "error",
    ),
)
