"""A GPU without a GPU: PTX run in numpy, and whatever it does wrong reported.

`EmulatedDriver` (driver.py) is a `rcompiler.runtime.gpu.driver.Driver`. A module's text is parsed
(`ptx/`), every basic block of a kernel becomes one Python function over numpy arrays with an
element per thread (`translate/`), and a machine runs them (`machine/`): groups of threads that
share a program counter, cohorts of blocks, and an order of the blocks that may be hostile. While it
runs it checks what no hardware checks (`checks/`): every access lies in an allocation and is
aligned, data that are read were written, asynchronous copies are waited for, and accesses of
different threads to one cell are ordered by barriers, releases and acquires. Matrix units sum as
the hardware of the device's compute capability does, as far as that is published
(`numbers/tensor_core.py`); their bits do not depend on the host.

What a fault is: `faults.py`. What is not modelled: the weak order of one thread's own accesses
(memory is sequentially consistent, but what is not ordered by synchronisation is a race and so a
fault), clusters of several blocks, timing. Of fences between proxies (`checks/proxies.py`) two
things: engines may write over what threads have read without one, and one that is made for an
engine counts also in front of the barrier that brings its thread behind the writer.

PTX in an artifact is a stranger's data: names and numbers of its text never reach the generated
code, which is made of register numbers, pooled constants and fixed fragments alone.
"""
