"""A table for a notebook: HTML that needs nothing else, and in which all text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_MOST_ROWS = 200  # a notebook keeps every output in its file
_STYLE = "text-align:left;vertical-align:top;white-space:pre-wrap"


def html_table(
    title: str, heads: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[str] = ()
) -> str:
    """A table with a title above it and lines of text below it.

    Args:
        title, heads: texts; heads name the columns.
        rows: what each cell shows, as `str` has it. Rows beyond the first 200 are only counted.
        notes: a line each.

    Returns:
        One HTML element. No text can become markup, wherever it comes from.
    """
    rows = list(rows)
    notes = [*notes]
    if len(rows) > _MOST_ROWS:
        notes.insert(0, f"... and {len(rows) - _MOST_ROWS} more rows")
    body = "".join(_row("td", row) for row in rows[:_MOST_ROWS])
    below = "".join(f"<div>{escape(note)}</div>" for note in notes)
    return (
        f"<div><b>{escape(title)}</b>"
        f"<table><thead>{_row('th', heads)}</thead><tbody>{body}</tbody></table>{below}</div>"
    )


def _row(tag: str, cells: Sequence[object]) -> str:
    inside = "".join(f'<{tag} style="{_STYLE}">{escape(str(cell))}</{tag}>' for cell in cells)
    return f"<tr>{inside}</tr>"
