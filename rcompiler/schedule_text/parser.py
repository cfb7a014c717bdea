"""From the schedule form to the text that MLIR reads."""

from __future__ import annotations

import re
from collections.abc import Callable

from rcompiler.schedule_text.cursor import Cursor
from rcompiler.schedule_text.known import Names
from rcompiler.schedule_text.mlir_lines import Lines, MlirForm, Place, flat, op_line
from rcompiler.schedule_text.statements import Fields, Statements
from rcompiler.schedule_text.words import ARENAS, IN_MODULE, kind_of, usual_dtype

_MLIR = re.compile(r"[^\n]*(?:\n(?:[ \t)}^][^\n]*)?(?=\n|$))*")
_RESOURCES = re.compile(r"\{-#.*?#-\}", re.S)
_BEGINS_MLIR = re.compile(r'["#!]|\{-#|[A-Za-z_]\w*\.', re.ASCII)
_BODY = re.compile(r"\{[ \t]*(?://[^\n]*)?\n((?:(?!\})[^\n]*\n)*)(?=\})")


def mlir_form(text: str) -> MlirForm:
    """What MLIR reads of a text in the schedule form.

    Raises:
        ScheduleTextError: the text is not of the grammar, or names what is not there.
    """
    return _Parser(text).module()


class _Parser:
    """Reads the items of one text.

    head, start, items, end: what the module becomes, in this order; each item with what it is.
    """

    def __init__(self, text: str) -> None:
        self._cursor, self._names = Cursor(text), Names()
        self._head, self._start, self._end = Lines(), Lines(), Lines()
        self._items: list[tuple[str, Lines]] = []

    def module(self) -> MlirForm:
        """All of the text."""
        cursor = self._cursor
        cursor.expect("schedule", "begin the text with 'schedule 1'")
        at = cursor.at
        if cursor.number("the version") != 1:
            raise cursor.wrong("the version is not 1", "print the schedule with this version", at)
        in_order = cursor.takes("in")
        if in_order:
            cursor.expect("order", "write 'in order' behind the version, or nothing")
        while not cursor.ended:
            self._item()
        self._names.check(cursor)
        if not in_order:
            self._items.sort(key=lambda item: IN_MODULE[item[0]])
        if not len(self._start):
            self._start.statement("module {", (1, 1))
        found = Lines()
        for lines in (self._head, self._start, *(lines for _, lines in self._items)):
            found.add(lines)
        found.statement("}", cursor.place())
        found.add(self._end)
        return found.form()

    def _item(self) -> None:
        cursor, place = self._cursor, self._cursor.place()
        if _BEGINS_MLIR.match(cursor.text, cursor.at):
            return self._mlir()
        if cursor.takes("module"):
            return self._module(place)
        readers: dict[str, Callable[[Lines, Place], None]] = {
            "main": self._main,
            "device": self._device,
            "program": self._program,
            "kernel": self._kernel,
        }
        for word, read in readers.items():
            if cursor.takes(word):
                lines = Lines()
                self._items.append((word, lines))
                return read(lines, place)
        words = f"{', '.join(readers)}, module or MLIR"
        raise cursor.expected("an item", f"write {words} in the first column")

    def _mlir(self) -> None:
        """An item of MLIR's own form: up to what begins in the first column behind it."""
        cursor, (line, column) = self._cursor, self._cursor.place()
        resources = _RESOURCES.match(cursor.text, cursor.at)
        found = resources or _MLIR.match(cursor.text, cursor.at)
        assert found
        text = found[0].rstrip()
        if resources:
            lines = self._end
        elif text[0] in "#!":
            lines = self._head
        else:
            lines = Lines()
            self._items.append((kind_of(text), lines))
            self._names.all_known(kind_of(text))
        lines.copied(text, (line, None if column == 1 else column))
        cursor.jump(found.end())

    def _module(self, place: Place) -> None:
        cursor, name = self._cursor, ""
        if len(self._start):
            raise cursor.wrong("the text has two modules", "put each into a text of its own")
        if cursor.takes("@"):
            name = f' @"{cursor.name("the module")}"'
        given, _ = cursor.attributes()
        self._start.copied(f"module{name} attributes {{{given}}} {{", place)

    def _kernel(self, out: Lines, place: Place) -> None:
        cursor = self._cursor
        name, at = self._names.declared(cursor, "kernel"), cursor.place()
        arguments = cursor.bracketed("(")[1:-1]
        given, given_at = cursor.attributes()
        body = _BODY.match(cursor.text, cursor.at)
        if body is None:
            what = "the body of the kernel: '{', lines and '}' in the first column"
            raise cursor.expected(what, "write it as MLIR does")
        first, _ = cursor.place(body.start(1))
        cursor.jump(body.end())
        cursor.expect("}", "end the kernel")
        out.statement('"rtask.kernel"() ({', place)
        if arguments.strip():
            out.copied(f"^bb0({arguments}):", at)
        out.copied(body[1].removesuffix("\n"), (first, None))
        more = f", {given}" if given else ""
        out.copied(f'}}) {{sym_name = "{name}"{more}}} : () -> ()', given_at)

    def _device(self, out: Lines, place: Place) -> None:
        cursor, remedy = self._cursor, "write device NAME with N eus"
        name = self._names.declared(cursor, "device")
        cursor.expect("with", remedy)
        eus = cursor.number("the number of EUs", 1)
        cursor.expect("eus", remedy)
        given, _ = cursor.attributes()
        out.statement(op_line("device", {"sym_name": f'"{name}"', "eus": eus}, given), place)

    def _main(self, out: Lines, place: Place) -> None:
        cursor, remedy = self._cursor, "write main(INPUTS) -> (OUTPUTS) { launch PROGRAM ... }"
        inputs = self._tensors()
        cursor.expect("->", remedy)
        sides = f"rtask.inputs = [{inputs}], rtask.outputs = [{self._tensors()}]"
        given, _ = cursor.attributes()
        more = f", {flat(given)}" if given else ""
        cursor.expect("{", remedy)
        out.statement(f"func.func @main() attributes {{{sides}{more}}} {{", place)
        while not cursor.takes("}"):
            at = cursor.place()
            cursor.expect("launch", "write launch PROGRAM, or end the list with '}'")
            fields = {"program": self._names.used(cursor, "program")}
            given, _ = cursor.attributes()
            out.statement(op_line("launch", fields, given), at)
        out.statement("return", place)
        out.statement("}", place)

    def _tensors(self) -> str:
        cursor, found = self._cursor, list[str]()
        cursor.expect("(", "put the tensors between ( and )")
        while not cursor.takes(")"):
            if found:
                cursor.expect(",", "put a comma between tensors, or ')' behind the last")
            name = cursor.name("a tensor")
            cursor.expect(":", "write NAME: TYPE")
            type_ = cursor.type()
            dtype = cursor.name("a type of numpy") if cursor.takes("as") else usual_dtype(type_)
            given, _ = cursor.attributes()
            fields = f'dtype = "{dtype}", name = "{name}", type = tensor<{type_}>'
            found.append(f"{{{fields}{f', {flat(given)}' if given else ''}}}")
        return ", ".join(found)

    def _program(self, out: Lines, place: Place) -> None:
        cursor, remedy = self._cursor, "write program NAME on DEVICE arena N constants N { ... }"
        name = self._names.declared(cursor, "program")
        cursor.expect("on", remedy)
        fields: Fields = {"sym_name": f'"{name}"', "device": self._names.used(cursor, "device")}
        for word, attribute in ARENAS.items():
            if cursor.takes(word):
                fields[attribute] = cursor.number(f"the number behind '{word}'")
            elif word in ("arena", "constants"):
                raise cursor.expected(f"'{word}'", remedy)
        self._names.begin_program()
        Statements(cursor, self._names, out).block("program", fields, place)
