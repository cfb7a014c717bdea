"""Places in the source at which something is refused: MODULE.FUNCTION, with a number from 2 on."""

import ast
import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

_RAISES = ("ScheduleError", "Clash", "_deadlock", "Refused")
_SAY_FOR_OTHERS = ("refuse", "forbid", "within", "_refuse")


def _places(module: ModuleType) -> Iterator[tuple[str, int, int]]:
    """(place, first and last line) of each statement of a module that refuses."""
    short = module.__name__.rsplit(".", 1)[1]

    def walk(node: ast.AST, path: Sequence[str]) -> Iterator[tuple[str, int, int]]:
        found = 0
        for name, child in _statements(node):
            if name:
                yield from walk(child, [*path, name])
            elif _refuses(child):
                found += 1
                number = f" {found}" if found > 1 else ""
                yield ".".join(path) + number, child.lineno, child.end_lineno

    yield from walk(ast.parse(Path(module.__file__).read_text()), [short])


def _statements(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """(name of what is defined, or "", statement), not into what is defined."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            if child.name not in _SAY_FOR_OTHERS:
                yield child.name, child
            continue
        if isinstance(child, ast.stmt):
            yield "", child
        yield from _statements(child)


def _refuses(node: ast.AST) -> bool:
    call = node.exc if isinstance(node, ast.Raise) else getattr(node, "value", None)
    if not isinstance(call, ast.Call):
        return False
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    return name in _RAISES if isinstance(node, ast.Raise) else name in _SAY_FOR_OTHERS


def refusals(package: str, modules: Sequence[str]) -> set[str]:
    """All places of some modules."""
    found = (importlib.import_module(f"{package}.{name}") for name in modules)
    return {place for module in found for place, _, _ in _places(module)}


def refused_at(error: BaseException) -> str:
    """The innermost place at which it was refused, or of the error that it was before."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        name = trace.tb_frame.f_globals["__name__"]
        if name.startswith("rcompiler."):
            for found, first, last in _places(importlib.import_module(name)):
                if first <= trace.tb_lineno <= last:
                    place = found
        trace = trace.tb_next
    return place if place or error.__context__ is None else refused_at(error.__context__)
