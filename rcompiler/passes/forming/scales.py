"""The scales, bounds and zero points in the body of an rOperator, by which it quantises."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.linalg.element_types import element_name
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.integer_range import keeps_number
from rcompiler.linalg.known_division import nearest_division
from rcompiler.linalg.nearest_quotient import same_integers
from rcompiler.linalg.values import defining, operations, shape_of

_EXTENSIONS = ("arith.extui", "arith.extsi")
Number = float | int


@dataclass(frozen=True)
class Quantisation:
    """A number that is divided by a constant, rounded, shifted and cut to a byte.

    keeps: by the names of MLIR, of which kinds the byte is as large as the number.
    """

    divided: ir.Operation
    rounded: ir.Operation
    cut: ir.Operation
    keeps: tuple[str, ...]

    @staticmethod
    def ending_in(cut: ir.Operation) -> Quantisation | None:
        """That of an arith.trunci; None where the division cannot be a product."""
        if cut.name != "arith.trunci":
            return None
        shifted = defining(cut.operands[0])
        adds = shifted is not None and shifted.name == "arith.addi"
        rounded = defining(shifted.operands[0]) if shifted is not None and adds else shifted
        if rounded is None or rounded.name != "arith.fptosi":
            return None
        division = nearest_division(rounded)
        if division is None or not same_integers(division.low, division.high, division.divisor):
            return None
        byte = element_name(cut.result.type)
        kinds = {"nsw": True, "nuw": False}
        value = cut.operands[0]
        keeps = tuple(k for k, signed in kinds.items() if keeps_number(value, byte, signed=signed))
        nearest = defining(rounded.operands[0])
        divided = None if nearest is None else defining(nearest.operands[0])
        assert divided is not None  # of which `nearest_division` told
        return Quantisation(divided, rounded, cut, keeps)

    @property
    def uses(self) -> Iterator[tuple[ir.Operation, int]]:
        """The operands that are bounds, divisor or zero point: the op, and the operand's number."""
        yield self.divided, 1
        high = defining(self.divided.operands[0])
        low = None if high is None else defining(high.operands[1])
        for chosen in (high, low):
            assert chosen is not None
            compared = defining(chosen.operands[0])
            assert compared is not None
            yield from ((chosen, 2), (compared, 1))
        shifted = defining(self.cut.operands[0])
        if shifted is not None and shifted.name == "arith.addi":
            yield shifted, 1


class Scales:
    """What an rOperator quantises and dequantises by, as far as nothing else in it uses it.

    Attributes:
        operator: the rOperator.
        quantisations: in their order.
        constants: each arith.constant of a scale, a bound or a zero point.
    """

    def __init__(self, operator: ir.Operation) -> None:
        self.operator = operator
        inside = list(operations(operator))
        found = (Quantisation.ending_in(op) for op in inside)
        self.quantisations = [quantisation for quantisation in found if quantisation is not None]
        uses = {use for quantisation in self.quantisations for use in quantisation.uses}
        self.constants = [op for op in inside if op.name == "arith.constant" and _is_one(op, uses)]

    @property
    def numbers(self) -> list[Number]:
        """Those of the constants."""
        return [lifted_number(op) for op in self.constants]

    @property
    def form(self) -> Hashable:
        """What else the quantisations have to have in common to have one code."""
        return tuple(quantisation.keeps for quantisation in self.quantisations)


def lifted_type(constant: ir.Operation) -> ir.Type:
    """What an operand has in the place of a constant: words instead of a zero point's byte."""
    kind = constant.results[0].type
    element = kind.element_type if isinstance(kind, ir.RankedTensorType) else kind
    is_integer = isinstance(element, ir.IntegerType)
    return ir.IntegerType.get_signless(32, constant.context) if is_integer else element


def lifted_number(constant: ir.Operation) -> Number:
    """The number of a constant, as what reads it extends it."""
    value = constant.attributes["value"]
    if isinstance(value, ir.DenseElementsAttr):
        value = value.get_splat_value()
    if isinstance(value, ir.FloatAttr):
        return value.value
    number = ir.IntegerAttr(value).value
    extended = any(op.name == "arith.extui" for op, _ in scalar_uses(constant))
    return number % (1 << value.type.width) if extended else number


def scalar_uses(constant: ir.Operation) -> Iterator[tuple[ir.Operation, int]]:
    """What takes the number of a constant in bodies, and as which operand: of a tensor of one
    number through the arguments of linalg.generic.
    """
    value = constant.results[0]
    values = [value]
    if isinstance(value.type, ir.RankedTensorType):
        blocks = [(use.owner.operation.regions[0].blocks[0], use) for use in value.uses]
        values = [block.arguments[use.operand_number] for block, use in blocks]
    for each in values:
        for use in each.uses:
            yield use.owner.operation, use.operand_number


def _is_one(constant: ir.Operation, quantises: set[tuple[ir.Operation, int]]) -> bool:
    value = constant.results[0]
    is_tensor = isinstance(value.type, ir.RankedTensorType)
    if is_tensor and not (shape_of(value) == () and all(map(_is_input, value.uses))):
        return False
    uses = list(scalar_uses(constant))
    if any(op.parent.operation.name != "linalg.generic" for op, _ in uses):
        return False
    if uses and all(_extends(op) for op, _ in uses):
        return len({op.name for op, _ in uses}) == 1
    return all(use in quantises or _scales_integer(use[0]) for use in uses)


def _is_input(use: ir.OpOperand) -> bool:
    reader = use.owner.operation
    return reader.name == "linalg.generic" and use.operand_number < len(Generic(reader).inputs)


def _extends(op: ir.Operation) -> bool:
    return op.name in _EXTENSIONS and str(op.result.type) == "i32"


def _scales_integer(product: ir.Operation) -> bool:
    makers = (defining(factor) for factor in product.operands)
    return product.name == "arith.mulf" and any(
        maker is not None and maker.name == "arith.sitofp" for maker in makers
    )
