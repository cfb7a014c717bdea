"""linalg.generic on constants: moves, elementwise arithmetic, small matrices times vectors.

What is made of one constant by a move, by a cast of floats or by a small matrix is `Derived`:
a file can say how. What else computes more than a block is `Deferred`. Bodies are evaluated with
numpy, bit for bit as the target would: only ops whose result IEEE 754 fixes. numpy computes f16 and
bf16 in f32 and rounds, which is exact for + - * / and square root (f32 has more than twice their
digits).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch_mlir import ir

from rcompiler.linalg.bodies import copied_argument
from rcompiler.linalg.constants import scalar_of
from rcompiler.linalg.element_types import numpy_type
from rcompiler.linalg.generic import Combination, Generic
from rcompiler.linalg.maps import dim_of
from rcompiler.linalg.values import ops_of
from rcompiler.passes.constants.moves import over_loops
from rcompiler.runtime.deferred import BLOCK, Box, Constant, Deferred
from rcompiler.runtime.recipes import Cast, Combine, Signed, Step, Whole, in_memory

_ARITHMETIC: dict[str, Callable[..., np.ndarray]] = {
    "arith.addf": np.add,
    "arith.divf": np.divide,
    "arith.mulf": np.multiply,
    "arith.negf": np.negative,
    "arith.subf": np.subtract,
    "math.sqrt": np.sqrt,
}
_CASTS = ("arith.extf", "arith.truncf", "arith.sitofp", "arith.uitofp", "arith.fptosi",
          "arith.extsi", "arith.extui", "arith.trunci")  # fmt: skip

_INTEGER_STEPS: dict[tuple[str, ...], Step] = {
    ("arith.extsi", "i8", "i16"): Signed("uint16"),
    ("arith.sitofp", "i16", "f32"): Signed("float32"),
    ("arith.fptosi", "f32", "i16"): Whole(),
}


@dataclass(frozen=True)
class _Nest:
    """A loop nest over constants, of which any box can be computed.

    operands: arrays, and for each of their dims the loop that it is, -1 for index 0. order: the
    loops that the dims of the result are. sizes: of all loops.
    """

    operands: Sequence[tuple[Constant, Sequence[int]]]
    order: Sequence[int]
    sizes: Sequence[int]

    def arithmetic(self, dtype: np.dtype, compute: Callable[..., np.ndarray]) -> Constant:
        """compute: from views of the operands over a box of the loops, of extent 1 along those that
        an operand does not have, to such a view of the result.
        """
        kept = sorted(self.order)
        inner = tuple(d for d in range(len(self.sizes)) if d not in kept)

        def block(box: Box) -> np.ndarray:
            loops = [slice(0, n) for n in self.sizes]
            for loop, part in zip(self.order, box, strict=True):
                loops[loop] = part
            made = compute(*(_over_loops(array, dims, loops) for array, dims in self.operands))
            extents = [1 if d in inner else s.stop - s.start for d, s in enumerate(loops)]
            over = np.broadcast_to(made, extents).squeeze(inner)
            return over.transpose([kept.index(d) for d in self.order])

        shape = tuple(self.sizes[d] for d in self.order)
        used = {d for _, dims in self.operands for d in dims}
        computed = math.prod(n for d, n in enumerate(self.sizes) if d in used)
        if computed <= BLOCK and not any(isinstance(a, Deferred) for a, _ in self.operands):
            return block(tuple(slice(0, n) for n in shape))
        rows: set[int] = set()
        for array, dims in self.operands:
            rows |= {dims[r] for r in array.rows} if isinstance(array, Deferred) else set()
        places = frozenset(place for place, d in enumerate(self.order) if d in rows)
        return Deferred(shape, dtype, block, places)


def evaluate_generic(op: ir.Operation, inputs: Sequence[Constant]) -> tuple[Constant, str] | None:
    """The result of a generic on its inputs, and a text that says what was done.

    None where it is none of: a permutation or broadcast, elementwise arithmetic, a small matrix
    times the vectors of a tensor.
    """
    generic = Generic(op)
    order = generic.dims[-1]
    if -1 in order or generic.outputs != 1:
        return None
    if generic.combination is not None and inputs[generic.combination.data].dtype.kind == "f":
        return _combination(generic, generic.combination, inputs, order)
    if any(generic.init_used) or sorted(order) != list(range(len(generic.sizes))):
        return None
    return _elementwise(generic, inputs, order)


def _elementwise(
    generic: Generic, inputs: Sequence[Constant], order: list[int]
) -> tuple[Constant, str] | None:
    """A move of one input, or arithmetic on the elements of all."""
    dims = [d for d in map(_loops_of, generic.maps[:-1]) if d is not None]
    copied = copied_argument(generic.block)
    if len(dims) != len(inputs) or (copied is not None and copied >= len(inputs)):
        return None
    maps = " ".join(map(str, generic.maps))
    if copied is not None:
        moved = over_loops(inputs[copied], dims[copied], order, generic.sizes)
        return moved, f"generic {maps} {copied} copy"
    body = read_body(generic.block, len(inputs))
    if body is None:
        return None
    dtype = body(*(np.empty(0, array.dtype) for array in inputs)).dtype
    if is_float_cast(generic.block):
        made = over_loops(inputs[0], dims[0], order, generic.sizes, Cast(dtype.name))
    elif (step := _integer_step(generic.block)) is not None:
        made = over_loops(inputs[0], dims[0], order, generic.sizes, step)
    else:
        operands = list(zip(map(in_memory, inputs), dims, strict=True))
        made = _Nest(operands, order, generic.sizes).arithmetic(dtype, body)
    return made, f"generic {maps} {copied} {body.text}"


def _combination(
    generic: Generic, form: Combination, inputs: Sequence[Constant], order: list[int]
) -> tuple[Constant, str] | None:
    """A small matrix times the vectors of a tensor, each sum in the order of its terms."""
    start = generic.inits[0].owner
    row = dim_of(generic.maps[form.coefficients].results[form.row])
    dims, data = _loops_of(generic.maps[form.data]), inputs[form.data]
    if isinstance(start, ir.Block) or start.operation.name != "linalg.fill":
        return None
    if row < 0 or dims is None or row in dims or form.dim not in dims:
        return None
    if scalar_of(start.operation.operands[0]) != 0.0:
        return None

    used = [row if d == form.dim else d for d in dims]
    kept = [d for d in dims if d >= 0]
    combine = Combine(kept.index(form.dim), form.matrix)
    made = over_loops(data, used, order, generic.sizes, combine)
    return made, f"combination {' '.join(map(str, generic.maps))}"


def _loops_of(map_: ir.AffineMap) -> list[int] | None:
    """For each dim of an operand the loop that it is, -1 for index 0; None if it is another
    expression, or one loop is several dims."""
    dims = []
    for expression in map_.results:
        constant = expression.maybe_downcast()
        dims.append(dim := dim_of(expression))
        if dim < 0 and (not isinstance(constant, ir.AffineConstantExpr) or constant.value):
            return None
    used = [d for d in dims if d >= 0]
    return dims if len(set(used)) == len(used) else None


def _over_loops(array: Constant, dims: Sequence[int], box: Sequence[slice]) -> np.ndarray:
    """What a box of the loops reads of an operand, as a view whose dims are the loops."""
    part = array[tuple(slice(0, 1) if d < 0 else box[d] for d in dims)]
    used = [d for d in dims if d >= 0]
    kept = part.reshape([n for n, d in zip(part.shape, dims, strict=True) if d >= 0])
    kept = kept.transpose(np.argsort(used)) if used else kept
    return kept[tuple(slice(None) if d in used else np.newaxis for d in range(len(box)))]


@dataclass(frozen=True)
class Body:
    """An elementwise body as numpy functions, without the IR.

    steps: functions, each of values by number: first come the inputs, then the results of the
    steps. result: the number of the yielded value. text: the body, independent of value names.
    """

    steps: tuple[tuple[Callable[..., np.ndarray], tuple[int, ...]], ...]
    result: int
    text: str

    def __call__(self, *inputs: np.ndarray) -> np.ndarray:
        """The yielded array; inputs broadcast against each other."""
        values = list(inputs)
        with np.errstate(all="ignore"):
            for function, operands in self.steps:
                values.append(function(*(values[k] for k in operands)))
        return values[self.result]


def read_body(block: ir.Block, inputs: int) -> Body | None:
    """The body of a generic of so many inputs; None if it has an op that is not evaluated here, or
    uses the old elements of the result."""
    reader = _Reader(block, inputs)
    *body, terminator = ops_of(block)
    text: list[str] = []
    for number, op in enumerate(body):
        if op.name == "arith.constant":
            continue
        operands = [k for k in map(reader.number, op.operands) if k is not None]
        function = _function(op)
        if function is None or len(operands) != len(op.operands):
            return None
        named = ", ".join(reader.names[k] for k in operands)
        text.append(f"t{number} = {op.name} {named} : {op.results[0].type}")
        reader.append(op.results[0], function, operands, f"t{number}")
    result = reader.number(terminator.operands[0])
    if result is None or len(terminator.operands) != 1:
        return None
    return Body(tuple(reader.steps), result, "; ".join([*text, reader.names[result]]))


def is_float_cast(block: ir.Block) -> bool:
    """Whether a body is one cast of its first argument between floats."""
    if len(block.operations) != 2:
        return False
    cast, terminator = ops_of(block)
    if cast.name not in ("arith.extf", "arith.truncf"):
        return False
    [value] = cast.operands
    kinds = ir.F16Type | ir.BF16Type | ir.F32Type | ir.F64Type
    floats = all(isinstance(v.type, kinds) for v in (value, cast.results[0]))
    return (
        floats and value == block.arguments[0] and list(terminator.operands) == list(cast.results)
    )


def _integer_step(block: ir.Block) -> Step | None:
    """What a body does that is one exact cast of its first argument from or to signed integers."""
    first, terminator = ops_of(block)[0], ops_of(block)[-1]
    if len(block.operations) != 2 or list(first.operands) != [block.arguments[0]]:
        return None
    if list(terminator.operands) != list(first.results):
        return None
    kinds = (first.name, *(str(v.type) for v in (*first.operands, *first.results)))
    return _INTEGER_STEPS.get(kinds)


class _Reader:
    """The values of a body by number, with their names and the steps that make them."""

    def __init__(self, block: ir.Block, inputs: int) -> None:
        self.names = [f"a{k}" for k in range(inputs)]
        self.steps: list[tuple[Callable[..., np.ndarray], tuple[int, ...]]] = []
        self._numbers = {v: k for k, v in enumerate(list(block.arguments)[:inputs])}

    def append(self, value: ir.Value, function: Any, operands: Sequence[int], name: str) -> None:
        self._numbers[value] = len(self.names)
        self.names.append(name)
        self.steps.append((function, tuple(operands)))

    def number(self, value: ir.Value) -> int | None:
        """Number of a value that is known; of a scalar constant when it is first met, too."""
        if value not in self._numbers:
            scalar = scalar_of(value)
            if scalar is None:
                return None
            name = f"{value.type} {scalar.tobytes().hex()}"
            self.append(value, partial(np.asarray, scalar), (), name)
        return self._numbers[value]


def _function(op: ir.Operation) -> Callable[..., np.ndarray] | None:
    """What makes the result of an op, as arrays of its type."""
    dtype = numpy_type(op.results[0].type) if len(op.results) == 1 else None
    if dtype is None:
        return None
    if op.name in _ARITHMETIC:
        return partial(_arithmetic, _ARITHMETIC[op.name], dtype)
    return partial(_cast, op.name, dtype) if op.name in _CASTS else None


def _arithmetic(
    function: Callable[..., np.ndarray], dtype: np.dtype, *operands: np.ndarray
) -> np.ndarray:
    return np.asarray(function(*operands)).astype(dtype, copy=False)


def _cast(name: str, dtype: np.dtype, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "iu":  # the IR has no signs; the array may have any
        unsigned = name in ("arith.uitofp", "arith.extui")
        array = array.view(f"{'u' if unsigned else 'i'}{array.dtype.itemsize}")
    if array.dtype == np.bool_ and name in ("arith.extsi", "arith.sitofp"):
        return -array.astype(np.int8).astype(dtype)
    if dtype == np.bool_:  # of arith.trunci, whose operand is an integer
        array = array & 1
    return array.astype(dtype)
