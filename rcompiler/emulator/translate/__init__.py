"""Basic blocks of PTX as Python functions over numpy arrays.

`layout.py` places what a kernel and the functions it calls need: registers, parameters, memory.
`blocks.py` cuts them into basic blocks, `kernel.py` makes functions of these on demand. What an
instruction becomes is said by the families (`integer.py`, `floating.py`, ...): each has HANDLERS,
from an instruction's name to the function that writes its lines with an `emitter.Emitter`.
"""
