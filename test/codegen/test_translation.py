"""The translation to LLVM IR: it says what the bindings' own says, and keeps none of its texts."""

import ctypes
import gc

import pytest
from torch_mlir import ir
from torch_mlir.dialects import llvm

from rcompiler.codegen.translation import translated

ADDITIONS = 400
TRANSLATIONS = 50


class _Mallinfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks"),
            *("uordblks", "fordblks", "keepcost"),
        )
    ]


def bytes_in_use() -> int:
    """Of glibc's heap."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("no allocator that says how much is in use")
    libc.mallinfo2.restype = _Mallinfo
    gc.collect()
    return libc.mallinfo2().uordblks


@pytest.fixture
def module():
    lines = [f"  %{i + 1} = llvm.add %{i}, %0 : i64" for i in range(1, ADDITIONS)]
    text = "\n".join(["  %1 = llvm.add %0, %0 : i64", *lines]).replace("%0", "%arg0")
    with ir.Context(), ir.Location.unknown():
        yield ir.Module.parse(
            f"llvm.func @f(%arg0: i64) -> i64 {{\n{text}\n  llvm.return %{ADDITIONS} : i64 }}"
        )


def test_the_text_is_that_of_the_bindings(module):
    assert translated(module.operation) == llvm.translate_module_to_llvmir(module.operation)


def test_no_text_is_kept(module):
    length = len(translated(module.operation))
    before = bytes_in_use()
    for _ in range(TRANSLATIONS):
        translated(module.operation)
    assert bytes_in_use() - before < 2 * length
