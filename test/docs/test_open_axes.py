"""The table of docs/shapes.md that says which operators take open axes."""

import re

from documents import ROOT

from rcompiler.frontend import control, registry
from rcompiler.frontend.sizes import rules

_BY_SHAPE = {"Shape", "Size"}  # `sizes.arithmetic`
_OF_SEQUENCES = re.compile("Sequence|Optional|Constant$|Identity")


def rows():
    text = (ROOT / "docs" / "shapes.md").read_text()
    table = text.partition("## Which axes may be open")[2].partition("\n## ")[0]
    cells = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| ")][1:]
    return [(re.findall(r"[A-Z]\w+", names), axes.strip()) for names, axes in cells
            if "functions" not in names]  # fmt: skip


def test_each_operator_is_in_one_row():
    named = [name for names, _ in rows() for name in names]
    control_flow = {name for name in control.names() if not _OF_SEQUENCES.search(name)}
    # a block of the documents registers one of com.example, where the same process runs it first
    there = {name for name, domain in registry.names() if domain != "com.example"}
    known = there | {name for name, _ in rules.names()} | control_flow
    assert sorted(named) == sorted(known)


def test_those_without_a_rule_are_said_to_have_none():
    ruled = {name for name, _ in rules.names()} | _BY_SHAPE | set(control.names())
    for names, axes in rows():
        assert [name for name in names if name in ruled] == ([] if axes == "none" else names)
