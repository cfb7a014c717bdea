"""The machine: memories, threads in cohorts of blocks, and the units that instructions use.

`launch.py` is one launch, `cohort.py` a set of blocks that advance together, `schedule.py` the
order in which cohorts do. A cohort's units execute what generated code asks of them: memory,
atomics, barriers, warps, matrices, asynchronous copies.
"""
