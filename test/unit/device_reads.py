"""Where a Python text asks a device record by place or by kind instead of by name.

By place: `device.memory[-2]`, `first, *rest = device.memory`, `next(iter(device.memory))`, also
under other names. To go through all levels is fine. By kind: `device.kind == "cuda"`, a `match` or
a table of kinds, also under other names. Other things have a kind, too (expressions, buffers), so
what counts is that it is compared with a kind of devices, or that its owner is called a device.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rcompiler.device.model import KINDS

_ALL_OF_IT = ("tuple", "list", "iter", "reversed", "enumerate", "sorted")
_TABLES_OF_KINDS = ("KINDS", "GPU_KINDS")


def device_reads(text: str) -> list[tuple[int, str]]:
    """Lines that ask by place or by kind, and the expressions."""
    tree = ast.parse(text)
    return sorted({*_ByPlace(tree).found(), *_ByKind(tree).found()})


class _Reads:
    """What may be the value of one attribute: it is followed through names and other attributes."""

    def __init__(self, tree: ast.AST, attribute: str) -> None:
        self._tree, self._attributes, self._names = tree, {attribute}, set[str]()
        while self._learned():
            pass

    def _learned(self) -> bool:
        before = len(self._attributes) + len(self._names)
        for target, value in _bindings(self._tree):
            if not self.is_read(value):
                continue
            if isinstance(target, ast.Name):
                self._names.add(target.id)
            elif isinstance(target, ast.Attribute):
                self._attributes.add(target.attr)
        return len(self._attributes) + len(self._names) > before

    def is_read(self, value: ast.AST) -> bool:
        """Whether a value may be that attribute."""
        match value:
            case ast.Attribute():
                return value.attr in self._attributes
            case ast.Name():
                return value.id in self._names
            case ast.NamedExpr() | ast.Starred():
                return self.is_read(value.value)
            case ast.IfExp():
                return self.is_read(value.body) or self.is_read(value.orelse)
            case ast.BoolOp():
                return any(map(self.is_read, value.values))
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=name), *_]):
                return name in self._attributes
            case ast.Call(func=ast.Name(id=name), args=[first, *_]):
                return name in _ALL_OF_IT and self.is_read(first)
        return False


class _ByPlace(_Reads):
    def __init__(self, tree: ast.AST) -> None:
        super().__init__(tree, "memory")

    def found(self) -> Iterator[tuple[int, str]]:
        for node in ast.walk(self._tree):
            match node:
                case ast.Subscript() | ast.Match():
                    value = node.value if isinstance(node, ast.Subscript) else node.subject
                    hit = self.is_read(value)
                case ast.Attribute(attr="__getitem__"):
                    hit = self.is_read(node.value)
                case ast.Call(func=ast.Name(id="next"), args=[first, *_]):
                    hit = self.is_read(first)
                case _:
                    hit = False
            if hit:
                yield _told(node)
        for target, value in _bindings(self._tree):
            if isinstance(target, ast.Tuple | ast.List) and self.is_read(value):
                yield _told(target)


class _ByKind(_Reads):
    def __init__(self, tree: ast.AST) -> None:
        super().__init__(tree, "kind")
        self._tables = {
            target.id
            for target, value in _bindings(tree)
            if isinstance(target, ast.Name) and isinstance(value, ast.Dict) and _names_kinds(value)
        }
        annotated = (n for n in ast.walk(tree) if isinstance(n, ast.arg | ast.AnnAssign))
        self._devices = {
            n.arg if isinstance(n, ast.arg) else ast.unparse(n.target)
            for n in annotated
            if n.annotation is not None and "Device" in ast.unparse(n.annotation).split(" | ")
        }

    def found(self) -> Iterator[tuple[int, str]]:
        for node in ast.walk(self._tree):
            match node:
                case ast.Compare():
                    hit = self._compares([node.left, *node.comparators])
                case ast.Match():
                    hit = self._compares([node.subject, *(case.pattern for case in node.cases)])
                case ast.Subscript():
                    hit = self.is_read(node.slice) and self._is_table(node.value)
                case ast.Call(func=ast.Attribute(value=owner, attr="get"), args=[key, *_]):
                    hit = self.is_read(key) and self._is_table(owner)
                case ast.Call(func=ast.Attribute(value=owner), args=[_, *_]):
                    hit = self.is_read(owner) and any(map(_names_kinds, node.args))
                case _:
                    hit = False
            if hit:
                yield _told(node)

    def _compares(self, sides: list[ast.AST]) -> bool:
        kinds = [side for side in sides if self.is_read(side)]
        return any(map(self._of_device, kinds)) or (bool(kinds) and any(map(_names_kinds, sides)))

    def _of_device(self, kind: ast.AST) -> bool:
        if not isinstance(kind, ast.Attribute):
            return False
        owner = ast.unparse(kind.value)
        return owner in self._devices or "device" in owner.rpartition(".")[2].lower()

    def _is_table(self, value: ast.AST) -> bool:
        if isinstance(value, ast.Name):
            return value.id in self._tables
        return isinstance(value, ast.Dict) and _names_kinds(value)


def _names_kinds(node: ast.AST) -> bool:
    """Whether a kind of devices stands somewhere in it."""
    return any(
        (isinstance(n, ast.Constant) and n.value in KINDS)
        or (isinstance(n, ast.Name) and n.id in _TABLES_OF_KINDS)
        for n in ast.walk(node)
    )


def _bindings(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Targets and what is bound to them, of tuples each part by itself."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign():
                for target in node.targets:
                    yield from _parts(target, node.value)
            case ast.AnnAssign() | ast.NamedExpr():
                if node.value is not None:
                    yield node.target, node.value
            case ast.For() | ast.comprehension():
                if isinstance(node.iter, ast.Tuple | ast.List):
                    for value in node.iter.elts:
                        yield from _parts(node.target, value)


def _parts(target: ast.AST, value: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    both = isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List)
    if both and len(target.elts) == len(value.elts):
        for inner, bound in zip(target.elts, value.elts, strict=True):
            yield from _parts(inner, bound)
    else:
        yield target, value


def _told(node: ast.AST) -> tuple[int, str]:
    return node.lineno, ast.unparse(node).partition("\n")[0]
