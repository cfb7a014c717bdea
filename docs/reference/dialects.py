"""dialects.md: the ops of our two dialects, from their classes and verifiers."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from rcompiler.dialects import rtask, vdevice
from reference.docstrings import docstring, listed, markdown
from reference.verifiers import rules

_ABOUT = """\
The bindings of MLIR offer only generic assembly for dialects that are written in Python, so that is
how the ops look. Each dialect begins with a module that has all of its ops; what an op shows is an
excerpt of it.

Attributes have to be there, of their type, if they are not optional. All else that is verified is
in the words of the verifier, in which `<words>` stand for what it knows when it prints them."""

_HERE = Path(__file__).parent
_DIALECTS: Mapping[str, ModuleType] = {"rtask": rtask, "vdevice": vdevice}
_TYPES = {"StringAttr": "text", "IntegerAttr": "i64", "FloatAttr": "f64", "ArrayAttr": "list"}
_TYPES |= {"FlatSymbolRefAttr": "symbol", "TypeAttr": "type"}
_DECLARED = re.compile(r"(\w+)(?: \(([^)]*)\))?")


def text() -> str:
    """The whole document."""
    lines = ["# Dialects", "", _ABOUT]
    for name, module in _DIALECTS.items():
        lines += ["", f"## `{name}`", "", markdown(docstring(module).text)]
        file = _HERE / f"{name}.mlir"
        lines += ["", f"<!-- file: {file.name} -->", "```mlir", file.read_text().rstrip(), "```"]
        for op in operations(name):
            lines += ["", *_entry(op, file.name)]
    return "\n".join(lines)


def operations(dialect: str) -> list[Any]:
    """The classes of the ops of a dialect, by name."""
    found = {
        cls.OPERATION_NAME: cls
        for cls in vars(_DIALECTS[dialect]).values()
        if isinstance(cls, type) and hasattr(cls, "OPERATION_NAME")
    }
    return [found[name] for name in sorted(found)]


def declared(op: Any, kind: str) -> list[str]:
    """Names of the operands, results or attributes that the class of an op declares."""
    return [field.name for field in op._fields if type(field).__name__ == f"{kind}Def"]


def attributes(op: Any) -> Iterator[tuple[str, str, bool, str]]:
    """Name, type, whether it may be missing, and meaning of each attribute that is documented."""
    own = {field.name: field for field in op._fields}
    for words, meaning in docstring(op).entries("Attributes").items():
        match = _DECLARED.fullmatch(words)
        assert match is not None, f"{op.OPERATION_NAME}: {words}"
        name, said = match[1], match[2] or ""
        class_ = getattr(getattr(own.get(name), "constraint", None), "__name__", "")
        yield name, said or _TYPES[class_], name not in own, meaning


def _entry(op: Any, file: str) -> Iterator[str]:
    docs = docstring(op)
    yield f"### `{op.OPERATION_NAME}`"
    yield ""
    yield markdown(docs.text)
    for section in ("Operands", "Results"):
        yield from listed(docs, section, section)
    if rows := [*attributes(op)]:
        yield ""
        yield "| attribute | type | meaning |"
        yield "|---|---|---|"
        for name, type_, optional, meaning in rows:
            type_ = markdown(type_) + (", optional" if optional else "")
            yield f"| `{name}` | {type_} | {markdown(meaning)} |"
    yield ""
    yield "**Verified**:"
    yield ""
    yield from (f"- {markdown(rule)}" for rule in rules(op))
    yield ""
    yield f"<!-- from: {file} -->"
    yield "```text"
    yield docs.section("Example")
    yield "```"
