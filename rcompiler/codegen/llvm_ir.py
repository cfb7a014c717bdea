"""LLVM-dialect MLIR module -> text of LLVM IR that llvmlite's LLVM 22 reads.

The bindings carry LLVM 24, llvmlite carries LLVM 22, and the only bridge is the text. Two things
stand in the way, and both are handled here:

* MLIR's translation ends the process with a segmentation fault on an operation without an LLVM
  translation, so every operation is looked at first and refused by name;
* LLVM 24 prints floating-point constants in forms that the older parser rejects (see `to_llvm22`).
"""

import re
import struct
from functools import lru_cache

import ml_dtypes
import numpy as np
from torch_mlir import ir

from rcompiler.codegen.translation import translated
from rcompiler.errors import PipelineError

# Inline assembly, which is left as it is, or a number behind a space: the search jumps to these two
# letters, and what is in front of the space is looked at where there is a number.
_LITERAL = re.compile(
    r'"[^"\n]*"| (?=[-+0-9f])'
    r"(?:(?P<decimal>[+-]?\d+\.\d+(?:e[+-]?\d+)?)|f0x(?P<bits>[0-9A-Fa-f]+)"
    r"|(?P<sign>[+-])(?:(?P<inf>inf)|(?P<nan>q?nan|snan)(?:\(0x(?P<payload>[0-9A-Fa-f]+)\))?))"
    r"(?![\w.])"
)
_TYPE_NAME = re.compile(r"\b(float|double|half|bfloat)\b")
_INTRINSIC_ATTRIBUTES = re.compile(r"(\ndeclare [^\n]*@llvm\.[^\n]*?\)) #\d+(?=\n)")
# type: numpy type, bits, mantissa bits, prefix of the hexadecimal spelling
_FORMATS = {
    "half": (np.float16, 16, 10, "0xH"),
    "bfloat": (ml_dtypes.bfloat16, 16, 7, "0xR"),
    "float": (np.float32, 32, 23, "0x"),
    "double": (np.float64, 64, 52, "0x"),
}


def llvm_ir(module: str | ir.Module | ir.Operation) -> str:
    """Translate a module of the llvm dialect (or its text) to LLVM IR for LLVM 22; also a
    gpu.module, with the GPU's own dialect in it.

    Raises:
        PipelineError: the text does not parse, or an operation is not of the llvm dialect.
    """
    if isinstance(module, str):
        module = parsed(module)  # which must live as long as its operation
    operation = module.operation
    with operation.context:
        _refuse_untranslatable(operation)
        return to_llvm22(translated(operation))


def parsed(text: str) -> ir.Module:
    """A module, in a context of its own. Raises PipelineError for what is none."""
    with ir.Context(), ir.Location.unknown():
        try:
            return ir.Module.parse(text)
        except ir.MLIRError as error:
            raise PipelineError(
                f"code generation: the module text does not parse: {error}; "
                "give a builtin.module of the llvm dialect"
            ) from None


def to_llvm22(text: str) -> str:
    """Rewrite the constants and attributes that LLVM 22's parser does not read.

    LLVM 24 prints the shortest decimal that rounds to the value, `f0x<bits>`, `+inf`, `+nan(..)`;
    LLVM 22 takes only exact decimals and hexadecimal bits, so every constant becomes bits. The
    attributes of intrinsics are dropped: each LLVM adds its own when it reads the declaration.
    """
    return _INTRINSIC_ATTRIBUTES.sub(r"\1", _LITERAL.sub(_hexadecimal, text))


# What a module may be made of, by the operation that it is.
_DIALECTS = {"builtin.module": ("llvm",), "gpu.module": ("llvm", "nvvm", "rocdl")}


def _refuse_untranslatable(module: ir.Operation) -> None:
    first: dict[str, ir.Operation] = {}  # of each name

    def visit(op: ir.Operation) -> ir.WalkResult:
        first.setdefault(op.name, op)
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    dialects = _DIALECTS[module.name]
    for name, op in first.items():
        if op != module and name.partition(".")[0] not in dialects:
            raise PipelineError(
                f"code generation: '{name}' at {op.location} has no translation to "
                "LLVM IR; the pipeline must lower every operation to the llvm dialect first"
            )


def _hexadecimal(match: re.Match[str]) -> str:
    if match[0][0] == '"':
        return match[0]
    # The type stands in front of the number; or, of the second operand of an instruction and of an
    # incoming value of a phi, once, further left in the line. Else it is no constant of floats.
    line = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
    names = _TYPE_NAME.findall(line)
    if not names or not line.endswith((*_FORMATS, ",", "[")):
        return match[0]
    return " " + _constant(
        names[-1],
        match["decimal"],
        match["bits"],
        match["sign"],
        match["nan"],
        match["payload"],
    )


@lru_cache(maxsize=4096)
def _constant(
    kind: str,
    decimal: str | None,
    bits: str | None,
    sign: str | None,
    nan: str | None,
    payload: str | None,
) -> str:
    dtype, width, mantissa, prefix = _FORMATS[kind]
    if decimal is not None:
        value = int.from_bytes(np.array(float(decimal)).astype(dtype).tobytes(), "little")
    elif bits is not None:
        value = int(bits, 16)
    else:
        exponent = ((1 << (width - 1 - mantissa)) - 1) << mantissa
        quiet = 1 << (mantissa - 1)
        fraction = 0 if nan is None else int(payload or "0", 16) | (0 if nan == "snan" else quiet)
        value = (int(sign == "-") << (width - 1)) | exponent | fraction
    if kind == "float":
        value = _widen(value)
    return f"{prefix}{value:0{4 if width == 16 else 16}X}"


def _widen(bits: int) -> int:
    """The bits of the double that LLVM writes for a float: same value, NaN payload kept on top."""
    exponent, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        return (bits >> 31) << 63 | 0x7FF << 52 | fraction << 29
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])
