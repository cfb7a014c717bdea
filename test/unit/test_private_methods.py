"""No class of ours replaces a private method of its base: who varies a part is handed in instead.

A base that calls private methods which subclasses replace can only be read together with all of
them. So collaborators with public methods vary instead, as `kernelgen.target.Target` does.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2] / "rcompiler"
FOLDERS = [ROOT, *(entry for entry in ROOT.iterdir() if entry.is_dir())]  # links too

Name = tuple[str, str]  # module, name in it


@dataclass(frozen=True)
class Class:
    """A class, by the names of its bases as its module has them, and its private methods."""

    module: str
    bases: tuple[str, ...]
    private: frozenset[str]


def module_of(path: Path) -> str:
    parts = ("rcompiler", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def product() -> dict[str, str]:
    """The text of every module."""
    paths = {p for f in FOLDERS for p in (f.glob("*.py") if f == ROOT else f.rglob("*.py"))}
    return {module_of(path): path.read_text() for path in sorted(paths)}


def overridden(sources: Mapping[str, str]) -> list[str]:
    """Private methods that a class has of its own and of a base, however far up."""
    trees = {module: ast.parse(text) for module, text in sources.items()}
    packages = {module.rpartition(".")[0] for module in sources}
    imported = {
        module: dict(imports_of(module, tree, package=module in packages))
        for module, tree in trees.items()
    }
    classes = {
        (module, node.name): class_of(module, node)
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }

    def resolved(module: str, dotted: str) -> Name | None:
        """The class that a name, or a name of an imported module, means; None: none of ours."""
        first, *rest = dotted.split(".")
        if (module, dotted) in classes:
            return module, dotted
        if first not in imported.get(module, {}):
            return None
        whole = ".".join([imported[module][first], *rest])
        home, _, name = whole.rpartition(".")
        return resolved(home, name)

    def ancestors(name: Name) -> Iterator[Name]:
        for base in classes[name].bases:
            found = resolved(classes[name].module, base)
            if found is not None and found != name:
                yield found
                yield from ancestors(found)

    return sorted(
        f"{'.'.join(name)}.{method} replaces that of {'.'.join(base)}"
        for name, own in classes.items()
        for base in set(ancestors(name))
        for method in own.private & classes[base].private
    )


def class_of(module: str, node: ast.ClassDef) -> Class:
    bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    named = [ast.unparse(b) for b in bases if isinstance(b, ast.Name | ast.Attribute)]
    methods = (n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    private = {m.name for m in methods if m.name.startswith("_") and not m.name.startswith("__")}
    return Class(module, tuple(named), frozenset(private))


def imports_of(module: str, tree: ast.Module, *, package: bool) -> Iterator[tuple[str, str]]:
    """The names of a module that it imports, and what they mean."""
    here = [*module.split("."), ""] if package else module.split(".")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            home = [*here[: -node.level], node.module] if node.level else [node.module]
            prefix = ".".join(part for part in home if part)
            for alias in node.names:
                yield alias.asname or alias.name, f"{prefix}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                yield name, alias.name if alias.asname else name


def test_no_class_replaces_a_private_method():
    assert overridden(product()) == []


MADE_UP = {
    "a": """
class First:
    def _part(self): ...
    def __init__(self): ...
    def open(self): ...
""",
    "p": "from .b import Second",
    "p.b": """
from a import First as Other
class Second(Other): ...
""",
    "p.c": """
import p
from . import b
class Third(p.Second[int]):
    def _part(self): ...
    def __init__(self): ...
class Fourth(b.Second):
    def open(self): ...
    def _new(self): ...
""",
    "e": """
class First:
    def _part(self): ...
class Fifth:
    def _part(self): ...
""",
}


def test_a_replaced_method_is_found_at_any_depth():
    assert overridden(MADE_UP) == ["p.c.Third._part replaces that of a.First"]
