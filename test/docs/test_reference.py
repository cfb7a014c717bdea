"""The generated documents are those of today's code, and what they show is complete."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from reference import complete, documents, face
from reference.commands import parser_of
from reference.dialects import attributes, declared, operations
from reference.docstrings import docstring, parsed
from reference.passes import meanings
from reference.verifiers import rules

from rcompiler.errors import CompilerError, DeviceError
from rcompiler.passes import find, names
from rcompiler.tools import rc_opt

OPERATIONS = [op for dialect in ("rtask", "vdevice") for op in operations(dialect)]


def test_the_documents_are_up_to_date():
    assert documents.outdated() == [], f"run {documents.COMMAND}"


def test_a_document_that_is_out_of_date_is_found(tmp_path):
    for name in documents.DOCUMENTS:
        (tmp_path / name).write_text(documents.made(name))
    assert documents.outdated(tmp_path) == []
    changed = documents.made("api.md").replace("eus: int", "eus: float")
    (tmp_path / "api.md").write_text(changed)
    (tmp_path / "passes.md").unlink()
    assert documents.outdated(tmp_path) == ["api.md", "passes.md"]


def test_only_check_is_an_option(capsys):
    assert documents.main(["--chekc"]) == 2
    assert "usage" in capsys.readouterr().out


def test_public_docstrings_are_complete():
    found = [gap for name, value in face.everything() for gap in complete.gaps(name, value)]
    assert found == [], "\n".join(found)


def test_the_face_has_what_users_call():
    found = {name for name, _ in face.everything()}
    expected = ["rcompiler.compile_onnx", "rcompiler.runtime.executable.Executable.__call__"]
    expected += ["rcompiler.model.Explained.stage", "rcompiler.rammer.policy.Launch.append"]
    assert found >= {*expected} and len(found) > 150


class Bad:
    """A class of which little is said."""

    def __init__(self, size):
        """Made of something."""

    def level(self, name, *rest, least=0, **more) -> int:
        """Look a level up.

        Args:
            name, rest: of it.
            lest: an argument that is not there.

        Raises:
            ValueError: it is no name.
        """
        if least:
            raise DeviceError("there is none")
        return self._private(rest, more)

    def _private(self, *_):
        raise CompilerError("nor here")

    @property
    def width(self) -> int:
        """Of it."""
        raise DeviceError("no width")

    def plain(self):
        pass


def test_what_is_left_out_is_found():
    found = [gap for name, value in face.members(Bad) for gap in complete.gaps(name, value)]
    assert found == [
        "__init__: no argument 'size'",
        "level: no argument 'least'",
        "level: no argument 'more'",
        "level: 'lest' is no argument",
        "level: no Returns",
        "level: no CompilerError in Raises",
        "level: no DeviceError in Raises",
        "width: no DeviceError in Raises",
        "plain: no docstring",
    ]


@dataclass
class BadRecord:
    """A record.

    Attributes:
        first: a number.
    """

    first: int
    second: int = 2

    def __post_init__(self):
        raise DeviceError("never")


@dataclass
class GoodRecord:
    """A record.

    Attributes:
        first, second: numbers.

    Raises:
        CompilerError: always, and so of any kind.
    """

    first: int
    second: int = 2

    def __post_init__(self):
        raise DeviceError("never")


def test_fields_that_are_left_out_are_found():
    assert [*complete.gaps("BadRecord", BadRecord)] == [
        "BadRecord: no attribute 'second'",
        "BadRecord: no DeviceError in Raises",
    ]
    assert [*complete.gaps("GoodRecord", GoodRecord)] == []


def test_a_docstring_is_taken_apart():
    found = parsed(
        "One.\n\nTwo: three.\n\nArgs:\n    a, *b: of\n        both.\n    c: last.\n\nFour."
    )
    assert found.text == "One.\n\nTwo: three.\n\nFour."
    assert found.entries("Args") == {"a, *b": "of both.", "c": "last."}
    assert found.named("Args") == ["a", "*b", "c"]
    assert parsed("Args: all of them.").section("Args") == "all of them."


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.OPERATION_NAME)
def test_ops_are_documented(op):
    docs, shown = docstring(op), {name for name, *_ in attributes(op)}
    assert shown >= {*declared(op, "Attribute")}
    assert {*docs.entries("Operands")} == {*declared(op, "Operand")}
    assert {*docs.entries("Results")} == {*declared(op, "Result")}
    assert docs.section("Example").count(op.OPERATION_NAME)
    if op.OPERATION_NAME != "vdevice.program":  # its verifier speaks of what stands in it
        asked = {name for rule in rules(op) for name in re.findall(r"'([a-z_]+)'", rule)}
        assert asked <= {*shown, "prefetch"}


def test_rules_are_those_of_the_verifier():
    [wait] = [op for op in OPERATIONS if op.OPERATION_NAME == "vdevice.wait"]
    places = "vdevice.eu or vdevice.queue or vdevice.repeat"
    assert rules(wait) == [
        f"stands directly in {places}",
        "expects an i64 'count' of at least 1",
    ]
    text = (Path(__file__).parents[1] / "dialects" / "vdevice-invalid.mlir").read_text()
    assert "expects 'count' of at least 1" in text


@pytest.mark.parametrize("kind", ["passes", "pipelines"])
def test_options_of_passes_have_a_meaning(kind):
    for name in names(kind):
        options = {option.partition("=")[0].replace("-", "_") for option in find(name).options()}
        assert options == {*meanings(find(name))}, name


def test_a_command_is_asked_for_its_options_alone():
    parser = parser_of(rc_opt)
    assert parser.prog == "rc-opt" and "--list-passes" in parser.format_help()
