"""passes.md: our passes and pipelines, from their classes and modules."""

import inspect
from collections.abc import Iterator

from rcompiler.passes import OptionalPass, Pass, Pipeline, find, names
from reference.docstrings import docstring, markdown

_ABOUT = """\
Each is a name for `rc-opt -p`, with options in braces: `rtask-form{fusion=false}`.
`rc-opt --list-passes` prints the same list. How to write one says
[extending](../extending.md); how to run them, [rc-opt](../rc-opt.md)."""


def text() -> str:
    """The whole document."""
    lines = ["# Passes and pipelines", "", _ABOUT]
    for kind in ("passes", "pipelines"):
        lines += ["", f"## {kind.capitalize()}"]
        for name in names(kind):
            found = find(name)
            assert found is not None
            lines += ["", *_entry(found)]
    return "\n".join(lines)


def _entry(found: type[Pass] | type[Pipeline]) -> Iterator[str]:
    own = docstring(found)
    yield f"### `{found.name()}`"
    yield ""
    yield markdown(own.text)
    if issubclass(found, OptionalPass):
        yield ""
        yield "Where it fails, a model is compiled without it."
    if options := found.options():
        said = meanings(found)
        yield ""
        yield "| option | values | default | meaning |"
        yield "|---|---|---|---|"
        for option in options:
            yield _row(option, said)
    about = inspect.cleandoc(inspect.getmodule(found).__doc__ or "")
    yield ""
    yield "```text"
    yield about
    yield "```"


def meanings(found: type) -> dict[str, str]:
    """What the class, and those that it is made of, say of their fields."""
    said: dict[str, str] = {}
    for cls in reversed(found.__mro__):
        for words, meaning in docstring(cls).entries("Attributes").items():
            said |= dict.fromkeys((name.strip() for name in words.split(",")), meaning)
    return said


def _row(option: str, said: dict[str, str]) -> str:
    name, _, rest = option.partition("=")
    values, _, default = rest.partition(" (default: ")
    default = f"`{default.removesuffix(')')}`" if default else "needed"
    words = markdown(said.get(name.replace("-", "_"), ""))
    return f"| `{name}` | {values.replace('|', ', ')} | {default} | {words} |"
