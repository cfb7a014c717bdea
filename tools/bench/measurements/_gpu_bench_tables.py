"""What gpu_bench prints of its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from measurements._gpu_bench_figures import GroupFigure
from measurements._gpu_stress import Stress
from rcompiler.tools._console import number, table


def print_figures(figures: Sequence[GroupFigure], baselines: Mapping[str, str]) -> None:
    """A row for each group. baselines: what they are called in the head of a column, by name."""
    policies = list(dict.fromkeys(name for f in figures for name in f.expected_ms))
    columns = ["model", "precision", *(f"{name} ms" for name in policies)]
    columns += [f"{short} ms" for short in baselines.values()]
    columns += [f"/{short}" for short in baselines.values()]
    columns += ["expected", "device ms", *(f"d/{short}" for short in baselines.values()), "TFLOPS"]
    rows = []
    for f in figures:
        row = [f.model, f.precision]
        for name in (*policies, *baselines):
            row.append(number(f.ms.get(name, {}).get("p50"), ".4g"))
        row += [number(f.ratio.get(name), ".2f") for name in baselines]
        own = {name: ms for name, ms in f.device_ms.items() if name in f.expected_ms}
        row.append(number(f.expected_ms.get(f.fastest), ".4g"))
        row.append(number(min(own.values(), default=None), ".4g"))
        row += [number(f.device_ratio.get(name), ".2f") for name in baselines]
        rows.append([*row, number(f.tflops, ".1f")])
    table(columns, rows)
    explained = "; ".join(f"{short}: {name}" for name, short in baselines.items())
    print(
        f"{explained}; ms: median on the host; /: how many times as fast as it our fastest policy "
        "is; d/: the same by the device's clock; expected: by the device record"
    )
    _print_unmeasured(figures)


def _print_unmeasured(figures: Sequence[GroupFigure]) -> None:
    """Each reason once, with the groups that it holds for."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for f in figures:
        for name, why in f.unmeasured.items():
            reasons.setdefault((name, " ".join(why.split())), []).append(str(f))
    for (name, why), groups in reasons.items():
        where = "all groups" if len(groups) == len(figures) else "; ".join(groups)
        print(f"not measured: {name}, {where}: {why}")


def print_stress(done: Sequence[Stress]) -> None:
    """A row for each model that was launched again and again."""
    columns = ["model", "precision", "policy", "blocks", "launches", "differ", "s", "us each"]
    rows = []
    for s in done:
        each = number(s.seconds / s.launches * 1e6 if s.launches else None, ".1f")
        counts = s.blocks, s.launches, s.differing
        rows.append([s.model, s.precision, s.policy, *counts, f"{s.seconds:.1f}", each])
    table(columns, rows)
