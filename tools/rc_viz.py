"""rc-viz: look at the schedule of a model: who runs what, when, and who waits for whom.

rc-viz model.rcx                              one page, model.html, for any browser
rc-viz model.onnx --device=h200 --policy=list on any device record, by estimate
rc-viz model.rcx --device=h200                what its schedule would take on another device
rc-viz model.rcx --measured=times.json        the measured times beside the plan
rc-viz model.rcx --trace=t.json --json=s.json for Perfetto, and for scripts
rc-viz model.rcx --svg=model.svg              a picture for documents
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from rcompiler.tools._command import Command


def _run(options: argparse.Namespace) -> int:
    from rcompiler.tools._plans import plan_of
    from rcompiler.tools._sources import resolve
    from rcompiler.viz.measured import read_measured
    from rcompiler.viz.page import page
    from rcompiler.viz.picture import picture
    from rcompiler.viz.record import record
    from rcompiler.viz.trace import trace
    from rcompiler.viz.view import collect

    source = resolve(options.model)
    view = collect(plan_of(options, source), options.contention)
    if options.measured:
        spans = view.timeline.spans
        view = replace(view, measured=read_measured(Path(options.measured), spans))
    asked = {
        page: options.output,
        trace: options.trace,
        record: options.json,
        picture: options.svg,
    }
    if not any(asked.values()):
        asked[page] = f"{source.name}.html"
    for form, target in asked.items():
        if target:
            _write(target, form(view))
    return 0


def _write(target: str, text: str) -> None:
    """Completely, or not at all."""
    from rcompiler.runtime.container import replacing

    if target == "-":
        sys.stdout.write(text)
        return
    with replacing(Path(target)) as file:
        file.write(text.encode())
    print(f"{target}: {Path(target).stat().st_size / 1e6:.2f} MB", file=sys.stderr)


def _options(parser: argparse.ArgumentParser) -> None:
    from rcompiler.tools._sources import add_compile_options

    parser.add_argument(
        "model",
        help="a .rcx file, an ONNX file, a schedule (.mlir) or the name of a built-in model",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the page; default: MODEL.html; stdout: -"
    )
    parser.add_argument(
        "--trace", metavar="FILE", help="write a Chrome trace for Perfetto (no page without -o)"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the same as JSON for scripts (no page without -o)"
    )
    parser.add_argument(
        "--svg", metavar="FILE", help="write a picture for documents (no page without -o)"
    )
    parser.add_argument("--measured", metavar="FILE", help="measured times, shown beside the plan")
    parser.add_argument(
        "--contention",
        action="store_true",
        help="estimate with the bandwidth of the memory level that all EUs share",
    )
    add_compile_options(parser)


main = Command("rc-viz", __doc__, _options, _run, writes=())


if __name__ == "__main__":
    sys.exit(main())
