"""What messages tell their readers to do can be done: every command, option, target, variable and
package that they name is there.
"""

import ast
import inspect
import re
import tomllib
from pathlib import Path

import pytest

import rcompiler
from rcompiler.driver.host import target_device
from rcompiler.errors import CompilerError
from rcompiler.runtime.executable import Executable

ROOT = Path(__file__).parents[2]
FACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = FACTS["optional-dependencies"]
# "name=" in messages that is no option of a call of ours: attributes of nodes, options of others,
# names of dimensions, extents of networks.
NO_OPTIONS = {
    *("axis", "groups", "image", "is_test", "normalized", "onesided", "signal_ndim"),
    *("batch", "chipset", "intra_op_num_threads", "mode", "optimized_model_filepath", "runtime"),
    *("seq", "zipmap"),
}


def _text(node: ast.expr) -> str | None:
    """Of a string, or of one with values in it, which become "{}"."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "{}" for part in node.values)
    return None


def _messages() -> dict[str, str]:
    """The texts that are no docstrings, by where they are."""
    found = {}
    for folder in (ROOT / "rcompiler", ROOT / "tools"):
        for path in sorted(folder.rglob("*.py")):
            if "tools/bench" in path.as_posix():
                continue
            tree = ast.parse(path.read_text())
            inner = {
                id(p) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for p in n.values
            }
            inner |= {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
            for node in ast.walk(tree):
                text = _text(node) if isinstance(node, ast.expr) and id(node) not in inner else None
                if text and " " in text:
                    found[f"{path.relative_to(ROOT)}:{node.lineno}:{node.col_offset}"] = text
    return found


MESSAGES = _messages()


def _named(pattern: str) -> dict[str, str]:
    """What the first group of a pattern finds in messages, each with one place."""
    return {
        match[1]: f"{where}: {text}"
        for where, text in MESSAGES.items()
        for match in re.finditer(pattern, text)
    }


def test_packages_are_those_that_an_index_has():
    """A name without bounds, or with those of pyproject.toml; never this project itself."""
    whole = {*FACTS["dependencies"], *(each for extra in EXTRAS.values() for each in extra)}
    known = whole | {re.sub(r"[^\w.-].*", "", each) for each in whole} - {"rcompiler"}
    commands = _named(r"(pip install(?: (?:'[\w<>=.,\[\]-]+'|(?!or\b)[\w<>=.\[\]-]+))+)")
    assert len(commands) >= 5
    for command, where in commands.items():
        for word in command.split()[2:]:
            assert word.strip("'") in known | {"PATH", "--force-reinstall"}, where


def test_commands_are_installed():
    scripts = {*FACTS["scripts"]}
    for command, where in _named(r"(?<![\w./-])(rc-[a-z]+)(?![\w.-])").items():
        assert command in scripts, where


def test_targets_are_known():
    named = _named(r"(?<![\w-])((?:cpu|cuda|rocm):\w[\w+-]*\w)(?![{])")
    named |= _named(r"for target (\w[\w:+-]*\w)")
    assert {"cpu:x86-64", "cuda:emulated"} <= {*named}
    for target, where in named.items():
        try:
            target_device(target)
        except CompilerError:
            pytest.fail(where)


def _arguments() -> set[str]:
    """Of what users call, and of what that hands its options on to."""
    names = {*inspect.signature(Executable).parameters}
    for name in rcompiler.__all__:
        found = getattr(rcompiler, name)
        for member in vars(found).values() if inspect.isclass(found) else [found]:
            if inspect.isfunction(member):
                names |= {*inspect.signature(member).parameters}
    return names


def test_options_of_calls_are_there():
    named = _named(r"(?<![\w.`'-])([a-z_]{3,})=(?=[\s,;.)'\"\[{]|\d|$|[A-Z])")
    options = {name: where for name, where in named.items() if not re.search(r"<|\nimport ", where)}
    known = _arguments() | NO_OPTIONS
    assert "fallback" in options
    for option, where in options.items():
        assert option in known, where


def test_variables_are_read():
    source = "\n".join(path.read_text() for path in (ROOT / "rcompiler").rglob("*.py"))
    for name, where in _named(r"(?<![\w])(RC_[A-Z_]+)").items():
        assert re.search(rf"environ[^\n]*[\"']{name}[\"']|= \"{name}\"", source), where


def test_options_of_commands_are_there():
    documents = (ROOT / "docs" / "reference" / "commands.md").read_text()
    foreign = {"--force-reinstall"}
    for option, where in _named(r"(?<![\w-])(--[a-z][a-z-]+[a-z])").items():
        in_tools = any(f'"{option}' in path.read_text() for path in (ROOT / "tools").rglob("*.py"))
        assert option in documents or in_tools or option in foreign or "codegen/" in where, where
