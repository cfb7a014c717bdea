"""What the docstrings of public classes and functions leave out.

Each parameter and field is named in Args or Attributes, each error of ours that is raised in
Raises; what a function returns is its first sentence ("The text of a stage.") or in Returns.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from rcompiler import errors
from reference.api import own_fields
from reference.docstrings import Docstring, docstring
from reference.face import function_of, is_property

_NOUNS = ("The", "A", "An", "All", "Whether", "What", "Which", "How", "When", "Where", "Why")


def gaps(name: str, value: Any) -> Iterator[str]:
    """What is missing in the docstring of a public class, function, method or property."""
    docs = docstring(value)
    if inspect.isclass(value):
        if not docs.text:
            yield f"{name}: no docstring"
        named = docs.named("Attributes")
        yield from (f"{name}: no attribute '{f}'" for f, _ in own_fields(value) if f not in named)
        if check := vars(value).get("__post_init__"):
            yield from _errors_left_out(name, check, docs)
        return
    function = function_of(value)
    if not docs.text:
        if not _inherits(name, function):
            yield f"{name}: no docstring"
        return
    named = [each.lstrip("*") for each in docs.named("Args")]
    whole = "Args" in docs.sections and not named  # one sentence about all of them
    for parameter in inspect.signature(function).parameters:
        if parameter not in ("self", "cls", *named) and not whole:
            yield f"{name}: no argument '{parameter}'"
    for parameter in set(named) - {*inspect.signature(function).parameters}:
        yield f"{name}: '{parameter}' is no argument"
    if not is_property(value) and not _says_what_it_returns(function, docs):
        yield f"{name}: no Returns"
    yield from _errors_left_out(name, function, docs)


def _errors_left_out(name: str, function: Any, docs: Docstring) -> Iterator[str]:
    for error in sorted(raised(function) - _covered(docs), key=lambda e: e.__name__):
        yield f"{name}: no {error.__name__} in Raises"


def _inherits(name: str, function: Any) -> bool:
    """Whether a class that it overrides a method of has a docstring there."""
    owner: Any = sys.modules[function.__module__]
    for part in function.__qualname__.split(".")[:-1]:
        owner = getattr(owner, part)
    found = (vars(base).get(function.__name__) for base in getattr(owner, "__mro__", ())[1:])
    return any(docstring(each).text for each in found if each is not None)


def _says_what_it_returns(function: Any, docs: Docstring) -> bool:
    if function.__name__ in ("__init__", "__exit__", "__getitem__"):
        return True
    returned = inspect.signature(function).return_annotation
    if returned in (None, "None") or "Returns" in docs.sections:
        return True
    return docs.text.split()[0].rstrip(",.:") in _NOUNS


def _covered(docs: Docstring) -> set[type]:
    """The errors that Raises names, and all kinds of them."""
    kinds = [getattr(errors, name, None) for name in docs.named("Raises")]
    return {e for e in _kinds() if any(kind and issubclass(e, kind) for kind in kinds)}


def _kinds() -> list[type]:
    return [e for e in vars(errors).values() if inspect.isclass(e) and issubclass(e, Exception)]


def raised(function: Any) -> set[type]:
    """The errors of ours that a function raises: itself, or by what is private beside it."""
    found: set[type] = set()
    waiting, seen = [function], set()
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        names = each.__globals__
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(each)))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                error = names.get(ast.unparse(node.exc.func))
                found |= {error} if error in _kinds() else set()
            elif isinstance(node, ast.Call):
                waiting += _private(each, node.func)
    return found


def _private(caller: Any, called: ast.expr) -> Iterator[Any]:
    """The function that is called, where its name says that it is of this module or class only."""
    parts = ast.unparse(called).split(".")
    if not parts[-1].startswith("_") or parts[-1].startswith("__"):
        return
    owner: Any = sys.modules[caller.__module__]
    if parts[0] == "self":
        owner = getattr(owner, caller.__qualname__.split(".")[0])
        parts = parts[1:]
    for part in parts:
        owner = getattr(owner, part, None)
    owner = function_of(owner) if owner is not None and not inspect.isclass(owner) else None
    if inspect.isfunction(owner) and owner.__module__ == caller.__module__:
        yield owner
