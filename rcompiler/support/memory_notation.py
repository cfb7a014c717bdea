"""Accesses of memory in a short notation, for the text of schedule walkers of CPUs and of GPUs.

    %x := %p[i] : T            a 64-bit word, read as T, by default as an i64
    %p[i] := %x : T            written
    %x := acquire %p[i]        read, and all that was released with it
    %x := relaxed %p[i]        read in no order; ordered: in the one order of all accesses
    %p[i] := relaxed %x        written in no order; release, ordered: as their names say
    %q = & %p[i]               its address

The index is a number or the name of an i64. *%p is what %p points to, without an index.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ORDERS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "ordered": "seq_cst"}
_PLACE = r"(?:(%\w+)\[(%?\w+)\]|\*(%\w+))"
_HOW, _TYPE = rf"(?:({'|'.join(_ORDERS)}) )?", r"(?: : (\S+))?\n"
_ADDRESS = re.compile(r"(%\w+) = & (%\w+)\[(%?\w+)\]\n")
_LOAD = re.compile(rf"(%\w+) := {_HOW}{_PLACE}{_TYPE}")
_STORE = re.compile(rf"{_PLACE} := {_HOW}(%[\w#]+){_TYPE}")


@dataclass(frozen=True)
class Memory:
    """What accesses have in common. pointer: type of pointers to it; scope: of atomic accesses, ""
    for that of all threads; plain: attributes of other accesses.
    """

    pointer: str
    scope: str = ""
    plain: str = ""

    def expanded(self, text: str) -> str:
        """The notation written out."""
        text = _ADDRESS.sub(lambda m: self._address(m[1], m[2], m[3]), text)
        text = _LOAD.sub(self._load, text)
        return _STORE.sub(self._store, text)

    def _load(self, found: re.Match[str]) -> str:
        name, how, base, index, pointer, type_ = found.groups()
        line, address = self._at(f"%from{found.start()}", base, index, pointer)
        types = f"{self.pointer} -> {type_ or 'i64'}"
        return f"{line}{name} = llvm.load {address}{self._how(how)} : {types}\n"

    def _store(self, found: re.Match[str]) -> str:
        base, index, pointer, how, value, type_ = found.groups()
        line, address = self._at(f"%to{found.start()}", base, index, pointer)
        types = f"{type_ or 'i64'}, {self.pointer}"
        return f"{line}llvm.store {value}, {address}{self._how(how)} : {types}\n"

    def _at(self, name: str, base: str, index: str, pointer: str | None) -> tuple[str, str]:
        """The line that computes an address, if one must, and what the address is called."""
        return ("", pointer) if pointer else (self._address(name, base, index), name)

    def _address(self, name: str, base: str, index: str) -> str:
        types = f"({self.pointer}{', i64' if index.startswith('%') else ''}) -> {self.pointer}"
        return f"{name} = llvm.getelementptr {base}[{index}] : {types}, i64\n"

    def _how(self, order: str | None) -> str:
        if order is None:
            return self.plain
        return f" atomic {self.scope}{_ORDERS[order]} {{alignment = 8 : i64}}"
