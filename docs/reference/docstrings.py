"""Docstrings, taken apart: a text, and sections behind it.

Args:
    path, name: what they are, also
        on several lines.

Raises:
    DeviceError: why.
"""

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

SECTIONS = ("Args", "Returns", "Raises", "Attributes", "Operands", "Results", "Example")
_HEAD = re.compile(rf"({'|'.join(SECTIONS)}):\s*(.*)")
_ENTRY = re.compile(r"(\*{0,2}[A-Za-z_][\w. ()<>|,*-]*?):\s(.*)")
_CODE = re.compile(r"(`[^`]*`)")


@dataclass
class Docstring:
    """text: without sections; sections: the lines of each, by its name."""

    text: str = ""
    sections: dict[str, list[str]] = field(default_factory=dict)

    def section(self, name: str) -> str:
        """One section as a text."""
        return textwrap.dedent("\n".join(self.sections.get(name, []))).strip("\n")

    def entries(self, name: str) -> Mapping[str, str]:
        """What a section says of each thing, by the words in front of the colon."""
        found: dict[str, str] = {}
        last = ""
        for line in self.section(name).splitlines():
            match = None if line.startswith(" ") else _ENTRY.fullmatch(line)
            if match:
                last = match[1]
                found[last] = match[2]
            elif last:
                found[last] += " " + line.strip()
        return found

    def named(self, name: str) -> list[str]:
        """Every name of a section: `path, name` in front of a colon are two."""
        return [each.strip() for names in self.entries(name) for each in names.split(",")]


def docstring(of: Any) -> Docstring:
    """Of a class, function or property: its own, not one that it inherits."""
    return parsed(inspect.cleandoc(getattr(of, "__doc__", None) or ""))


def parsed(text: str) -> Docstring:
    """A docstring without its indentation."""
    found, section = Docstring(), ""
    lines: list[str] = []
    for line in text.splitlines():
        head = _HEAD.fullmatch(line)
        if head:
            section = head[1]
            found.sections[section] = ["    " + head[2]] if head[2] else []
        elif section and (line.startswith(" ") or not line.strip()):
            found.sections[section].append(line)
        else:
            section = ""
            lines.append(line)
    found.text = "\n".join(lines).strip()
    return found


def markdown(text: str) -> str:
    """A text of a docstring, with what Markdown would take for its own made plain."""
    return "\n".join(_line(line) for line in text.splitlines())


def _line(line: str) -> str:
    if line.startswith("    "):  # code
        return line
    parts = _CODE.split(line)
    parts[::2] = [re.sub(r"([<*|])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def listed(docs: Docstring, section: str, title: str) -> Iterator[str]:
    """A section as lines of Markdown: a list of its entries, or its text."""
    entries = docs.entries(section)
    if section not in docs.sections:
        return
    yield ""
    if not entries or section == "Returns":
        yield f"**{title}**: {markdown(docs.section(section))}"
        return
    yield f"**{title}**:"
    yield ""
    for name, words in entries.items():
        names = ", ".join(f"`{each.strip()}`" for each in name.split(","))
        yield f"- {names}: {markdown(words)}"
