"""Export networks of PyTorch by both of its exporters, compile them, and compare with PyTorch.

    python tools/bench exported_models --only='bert|resnet' --json=exported.json
    python tools/bench exported_models --axes=dynamic          # at other sizes than the exporter's
    python tools/bench exported_models --check                 # look at all nodes, compile nothing

Networks of torchvision, timm and transformers with random weights, small; sizes of batches and
sequences stay open where they are in use. Each is compiled with those sizes given ("given"),
without ("open"), or for ranges of them ("dynamic": one program runs at two sizes that the exporter
has not seen, and is compared with onnxruntime); --axes says which.

ok: right; wrong: another result; refused: a CompilerError, with node, operator and reason;
unexported: the exporter fails, or has fixed an axis that was to stay open; crash: anything else, or
no result in time. Needs torch, torchvision, timm, transformers and onnxscript.
"""

from __future__ import annotations

import argparse
import io
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from measurements._case_pool import Outcome, Report, Verdict, run_cases
from measurements._coverage_table import brief
from measurements._exportable import Exportable
from measurements._exported_judge import SIZES, judged, looked_at
from measurements._exported_modules import MODULES, build
from rcompiler.errors import CompilerError
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, pattern, positive, table
from rcompiler.tools._record import keep

STATUSES = ("ok", "wrong", "refused", "unexported", "crash")


def by_tracing(exportable: Exportable) -> bytes:
    """The model of the exporter of TorchScript, which records what a run does."""
    return _exported(exportable, dynamo=False, dynamic_axes=_axes(exportable))


def by_dynamo(exportable: Exportable) -> bytes:
    """The model of the exporter of torch.export."""
    dims = [dict(exportable.dynamic.get(name, {})) for name in exportable.inputs]
    # modules take their inputs as *args: one argument, which is a tuple
    return _exported(exportable, dynamo=True, dynamic_shapes=(tuple(dims),))


EXPORTERS: Mapping[str, Callable[[Exportable], bytes]] = {
    "script": by_tracing,
    "dynamo": by_dynamo,
}


def _axes(exportable: Exportable) -> dict[str, dict[int, str]]:
    return {name: dict(axes) for name, axes in exportable.dynamic.items()}


def _exported(exportable: Exportable, dynamo: bool, **options: Any) -> bytes:
    import torch

    target = io.BytesIO()
    found = torch.onnx.export(
        exportable.module, tuple(exportable.inputs.values()), target,
        input_names=list(exportable.inputs), dynamo=dynamo, **options,
    )  # fmt: skip
    if dynamo:
        return found.model_proto.SerializeToString()
    return target.getvalue()


@dataclass(frozen=True)
class Export:
    """An exported network, or why there is none. results: PyTorch's."""

    exportable: Exportable
    results: Sequence[np.ndarray]
    model: bytes | None
    failure: str = ""


@lru_cache(maxsize=1)  # cases of one export follow one another
def exported(name: str, exporter: str) -> Export:
    """A network, run and exported."""
    import torch

    torch.set_num_threads(1)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        exportable = build(name)
        made = exportable.module(*exportable.inputs.values())
        results = [t.numpy() for t in (made if isinstance(made, tuple) else (made,))]
        try:
            return Export(exportable, results, EXPORTERS[exporter](exportable))
        except Exception as error:  # whatever an exporter raises
            cause = error.__cause__ or error
            text = next((line for line in str(cause).splitlines() if line.strip()), "")
            return Export(exportable, results, None, f"{type(cause).__name__}: {text}")


def _job(options: argparse.Namespace) -> Callable[[str, Report], Verdict]:
    def job(case: str, report: Report) -> Verdict:
        name, exporter, sizes = case.split("/")
        found = exported(name, exporter)
        if found.model is None:
            return Verdict("unexported", found.failure)
        if options.folder:
            Path(options.folder, f"{name}.{exporter}.onnx").write_bytes(found.model)
        try:
            if options.check:
                return looked_at(found.model, found.exportable, sizes)
            return judged(found.model, found.exportable, found.results, sizes)
        except CompilerError as error:
            return _refused(error)

    return job


def _refused(error: CompilerError) -> Verdict:
    gap = error.gap
    if gap is None:
        return Verdict("refused", str(error))
    facts = {"node": gap.node, "op": gap.op, "detail": gap.detail}
    return Verdict("refused", gap.reason, facts)


def _print(outcomes: Sequence[Outcome]) -> None:
    failed = [outcome for outcome in outcomes if outcome.status != "ok"]
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for outcome in failed:
        gaps = outcome.facts.get("gaps") or [
            {"op": outcome.facts.get("op", ""), "reason": outcome.reason}
        ]
        for op, reason in {(gap["op"], brief(gap["reason"])) for gap in gaps}:
            grouped.setdefault((outcome.status, op, reason), []).append(outcome.case)
    rows = [(*key, len(cases), cases[0]) for key, cases in sorted(grouped.items())]
    table(("status", "op", "reason", "count", "first"), rows)
    counts = Counter(outcome.status for outcome in outcomes)
    print(", ".join(f"{status} {counts[status]}" for status in STATUSES), f"of {len(outcomes)}")


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a wrong result or a crash."""
    cases = [
        case
        for name in MODULES
        for exporter in EXPORTERS
        for sizes in (options.axes or SIZES[:2])
        if options.only.search(case := f"{name}/{exporter}/{sizes}")
    ]
    outcomes = []
    for outcome in run_cases(cases, _job(options), options.workers, options.timeout):
        outcomes.append(outcome)
        if options.verbose:
            words = outcome.case, f"{outcome.seconds:.0f} s", outcome.status, brief(outcome.reason)
            print(*words, flush=True)
        doing(f"{len(outcomes)}/{len(cases)} {outcome.case}: {outcome.status}")
    outcomes.sort(key=lambda outcome: cases.index(outcome.case))
    _print(outcomes)
    counts = Counter(outcome.status for outcome in outcomes)
    keep(options, counts=dict(counts), cases=[asdict(outcome) for outcome in outcomes])
    return 1 if counts["wrong"] or counts["crash"] else 0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only", type=pattern, default=pattern(""), metavar="REGEX",
        help="cases by their names, as in 'bert/dynamo/open'",
    )  # fmt: skip
    parser.add_argument(
        "--axes", choices=SIZES, nargs="+", metavar="SIZES",
        help="how axes are compiled that the exporter leaves open: given, open, dynamic; default: "
        "given and open",
    )  # fmt: skip
    parser.add_argument("--check", action="store_true", help="look at all nodes, compile nothing")
    parser.add_argument("--folder", metavar="FOLDER", help="keep the models here")
    parser.add_argument("--workers", type=positive, default=1, metavar="N", help="default: 1")
    parser.add_argument(
        "--timeout", type=positive, default=300, metavar="S", help="seconds per case; default: 300"
    )
    parser.add_argument("--verbose", action="store_true", help="print each outcome as it comes in")
    parser.add_argument("--json", metavar="FILE", help="write the outcome of each case")


main = Command(__name__, __doc__, _options, _run)
