"""Cells that no graph of the table can have, each kind with its reason: "no case" is said of what
our generators miss, and of nothing else.
"""

from __future__ import annotations

import re

_STRINGS = "refused: tensors of strings are not translated"
# (operator|domain|version, cell), both of regular expressions.
_TABLE: list[tuple[str, str, str]] = [
    (r".*", r"attribute/(\w+_strings|default_string|value_strings?)", _STRINGS),
    (r"LabelEncoder\|ai.onnx.ml\|1", r"type/int64|attribute/default_int64", _STRINGS),
]


def reason(job: str, cell: str, known: str) -> str:
    """What is said of a cell: `known`, or why nothing is known of it."""
    if known != "no case":
        return known
    for jobs, cells, why in _TABLE:
        if re.fullmatch(jobs, job) and re.fullmatch(cells, cell):
            return why
    return known
