"""What one file of Python says of others: the modules that it imports, the paths that it names."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from .passed import replace_file
from .tree import Tree

# What finds modules, or starts processes that do, by names that are made while a program runs.
_FINDING_MODULES = {
    *("pkgutil", "runpy", "zipimport", "imp", "subprocess", "multiprocessing", "pty"),
    *("importlib.machinery", "importlib.resources", "importlib.abc"),
}
_FINDING_NAMES = {
    *("__import__", "exec", "eval", "compile"),
    *("import_module", "reload", "spec_from_file_location", "module_from_spec", "entry_points"),
    *("ProcessPoolExecutor", "pytester"),
}
_FINDING_ATTRIBUTES = {*_FINDING_NAMES, "__file__", "__path__"} - {"exec", "eval", "compile"}
_STARTS = re.compile(r"system|popen|fork|forkpty|posix_spawnp?|spawn\w+|exec\w+")  # of os
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_PATH = re.compile(r"[\w.-]+(/[\w.-]+)+/?")


@dataclass(frozen=True)
class Facts:
    """imports: (module, name in it), where the name may be "" and may be a module of its own.
    finds: whether it finds modules by names that stand nowhere. paths: of files and folders below
    the root, which it makes of its own place. climbs: whether it goes up from a path of which that
    is not known. words: what may be a path or a module in its strings.
    """

    imports: frozenset[tuple[str, str]]
    finds: bool
    paths: frozenset[str]
    climbs: bool
    words: frozenset[str]

    def as_json(self) -> list[Any]:
        """For a file, in the order of the fields."""
        return [
            sorted(self.imports),
            self.finds,
            sorted(self.paths),
            self.climbs,
            sorted(self.words),
        ]

    @staticmethod
    def of_json(found: Any) -> Facts:
        """What `as_json` gave. Raises ValueError or TypeError for what is none."""
        imports, finds, paths, climbs, words = found
        return Facts(
            frozenset((str(module), str(name)) for module, name in imports),
            bool(finds),
            frozenset(map(str, paths)),
            bool(climbs),
            frozenset(map(str, words)),
        )


class FactsOf:
    """The facts of files, which are kept in a file by their contents: parsing takes seconds."""

    def __init__(self, tree: Tree, kept: Path | None = None) -> None:
        """kept: the file; None: nothing is kept."""
        self._tree, self._kept = tree, kept
        self._reader = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
        self._known = self._read()
        self._found: dict[str, Facts | None] = {}

    def __call__(self, path: str) -> Facts | None:
        """None: the file is no Python."""
        if path not in self._found:
            known = self._known.get(self._name(path))
            try:
                text = None if known else (self._tree.root / path).read_text()
                self._found[path] = known or facts_of(text or "", path)
            except (SyntaxError, ValueError, OSError):
                self._found[path] = None
        return self._found[path]

    def keep(self) -> None:
        """Write what is known of the tree's files to the file, if it is more than there was; that
        it cannot be written costs time only.
        """
        names = {path: self._name(path) for path in self._tree.hashes}
        known = {names[path]: facts for path, facts in self._found.items() if facts is not None}
        if self._kept is None or known.keys() <= self._known.keys():
            return
        known |= {name: self._known[name] for name in names.values() if name in self._known}
        files = {name: facts.as_json() for name, facts in known.items()}
        with suppress(OSError):
            replace_file(self._kept, json.dumps({"reader": self._reader, "files": files}))

    def _name(self, path: str) -> str:
        return f"{path} {self._tree.hashes[path]}"

    def _read(self) -> dict[str, Facts]:
        try:
            found = json.loads(self._kept.read_text()) if self._kept else {}
            if found.get("reader") != self._reader:
                return {}
            return {name: Facts.of_json(each) for name, each in found["files"].items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return {}


def facts_of(source: str, path: str) -> Facts:
    """path: of the file, below the root. Raises SyntaxError."""
    reader = _Reader(PurePosixPath(path))
    reader.visit(ast.parse(source))
    return Facts(
        frozenset(reader.imports),
        reader.finds,
        frozenset(reader.paths),
        reader.climbs,
        frozenset(reader.words),
    )


class _Reader(ast.NodeVisitor):
    def __init__(self, path: PurePosixPath) -> None:
        self._path = path
        self.imports: set[tuple[str, str]] = set()
        self.finds = False
        self.paths: set[str] = set()
        self.climbs = False
        self.words: set[str] = set()

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.expr) and (place := self._place(node)) is not None:
            self.paths.add(place)
            return
        super().visit(node)

    def visit_If(self, node: ast.If) -> None:
        """What is imported for types only is not there when the program runs."""
        test = node.test
        name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
        for child in (
            node.orelse if name == "TYPE_CHECKING" else [node.test, *node.body, *node.orelse]
        ):
            self.visit(child)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._import(alias.name, "")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        folder = self._path.parent.parts
        parts = folder[: len(folder) - node.level + 1] if node.level else ()
        module = ".".join([*parts, *([node.module] if node.module else [])])
        for alias in node.names:
            self._import(module, alias.name)
            self.finds |= alias.name in _FINDING_NAMES

    def _import(self, module: str, name: str) -> None:
        self.imports.add((module, name))
        names = {module, f"{module}.{name}", module.partition(".")[0]}
        self.finds |= bool(names & _FINDING_MODULES)

    def visit_Name(self, node: ast.Name) -> None:
        self.finds |= node.id in _FINDING_NAMES
        if node.id == "__file__":  # in an expression that is not understood
            self.paths.add(".")

    def visit_arg(self, node: ast.arg) -> None:
        """A fixture is asked for by the name of an argument."""
        self.finds |= node.arg in _FINDING_NAMES
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        of_os = isinstance(node.value, ast.Name) and node.value.id == "os"
        self.finds |= node.attr in _FINDING_ATTRIBUTES
        self.climbs |= node.attr in ("parent", "parents", "dirname", "pardir")
        self.finds |= of_os and bool(_STARTS.fullmatch(node.attr))
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Whether something is this file: nothing is read."""
        self._but_this_file([node.left, *node.comparators])

    def visit_List(self, node: ast.List) -> None:
        """A command with this file in it."""
        self._but_this_file(node.elts)

    def _but_this_file(self, parts: Sequence[ast.expr]) -> None:
        for each in parts:
            if not (isinstance(each, ast.Name) and each.id == "__file__"):
                self.visit(each)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.climbs |= ".." in node.value.split("/")
            for pattern in (_MODULE, _PATH):
                self.words |= {match[0] for match in pattern.finditer(node.value)}

    def visit_Expr(self, node: ast.Expr) -> None:
        """Not a text that explains, nor `sys.path.insert(...)`: what is imported from there is
        looked for everywhere.
        """
        call = node.value
        explains = isinstance(call, ast.Constant)
        if not explains and not (isinstance(call, ast.Call) and _is_search_path(call.func)):
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(_is_search_path(target) for target in node.targets):
            self.generic_visit(node)

    def _place(self, node: ast.expr) -> str | None:
        """The path below the root that an expression makes of `__file__`; None: it is none."""
        found = self._parts(node)
        return None if found is None else str(found)

    def _parts(self, node: ast.expr) -> PurePosixPath | None:
        match node:
            case ast.Call(ast.Name("Path" | "PurePath" | "str"), [ast.Name("__file__")]):
                return self._path
            case ast.Call(ast.Name("str"), [inner]):
                return self._parts(inner)
            case ast.Attribute(inner, "parent"):
                found = self._parts(inner)
                return None if found is None else found.parent
            case ast.Subscript(ast.Attribute(inner, "parents"), ast.Constant(int(count))):
                found = self._parts(inner)
                above = [] if found is None else [*found.parents]
                return above[count] if count < len(above) else None
            case ast.Call(ast.Attribute(inner, "resolve" | "absolute")):
                return self._parts(inner)
            case ast.Call(ast.Attribute(inner, "with_name"), [ast.Constant(str(name))]):
                found = self._parts(inner)
                return None if found is None else found.with_name(name)
            case ast.BinOp(inner, ast.Div(), ast.Constant(str(name))):
                found = self._parts(inner)
                return None if found is None else found / name
            case ast.BinOp(inner, ast.Div(), _):
                return self._parts(inner)
        return None


def _is_search_path(node: ast.AST) -> bool:
    """Whether it is `sys.path`, a slice or a method of it."""
    match node:
        case ast.Attribute(ast.Name("sys"), "path"):
            return True
        case ast.Attribute(inner, _) | ast.Subscript(inner, _):
            return _is_search_path(inner)
    return False
