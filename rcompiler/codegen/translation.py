"""The text of LLVM IR that MLIR's translation writes.

What the Python binding calls gives out a text that its caller is to free, and the binding does not:
each translation would keep its text until the process ends (430 kB for a block of BERT). So the
function of the library beneath is called here, and its text freed.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from torch_mlir import _mlir_libs, ir
from torch_mlir.dialects import llvm as llvm_dialect

_LIBRARY = "libTorchMLIRAggregateCAPI.so"


def translated(operation: ir.Operation) -> str:
    """LLVM IR of a module that has nothing but what can be translated, in its context."""
    functions = _functions()
    if functions is None:  # bindings that are built otherwise
        text: str = llvm_dialect.translate_module_to_llvmir(operation)
        return text
    translate, free = functions
    found = translate(_MlirOperation(_address(operation)))
    try:
        return ctypes.string_at(found).decode()
    finally:
        free(found)


class _MlirOperation(ctypes.Structure):
    """As the library passes it: a structure of one pointer."""

    _fields_ = (("ptr", ctypes.c_void_p),)


def _address(operation: ir.Operation) -> int:
    capsule = operation._CAPIPtr
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: int = pointer_of(capsule, name_of(capsule))
    return address


@cache
def _functions() -> tuple[Any, Any] | None:
    """What translates and what frees a text; None where the library is not there."""
    try:
        # Not let go of the interpreter, as the binding does not: a context is of one thread.
        library = ctypes.PyDLL(str(Path(_mlir_libs.__file__).parent / _LIBRARY))
        translate, free = library.mlirTranslateModuleToLLVMIRToString, library.LLVMDisposeMessage
    except (OSError, AttributeError):
        return None
    translate.restype, translate.argtypes = ctypes.c_void_p, [_MlirOperation]
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    return translate, free
