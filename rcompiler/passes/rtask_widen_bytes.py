"""rtask-widen-bytes: products of bytes that reuse their factors read them as 16 bits.

Before:
    %y = linalg.generic {acc + extui(a) * extsi(b)} ins(%x, %w : tensor<8x64xi8>, tensor<64x16xi8>)
After:
    %a = linalg.generic {arith.extui} ins(%x) -> tensor<8x64xi16>
    %b = linalg.generic {arith.extsi} ins(%w) -> tensor<64x16xi16>
    %y = linalg.generic {acc + extsi(a) * extsi(b)} ins(%a, %b)
For CPUs without an instruction that multiplies bytes: they multiply pairs of 16 bits, and would
take each factor apart again wherever it is read, which takes longer than the products. So what
computes activations stores them in 16 bits, and weights are widened when constants are folded. What
else reads those activations reads the same memory; what is padded is widened in front of the
padding. The sums are the same numbers.

Leaves alone: factors that few results share, such as the weights of a product with one row, which
are half of the memory as bytes; weights that are not constant; and products without channels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg

from rcompiler.linalg.bodies import is_elementwise, is_multiply_add
from rcompiler.linalg.constants import is_constant, scalar_of
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of
from rcompiler.linalg.pieces import pad_value
from rcompiler.linalg.values import (
    defining,
    element_of,
    element_type,
    integers,
    ops_of,
    shape_of,
)
from rcompiler.linalg.views import RESHAPES
from rcompiler.passes import OptionalPass
from rcompiler.passes.ir.clone import clone
from rcompiler.passes.ir.operators import bodies, generics
from rcompiler.passes.ir.tensor_ir import elementwise, empty, erase_dead, generic, padded, reshape

_LEAST = 8  # results that share an element of a factor, for it to be worth two bytes
_EXTENSIONS = {"arith.extui": False, "arith.extsi": True}


@dataclass(frozen=True)
class RTaskWidenBytes(OptionalPass):
    """Store factors of bytes in 16 bits where many results share them."""

    def run(self, module: ir.Operation) -> None:
        for body in bodies(module):
            widener = _Widener()
            for op in generics(body):
                if (signed := _factors(op)) is not None:
                    widener.widen_product(Generic(op), signed)
            widener.share()
            erase_dead(body)


def _factors(op: ir.Operation) -> tuple[bool, bool] | None:
    """Whether each factor of a product to rewrite is signed; None for everything else."""
    if [element_of(v) for v in op.operands] != ["i8", "i8", "i32"]:
        return None
    old = Generic(op)
    if not old.reduction_dims or not is_multiply_add(old):
        return None
    weights = [k for k in (0, 1) if is_constant(old.inputs[k])]
    if len(weights) != 1 or not all(_shared(old, k) for k in (0, 1)) or not _has_channels(old):
        return None
    signed = [_signed(value) for value in list(old.block.arguments)[:2]]
    return None if None in signed else (bool(signed[0]), bool(signed[1]))


def _shared(old: Generic, operand: int) -> bool:
    """Whether many results need each element of an operand."""
    own = set(old.operand_dims[operand])
    others = [n for d, n in enumerate(old.sizes) if d not in old.reduction_dims and d not in own]
    return math.prod(others) >= _LEAST


def _has_channels(old: Generic) -> bool:
    """Whether a loop of two steps or more, no window, is reduced in both factors."""
    plain = [{dim_of(e) for e in map_.results} for map_ in old.maps[:2]]
    return any(old.sizes[d] > 1 for d in plain[0] & plain[1] & set(old.reduction_dims))


def _signed(argument: ir.Value) -> bool | None:
    """How a body extends a byte; None where it does something else with it, or not in one way."""
    users = [use.owner.operation.name for use in argument.uses]
    return _EXTENSIONS.get(users[0]) if len(set(users)) == 1 else None


class _Widener:
    """Widens the factors of one function; each value once."""

    def __init__(self) -> None:
        self._known: dict[tuple[ir.Value, bool], ir.Value] = {}

    def widen_product(self, old: Generic, signed: tuple[bool, bool]) -> None:
        """Rewrite a product so that it reads 16 bits."""
        pairs = zip(old.inputs, signed, strict=True)
        wide = {k: self._wide(value, sign) for k, (value, sign) in enumerate(pairs)}
        _read_wide(old, wide, dict(enumerate(signed)))

    def share(self) -> None:
        """Let what else reads a value read the wide one, which is then all that memory holds."""
        for (value, signed), wide in self._known.items():
            if not _is_low_half(value, wide):
                continue
            for user in dict.fromkeys(use.owner.operation for use in value.uses):
                if user.name == "linalg.generic":
                    old = Generic(user)
                    places = [k for k, v in enumerate(old.inputs) if v == value]
                    _read_wide(old, dict.fromkeys(places, wide), dict.fromkeys(places, signed))

    def _wide(self, value: ir.Value, signed: bool) -> ir.Value:
        if (value, signed) not in self._known:
            self._known[value, signed] = self._widened(value, signed)
        return self._known[value, signed]

    def _widened(self, value: ir.Value, signed: bool) -> ir.Value:
        """Made where the value is, so that all that reads it comes later."""
        op = defining(value)
        if op is None:
            with ir.InsertionPoint.at_block_begin(value.owner), ir.Location.unknown():
                return _extended_tensor(value, signed)
        with ir.InsertionPoint.after(op), op.location:
            if op.name in RESHAPES:
                return reshape(self._wide(op.operands[0], signed), shape_of(value))
            edge = scalar_of(pad_value(op)) if op.name == "tensor.pad" else None
            if edge is not None:
                low, high = (integers(op, name) for name in ("static_low", "static_high"))
                number = arith.constant(_i16(), int(edge) if signed else int(edge) & 0xFF)
                return padded(self._wide(op.operands[0], signed), low, high, number)
            if op.name == "linalg.generic" and is_elementwise(Generic(op)):
                return self._computed(Generic(op), signed)
            return _extended_tensor(value, signed)

    def _computed(self, old: Generic, signed: bool) -> ir.Value:
        """The result of an elementwise op in 16 bits; what read the bytes reads their low half."""
        kinds = [*map(element_type, old.inputs), _i16()]
        wide = generic(old.inputs, [empty(old.sizes, _i16())], old.maps, old.kinds)
        block = wide.regions[0].blocks.append(*kinds, arg_locs=[old.op.location] * len(kinds))
        mapped = dict(zip(old.block.arguments, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            *body, end = ops_of(old.block)
            for op in body:
                clone(op, mapped)
            byte = end.operands[0]
            linalg.YieldOp([_extended(mapped.get(byte, byte), signed)])
        [result] = wide.results
        bytes_ = elementwise([result], _i8(), lambda word: arith.trunci(_i8(), word))
        self._known[bytes_, signed] = result
        old.op.results[0].replace_all_uses_with(bytes_)
        return result


def _is_low_half(value: ir.Value, wide: ir.Value) -> bool:
    op = defining(value)
    return op is not None and op.name == "linalg.generic" and wide in list(op.operands)


def _read_wide(old: Generic, wide: dict[int, ir.Value], signed: dict[int, bool]) -> None:
    """Rewrite an op so that it reads 16 bits for some operands; by their numbers."""
    operands = [wide.get(k, v) for k, v in enumerate(old.inputs)]
    with ir.InsertionPoint(old.op), old.op.location:
        new = generic(operands, old.inits, old.maps, old.kinds)
        kinds = [element_type(v) for v in new.operands]
        block = new.regions[0].blocks.append(*kinds, arg_locs=[old.op.location] * len(kinds))
        with ir.InsertionPoint(block):
            _fill_body(block, old, signed)
    for before, after in zip(old.op.results, new.results, strict=True):
        before.replace_all_uses_with(after)
    old.op.erase()


def _fill_body(block: ir.Block, old: Generic, signed: dict[int, bool]) -> None:
    """What the body of `old` does, from 16 bits for the operands in `signed`."""
    mapped = dict(zip(old.block.arguments, block.arguments, strict=True))
    wide = {old.block.arguments[k]: sign for k, sign in signed.items()}
    for op in ops_of(old.block):
        extended = next(iter(op.operands), None) if op.name in _EXTENSIONS else None
        if extended in wide and wide[extended] == _EXTENSIONS[op.name]:
            mapped[op.results[0]] = arith.extsi(op.results[0].type, mapped[extended])
            continue
        bytes_of = {v: arith.trunci(v.type, mapped[v]) for v in op.operands if v in wide}
        own = mapped | bytes_of
        clone(op, own)
        mapped |= {result: own[result] for result in op.results}


def _extended_tensor(value: ir.Value, signed: bool) -> ir.Value:
    return elementwise([value], _i16(), lambda byte: _extended(byte, signed))


def _extended(byte: ir.Value, signed: bool) -> ir.Value:
    return (arith.extsi if signed else arith.extui)(_i16(), byte)


def _i8() -> ir.Type:
    return ir.IntegerType.get_signless(8)


def _i16() -> ir.Type:
    return ir.IntegerType.get_signless(16)
