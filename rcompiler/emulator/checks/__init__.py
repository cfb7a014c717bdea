"""What hardware lets pass: accesses of two threads to one cell that nothing orders.

Checks stand below the machine: `observed.py` says what they ask of its launches and threads.
`clocks.py` keeps what every thread knows of the others' progress, `order.py` how fences, releases
and acquires spread it between blocks, `shadow.py` who touched a cell last.
"""
