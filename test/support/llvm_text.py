"""Make LLVM IR text of a newer LLVM readable for llvmlite's LLVM: float literals."""

import re
import struct

import ml_dtypes
import numpy as np

_TOKEN = re.compile(
    r'\b(float|double|half|bfloat)\b|((?<![\w%@."$#])[+-]?\d+\.\d+(?:e[+-]?\d+)?(?![\w"])'
    r'|(?<![\w%@."$#])[+-](?:inf|qnan|s?nan\(0x[0-9A-Fa-f]+\))|(?<![\w%@."$])f0x[0-9A-Fa-f]+)'
)
_LINE = re.compile(r"\d\.\d|[+-]inf|[+-]q?s?nan|f0x")
_FORMAT = {"float": (32, 8, 23), "double": (64, 11, 52), "half": (16, 5, 10), "bfloat": (16, 8, 7)}
_NUMPY = {
    "float": (np.float32, np.uint32),
    "double": (np.float64, np.uint64),
    "half": (np.float16, np.uint16),
    "bfloat": (ml_dtypes.bfloat16, np.uint16),
}


def _bits(kind: str, text: str) -> int:
    width, exponent, mantissa = _FORMAT[kind]
    sign = int(text[0] == "-") << (width - 1)
    if text.startswith("f0x"):
        return int(text[3:], 16)
    body, infinity = text.lstrip("+-"), ((1 << exponent) - 1) << mantissa
    if body == "inf":
        return sign | infinity
    if body == "qnan":
        return sign | infinity | 1 << (mantissa - 1)
    nan = re.match(r"(s?)nan\(0x([0-9A-Fa-f]+)\)", body)
    if nan:
        quiet = 0 if nan.group(1) else 1 << (mantissa - 1)
        return sign | infinity | quiet | int(nan.group(2), 16)
    number, unsigned = _NUMPY[kind]
    return int(np.array(float(text)).astype(number).view(unsigned))


def _literal(kind: str, bits: int) -> str:
    if kind in ("half", "bfloat"):
        return f"0x{'H' if kind == 'half' else 'R'}{bits:04X}"
    if kind == "float":  # written as the double of the same value, NaN payloads shifted
        sign, exponent, mantissa = bits >> 31, bits >> 23 & 255, bits & 0x7FFFFF
        if exponent == 255:
            bits = sign << 63 | 0x7FF << 52 | mantissa << 29
        else:
            number = struct.unpack("<f", struct.pack("<I", bits))[0]
            bits = struct.unpack("<Q", struct.pack("<d", number))[0]
    return f"0x{bits:016X}"


def _rewrite(line: str) -> str:
    kind: str | None = None

    def token(match: re.Match[str]) -> str:
        nonlocal kind
        if match.group(1):
            kind = match.group(1)
            return kind
        return _literal(kind, _bits(kind, match.group(2))) if kind else match.group(2)

    return _TOKEN.sub(token, line)


def to_older(text: str) -> str:
    """Rewrite ``+inf``, ``+qnan``, ``f0x..`` and inexact decimals as hexadecimal literals."""
    return "\n".join(
        _rewrite(line)
        if _LINE.search(line) and not line.startswith(("source_filename", "target"))
        else line
        for line in text.split("\n")
    )
