"""The body of one rTask for an execution unit of many threads (a streaming multiprocessor).

The same rKernels as everywhere, read in another way: the register tiles of a task's tile are shared
out to groups of threads, and what is a lane of a vector register on a CPU is a thread of the group
here. So consecutive lanes touch consecutive memory, and every thread computes scalars.
"""
