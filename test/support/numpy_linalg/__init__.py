"""An interpreter of the bodies of rKernels (stage S3) with numpy: what the IR says, op by op.

    kernel_results(kernel, arrays, constants)    one rtask.kernel, of a whole operator or a task
    function_results(module, arrays, constants)  func.func @main: its operators by their kernels

Nothing of the compiler's code generation is used. Elements that nothing has written have values
that show: see `elements.unwritten`.
"""

from numpy_linalg.model import function_results, kernel_results, named_kernel

__all__ = ["function_results", "kernel_results", "named_kernel"]
