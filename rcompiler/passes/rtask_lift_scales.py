"""rtask-lift-scales: S2 -> S2, scales and zero points in which alone rOperators differ become an
operand of each, so that they share kernels.

Before, in one of several rOperators that differ in nothing but these numbers:
    %s = arith.constant dense<0.02> : tensor<f32>
    %x = linalg.generic {mulf(sitofp(q), s)} ins(%q, %s)
    %y = linalg.generic {fptosi(roundeven(divf(bounded(x, -2.5, 2.4), 0.03))) + 130} ins(%x)
After, with t0 = [0.02, -2.5, 2.4, r, e] and t1 = [130], constants in front of it:
    %x = linalg.generic {mulf(sitofp(q), s)} ins(%q, %t0[0])
    %y = linalg.generic {fptosi(roundeven(fma(x', r, x' * e))) + z; x' = bounded(x, l, h)}
             ins(%x, %t0[1], %t0[2], %t0[3], %t0[4], %t1[0])
A network that is quantised has other scales in each layer: a transformer of 12 equal layers had 12
times as many kernels as one in f32. r and e are the reciprocal in two parts by which
`kernelgen.quotient` divides by a known number; where that does not round as the division, for which
it has to know the number, nothing is lifted. That a byte holds the number which is cut to it is
written on the arith.trunci, as it follows from the bounds no more.

Left alone: what rOperators have in common, and numbers that something else in them uses. For CPUs
that fuse multiply and add.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, math, tensor

from rcompiler.linalg.constants import scalar_number
from rcompiler.linalg.element_types import numpy_type
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.nearest_quotient import reciprocal_of
from rcompiler.linalg.values import defining, element_type
from rcompiler.passes import OptionalPass
from rcompiler.passes.forming.scales import (
    Quantisation,
    Scales,
    lifted_number,
    lifted_type,
    scalar_uses,
)
from rcompiler.passes.ir.operators import operators
from rcompiler.passes.ir.structure import structure
from rcompiler.passes.ir.tensor_ir import affine_map, generic


@dataclass(frozen=True)
class RTaskLiftScales(OptionalPass):
    """Make operands of the scales and zero points in which alone rOperators differ."""

    def run(self, module: ir.Operation) -> None:
        alike: dict[Hashable, list[Scales]] = {}
        for operator in operators(module):
            scales = Scales(operator)
            if scales.constants:
                key = structure(operator, scales.constants), scales.form
                alike.setdefault(key, []).append(scales)
        for group in alike.values():
            columns = list(zip(*(map(str, scales.numbers) for scales in group), strict=True))
            for scales in group:
                pairs = zip(scales.constants, columns, strict=True)
                _lift(scales, {op: numbers for op, numbers in pairs if len(set(numbers)) > 1})


# Constants, and what is the same for those that are equal in all of the rOperators.
_Lifted = dict[ir.Operation, Hashable]
# By linalg.generic: values in its body, and the tensor of one number that it reads instead.
_Readers = dict[ir.Operation, list[tuple[list[ir.Value], ir.Value]]]


def _lift(scales: Scales, lifted: _Lifted) -> None:
    """Make operands of some of the constants."""
    for quantisation in scales.quantisations:
        if any(defining(op.operands[k]) in lifted for op, k in quantisation.uses):
            lifted |= _multiply(quantisation, lifted)
    elements = _elements(scales, lifted)
    readers: _Readers = {}
    for constant in lifted:
        value, element = constant.results[0], elements.get(constant)
        if element is None:  # a divisor of nothing
            continue
        if value.type == element.type:
            value.replace_all_uses_with(element)
            continue
        scalar = element_type(element)
        places: dict[ir.Operation, list[ir.Value]] = {}  # by reader, what is one there
        for op, number in scalar_uses(constant):
            one = op.operands[number]
            own = one if one.type == scalar else op.results[0]  # a byte is extended
            places.setdefault(op.parent.operation, []).append(own)
        for reader, values in places.items():
            readers.setdefault(reader, []).append((list(dict.fromkeys(values)), element))
    for reader, read in readers.items():
        _read(Generic(reader), read, lifted)
    for constant in lifted:
        constant.erase()


def _multiply(quantisation: Quantisation, lifted: _Lifted) -> _Lifted:
    """Multiply by the reciprocal instead of dividing: its two parts, if the divisor is lifted."""
    old = quantisation.divided
    x, divisor = old.operands
    constant, number = defining(divisor), scalar_number(divisor)
    assert constant is not None and number is not None
    with ir.InsertionPoint(old), old.location:
        parts = [arith.constant(divisor.type, part) for part in reciprocal_of(number)]
        reciprocal, rest = parts
        product = math.fma(x, reciprocal, arith.mulf(x, rest))
    old.results[0].replace_all_uses_with(product)
    old.erase()
    flags = ", ".join(quantisation.keeps) or "none"
    quantisation.cut.attributes["overflowFlags"] = ir.Attribute.parse(f"#arith.overflow<{flags}>")
    if constant not in lifted:
        return {}
    return {part.owner.operation: (lifted[constant], k) for k, part in enumerate(parts)}


def _elements(scales: Scales, lifted: _Lifted) -> dict[ir.Operation, ir.Value]:
    """By constants that are used, tensors of one number in the rOperator: parts of an operand for
    each type.
    """
    tables: dict[ir.Type, dict[Hashable, list[ir.Operation]]] = {}
    for constant, equal in lifted.items():
        if list(constant.results[0].uses):
            tables.setdefault(lifted_type(constant), {}).setdefault(equal, []).append(constant)
    found = {}
    for element, table in tables.items():
        with scales.operator.location:
            numbers = [lifted_number(constants[0]) for constants in table.values()]
            kind = ir.RankedTensorType.get([len(numbers)], element)
            array = np.array(numbers, numpy_type(element))
            with ir.InsertionPoint(scales.operator):
                whole = arith.constant(kind, ir.DenseElementsAttr.get(array, type=kind))
            with ir.InsertionPoint.at_block_begin(scales.operator.regions[0].blocks[0]):
                one = ir.RankedTensorType.get([], element)
                for k, constants in enumerate(table.values()):
                    part = tensor.extract_slice(one, whole, [], [], [], [k], [1], [1])
                    found.update(dict.fromkeys(constants, part))
    return found


def _read(
    old: Generic, elements: Sequence[tuple[list[ir.Value], ir.Value]], lifted: _Lifted
) -> None:
    """Read tensors of one number instead of values in the body, see `_Readers`, and of inputs that
    are lifted.
    """
    block, inputs = old.block, len(old.inputs)
    for values, element in elements:
        argument = block.add_argument(element_type(element), old.op.location)
        for value in values:
            for use in list(value.uses):
                if use.owner.operation.parent == old.op:
                    use.owner.operation.operands[use.operand_number] = argument
            if defining(value) not in lifted:
                value.owner.operation.erase()  # which extended a byte
    gone = [k for k, value in enumerate(old.inputs) if defining(value) in lifted]
    for result in list(block.arguments)[inputs : inputs + old.outputs]:
        result.replace_all_uses_with(block.add_argument(result.type, old.op.location))
    for number in reversed([*gone, *range(inputs, inputs + old.outputs)]):
        block.erase_argument(number)
    kept = [k for k in range(inputs) if k not in gone]
    scalar = affine_map(old.maps[0].n_dims, [])
    maps = [*(old.maps[k] for k in kept), *[scalar] * len(elements), *old.maps[inputs:]]
    with ir.InsertionPoint(old.op), old.op.location:
        values = [*(old.inputs[k] for k in kept), *(element for _, element in elements)]
        made = generic(values, old.inits, maps, old.kinds, block)
    for before, after in zip(old.op.results, made.results, strict=True):
        before.replace_all_uses_with(after)
    old.op.erase()
