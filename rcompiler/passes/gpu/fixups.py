"""What the lowering of gpu.func and func.func to llvm.func loses or gets wrong.

Noted before it (`Requests.of`) and set right after it (`apply`):

* functions of the device that are private come out visible from outside, and all without the
  attribute `always_inline` or `no_inline` that they ask for;
* an argument of a kernel with the attribute `rcompiler.tma` is a TMA descriptor: 128 bytes that are
  passed by value in the constant bank, `const __grid_constant__ CUtensorMap` in CUDA C++;
* dynamic shared memory comes out as a static variable of one byte, beside which others may lie;
* shared memory that is only aligned for its elements cannot be accessed 16 bytes at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.dialects.attributes import to_attribute
from rcompiler.linalg.values import string
from rcompiler.passes.ir.operators import ops_in_module

DESCRIPTOR = "rcompiler.tma"
_DESCRIPTOR_BYTES, _DESCRIPTOR_ALIGNMENT = 128, 64  # of CUtensorMap: CUDA driver API
_SHARED = 3  # the address space of shared (local) memory, NVPTX and AMDGPU
_SHARED_ALIGNMENT = 16  # of 128-bit accesses and cp.async
_DYNAMIC, _DYNAMIC_ALIGNMENT = "__dynamic_shmem__", 1024  # of tiles with a 128-byte swizzle
_INLINE = ("always_inline", "no_inline")


@dataclass(frozen=True)
class Requests:
    """By the names of functions: attributes for inlining, arguments that are TMA descriptors; and
    the names of those that nobody sees from outside.
    """

    inline: dict[str, str]
    descriptors: dict[str, tuple[int, ...]]
    private: frozenset[str]

    @staticmethod
    def of(gpu_module: ir.Operation) -> Requests:
        inline: dict[str, str] = {}
        descriptors: dict[str, tuple[int, ...]] = {}
        private = set()
        for op in ops_in_module(gpu_module):
            if op.name not in ("func.func", "gpu.func"):
                continue
            name = string(op, "sym_name")
            if "sym_visibility" in op.attributes:
                private.add(name)
            for asked in _INLINE:
                if asked in op.attributes:
                    inline[name] = asked
            if "arg_attrs" in op.attributes:
                arguments = enumerate(ir.ArrayAttr(op.attributes["arg_attrs"]))
                found = tuple(k for k, d in arguments if DESCRIPTOR in ir.DictAttr(d))
                if found:
                    descriptors[name] = found
        return Requests(inline, descriptors, frozenset(private))


def apply(gpu_module: ir.Operation, requests: Requests, kernel: str) -> None:
    """kernel: the attribute that marks an llvm.func as a kernel ("nvvm.kernel")."""
    for op in ops_in_module(gpu_module):
        if op.name == "llvm.mlir.global":
            _fix_shared(op)
        if op.name != "llvm.func" or not op.regions[0].blocks:
            continue
        name = string(op, "sym_name")
        if kernel in op.attributes:
            _pass_by_value(op, requests.descriptors.get(name, ()))
            continue
        if name in requests.private:
            hide(op)
        if name in requests.inline:
            op.attributes[requests.inline[name]] = ir.UnitAttr.get()


def hide(function: ir.Operation) -> None:
    """Let an llvm.func be seen in its module only."""
    function.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")


def _pass_by_value(function: ir.Operation, arguments: tuple[int, ...]) -> None:
    if not arguments:
        return
    count = len(function.regions[0].blocks[0].arguments)
    known = [ir.DictAttr.get({})] * count
    if "arg_attrs" in function.attributes:
        known = [ir.DictAttr(d) for d in ir.ArrayAttr(function.attributes["arg_attrs"])]
    content = ir.Type.parse(f"!llvm.array<{_DESCRIPTOR_BYTES} x i8>")
    by_value = {
        "llvm.byval": ir.TypeAttr.get(content),
        "llvm.align": to_attribute(_DESCRIPTOR_ALIGNMENT),
        "nvvm.grid_constant": ir.UnitAttr.get(),
    }
    attributes = [{named.name: named.attr for named in d} for d in known]
    for k in arguments:
        attributes[k] |= by_value
        attributes[k].pop(DESCRIPTOR, None)
    function.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(d) for d in attributes])


def _fix_shared(variable: ir.Operation) -> None:
    attributes = variable.attributes
    if "addr_space" not in attributes or ir.IntegerAttr(attributes["addr_space"]).value != _SHARED:
        return
    needed = _SHARED_ALIGNMENT
    if ir.StringAttr(attributes["sym_name"]).value.startswith(_DYNAMIC):
        attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<external>")
        needed = _DYNAMIC_ALIGNMENT
    known = ir.IntegerAttr(attributes["alignment"]).value if "alignment" in attributes else 0
    attributes["alignment"] = to_attribute(max(known, needed))
