"""What stands in a program of the schedule form: buffers, events, and the lists of EUs."""

from __future__ import annotations

from rcompiler.schedule_text.cursor import Cursor
from rcompiler.schedule_text.known import Names
from rcompiler.schedule_text.mlir_lines import Lines, Place, dictionary, flat, op_line
from rcompiler.schedule_text.words import LARGEST, LETTERS, tensor_bytes, written_name

_BUFFERS = ("input", "output", "constant", "temp", "pinned")
_IN_PROGRAM = (*_BUFFERS, "event", "eu", "queue", "repeat")
_IN_LIST = ("run", "wait", "signal", "barrier", "repeat")

Fields = dict[str, object]
"""Attributes of an op, as text or numbers."""


class Statements:
    """Reads the statements of one program, and writes the ops that they are."""

    def __init__(self, cursor: Cursor, names: Names, out: Lines) -> None:
        self._cursor, self._names, self._out = cursor, names, out
        self._unit = ""  # what the list is for that is read: "eu" or "queue"; "" outside of lists

    def block(self, op: str, fields: Fields, place: Place, depth: int = 0) -> None:
        """An op with statements in braces, behind its own words.

        Args:
            op: its name.
            fields: its attributes.
            place: where it begins.
            depth: the repeats around its statements.
        """
        cursor, out = self._cursor, self._out
        given, _ = cursor.attributes()
        cursor.expect("{", f"put what stands in the {op} between {{ and }}")
        out.statement(f'"vdevice.{op}"() ({{', place)
        before = len(out)
        while not cursor.takes("}"):
            self._statement(depth)
        if len(out) == before:
            out.statement("^bb0:", place)
        out.statement(f"}}) {dictionary(fields, given)} : () -> ()", place)

    def _statement(self, depth: int) -> None:
        cursor, at = self._cursor, self._cursor.at
        place, may = cursor.place(), _IN_LIST if self._unit else _IN_PROGRAM
        remedy = f"write one of {', '.join(may)}, or '}}'"
        word = cursor.word("a statement", remedy)
        if word not in may or (depth and word in ("eu", "queue")):
            raise cursor.wrong(f"'{word}' may not stand here", remedy, at)
        fields: Fields = {}
        if word == "repeat":
            return self._repeat(at, depth)
        if word in ("eu", "queue"):
            fields["first"], fields["last"] = self._range(f"the number of the {word}")
            self._unit = word
            self.block(word, fields, place)
            self._unit = ""
            return None
        if word == "event":
            fields = {"sym_name": f'"{self._names.declared(cursor, word)}"'}
        elif word == "run":
            fields = self._run(depth)
        elif word in ("wait", "signal"):
            fields = {"event": self._names.used(cursor, "event", depth)}
        if word == "wait":
            cursor.expect(">=", "write wait EVENT >= N")
            fields |= self._moving("count", "the number of signals", depth, 1)
        op = word
        if word in _BUFFERS:
            fields, op = self._buffer(word, depth), "buffer"
        given, _ = cursor.attributes()
        self._out.statement(op_line(op, fields, given), place)
        return None

    def _repeat(self, at: int, depth: int) -> None:
        cursor = self._cursor
        if depth >= len(LETTERS):
            raise cursor.wrong("too many repeats", f"nest at most {len(LETTERS)}", at)
        letter = LETTERS[depth]
        cursor.expect(letter, f"call the iteration {letter}: repeat {letter} < N {{ ... }}")
        cursor.expect("<", f"write repeat {letter} < N {{ ... }}")
        fields: Fields = {"count": cursor.number("the number of iterations", 1)}
        self.block("repeat", fields, cursor.place(at), depth + 1)

    def _buffer(self, kind: str, depth: int) -> Fields:
        cursor = self._cursor
        fields: Fields = {"kind": f'"{kind}"', "offset": 0}
        if kind in ("input", "output"):
            fields["index"] = cursor.number(f"the number of the {kind}")
        name = self._names.declared(cursor, "buffer")
        cursor.expect(":", "write NAME: TYPE")
        at, type_ = cursor.at, cursor.type()
        fields |= {"sym_name": f'"{name}"', "type": f"tensor<{type_}>"}
        if cursor.takes("at"):
            fields |= self._moving("offset", "the offset", depth)
        if cursor.takes("bytes"):
            fields["bytes"] = cursor.number("the number of bytes")
        else:
            fields["bytes"] = self._bytes(type_, at)
        if cursor.takes("in"):
            fields["alias_of"] = self._names.used(cursor, "buffer", depth)
        if kind == "output" and cursor.takes("over"):
            fields["over"] = cursor.number("the number of the input that it lies over")
        if kind == "constant":
            value = f"dense_resource<{written_name(name)}>"
            value = flat(cursor.value()) if cursor.takes("=") else value
            fields["value"] = value if value[0] == "#" else f"{value} : tensor<{type_}>"
        return fields

    def _bytes(self, type_: str, at: int) -> int:
        size = tensor_bytes(type_)
        if size is None:
            raise self._cursor.expected("'bytes'", f"say how many bytes a {type_} has")
        if size > LARGEST:
            raise self._cursor.wrong(f"a {type_} has too many bytes", "write smaller sizes", at)
        return size

    def _run(self, depth: int) -> Fields:
        cursor, names = self._cursor, self._names
        operator = cursor.name("the operator")
        cursor.expect(":", "write run OPERATOR: KERNEL[TASKS](OPERANDS) -> RESULTS")
        fields: Fields = {"operator": f'"{operator}"', "kernel": names.used(cursor, "kernel")}
        cursor.expect("[", "put the tasks between [ and ]")
        at = cursor.at
        first, last = self._range("the number of a task")
        stride = cursor.number("the step", 1) if cursor.takes("step") else 1
        if (last - first) % stride:
            remedy = f"end with a task that is a multiple of {stride} behind {first}"
            raise cursor.wrong(f"steps of {stride} do not end at {last}", remedy, at)
        fields |= {"first": first, "count": (last - first) // stride + 1, "stride": stride}
        steps, fields["eu_step"] = self._steps(depth, self._unit)
        if steps is not None:
            fields["first_steps"] = steps
        cursor.expect("]", "close the tasks with ']'")
        cursor.expect("(", "put the operands between ( and )")
        buffers: list[str] = []
        while not cursor.takes(")"):
            if buffers:
                cursor.expect(",", "put a comma between operands, or ')' behind the last")
            buffers.append(names.used(cursor, "buffer", depth))
        if cursor.takes("->"):
            buffers.append(names.used(cursor, "buffer", depth))
            while cursor.takes(","):
                buffers.append(names.used(cursor, "buffer", depth))
        fields["buffers"] = f"[{', '.join(buffers)}]"
        return fields

    def _range(self, what: str) -> tuple[int, int]:
        cursor, at = self._cursor, self._cursor.at
        first = cursor.number(what)
        last = cursor.number(what) if cursor.takes("..") else first
        if last < first:
            raise cursor.wrong(f"the range {first}..{last} is empty", "write FIRST..LAST", at)
        return first, last

    def _moving(self, name: str, what: str, depth: int, least: int = 0) -> Fields:
        """A number and its steps, as the attributes that have them."""
        value = self._cursor.number(what, least)
        steps, _ = self._steps(depth, "")
        return {name: value} | ({} if steps is None else {f"{name}_steps": steps})

    def _steps(self, depth: int, unit: str) -> tuple[str | None, int]:
        """How a number moves: in each repeat around it, None for not at all; and from one EU or
        queue to the next, where `unit` says that it may.
        """
        cursor, found, by_unit = self._cursor, [0] * depth, 0
        words = [*LETTERS[:depth], *([unit] if unit else [])]
        moves, seen = False, set[str]()
        while cursor.sees("+") or cursor.sees("-"):
            sign = 1 if cursor.sees("+") else -1
            cursor.takes("+" if sign > 0 else "-")
            size, at = cursor.number("a step"), cursor.at
            remedy = f"write {' or '.join(words)} behind it" if words else "leave the step out"
            word = cursor.word("what the step is for", remedy)
            if word in seen:
                raise cursor.wrong(f"a second step for '{word}'", "write their sum", at)
            seen.add(word)
            if word == unit and sign > 0:
                by_unit = size
            elif word in LETTERS[:depth]:
                found[LETTERS.index(word)], moves = sign * size, True
            else:
                raise cursor.wrong(f"there is no step for '{word}' here", remedy, at)
        return (f"array<i64: {', '.join(map(str, found))}>" if moves else None), by_unit
