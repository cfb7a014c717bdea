"""One process of `first_answer`: from a file to its first answer, by one engine.

    python _first_answer_step.py ENGINE FILE THREADS START

START: time.monotonic() of the parent when it began this process. Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any


def _ours(path: str, threads: int) -> tuple[Any, list[Any]]:
    """A model and what it is called with; compiled, or loaded where it is compiled already."""
    import rcompiler
    from rcompiler.support.random_inputs import random_inputs

    model: Any
    if path.endswith(".rcx"):
        model = rcompiler.load(path, eus=threads)
    else:
        model = rcompiler.compile_onnx(path, eus=threads)
    return model, list(random_inputs(model.inputs).values())


def _onnxruntime(path: str, threads: int) -> tuple[Any, list[Any]]:
    import onnxruntime

    from rcompiler.session.values import dtype_named
    from rcompiler.support.random_inputs import random_inputs
    from rcompiler.tools._data import Declared

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    declared = [
        Declared(each.name, tuple(each.shape), dtype_named(each.type).name)
        for each in session.get_inputs()
    ]
    feeds = random_inputs(declared)
    return (lambda *arrays: session.run(None, dict(zip(feeds, arrays, strict=True)))), [
        *feeds.values()
    ]


def _cpu_s() -> float:
    """Of this process, and of those that it started, which may go on."""
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    ended = sum(each.ru_utime + each.ru_stime for each in found)
    ticks = os.sysconf("SC_CLK_TCK")
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            with suppress(OSError):  # it has ended meanwhile
                words = Path("/proc", child, "stat").read_text().rpartition(")")[2].split()
                ended += (int(words[11]) + int(words[12])) / ticks
    return ended


def main() -> None:
    # a model that takes several attempts is right, and slow: none may hide in a mean
    warnings.filterwarnings("error", message="compiled without the optional pass")
    engine, path, threads, start = sys.argv[1:]
    made = {"onnxruntime": _onnxruntime}.get(engine, _ours)
    model, arguments = made(path, int(threads))
    ready = time.monotonic()
    model(*arguments)
    answered = time.monotonic()
    figures = {
        "ready_s": ready - float(start),
        "answer_s": answered - float(start),
        "cpu_s": _cpu_s(),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
