"""PTX modules."""

from __future__ import annotations

import re

from rcompiler.emulator.faults import UnsupportedPtx
from rcompiler.emulator.ptx.body import parse_body
from rcompiler.emulator.ptx.declarations import skip_linkage, variable
from rcompiler.emulator.ptx.lexer import Tokens
from rcompiler.emulator.ptx.syntax import Function, Module, Variable


def parse(text: str) -> Module:
    """The module that the text describes. Raises UnsupportedPtx, which names the line."""
    lines = text.split("\n")
    tokens = Tokens(text)
    module = Module((0, 0), {}, {})
    while tokens.next.kind != "end":
        skip_linkage(tokens)
        token = tokens.take()
        match token.text:
            case ".version":
                tokens.take()
            case ".target":
                module.target = _target(tokens)
            case ".address_size":
                if tokens.integer() != 64:
                    raise UnsupportedPtx("addresses must have 64 bits", token.line)
            case ".global" | ".const" | ".shared":
                _module_variable(tokens, module, token.text[1:])
            case ".entry" | ".func":
                _function(tokens, module, token.text == ".entry", lines)
            case ".section":
                tokens.skip_past("}")
            case ".pragma":
                tokens.skip_past(";")
            case ";":
                pass
            case _:
                raise UnsupportedPtx(f"'{token.text}' is not expected here", token.line)
    return module


def _target(tokens: Tokens) -> tuple[int, int]:
    word = tokens.take("word")
    match = re.fullmatch(r"sm_(\d+)(\d)[af]?", word.text)
    if match is None:
        raise UnsupportedPtx(f"unknown target '{word.text}'", word.line)
    while tokens.accept(","):
        tokens.take("word")
    return int(match[1]), int(match[2])


def _module_variable(tokens: Tokens, module: Module, space: str) -> None:
    while True:
        made = variable(tokens, space)
        old = module.variables.get(made.name)
        if old is None or old.size == 0:
            module.variables[made.name] = made
        if not tokens.accept(","):
            break
    tokens.expect(";")


def _parameters(tokens: Tokens) -> list[Variable]:
    found: list[Variable] = []
    tokens.expect("(")
    while not tokens.accept(")"):
        start = tokens.take()
        if start.text != ".param":
            raise UnsupportedPtx("parameters must be in .param", start.line)
        found.append(variable(tokens, "param"))
        tokens.accept(",")
    return found


def _function(tokens: Tokens, module: Module, entry: bool, lines: list[str]) -> None:
    results = _parameters(tokens) if tokens.at("(") else []
    name = tokens.take("word")
    function = Function(name.text, entry, name.line, results=results)
    if tokens.at("("):
        function.params = _parameters(tokens)
    _attributes(tokens, function)
    if tokens.accept(";"):
        module.functions.setdefault(function.name, function)
        return
    tokens.expect("{")
    module.functions[function.name] = function
    parse_body(tokens, function, module, lines)
    function.defined = True


def _attributes(tokens: Tokens, function: Function) -> None:
    while tokens.next.kind == "directive":
        token = tokens.take()
        match token.text:
            case ".maxntid" | ".reqntid":
                count = tokens.integer()
                while tokens.accept(","):
                    count *= tokens.integer()
                function.threads = count
            case ".maxnreg":
                function.register_limit = tokens.integer()
            case ".minnctapersm" | ".maxnctapersm" | ".maxclusterrank":
                tokens.integer()
            case ".noreturn" | ".explicitcluster":
                pass
            case ".pragma":
                tokens.skip_past(";")
            case _:
                raise UnsupportedPtx(f"unknown '{token.text}' of a function", token.line)
