"""From what MLIR has printed to the schedule form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from rcompiler.schedule_text.folding import folded
from rcompiler.schedule_text.mlir_text import (
    Attributes,
    ModuleText,
    OpText,
    Unusual,
    op_of,
    without_types,
)
from rcompiler.schedule_text.words import (
    ARENAS,
    FIRST_LINE,
    IN_MODULE,
    IN_ORDER,
    LETTERS,
    PRINTED,
    kind_of,
    tensor_bytes,
    usual_dtype,
    written_name,
)

_KERNEL = re.compile(r"\}\) (\{.*\}) : \(\) -> \(\)")
_MAIN = re.compile(r"func\.func @main\(\) attributes (\{.*\}) \{")
_ALIAS = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SHORT = 40  # characters of a value that stands with its constant

_Item = tuple[str, list[str]]
"""What an item is, and its lines."""


def schedule_form(text: str) -> str:
    """A module in the schedule form.

    Args:
        text: the module as MLIR prints it, with a schedule or without.

    Returns:
        text of which `mlir_form` makes the same module.

    Raises:
        InvalidModel: the text is not that of a module as MLIR prints it.
    """
    module = ModuleText.of(text)
    writer = _Writer(module)
    items = [writer.item(lines) for lines in module.items]
    beside = [("module", _module(module)), ("module", [*module.head, *writer.values()])]
    first, ranks = FIRST_LINE, [IN_MODULE[kind] for kind, _ in items]
    if ranks == sorted(ranks):
        items = sorted([*items, *beside], key=lambda item: PRINTED[item[0]])
    else:
        first, items = f"{FIRST_LINE} {IN_ORDER}", [*items, *beside]
    parts = [[first], *(lines for _, lines in items), module.tail]
    texts = ["\n".join(short for line in part for short in folded(line)) for part in parts if part]
    return "\n\n".join(texts) + "\n"


def _module(module: ModuleText) -> list[str]:
    if not (module.name or module.attributes):
        return []
    attributes = f"attributes {without_types(module.attributes)}" if module.attributes else ""
    return [" ".join(filter(None, ("module", module.name, attributes)))]


class _Writer:
    """Writes the items of one module."""

    def __init__(self, module: ModuleText) -> None:
        self._operands = dict(filter(None, map(_operands, module.items)))
        self._taken = {line.partition(" ")[0] for line in module.head}
        self._values: dict[str, str] = {}

    def values(self) -> list[str]:
        """Those of constants that are written behind the program, each under a name."""
        return [f"{alias} = {value}" for alias, value in self._values.items()]

    def item(self, lines: list[str]) -> _Item:
        """An op of the module; as MLIR has it where the form has no words for it."""
        write: Mapping[str, Callable[[], list[str]]] = {
            "kernel": lambda: _kernel(lines),
            "device": lambda: [_device(op_of(lines))],
            "program": lambda: [*self._program(op_of(lines))],
            "main": lambda: _main(lines),
        }
        kind, values = kind_of(lines[0]), dict(self._values)
        try:
            return kind, write[kind]()
        except Unusual:
            self._values = values
            return kind, lines

    def _program(self, op: OpText) -> Iterator[str]:
        attributes = Attributes(op.attributes)
        head = f"program {attributes.string('sym_name')} on {attributes.symbol('device')}"
        for word, name in ARENAS.items():
            if name in attributes:
                head += f" {word} {attributes.integer(name)}"
        yield f"{head}{attributes.rest()} {{"
        yield from self._statements(op.body or [], "  ", 0, "eu")
        yield "}"

    def _statements(
        self, body: Sequence[OpText], margin: str, depth: int, unit: str
    ) -> Iterator[str]:
        """The lines of some ops of a program.

        Args:
            body: the ops.
            margin: the space in front of each line.
            depth: the repeats around them.
            unit: what the list around them is for, "eu" or "queue".
        """
        for op in body:
            attributes = Attributes(op.attributes)
            kind = op.name.removeprefix("vdevice.")
            inner = depth
            if kind == "buffer":
                line = self._buffer(attributes, depth)
            elif kind == "event":
                line = f"event {attributes.string('sym_name')}"
            elif kind == "signal":
                line = f"signal {attributes.symbol('event')}"
            elif kind == "wait":
                line = f"wait {attributes.symbol('event')} >= {attributes.moving('count', depth)}"
            elif kind == "run":
                line = self._run(attributes, depth, unit)
            elif kind == "barrier":
                line = kind
            elif kind in ("eu", "queue"):
                unit = kind
                line = f"{kind} {_range(attributes.integer('first'), attributes.integer('last'))}"
            elif kind == "repeat" and depth < len(LETTERS):
                line, inner = f"repeat {LETTERS[depth]} < {attributes.integer('count')}", depth + 1
            else:
                raise Unusual
            line = f"{margin}{line}{attributes.rest()}"
            if op.body is None:
                yield line
            elif op.body:
                yield f"{line} {{"
                yield from self._statements(op.body, f"{margin}  ", inner, unit)
                yield f"{margin}}}"
            else:
                yield f"{line} {{}}"

    def _buffer(self, attributes: Attributes, depth: int) -> str:
        kind, name = attributes.text("kind"), attributes.string("sym_name")
        type_ = attributes.type("type")
        number = f" {attributes.integer('index')}" if "index" in attributes else ""
        line = f"{kind}{number} {name}: {type_}"
        offset = attributes.moving("offset", depth)
        if offset != "0" or kind not in ("input", "output"):
            line += f" at {offset}"
        size = attributes.integer("bytes")
        if size != tensor_bytes(type_):
            line += f" bytes {size}"
        if "alias_of" in attributes:
            line += f" in {attributes.symbol('alias_of')}"
        if "over" in attributes:
            line += f" over {attributes.integer('over')}"
        if kind == "constant":
            line += self._value(name, type_, attributes.take("value"))
        return line

    def _value(self, name: str, type_: str, value: str) -> str:
        """What is said of the value of a constant: nothing of the array of the same name."""
        elements = value.removesuffix(f" : tensor<{type_}>")
        if elements == value:
            raise Unusual
        if elements == f"dense_resource<{name}>":
            return ""
        alias = f"#{name}"
        if len(elements) > _SHORT and _ALIAS.fullmatch(name) and alias not in self._taken:
            if self._values.setdefault(alias, value) == value:
                return f" = {alias}"
        return f" = {elements}"

    def _run(self, attributes: Attributes, depth: int, unit: str) -> str:
        operator, kernel = attributes.string("operator"), attributes.symbol("kernel")
        first, steps = attributes.moving_integer("first", depth)
        count, stride, by_unit = map(attributes.integer, ("count", "stride", "eu_step"))
        tasks = _range(first, first + (count - 1) * stride)
        tasks += f" step {stride}" if stride != 1 else ""
        tasks += steps + (f" + {by_unit}{unit}" if by_unit else "")
        buffers = attributes.symbols("buffers")
        operands = self._operands.get(kernel, len(buffers))
        results = f" -> {', '.join(buffers[operands:])}" if buffers[operands:] else ""
        return f"run {operator}: {kernel}[{tasks}]({', '.join(buffers[:operands])}){results}"


def _operands(lines: list[str]) -> tuple[str, int] | None:
    """The name of a kernel and how many operands it has; None for any other item."""
    found = _KERNEL.fullmatch(lines[-1])
    if found is None or not lines[0].startswith('"rtask.kernel"('):
        return None
    attributes = Attributes.of(found[1])
    return attributes.string("sym_name"), len(attributes.entries("reads"))


def _kernel(lines: list[str]) -> list[str]:
    end = _KERNEL.fullmatch(lines[-1])
    if lines[0] != '"rtask.kernel"() ({' or end is None:
        raise Unusual
    attributes = Attributes.of(end[1])
    name, arguments, body = attributes.string("sym_name"), "", lines[1:-1]
    if body and (label := re.fullmatch(r"\^bb0\((.*)\):", body[0])):
        arguments, body = label[1], body[1:]
    return [f"kernel {name}({arguments}){attributes.rest()} {{", *body, "}"]


def _device(op: OpText) -> str:
    attributes = Attributes(op.attributes)
    name, eus = attributes.string("sym_name"), attributes.integer("eus")
    return f"device {name} with {eus} eus{attributes.rest()}"


def _main(lines: list[str]) -> list[str]:
    start = _MAIN.fullmatch(lines[0])
    if start is None or lines[-2:] != ["  return", "}"]:
        raise Unusual
    attributes = Attributes.of(start[1])
    sides = [
        ", ".join(map(_tensor, attributes.entries(side)))
        for side in ("rtask.inputs", "rtask.outputs")
    ]
    launches = []
    for line in lines[1:-2]:
        launch = op_of([line])
        if launch.name != "vdevice.launch":
            raise Unusual
        given = Attributes(launch.attributes)
        launches.append(f"  launch {given.symbol('program')}{given.rest()}")
    return [f"main({sides[0]}) -> ({sides[1]}){attributes.rest()} {{", *launches, "}"]


def _tensor(entry: str) -> str:
    attributes = Attributes.of(entry)
    name, dtype = attributes.string("name"), attributes.text("dtype")
    type_ = attributes.type("type")
    told = "" if dtype == usual_dtype(type_) else f" as {written_name(dtype)}"
    return f"{name}: {type_}{told}{attributes.rest()}"


def _range(first: int, last: int) -> str:
    if last < first:  # no run of a valid module
        raise Unusual
    return f"{first}..{last}" if last != first else f"{first}"
