"""The kernel profiler (Roller §3.3): verify and measure candidate rKernels on this machine.

code.py      rKernels -> functions that can be called
operands.py  arrays for a kernel, with guards around the results
verify.py    what the results must be, and the check
timing.py    interleaved timing, gated against noise
beside.py    EUs that run the same meanwhile
records.py   what is kept of a kernel and of a program, as rows and as lines of JSON
storage.py   the file of the profile index and its layouts
index.py     the profile index: measured times that outlive the process
tuner.py     all of it for one operator: the choice among the K best tilings
"""
