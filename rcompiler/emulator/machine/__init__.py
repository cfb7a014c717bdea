"""The machine: memories, threads in cohorts of blocks, and the units that instructions use.

`launch.py` is one launch, `threads.py` the threads of some of its blocks. Units execute what
generated code asks of them: memory, atomics, barriers, warps, matrices, asynchronous copies. Each
knows the threads, and those units that it needs. `cohort.py` puts them together: a set of blocks
that advance together. `schedule.py` is the order in which cohorts do.
"""
