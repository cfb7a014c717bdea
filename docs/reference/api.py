"""api.md: what of the package is public, from signatures and docstrings."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Literal, get_args, get_origin

from reference.docstrings import Docstring, docstring, listed, markdown
from reference.face import FACE, function_of, is_property, members, public

_ABOUT = """\
What is not here may change from one version to the next. `import rcompiler` loads nothing; the
names are imported when they are first used, and running a saved model imports numpy only."""
_TITLES = {"Attributes": "Attributes", "Args": "Args", "Returns": "Returns", "Raises": "Raises"}
_WIDTH = 100


def text() -> str:
    """The whole document."""
    lines = ["# API", "", _ABOUT]
    for title, module, names in FACE:
        lines += ["", f"## {title}", "", f"`from {module} import ...`"]
        lines += _choices(module)
        for name, value in public(module, names):
            lines += ["", *_entry(name, value)]
    return "\n".join(lines)


def _choices(module: str) -> Iterator[str]:
    """The types of options that a module defines, each with its values."""
    home = import_module(module)
    for node in _parsed(home):
        name = ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else ""
        if get_origin(getattr(home, name, None)) is Literal and not name.startswith("_"):
            values = ", ".join(f'"{value}"' for value in get_args(getattr(home, name)))
            yield from ("", f"`{name}`: one of {values}.")


def _entry(name: str, value: Any) -> Iterator[str]:
    yield f"### `{name.rsplit('.', 1)[1]}`"
    yield ""
    if not inspect.isclass(value):
        yield from _code(signature(value))
        yield from _said(docstring(value))
        return
    yield from _code(_head(value))
    yield from _said(docstring(value))
    for member, found in members(value):
        yield ""
        yield from _code(_member_head(member, found))
        yield from _said(docstring(found))


def _said(docs: Docstring) -> Iterator[str]:
    yield ""
    yield markdown(docs.text)
    for section, title in _TITLES.items():
        yield from listed(docs, section, title)


def _code(text: str) -> Iterator[str]:
    yield from ("```text", text, "```")


def _head(cls: type) -> str:
    """class Name(its bases, and its fields with their defaults)."""
    bases = [base.__name__ for base in cls.__bases__ if base is not object]
    head = f"class {cls.__name__}({', '.join(bases)})" if bases else f"class {cls.__name__}"
    fields = [f"    {name}: {words}" for name, words in own_fields(cls)]
    return "\n".join([head, *fields])


def own_fields(cls: type) -> Iterator[tuple[str, str]]:
    """The fields of a dataclass or named tuple that it defines: name, and type with default."""
    if not dataclasses.is_dataclass(cls) and not hasattr(cls, "_fields"):
        return
    [node] = _parsed(cls)
    assert isinstance(node, ast.ClassDef)
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            default = f" = {ast.unparse(each.value)}" if each.value else ""
            if not each.target.id.startswith("_") and "init=False" not in default:
                yield each.target.id, _type(each.annotation) + default


def _member_head(name: str, member: Any) -> str:
    function = function_of(member)
    head = signature(function)
    if isinstance(member, staticmethod | classmethod):
        return f"@{type(member).__name__}\n{head}"
    if is_property(member):
        return f"{name}: {head.rpartition(' -> ')[2]}"
    return head


def signature(function: Any) -> str:
    """name(parameters) -> type, as it is written; a long one with a line for each parameter."""
    [node] = _parsed(function)
    assert isinstance(node, ast.FunctionDef)
    result = f" -> {_type(node.returns)}" if node.returns else ""
    parameters = [*_parameters(node.args)]
    line = f"{node.name}({', '.join(parameters)}){result}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{node.name}(", *(f"    {each}," for each in parameters), f"){result}"])


def _parameters(args: ast.arguments) -> Iterator[str]:
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + [*args.defaults]
    for arg, default in zip(plain, defaults, strict=True):
        if arg.arg not in ("self", "cls"):
            yield _parameter(arg, default)
    if args.vararg:
        yield f"*{_parameter(args.vararg)}"
    elif args.kwonlyargs:
        yield "*"
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield _parameter(arg, default)
    if args.kwarg:
        yield f"**{_parameter(args.kwarg)}"


def _parameter(arg: ast.arg, default: ast.expr | None = None) -> str:
    type_ = f": {_type(arg.annotation)}" if arg.annotation else ""
    return f"{arg.arg}{type_}" + (f" = {ast.unparse(default)}" if default is not None else "")


def _type(annotation: ast.expr) -> str:
    """A type as it is written, without the quotes of one that is defined later."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return ast.unparse(annotation)


def _parsed(of: Any) -> list[ast.stmt]:
    return ast.parse(textwrap.dedent(inspect.getsource(of))).body
