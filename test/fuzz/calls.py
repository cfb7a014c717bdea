"""One compiled graph, called as processes call it: every call gives the bits of the first one.

The caller's thread flushes denormal numbers or rounds upwards, has a small stack, is interrupted by
signals whose handler runs Python, or is one of several; the caller is a forked child; the memory is
bound; the file was saved and loaded. Of a model with a state, what one call leaves is what the next
one reads.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from support.callers_fpu import FLUSH, UPWARDS, with_bits

import rcompiler
from rcompiler.errors import CompilerError
from rcompiler.frontend.randomness import DRAWS

from . import graphs
from .graphs import Case
from .judge import Outcome, Report, key_of
from .maker import Reject

_SMALL_STACK = 256 << 10
_WAIT_S = 60
Bits = list[bytes]
Call = Callable[[], Bits]


def calls(seed: int, targets: Sequence[str], report: Report) -> Outcome:
    """A random graph on a CPU, in the states that a process may be in."""
    report("generate")
    try:
        case = graphs.case_of(seed, [t for t in targets if t == "cpu"] or _reject())
    except Reject:
        return Outcome("no graph")
    if any(node.op_type in DRAWS for node in case.model.graph.node):
        return Outcome("no graph")
    report("compile")
    try:
        model = rcompiler.compile_onnx(case.model, **case.options)
        first = _bits(model(**case.feeds) if case.feeds else model())
    except CompilerError as error:  # the kind "graph" judges that
        return Outcome("no graph", str(error))
    rng = random.Random(seed)
    for name, way in rng.sample([*_WAYS.items()], 3):
        report(name)
        found = way(model, case)
        if found != first:
            return Outcome("wrong", f"{name}: {_apart(found, first)}", f"calls {name}")
    return _with_state(case, rng, report)


def _reject() -> Sequence[str]:
    raise Reject


def _bits(results: Sequence[Any]) -> Bits:
    return [np.asarray(result).tobytes() for result in results]


def _apart(found: Any, first: Bits) -> str:
    if isinstance(found, str):
        return found
    places = [k for k, pair in enumerate(zip(found, first, strict=False)) if pair[0] != pair[1]]
    return f"results {places} have other bits"


def _plain(model: Any, case: Case) -> Bits:
    return _bits(model(**case.feeds) if case.feeds else model())


def _flushing(model: Any, case: Case) -> Bits:
    with with_bits(FLUSH):
        return _plain(model, case)


def _upwards(model: Any, case: Case) -> Bits:
    with with_bits(UPWARDS):
        return _plain(model, case)


def _small_stack(model: Any, case: Case) -> Bits | str:
    found: list[Bits] = []
    before = threading.stack_size(_SMALL_STACK)
    try:
        thread = threading.Thread(target=lambda: found.append(_plain(model, case)))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join(_WAIT_S)
    return found[0] if found else "no result in a thread with a small stack"


def _interrupted(model: Any, case: Case) -> Bits | str:
    """Signals come all the time, before, in and behind calls."""
    count = 0

    def note(*_: object) -> None:
        nonlocal count
        count += 1

    before = signal.signal(signal.SIGALRM, note)
    signal.setitimer(signal.ITIMER_REAL, 2e-4, 2e-4)
    try:
        found = [_plain(model, case) for _ in range(5)]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return found[0] if found.count(found[0]) == len(found) else "calls between signals differ"


def _together(model: Any, case: Case) -> Bits | str:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: _plain(model, case), range(8)))
    return found[0] if found.count(found[0]) == len(found) else "calls of several threads differ"


def _forked(model: Any, case: Case) -> Bits | str:
    """In a child, and in the parent behind it."""
    with tempfile.TemporaryFile() as file:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                file.write(b"".join(_plain(model, case)))
                file.flush()
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        mine = _plain(model, case)
        file.seek(0)
        if status or file.read() != b"".join(mine):
            return f"a forked child ended with {status}, or has other bits"
    return mine


def _bound(model: Any, case: Case) -> Bits:
    if any(tensor.extents for tensor in model.outputs):  # bound outputs are of their bounds
        return _plain(model, case)
    binding = model.bind({name: np.array(x, order="C") for name, x in case.feeds.items()})
    for _ in range(2):
        binding()
    return _bits(binding.outputs)


def _loaded(model: Any, case: Case) -> Bits:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.rcx"
        model.save(path)
        with rcompiler.load(path) as loaded:
            return _plain(loaded, case)


_WAYS: Mapping[str, Callable[[Any, Case], Bits | str]] = {
    "a caller that flushes": _flushing,
    "a caller that rounds upwards": _upwards,
    "a small stack": _small_stack,
    "signals": _interrupted,
    "several threads": _together,
    "a fork": _forked,
    "bound memory": _bound,
    "a file": _loaded,
}


def _with_state(case: Case, rng: random.Random, report: Report) -> Outcome:
    """Two calls with an input kept as state are two calls that are given it."""
    results = {v.name: v.type.tensor_type for v in case.model.graph.output}
    pairs = [
        (name, output)
        for name, array in case.feeds.items()
        for output, kind in results.items()
        if [d.dim_value for d in kind.shape.dim] == list(array.shape)
        and kind.elem_type == _declared(case, name)
    ]
    if not pairs:
        return Outcome("ok")
    name, output = rng.choice(pairs)
    report("state")
    rest = {other: x for other, x in case.feeds.items() if other != name}
    try:
        keeps = rcompiler.compile_onnx(case.model, state={name: output}, **case.options)
        gives = rcompiler.compile_onnx(case.model, **case.options)
        keeps.reset({name: case.feeds[name]})
        value = case.feeds[name]
        for number in range(2):
            ours, wanted = keeps(rest), gives({**rest, name: value})
            value = wanted[output]
            for other in results:
                if other != output and not _near(ours[other], wanted[other]):
                    return Outcome("wrong", f"call {number}: {other}", "calls state")
            if not _near(keeps.state[name], value):
                return Outcome("wrong", f"call {number}: state {name}", "calls state")
    except CompilerError as error:
        status = "untyped" if "defect" in str(error) else "ok"  # such as an index out of range
        return Outcome(status, str(error), key_of(error))
    return Outcome("ok")


def _declared(case: Case, name: str) -> int:
    [value] = [v for v in case.model.graph.input if v.name == name]
    return int(value.type.tensor_type.elem_type)


def _near(ours: Any, wanted: Any) -> bool:
    """Of two programs of one graph, whose sums may be cut in two ways."""
    if ours.dtype.kind in "iub":
        return bool(np.array_equal(ours, wanted))
    a, b = (np.asarray(x).astype(np.float64) for x in (ours, wanted))
    least = 2e-2 if wanted.dtype.itemsize < 4 else 1e-3
    with np.errstate(invalid="ignore"):
        largest = np.max(np.abs(b[np.isfinite(b)]), initial=1e-30)
    return bool(np.allclose(a, b, least, least * largest, equal_nan=True))
