"""The picture: a view as SVG for documents: who runs what, when; the idle times; the waits.

One row per EU. Runs are coloured by kind of operator, the kinds with the most time first; idle
times are hatched; a line leads from each signal to the wait that it ended, on another EU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html import escape

from rcompiler.viz.view import View

WIDTH, LEFT, TOP, ROW, PITCH = 880, 48, 28, 26, 36
COLOURS = ("#74a9dd", "#f2ab62", "#84c98a", "#c5a1e3", "#e89a9a", "#6cc5c1", "#aebdcc")
STYLE = (
    "text{font:12px system-ui,'DejaVu Sans',sans-serif;fill:#1c2127}"
    ".q{fill:#5f6b7a}.w{stroke:#495057;stroke-opacity:.45;fill:none}.r{stroke:#fff;stroke-width:.6}"
)


def picture(view: View) -> str:
    """The text of the file. Runs that are drawn narrower than a tenth of a pixel stay in it."""
    colours = _colours(view)
    height = TOP + PITCH * view.eus + 44
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
        f"<style>{STYLE}</style>",
        '<defs><pattern id="i" width="5" height="5" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="5" height="5" fill="#f1f3f5"/>'
        '<path d="M0 0V5" stroke="#e0655f"/></pattern></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        _text(LEFT, 17, _title(view)),
        *_rows(view),
        *_runs(view, colours),
        *_waits(view),
        *_legend(colours, height),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _title(view: View) -> str:
    return (
        f"{view.name}, policy {view.policy}, {view.eus} EUs of {view.device}: {view.tasks} rTasks, "
        f"{view.timeline.makespan_ns / 1000:.1f} us expected, EUs at work {view.utilisation:.0%}"
    )


def _colours(view: View) -> dict[str, str]:
    """By kind: the largest have a colour of their own, all others share the last."""
    spent: Counter[str] = Counter()
    for span in view.timeline.spans:
        spent[view.operators[span.operator].kind] += int(span.end - span.start)
    order = sorted(spent, key=lambda kind: (-spent[kind], kind))
    return {kind: COLOURS[min(i, len(COLOURS) - 1)] for i, kind in enumerate(order)}


def _rows(view: View) -> Iterator[str]:
    for eu in range(view.eus):
        yield _text(LEFT - 6, _top(eu) + 17, f"EU {eu}", "q", "end")
        yield _rect(view, eu, 0, view.timeline.makespan_ns, 'fill="#f1f3f5"')
    for gap in view.timeline.gaps:
        yield _rect(view, gap.eu, gap.start, gap.end, 'fill="url(#i)"')


def _runs(view: View, colours: dict[str, str]) -> Iterator[str]:
    for span in view.timeline.spans:
        what = f'class="r" fill="{colours[view.operators[span.operator].kind]}"'
        tip = f"{span.operator}: {span.count} rTasks"
        yield _rect(view, span.eu, span.start, span.end, what, tip)


def _waits(view: View) -> Iterator[str]:
    """From the end of the run that a wait was for to the start of the one that waited."""
    spans = view.timeline.spans
    for span in spans:
        if span.cause >= 0 and spans[span.cause].eu != span.eu:
            cause = spans[span.cause]
            below = span.eu > cause.eu
            start, end = _top(cause.eu) + ROW * below, _top(span.eu) + ROW * (not below)
            x, to = _x(view, cause.end), _x(view, span.start)
            yield f'<path class="w" d="M{x:.1f} {start}L{to:.1f} {end}"/>'


def _legend(colours: dict[str, str], height: int) -> Iterator[str]:
    x = LEFT
    shown = [*list(colours.items())[: len(COLOURS) - 1]]
    if len(colours) >= len(COLOURS):
        shown.append(("other kinds", COLOURS[-1]))
    for name, colour in [*shown, ("idle", "url(#i)")]:
        yield f'<rect x="{x}" y="{height - 26}" width="12" height="12" fill="{colour}"/>'
        yield _text(x + 17, height - 16, name, "q")
        x += 36 + 7 * len(name)


def _top(eu: int) -> int:
    return TOP + PITCH * eu


def _x(view: View, ns: float) -> float:
    return LEFT + (WIDTH - LEFT - 12) * ns / (view.timeline.makespan_ns or 1)


def _rect(view: View, eu: int, start: float, end: float, what: str, tip: str = "") -> str:
    x, width = _x(view, start), _x(view, end) - _x(view, start)
    rect = f'<rect x="{x:.1f}" y="{_top(eu)}" width="{width:.1f}" height="{ROW}" {what}'
    return f"{rect}><title>{escape(tip)}</title></rect>" if tip else f"{rect}/>"


def _text(x: int, y: int, words: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{style} text-anchor="{anchor}">{escape(words)}</text>'
