"""An interpreter of schedules (stage S4) with numpy: every rTask of every launch, in an order that
waits and barriers allow, on the bytes of its buffers.

    program_results(module, arrays, constants)    the outputs of a model, from its S4 module

`order` knows programs alone, `memory` bytes alone; what an rTask computes is `numpy_linalg`'s to
say. Nothing of the compiler's code generation is used.
"""

from numpy_schedule.execute import Results, program_results

__all__ = ["Results", "program_results"]
