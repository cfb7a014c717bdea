"""commands.md: the command lines, from the parsers that they read their options with."""

import argparse
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any
from unittest.mock import patch

from rcompiler.__main__ import COMMANDS, module_of
from reference.docstrings import markdown

_ABOUT = """\
Every command prints this with `--help`, and its version with `--version`. Exit codes: 0 success,
1 failure, 2 wrong arguments, 130 interrupted."""


class _Found(Exception):
    """Carries the parser that a command wanted to read its options with."""


def text() -> str:
    """The whole document."""
    lines = ["# Commands", "", _ABOUT]
    for name in COMMANDS:
        lines += ["", *_entry(import_module(module_of(name)))]
    return "\n".join(lines)


def parser_of(command: ModuleType) -> argparse.ArgumentParser:
    """What a command reads its options with; nothing else of it runs."""

    def stop(self: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        raise _Found(self)

    with patch.object(argparse.ArgumentParser, "parse_known_args", stop):
        try:
            with patch.object(argparse.ArgumentParser, "parse_known_intermixed_args", stop):
                command.main([])
        except _Found as found:
            parser: argparse.ArgumentParser = found.args[0]
            return parser
    raise AssertionError(f"{command.__name__} reads no options")


def _entry(command: ModuleType) -> Iterator[str]:
    parser = parser_of(command)
    yield f"## `{parser.prog}`"
    yield ""
    yield markdown(parser.description or "")
    for group in parser._action_groups:
        actions = [each for each in group._group_actions if each.dest not in ("help", "version")]
        if actions:
            yield ""
            yield f"| {group.title} | |"
            yield "|---|---|"
            yield from (f"| {_shown(each)} | {_help(each)} |" for each in actions)
    if parser.epilog:
        yield ""
        yield markdown(parser.epilog)


def _shown(action: argparse.Action) -> str:
    """As it is written on a command line."""
    value = _value(action)
    if not action.option_strings:
        return f"`{value}`"
    value = f" {value}" if value else ""
    return ", ".join(f"`{name}{value}`" for name in action.option_strings)


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    name = action.metavar or (action.dest if not action.option_strings else action.dest.upper())
    if action.choices is not None and action.metavar is None:
        name = "{" + ",".join(map(str, action.choices)) + "}"
    form = {"?": "[{}]", "*": "[{} ...]", "+": "{} ..."}.get(str(action.nargs), "{}")
    return form.format(name)


def _help(action: argparse.Action) -> str:
    words = (action.help or "") % {**vars(action), "prog": ""}
    return markdown(re.sub(r"\s+", " ", words))
