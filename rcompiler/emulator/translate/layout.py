"""Where a kernel and the functions that it calls keep what they have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rcompiler.emulator.ptx.syntax import (
    Function,
    Instruction,
    Label,
    Module,
    Symbol,
    Variable,
    parts,
)

# Windows of the generic address space. Global memory begins where an allocation's address does.
GLOBAL, SHARED, LOCAL, PARAM = (window << 44 for window in (7, 6, 5, 4))


class Layout:
    """Placed functions, callees before callers, so that threads that call meet again.

    registers: type of every register; base: function -> its first register. arguments: offset of
    the kernel's parameters in their block of `argument_bytes`. frame: offset of the parameters of
    calls in `frame_bytes` per thread. local: offset of local variables in `local_bytes` per thread.
    shared: offset of shared variables; `static_shared` bytes of them, then what the launch adds.
    """

    def __init__(self, module: Module, entry: Function, addresses: Mapping[str, int]) -> None:
        self.entry = entry
        self.functions = _callees_first(module, entry)
        self.registers: list[str] = []
        self.base: dict[str, int] = {}
        for function in self.functions:
            self.base[function.name] = len(self.registers)
            self.registers += function.registers
        self.arguments, self.argument_bytes = _pack(entry.params)
        self.frame, self.frame_bytes = _pack(self._frame_variables())
        self.local, self.local_bytes = _pack(self._variables("local"))
        self.dynamic_align = 1
        self.shared, self.static_shared = self._place_shared(module)
        self._addresses = addresses

    def _frame_variables(self) -> Iterator[Variable]:
        for function in self.functions:
            if not function.entry:
                yield from (*function.params, *function.results)
        yield from self._variables("param")

    def _variables(self, space: str) -> Iterator[Variable]:
        for function in self.functions:
            yield from (v for v in function.variables if v.space == space)

    def _place_shared(self, module: Module) -> tuple[dict[Variable, int], int]:
        """Static variables one after another; every array without a size begins behind them."""
        used = {variable for function in self.functions for variable in _symbols(function)}
        found = [v for v in (*module.variables.values(), *self._variables("shared")) if v in used]
        found = [v for v in found if v.space == "shared"]
        placed, size = _pack(v for v in found if v.size)
        for dynamic in (v for v in found if not v.size):
            self.dynamic_align = max(self.dynamic_align, dynamic.align)
        start = -(-size // self.dynamic_align) * self.dynamic_align
        placed |= {v: start for v in found if not v.size}
        return placed, start if len(placed) > sum(1 for v in found if v.size) else size

    def address(self, variable: Variable) -> int:
        """Of a variable in its own space."""
        match variable.space:
            case "shared":
                return self.shared[variable]
            case "local":
                return self.local[variable]
            case "param":
                return self.arguments[variable]
            case _:
                return self._addresses[variable.name]


def _pack(variables: Iterator[Variable] | list[Variable]) -> tuple[dict[Variable, int], int]:
    placed: dict[Variable, int] = {}
    end = 0
    for variable in variables:
        placed[variable] = -(-end // variable.align) * variable.align
        end = placed[variable] + variable.size
    return placed, end


def _symbols(function: Function) -> Iterator[Variable]:
    for instruction in function.instructions:
        for part in parts(*instruction.operands):
            if isinstance(part, Symbol):
                yield part.variable


def callee_name(instruction: Instruction) -> str:
    """Of a `call`: the one operand that is a name."""
    names = [operand.name for operand in instruction.operands if isinstance(operand, Label)]
    if len(names) != 1:
        raise instruction.refuse("an indirect call")
    return names[0]


def _callees_first(module: Module, entry: Function) -> list[Function]:
    order: list[Function] = []
    state: dict[str, bool] = {}  # False: its callees are being visited
    stack: list[tuple[Function, Iterator[Instruction]]] = []

    def enter(function: Function) -> None:
        state[function.name] = False
        calls = iter([i for i in function.instructions if i.name == "call"])
        stack.append((function, calls))

    enter(entry)
    while stack:
        function, calls = stack[-1]
        call = next(calls, None)
        if call is None:
            stack.pop()
            state[function.name] = True
            order.append(function)
            continue
        callee = module.functions.get(callee_name(call))
        if callee is None or not callee.defined:
            raise call.refuse("a call of a function that the module does not define")
        if callee.entry:
            raise call.refuse("a call of a kernel")
        if callee.name not in state:
            enter(callee)
        elif not state[callee.name]:
            raise call.refuse("a recursive call")
    return order
