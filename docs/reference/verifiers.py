"""What the verifier of an op refuses: read from its code, message by message."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

_HOME = "rcompiler.dialects"
_ENTRIES = ("verify_invariants", "verify_region_invariants")


def rules(op: type) -> list[str]:
    """What must hold for an op of this class, in the words of its verifier, each once."""
    seen: set[Callable[..., Any]] = set()
    found = [
        rule
        for name in _ENTRIES
        if name in vars(op)
        for rule in _Reader(op, vars(op)[name], seen).rules()
    ]
    return [*dict.fromkeys(found)]


class _Reader(ast.NodeVisitor):
    """Of one function: what it yields, and what the functions yield that it calls."""

    def __init__(self, op: type, function: Callable[..., Any], seen: set[Any]) -> None:
        self.op, self.function, self.seen = op, function, seen
        self.names = function.__globals__
        self.found: list[str] = []

    def rules(self) -> list[str]:
        source = textwrap.dedent(inspect.getsource(self.function))
        self.visit(ast.parse(source))
        return self.found

    def visit_Yield(self, node: ast.Yield) -> None:
        value = node.value.elts[1] if isinstance(node.value, ast.Tuple) else node.value
        if isinstance(value, ast.Constant | ast.JoinedStr):
            self.found.append(self._message(value))

    def visit_Call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func).rsplit(".", 1)[-1]
        if name == "place_problems":
            parents = eval(ast.unparse(node.args[1]), self.names)
            self.found.append(f"stands directly in {' or '.join(parents)}")
        elif name == "integer_problems":
            for key, least in ast.literal_eval(node.args[1]).items():
                self.found.append(f"expects an i64 '{key}' of at least {least}")
        else:
            self.generic_visit(node)
            self._follow(node.func)

    def _follow(self, called: ast.expr) -> None:
        function = self._function(called)
        if function is None or function in self.seen:
            return
        if inspect.isgeneratorfunction(function) and function.__module__.startswith(_HOME):
            self.seen.add(function)
            self.found += _Reader(self.op, function, self.seen).rules()

    def _function(self, called: ast.expr) -> Any:
        if isinstance(called, ast.Name):
            return self.names.get(called.id)
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            owner = self.op if called.value.id == "self" else self.names.get(called.value.id)
            return getattr(owner, called.attr, None)
        return None

    def _message(self, value: ast.expr) -> str:
        """The text, with what is known only when it is printed as <words>."""
        if isinstance(value, ast.Constant):
            return str(value.value)
        assert isinstance(value, ast.JoinedStr)
        parts: Iterator[str] = (
            self._hole(part.value) if isinstance(part, ast.FormattedValue) else str(part.value)
            for part in value.values
            if isinstance(part, ast.FormattedValue | ast.Constant)
        )
        return "".join(parts)

    def _hole(self, value: ast.expr) -> str:
        """What is printed there: a constant of the module or of the signature, or <words>."""
        text = ast.unparse(value)
        name = re.sub(r"^', '\.join\((\w+)\)$", r"\1", text)
        defaults = inspect.signature(self.function).parameters
        known = self.names.get(name) if name.isupper() else None
        if name in defaults and defaults[name].default is not inspect.Parameter.empty:
            known = defaults[name].default
        if known is not None:
            return ", ".join(known) if isinstance(known, tuple) else str(known)
        words = re.findall(r"[a-z][a-z_]+", re.sub(r"\.(value|operation|attributes)\b", "", text))
        return f"<{words[-1].strip('_').replace('_', ' ') if words else 'value'}>"
