"""ONNX files with bytes changed: read or refused, never anything else.

Bytes anywhere most often leave no protobuf message at all. So every other mutant has bytes of one
of its fields changed, and the lengths around it made right: it is a message, of something else.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import rcompiler
from rcompiler.errors import CompilerError
from rcompiler.frontend import import_onnx

from . import graphs
from .judge import Outcome, Report, key_of
from .maker import Reject

MUTANTS = 100
_COMPILED = 0.1  # of those that can be imported


def models(seed: int, targets: Sequence[str], report: Report) -> Outcome:
    """The file of a case, mutated; each mutant is imported, a few are compiled."""
    report("generate")
    try:
        case = graphs.case_of(seed, targets)
    except Reject:
        return Outcome("no graph", tried=0)
    data, chosen = case.model.SerializeToString(), random.Random(seed)
    for number in range(MUTANTS):
        mutant = chosen.choice([mutated, with_other_fields])(data, chosen)
        report(f"mutant {number}")
        try:
            import_onnx(mutant)
            if chosen.random() < _COMPILED:
                rcompiler.compile_onnx(mutant, target=chosen.choice(targets))
        except CompilerError as error:
            if "defect of the compiler" in str(error):
                what = f"mutant {number}: {error}"
                return Outcome("untyped", what, key_of(error), tried=number + 1)
        except Exception as error:  # whatever a defect raises
            what = f"mutant {number}: {type(error).__name__}: {error}"
            return Outcome("internal", what, key_of(error), tried=number + 1)
    return Outcome("ok", tried=MUTANTS)


def mutated(data: bytes, chosen: random.Random) -> bytes:
    """One to four changes of bytes."""
    out = bytearray(data)
    for _ in range(chosen.choice([1, 1, 2, 4])):
        at = chosen.randrange(len(out))
        size = min(chosen.choice([1, 1, 2, 4, 16]), len(out) - at)
        match chosen.randrange(6):
            case 0:
                out[at] ^= 1 << chosen.randrange(8)
            case 1:
                out[at] = chosen.choice([0, 1, 2, 7, 127, 128, 255])
            case 2:
                del out[at : at + size]
            case 3:
                out[at:at] = chosen.randbytes(size)
            case 4:
                out[at : at + size] = chosen.randbytes(size)
            case _:
                other = chosen.randrange(len(out))
                out[at : at + size] = out[other : other + size]
        if not out:
            return data
    return bytes(out)


def with_other_fields(data: bytes, chosen: random.Random) -> bytes:
    """One to three fields of messages changed, added, moved or left out."""
    for _ in range(chosen.choice([1, 1, 2, 3])):
        data = _changed(data, chosen) or data
    return data


@dataclass(frozen=True)
class _Field:
    """Of a message of protobuf. payload: without its length where it has one."""

    number: int
    wire: int
    payload: bytes

    def encoded(self) -> bytes:
        size = _varint(len(self.payload)) if self.wire == 2 else b""
        return _varint(self.number << 3 | self.wire) + size + self.payload


def _changed(data: bytes, chosen: random.Random) -> bytes | None:
    """A message with a change in one of its fields, or of them; None where the bytes are none."""
    fields = _parsed(data)
    if not fields:
        return None
    # The few fields around the graph would else be changed as often as all that is in it.
    weights = [math.sqrt(len(field.payload) + 1) for field in fields]
    (at,) = chosen.choices(range(len(fields)), weights)
    field, inner = fields[at], None
    if field.wire == 2 and chosen.random() < 0.9:
        inner = _changed(field.payload, chosen)
    if inner is not None:
        fields[at] = replace(field, payload=inner)
    else:
        chosen.choice([_other, _other, _other, _without, _again, _exchanged, _elsewhere])(
            fields, at, chosen
        )
    return b"".join(field.encoded() for field in fields)


def _other(fields: list[_Field], at: int, chosen: random.Random) -> None:
    """Another number, or other bytes."""
    field = fields[at]
    if field.wire == 0:
        now = int.from_bytes(field.payload[:1])
        numbers = [0, 1, 2, 7, now + 1, max(now - 1, 0), 64, 1 << 20, (1 << 31) - 1, (1 << 64) - 1]
        payload = _varint(chosen.choice(numbers))
    elif field.wire == 2:
        payload = mutated(field.payload, chosen) if field.payload else chosen.randbytes(1)
    else:
        payload = chosen.randbytes(len(field.payload))
    fields[at] = replace(field, payload=payload)


def _without(fields: list[_Field], at: int, chosen: random.Random) -> None:
    del fields[at]


def _again(fields: list[_Field], at: int, chosen: random.Random) -> None:
    fields.insert(chosen.randrange(len(fields) + 1), fields[at])


def _exchanged(fields: list[_Field], at: int, chosen: random.Random) -> None:
    other = chosen.randrange(len(fields))
    fields[at], fields[other] = fields[other], fields[at]


def _elsewhere(fields: list[_Field], at: int, chosen: random.Random) -> None:
    """The same bytes as another field."""
    fields[at] = replace(fields[at], number=chosen.randint(1, 16))


def _parsed(data: bytes) -> list[_Field] | None:
    """The fields of a message; None where the bytes are none."""
    found, at = [], 0
    while at < len(data):
        key = _number(data, at)
        if key is None or not key[0] >> 3:
            return None
        (tag, at), end = key, len(data)
        wire = tag & 7
        if wire == 0 or wire == 2:
            number = _number(data, at)
            if number is None:
                return None
            at, end = (at, number[1]) if wire == 0 else (number[1], sum(number))
        elif wire == 1 or wire == 5:
            end = at + (8 if wire == 1 else 4)
        else:
            return None
        if end > len(data):
            return None
        found.append(_Field(tag >> 3, wire, data[at:end]))
        at = end
    return found


def _number(data: bytes, at: int) -> tuple[int, int] | None:
    """(a varint, where it ends)."""
    found = 0
    for i, byte in enumerate(data[at : at + 10]):
        found |= (byte & 127) << 7 * i
        if byte < 128:
            return found, at + i + 1
    return None


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])
