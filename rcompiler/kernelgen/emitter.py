"""Text of nested loops, values and memory accesses, each where its operands allow (`Scopes`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rcompiler.kernelgen.scopes import Scopes
from rcompiler.kernelgen.value import Val, literal
from rcompiler.linalg.affine import LANE, Linear
from rcompiler.linalg.element_types import item_bytes


class Emitter(Scopes):
    """Writes the body of one function."""

    def __init__(
        self,
        lanes: int,
        *,
        has_fma: bool,
        has_scalef: bool = False,
        dots: frozenset[str] = frozenset(),
        line_bytes: int = 64,
    ) -> None:
        """`lanes`: f32 lanes of a hardware vector; `has_fma`: the target fuses multiply and add;
        `has_scalef`: it multiplies vectors with powers of two; `dots`: element types whose dot
        groups have an instruction; `line_bytes`: what a request for memory brings.
        """
        super().__init__()
        self.native_lanes = lanes
        self.has_fma = has_fma
        self.has_scalef = has_scalef
        self.dots = dots
        self.line_bytes = line_bytes
        self.guard = 0
        self.ranges: dict[str, int] = {}
        self.externals: dict[str, str] = {}
        self.has_libm = True
        # of pointers into a memory that has a type of its own
        self.pointer_types: dict[str, str] = {}

    # -- loops
    def loop(
        self,
        low: Linear,
        high: Linear,
        step: int,
        carried: Sequence[Val],
        body: Callable[[Linear, list[Val]], Sequence[Val] | None],
    ) -> list[Val]:
        """scf.for over [low, high) with loop-carried values; `body` gets the loop variable and
        returns the next values.

        A loop of exactly one iteration is written without the loop.
        """
        if low.is_constant and high.is_constant:
            if high.constant <= low.constant:
                return list(carried)
            if high.constant - low.constant <= step:
                return list(body(low, list(carried)) or [])
        bounds = [self.index(low), self.index(high), self.index(Linear(step))]
        variable = self.fresh("i")
        names = [self.fresh("c") for _ in carried]
        self.open()
        self.define(variable)
        if low.constant == 0 and low.is_constant and high.is_constant:
            # the loop variable is a multiple of `step`: count in units so that divisions stay
            # linear
            self.ranges[variable] = high.constant - step + 1
        inner = [
            Val(self.define(n), c.element, c.lanes) for n, c in zip(names, carried, strict=True)
        ]
        with self.left_on_error():
            results = body(Linear.of(variable), inner) or []
        lines = self.close()
        head = f"scf.for {variable} = {bounds[0]} to {bounds[1]} step {bounds[2]}"
        out: list[Val] = []
        if not carried and not lines:
            return out  # all of it was written further out
        if carried:
            name = self.fresh("r")
            pairs = ", ".join(f"{n} = {c.name}" for n, c in zip(names, carried, strict=True))
            types = ", ".join(c.type for c in carried)
            head = f"{name}:{len(carried)} = {head} iter_args({pairs}) -> ({types}) : i64 {{"
            tail = f"  scf.yield {', '.join(r.name for r in results)} : {types}"
            for k, c in enumerate(carried):
                out.append(Val(self.define(f"{name}#{k}"), c.element, c.lanes))
        else:
            head, tail = head + " : i64 {", "  scf.yield"
        self.lines.extend([head, *("  " + text for text in lines), tail, "}"])
        return out

    def branch(
        self, condition: str, then: Callable[[], Sequence[Val]], other: Callable[[], Sequence[Val]]
    ) -> list[Val]:
        """scf.if with the values of the taken side."""
        sides: list[tuple[list[str], list[Val]]] = []
        guard = self.guard
        for side in (then, other):
            self.open()
            self.guard = self.depth  # a guarded load must not be hoisted above its guard
            try:
                with self.left_on_error():
                    values = list(side())
            finally:
                self.guard = guard
            sides.append((self.close(), values))
        values = sides[0][1]
        types = ", ".join(v.type for v in values)
        name = self.fresh("if")
        head = (
            f"{name}:{len(values)} = scf.if {condition} -> ({types}) {{"
            if values
            else f"scf.if {condition} {{"
        )
        for k, (lines, results) in enumerate(sides):
            self.line(head if k == 0 else "} else {")
            self.lines.extend("  " + text for text in lines)
            self.line(
                f"  scf.yield {', '.join(r.name for r in results)} : {types}"
                if results
                else "  scf.yield"
            )
        self.line("}")
        return [Val(self.define(f"{name}#{k}"), v.element, v.lanes) for k, v in enumerate(values)]

    # -- values
    def _by_depth(self, terms: tuple[tuple[str, int], ...]) -> Sequence[tuple[str, int]]:
        """The terms of a linear expression, those that are known further out first."""
        return terms if len(terms) < 2 else sorted(terms, key=lambda t: self.depth_of(t[0]))

    def index(self, value: Linear) -> str:
        """The i64 SSA name of a linear expression (no lane term)."""
        if not value.terms:
            return self.pure(f"arith.constant {value.constant} : i64", (), "k")
        name = ""
        for symbol, coefficient in self._by_depth(value.terms):
            part = symbol
            if coefficient != 1:
                part = self.pure(
                    f"arith.muli {symbol}, {self.index(Linear(coefficient))} overflow<nsw> : i64",
                    [symbol],
                )
            name = (
                self.pure(f"arith.addi {name}, {part} overflow<nsw> : i64", [name, part])
                if name
                else part
            )
        if value.constant:
            name = self.pure(
                f"arith.addi {name}, {self.index(Linear(value.constant))} overflow<nsw> : i64",
                [name],
            )
        return name

    def constant(self, value: float | int | bool, element: str, lanes: int = 0) -> Val:
        """A scalar or splat constant, bit-exact."""
        number = literal(value, element)
        if lanes:
            number = f"dense<{number}>"
        kind = Val("", element, lanes).type
        typed = "" if number in ("true", "false") else f" : {kind}"
        return Val(self.pure(f"arith.constant {number}{typed}", [], "k"), element, lanes)

    def op(self, text: str, operands: Sequence[Val], element: str, lanes: int | None = None) -> Val:
        """A pure operation written as `text` (complete, operand names inside)."""
        width = max((v.lanes for v in operands), default=0) if lanes is None else lanes
        return Val(self.pure(text, [v.name for v in operands]), element, width)

    def splat(self, value: Val, lanes: int) -> Val:
        """`value` in every lane."""
        if value.lanes or not lanes:
            return value
        kind = f"vector<{lanes}x{value.element}>"
        return self.op(
            f"vector.broadcast {value.name} : {value.element} to {kind}",
            [value],
            value.element,
            lanes,
        )

    def materialise(self, value: Linear, lanes: int) -> Val:
        """A linear expression as an i64 value, a vector if it depends on the lane."""
        stride = value.coefficient(LANE)
        base = Val(self.index(value.without(LANE)), "i64", 0, value)
        if not stride or not lanes:
            return base
        steps = ", ".join(str(stride * k) for k in range(lanes))
        kind = f"vector<{lanes}xi64>"
        lane = Val(self.pure(f"arith.constant dense<[{steps}]> : {kind}", [], "k"), "i64", lanes)
        wide = self.splat(base, lanes)
        total = self.op(f"arith.addi {wide.name}, {lane.name} : {kind}", [wide, lane], "i64")
        return Val(total.name, "i64", lanes, value)

    def gather_lanes(self, values: Sequence[Val]) -> Val:
        """One vector from one scalar for each lane."""
        element, lanes = values[0].element, len(values)
        names = ", ".join(v.name for v in values)
        return self.op(
            f"vector.from_elements {names} : vector<{lanes}x{element}>", values, element, lanes
        )

    def lane(self, value: Val, position: int, least_depth: int = 0) -> Val:
        """The scalar in one lane."""
        if not value.lanes:
            return value
        text = f"vector.extract {value.name}[{position}] : {value.element} from {value.type}"
        return Val(self.pure(text, [value.name], least_depth=least_depth), value.element)

    def shuffle(self, a: Val, b: Val, order: Sequence[int]) -> Val:
        """The lanes `order` of `a` and the lanes of `b` behind them."""
        text = f"vector.shuffle {a.name}, {b.name} {list(order)} : {a.type}, {b.type}"
        return self.op(text, [a, b], a.element, len(order))

    def fma(self, a: Val, b: Val, c: Val) -> Val:
        """a * b + c, fused where the target can (both forms are exact about which one they are: no
        contraction).
        """
        lanes = max(a.lanes, b.lanes, c.lanes)
        a, b, c = (self.splat(v, lanes) for v in (a, b, c))
        if self.has_fma:
            dialect = "vector" if lanes else "math"
            text = f"{dialect}.fma {a.name}, {b.name}, {c.name} : {a.type}"
            return self.op(text, [a, b, c], a.element)
        product = self.op(f"arith.mulf {a.name}, {b.name} : {a.type}", [a, b], a.element)
        return self.op(f"arith.addf {product.name}, {c.name} : {a.type}", [product, c], a.element)

    # -- memory
    def address(self, pointer: str, element: str, offset: Linear) -> str:
        """Pointer to the element at `offset` (in elements): constant displacement last, so that it
        folds into the access.
        """
        kind = "i8" if element == "i1" else element
        name, type_ = pointer, self.pointer_type(pointer)
        for symbol, coefficient in self._by_depth(offset.terms):
            step = self.index(Linear.of(symbol, coefficient))
            name = self.pure(
                f"llvm.getelementptr {name}[{step}] : ({type_}, i64) -> {type_}, {kind}",
                [name, step],
                "p",
            )
        if offset.constant:
            text = f"llvm.getelementptr {name}[{offset.constant}] : ({type_}) -> {type_}, {kind}"
            name = self.pure(text, [name], "p")
        return name

    def pointer(self, name: str, type_: str) -> str:
        """Note the type of a pointer to a buffer; its name."""
        self.pointer_types[name] = type_
        return name

    def pointer_type(self, pointer: str) -> str:
        """Type of the pointer to a buffer."""
        return self.pointer_types.get(pointer, "!llvm.ptr")

    def alignment(self, pointer: str, element: str, offset: Linear) -> int:
        """Bytes that the address of an element is known to be a multiple of."""
        return item_bytes(element)

    def load(
        self,
        pointer: str,
        element: str,
        offset: Linear,
        lanes: int,
        *,
        readonly: bool,
        steps: int = 1,
    ) -> Val:
        """Elements [offset, offset + max(lanes, 1)) of a flat buffer; `readonly` memory may be read
        earlier and once. `steps`: elements that are read as one integer.
        """
        stored = "i8" if element == "i1" else element
        if steps > 1:
            stored = f"i{8 * item_bytes(element) * steps}"
        kind = f"vector<{lanes}x{stored}>" if lanes else stored
        address = self.address(pointer, element, offset)
        aligned = f"{{alignment = {self.alignment(pointer, element, offset)} : i64}}"
        text = f"llvm.load {address} {aligned} : {self.pointer_type(pointer)} -> {kind}"
        if readonly:
            name = self.pure(text, [address], least_depth=self.guard)
        else:
            name = self.define(self.fresh())
            self.line(f"{name} = {text}")
        value = Val(name, stored, lanes)
        if element == "i1":
            zero = self.constant(0, "i8", lanes)
            return self.op(
                f"arith.cmpi ne, {value.name}, {zero.name} : {value.type}", [value, zero], "i1"
            )
        return value

    def prefetch(self, pointer: str, element: str, offset: Linear, ahead: int) -> None:
        """Ask for the line `ahead` bytes beyond the element at `offset`.

        The address may lie outside of the buffer: a prefetch never faults.
        """
        address = self.address(pointer, element, offset + ahead // item_bytes(element))
        how = "<{rw = 0 : i32, hint = 3 : i32, cache = 1 : i32}>"
        self.line(f'"llvm.intr.prefetch"({address}) {how} : (!llvm.ptr) -> ()')

    def store(self, value: Val, pointer: str, offset: Linear) -> None:
        """Write a scalar or a vector to a flat buffer."""
        element = value.element
        if element == "i1":
            kind = Val("", "i8", value.lanes).type
            value = self.op(f"arith.extui {value.name} : {value.type} to {kind}", [value], "i8")
        address = self.address(pointer, element, offset)
        aligned = f"{{alignment = {self.alignment(pointer, element, offset)} : i64}}"
        type_ = self.pointer_type(pointer)
        self.line(f"llvm.store {value.name}, {address} {aligned} : {value.type}, {type_}")
