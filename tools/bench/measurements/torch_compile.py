"""Run networks through torch.compile(backend="rcompiler"), and beside PyTorch's own backends.

    python tools/bench torch_compile --json=torch-compile.json
    python tools/bench torch_compile --only='^bert' --backends eager rcompiler

Networks of torchvision, timm and transformers with random weights, small, and as inputs what they
are exported with (exported_models). Each is compiled by each backend, and called twice.

Of each backend: graphs, how many parts the network is captured in, and breaks, how often capturing
stops; both have to be the same for all backends. ok: right, and no more breaks than the others;
broken: more of them; eager: a graph is refused and runs operator by operator; wrong: another result
than PyTorch's; crash: anything else, or no result in time.

Needs torch, torchvision, timm, transformers and onnxscript.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from measurements._case_pool import Outcome, Report, Verdict, run_cases
from measurements._exportable import Exportable
from measurements._exported_modules import MODULES, build
from rcompiler.errors import CompilerError, EagerGraphWarning
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, pattern, positive, table
from rcompiler.tools._record import keep
from rcompiler.tools._reference import compare

OURS = "rcompiler"
BACKENDS = ("eager", "aot_eager", OURS)
STATUSES = ("ok", "broken", "eager", "wrong", "crash")
NETWORKS = (
    *("squeezenet1_1", "resnet18", "mobilenet_v3_small", "shufflenet_v2_x0_5", "timm_vit_tiny"),
    *("timm_convnext_atto", "timm_mixer", "lstm", "transformer_encoder", "bert", "distilbert"),
    *("gpt2", "llama", "t5", "whisper", "mamba", "clip"),
)
_TOLERANCE = 1e-3  # of the root mean square


def captured(exportable: Exportable, backend: str) -> tuple[list[np.ndarray], dict[str, Any]]:
    """The results of a network by a backend, in its second call; and of capturing: graphs, breaks,
    reasons of these, and what is not compiled by this backend, a message each."""
    import torch

    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    inputs = tuple(exportable.inputs.values())
    with torch.no_grad(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        compiled = torch.compile(exportable.module, backend=backend)
        compiled(*inputs)
        made = compiled(*inputs)
    facts = {
        "graphs": counters["stats"]["unique_graphs"],
        "breaks": sum(counters["graph_break"].values()),
        "reasons": sorted(reason.split("\n")[0] for reason in counters["graph_break"]),
        "eager": [str(w.message) for w in said if issubclass(w.category, EagerGraphWarning)],
    }
    return _arrays(made), facts


def _arrays(made: Any) -> list[np.ndarray]:
    return [t.numpy() for t in (made if isinstance(made, tuple) else (made,))]


def judged(name: str, backends: Sequence[str]) -> Verdict:
    """Runs a network by these backends."""
    import torch

    torch.set_num_threads(1)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        exportable = build(name)
        expected = _arrays(exportable.module(*exportable.inputs.values()))
    facts: dict[str, Any] = {}
    results: list[np.ndarray] = []
    for backend in backends:
        made, facts[backend] = captured(exportable, backend)
        results = made if backend == OURS else results
    if OURS not in facts:
        return Verdict("ok", facts=facts)
    try:
        each = [compare(*pair, _TOLERANCE) for pair in zip(results, expected, strict=True)]
    except CompilerError as error:  # another shape or type
        return Verdict("wrong", str(error), facts)
    facts["error"] = max(difference.absolute for difference in each)
    if not all(difference.right for difference in each):
        return Verdict("wrong", f"largest error {facts['error']:.3g}", facts)
    if facts[OURS]["eager"]:
        return Verdict("eager", facts[OURS]["eager"][0], facts)
    least = min(facts[backend]["breaks"] for backend in backends)
    if facts[OURS]["breaks"] > least:
        return Verdict("broken", f"{facts[OURS]['breaks']} breaks, others have {least}", facts)
    return Verdict("ok", facts=facts)


def _job(options: argparse.Namespace) -> Callable[[str, Report], Verdict]:
    return lambda case, report: judged(case, options.backends)


def _print(outcomes: Sequence[Outcome], backends: Sequence[str]) -> None:
    rows = []
    for outcome in outcomes:
        told = [outcome.facts.get(backend) for backend in backends]
        counts = ["" if f is None else f"{f['graphs']}, {f['breaks']}" for f in told]
        rows.append((outcome.case, *counts, outcome.status, outcome.reason[:80]))
    table(("network", *(f"{b}: graphs, breaks" for b in backends), "status", "reason"), rows)
    found = Counter(outcome.status for outcome in outcomes)
    print(", ".join(f"{status} {found[status]}" for status in STATUSES), f"of {len(outcomes)}")


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a wrong result, a crash, or a graph break that others have not."""
    cases = [name for name in options.networks or NETWORKS if options.only.search(name)]
    outcomes = []
    for outcome in run_cases(cases, _job(options), 1, options.timeout):
        outcomes.append(outcome)
        doing(f"{len(outcomes)}/{len(cases)} {outcome.case}: {outcome.status}")
    _print(outcomes, options.backends)
    counts = Counter(outcome.status for outcome in outcomes)
    keep(options, counts=dict(counts), cases=[asdict(outcome) for outcome in outcomes])
    return 1 if counts["wrong"] or counts["crash"] or counts["broken"] else 0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only", type=pattern, default=pattern(""), metavar="REGEX", help="networks by their names"
    )
    parser.add_argument(
        "--networks", nargs="+", choices=sorted(MODULES), metavar="NAME",
        help=f"of exported_models; default: {len(NETWORKS)} of all kinds",
    )  # fmt: skip
    parser.add_argument(
        "--backends", nargs="+", default=BACKENDS, metavar="NAME",
        help=f"of torch.compile; default: {', '.join(BACKENDS)}",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", type=positive, default=600, metavar="S", help="seconds each; default: 600"
    )
    parser.add_argument("--json", metavar="FILE", help="write the outcome of each network")


main = Command(__name__, __doc__, _options, _run)
