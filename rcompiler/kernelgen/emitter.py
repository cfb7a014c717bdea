"""Text of nested loops, values and memory accesses, each where its operands allow (`Scopes`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rcompiler.kernelgen.scopes import Scopes
from rcompiler.kernelgen.typed_ops import TypedOps
from rcompiler.kernelgen.value import Val, literal, type_name
from rcompiler.linalg.affine import Linear, Terms
from rcompiler.linalg.element_types import item_bytes

_MAX_NUMBER = 1 << 31  # from here on a displacement in the text of llvm.getelementptr is a value


class Emitter(Scopes, TypedOps):
    """Writes the body of one function. Its typed operations are pure: see `Scopes.pure`."""

    def __init__(
        self,
        lanes: int,
        *,
        has_fma: bool,
        has_scalef: bool = False,
        has_f16: bool = False,
        dots: frozenset[str] = frozenset(),
        tiles: frozenset[str] = frozenset(),
        line_bytes: int = 64,
        private_bytes: int = 0,
    ) -> None:
        """`lanes`: f32 lanes of a hardware vector; `has_fma`: the target fuses multiply and add;
        `has_scalef`: it multiplies vectors with powers of two; `has_f16`: it computes with vectors
        of f16; `dots`: element types whose dot groups have an instruction; `tiles`: those that tile
        registers multiply; `line_bytes`: what a request for memory brings; `private_bytes`: of the
        largest cache that a core has for itself, 0 for none.
        """
        super().__init__()
        self.native_lanes = lanes
        self.has_fma = has_fma
        self.has_scalef = has_scalef
        self.has_f16 = has_f16
        self.dots = dots
        self.tiles = tiles
        self.line_bytes = line_bytes
        self.private_bytes = private_bytes
        self.guard = 0
        self.ranges: dict[str, int] = {}
        self.externals: dict[str, str] = {}
        self.has_libm = True
        self.workspace = "%workspace"  # pointer to the memory of the stages of a task
        # of pointers into a memory that has a type of its own
        self.pointer_types: dict[str, str] = {}
        # Names of linear expressions, and of pointers by what they lie behind, as `pure` would find
        # them term by term.
        self._indices: dict[Linear, str] = {}
        self._places: dict[tuple[str, str, Terms], str] = {}
        self._later: dict[str, tuple[str, int]] = {}  # see `pointer_later`

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
        trips = None
        if low.is_constant and high.is_constant:
            trips = -(-(high.constant - low.constant) // step)
        self.enter(variable, trips)
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
        self.lines.extend([head, *lines, tail, "}"])
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
            self.lines.extend(lines)
            self.line(
                f"  scf.yield {', '.join(r.name for r in results)} : {types}"
                if results
                else "  scf.yield"
            )
        self.line("}")
        return [Val(self.define(f"{name}#{k}"), v.element, v.lanes) for k, v in enumerate(values)]

    def only(self, condition: str | None, write: Callable[[], None]) -> None:
        """What `write` writes, where the condition holds; None: everywhere."""
        if condition is None:
            write()
            return

        def then() -> Sequence[Val]:
            write()
            return []

        self.branch(condition, then, lambda: [])

    def all_of(self, conditions: Sequence[str | None]) -> str | None:
        """The conjunction of i1 values, of which None always holds."""
        total: str | None = None
        for name in dict.fromkeys(c for c in conditions if c is not None):
            if total is not None:
                name = self.bit_and(Val(total, "i1"), Val(name, "i1")).name
            total = name
        return total

    # -- values
    def op(self, text: str, operands: Sequence[Val], element: str, lanes: int | None = None) -> Val:
        """As `TypedOps.op`: recorded where its operands allow."""
        width = max((v.lanes for v in operands), default=0) if lanes is None else lanes
        return Val(self.pure(text, [v.name for v in operands]), element, width)

    def once(self, key: object, compute: Callable[..., Val], *arguments: object) -> Val:
        """What `compute` writes; where that is known already, it is not written again."""
        number = self._number_of(key)
        known: Val | None = self._recall(number)
        if known is None:
            known = compute(*arguments)
            depth = max(self.depth_of(known.name), self.guard)
            self._scopes[depth].known[number] = known
        return known

    @property
    def guarded(self) -> TypedOps:
        """The same operations, none of them in front of the branch that it is written in: for what
        hardly ever runs, or is undefined where the branch is not taken.
        """
        return Variant(self)

    def named(self, prefix: str) -> TypedOps:
        """The same operations, whose results have names that begin with `prefix`."""
        return Variant(self, prefix, guarded=False)

    def _by_depth(self, terms: Terms) -> Sequence[tuple[str, int]]:
        """The terms of a linear expression, those that are known further out first."""
        return terms if len(terms) < 2 else sorted(terms, key=lambda t: self.depth_of(t[0]))

    def index(self, value: Linear) -> str:
        """The i64 SSA name of a linear expression (no lane term)."""
        name = self._indices.get(value)
        if name is None:
            name = self._indices[value] = self._index(value)
        return name

    def _index(self, value: Linear) -> str:
        if not value.terms:
            return self.pure(f"arith.constant {value.constant} : i64", (), "k")
        name = ""
        for symbol, coefficient in self._by_depth(value.terms):
            part = symbol
            if coefficient != 1:
                part = self.exact("muli", symbol, self.index(Linear(coefficient)))
            name = self.exact("addi", name, part) if name else part
        if value.constant:
            name = self.exact("addi", name, self.index(Linear(value.constant)))
        return name

    def exact(self, name: str, a: str, b: str) -> str:
        """The name of arithmetic on two i64, such as addi, that does not overflow."""
        return self.pure(f"arith.{name} {a}, {b} overflow<nsw> : i64", [a, b])

    def constant(self, value: float | int | bool, element: str, lanes: int = 0) -> Val:
        """A scalar or splat constant, bit-exact."""
        number = literal(value, element)
        if lanes:
            number = f"dense<{number}>"
        typed = "" if number in ("true", "false") else f" : {type_name(element, lanes)}"
        return Val(self.pure(f"arith.constant {number}{typed}", [], "k"), element, lanes)

    def materialise(self, value: Linear, lanes: int) -> Val:
        """A linear expression as an i64 value, a vector if it depends on the lane."""
        stride = value.stride
        base = Val(self.index(value.first), "i64", 0, value)
        if not stride or not lanes:
            return base
        steps = [stride * k for k in range(lanes)]
        text = f"arith.constant dense<{steps}> : {type_name('i64', lanes)}"
        lane = Val(self.pure(text, [], "k"), "i64", lanes)
        total = self.add(self.splat(base, lanes), lane)
        return Val(total.name, "i64", lanes, value)

    # -- memory
    def address(self, pointer: str, element: str, offset: Linear) -> str:
        """Pointer to the element at `offset` (in elements): constant displacement last, so that it
        folds into the access.
        """
        kind = "i8" if element == "i1" else element
        if pointer in self._later:
            pointer = self._loaded(*self._later[pointer])
        type_, key = self.pointer_type(pointer), (pointer, kind, offset.terms)
        name = self._places.get(key)
        if name is None:
            name = pointer
            for symbol, coefficient in self._by_depth(offset.terms):
                name = self.behind(name, type_, kind, self.index(Linear.of(symbol, coefficient)))
            self._places[key] = name
        return self.behind(name, type_, kind, offset.constant) if offset.constant else name

    def behind(self, pointer: str, type_: str, kind: str, count: str | int) -> str:
        """The pointer `count` elements behind another one.

        Args:
            pointer: where to start.
            type_: of both pointers.
            kind: type of the elements, as they lie in memory.
            count: a number, or the name of an i64.
        """
        if isinstance(count, int) and not -_MAX_NUMBER <= count < _MAX_NUMBER:
            count = self.index(Linear(count))
        named = isinstance(count, str)
        types = f"({type_}, i64)" if named else f"({type_})"
        text = f"llvm.getelementptr {pointer}[{count}] : {types} -> {type_}, {kind}"
        return self.pure(text, [pointer, count] if isinstance(count, str) else [pointer], "p")

    def pointer_later(self, table: str, index: int) -> str:
        """What stands for a pointer in a table of pointers, which is loaded for each task, or side
        of a branch, that an address behind it is computed in.
        """
        name = self.fresh("later")
        self._later[name] = table, index
        return name

    def _loaded(self, table: str, index: int) -> str:
        depth, type_ = min(max(self.branch_depth, 1), self.depth), "!llvm.ptr"
        text = f"llvm.getelementptr {table}[{index}] : ({type_}) -> {type_}, {type_}"
        slot = self.pure(text, [table], "p", depth)
        return self.pure(f"llvm.load {slot} : {type_} -> {type_}", [slot], "p", depth)

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
        kind = type_name(stored, lanes)
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
            return self.compare("ne", value, 0)
        return value

    def prefetch(self, pointer: str, element: str, offset: Linear, *, level: int = 1) -> None:
        """Ask for the line of the element at `offset`, up to the cache of this level.

        The address may lie outside of the buffer: a prefetch never faults.
        """
        address = self.address(pointer, element, offset)
        how = f"<{{rw = 0 : i32, hint = {4 - level} : i32, cache = 1 : i32}}>"
        self.line(f'"llvm.intr.prefetch"({address}) {how} : (!llvm.ptr) -> ()')

    def store(self, value: Val, pointer: str, offset: Linear) -> None:
        """Write a scalar or a vector to a flat buffer."""
        element = value.element
        if element == "i1":
            value = self.convert("extui", value, "i8")
        address = self.address(pointer, element, offset)
        aligned = f"{{alignment = {self.alignment(pointer, element, offset)} : i64}}"
        type_ = self.pointer_type(pointer)
        self.line(f"llvm.store {value.name}, {address} {aligned} : {value.type}, {type_}")


class Variant(TypedOps):
    """The operations of an emitter, recorded under other names or not as far out as they could."""

    def __init__(self, emitter: Emitter, prefix: str = "v", *, guarded: bool = True) -> None:
        """prefix: of names; guarded: whether they stay in their branch, see `Emitter.guarded`."""
        self.e, self.has_fma = emitter, emitter.has_fma
        self._prefix, self._guarded = prefix, guarded

    def op(self, text: str, operands: Sequence[Val], element: str, lanes: int | None = None) -> Val:
        width = max((v.lanes for v in operands), default=0) if lanes is None else lanes
        least = self.e.guard if self._guarded else 0
        name = self.e.pure(text, [v.name for v in operands], self._prefix, least)
        return Val(name, element, width)

    def constant(self, value: float | int | bool, element: str, lanes: int = 0) -> Val:
        return self.e.constant(value, element, lanes)

    def index(self, value: Linear) -> str:
        return self.e.index(value)
