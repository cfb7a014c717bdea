"""A slow, simple way to run an S1 module, as an oracle for tests.

MLIR's own bufferization and loop lowering, then llvmlite. Nothing of the compiler's back end is
used. The work is done in a child process: MLIR's C++ may abort on IR that it cannot lower.
"""

import ctypes
import pickle
import re
import select
import struct
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

BUFFERIZE = [
    "func.func(refback-generalize-tensor-pad,refback-generalize-tensor-concat)",
    "one-shot-bufferize{copy-before-write bufferize-function-boundaries "
    "function-boundary-type-conversion=identity-layout-map}",
    "func.func(refback-munge-memref-copy,convert-linalg-to-loops,lower-affine)",
]
TO_LLVM = [
    "convert-scf-to-cf",
    "math-extend-to-supported-types{target-type=f32}",
    # llvmlite's run time library has no conversion routine to bf16
    "func.func(arith-emulate-unsupported-floats{source-types=bf16 target-type=f32})",
    "func.func(refback-expand-ops-for-llvm,arith-expand{include-bf16=true})",
    "convert-math-to-libm",  # first: convert-math-to-llvm turns log1p(x) into log(1 + x)
    "func.func(convert-math-to-llvm)",
    "expand-strided-metadata",
    "lower-affine",
    "finalize-memref-to-llvm",
    "func.func(convert-arith-to-llvm)",
    "convert-index-to-llvm",
    "convert-func-to-llvm",
    "convert-cf-to-llvm",
    "convert-ub-to-llvm",
    "reconcile-unrealized-casts",
]
_CONSTANT = re.compile(
    r"\s*(%[\w.]+) = arith\.constant dense_resource<(\w+)> : (tensor<[^>]*>)(?: loc\(.*\))?\s*$"
)
_RESULT = re.compile(r'rtask\.dtype = "(\w+)"')


def lift_constants(text: str) -> tuple[str, list[str]]:
    """Resource constants become leading arguments of @main; returns their keys in order."""
    lines, names, keys = [], [], []
    for line in text.split("\n"):
        match = _CONSTANT.match(line)
        if match:
            names.append(f"{match.group(1)}: {match.group(3)}")
            keys.append(match.group(2))
        else:
            lines.append(line)
    text = "\n".join(lines)
    head, found, tail = text.partition("func.func @main(")
    separator = ", " if names and not tail.startswith(")") else ""
    return head + found + ", ".join(names) + separator + tail, keys


def _descriptor(rank: int) -> type[ctypes.Structure]:
    fields: list = [("a", ctypes.c_void_p), ("p", ctypes.c_void_p), ("o", ctypes.c_longlong)]
    if rank:
        fields += [("s", ctypes.c_longlong * rank), ("t", ctypes.c_longlong * rank)]
    return type(f"D{rank}", (ctypes.Structure,), {"_fields_": fields})


def _describe(array: np.ndarray) -> ctypes.Structure:
    out = _descriptor(array.ndim)()
    out.a = out.p = array.ctypes.data
    stride = 1
    for i in reversed(range(array.ndim)):
        out.s[i], out.t[i] = array.shape[i], stride
        stride *= array.shape[i]
    return out


def _read(out: ctypes.Structure, rank: int, dtype: np.dtype) -> np.ndarray:
    shape = [out.s[i] for i in range(rank)] if rank else []
    strides = [out.t[i] for i in range(rank)] if rank else []
    if 0 in shape:
        return np.zeros(shape, dtype)
    extent = 1 + sum((d - 1) * t for d, t in zip(shape, strides, strict=True))
    raw = (ctypes.c_char * (extent * dtype.itemsize)).from_address(out.p + out.o * dtype.itemsize)
    flat = np.frombuffer(raw, dtype, extent)
    views = [t * dtype.itemsize for t in strides]
    return np.lib.stride_tricks.as_strided(flat, shape, views).copy()


def _lower(text: str) -> str:
    from llvm_text import to_older
    from torch_mlir import ir
    from torch_mlir.dialects import llvm
    from torch_mlir.dialects import torch as _registers_refback_passes  # noqa: F401
    from torch_mlir.passmanager import PassManager

    with ir.Context() as context:
        context.enable_multithreading(False)
        module = ir.Module.parse(text)
        module.operation.verify()
        for op in module.body.operations:
            op.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
        for stage in BUFFERIZE + TO_LLVM:
            PassManager.parse(f"builtin.module({stage})").run(module.operation)
        return to_older(llvm.translate_module_to_llvmir(module.operation))


def _compile(text: str, level: int):
    import llvmlite.binding as llvm

    from rcompiler.codegen.cpu import Target

    host = Target.named("host")

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for library in ("libm.so.6", "libgcc_s.so.1"):
        llvm.load_library_permanently(library)
    module = llvm.parse_assembly(text)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=host.cpu,
        features=host.features,
        opt=1,
        jit=True,  # at 0, half conversions become calls that nothing provides
    )
    if level:
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        llvm.create_pass_builder(machine, options).getModulePassManager().run(
            module, llvm.create_pass_builder(machine, options)
        )
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


@lru_cache(maxsize=2)  # a module that runs on several inputs is compiled once
def _engine(text: str, level: int):
    return _compile(_lower(text), level)


def execute(text: str, constants: dict[str, np.ndarray], inputs: list[np.ndarray]) -> list:
    """Run in this process (see ``Runner`` for the safe way). Results in their storage types."""
    signature = re.search(r"func\.func @main\(.*?\) -> \((.*)\) \{|func\.func @main", text)
    outs = signature.group(1) if signature and signature.group(1) else ""
    results = [
        (m.group(1).count("x"), m.group(1).split("x")[-1])
        for m in re.finditer(r"tensor<([^>]*)>", outs)
    ]
    lifted, keys = lift_constants(text)
    arrays = [np.ascontiguousarray(constants[k]) for k in keys]
    arrays += [np.require(x, requirements="C") for x in inputs]
    # Optimizing pays only where there is much to compute.
    large = sum(x.size for x in arrays) > 1 << 16 and len(text) < 1 << 20
    engine = _engine(lifted, int(large))
    descriptors = [_describe(x) for x in arrays]
    kinds = [_descriptor(rank) for rank, _ in results]
    fields = [(f"r{i}", kind) for i, kind in enumerate(kinds)]
    returned = type("R", (ctypes.Structure,), {"_fields_": fields})()
    pointers = [ctypes.byref(d) for d in descriptors]
    count = len(pointers) + bool(results)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(
        engine.get_function_address("_mlir_ciface_main")
    )
    call(*([ctypes.byref(returned)] if results else []), *pointers)
    return [
        _read(getattr(returned, f"r{i}"), rank, _numpy(kind))
        for i, (rank, kind) in enumerate(results)
    ]


def _numpy(kind: str) -> np.dtype:
    if kind == "bf16":
        return np.dtype(ml_dtypes.bfloat16)
    if kind == "i1":
        return np.dtype(np.bool_)
    return np.dtype({"f": "float", "i": "int"}[kind[0]] + kind[1:])


class Crash(RuntimeError):
    """The child process died or did not answer in time."""


class Runner:
    """A child process that runs modules; a new one is started after a crash."""

    def __init__(self, timeout: float = 120.0):
        self.timeout = timeout
        self.child: subprocess.Popen | None = None

    def run(self, text: str, constants: dict, inputs: list) -> list[np.ndarray]:
        """Outputs of ``@main``. Raises RuntimeError with the child's message."""
        if self.child is None:
            self.child = subprocess.Popen(
                [sys.executable, __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        child = self.child
        _send(child.stdin, (text, constants, [np.asarray(x) for x in inputs]))
        ready, _, _ = select.select([child.stdout], [], [], self.timeout)
        answer = _receive(child.stdout) if ready else None
        if answer is None:
            self.close()
            said = child.stderr.read().decode(errors="replace") if child.stderr else ""
            raise Crash(f"exit {child.returncode}: {said[-500:] or 'no answer'}")
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer

    def close(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.wait()
            self.child = None


def _send(stream, value) -> None:
    data = pickle.dumps(value)
    stream.write(struct.pack("<q", len(data)) + data)
    stream.flush()


def _receive(stream):
    head = stream.read(8)
    if len(head) < 8:
        return None
    return pickle.loads(stream.read(struct.unpack("<q", head)[0]))


def _serve() -> None:
    import os

    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # MLIR's own prints must not reach the pipe
    while (job := _receive(sys.stdin.buffer)) is not None:
        try:
            answer = execute(*job)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"[:4000]
        _send(stdout, answer)


if __name__ == "__main__":
    _serve()
