"""Models on a GPU beside PyTorch, in two steps: compiled here, measured where the GPU is.

    python tools/bench gpu_bench compile -o DIR           # no GPU; all compiler packages
    python tools/bench gpu_bench run DIR --json=gpu.json  # a GPU; numpy and cuda-bindings
    python tools/bench gpu_bench stress DIR               # 1,000,000 checked launches
    python tools/bench gpu_bench stress DIR --launches=50 --sanitizer=memcheck

compile adds to DIR what it has compiled: artifacts without stage texts, inputs, samples of the
outputs of a reference and the ONNX models for PyTorch, all packed; and the kernels for `rc-tune
--device=cuda --code=FILE`. Weights of built-in models are random rows that repeat (`Repeating`),
so that BERT-base takes 2 MB in place of 440.

run checks the results of all policies against one another and the reference; then they and
PyTorch (eager, the same in a CUDA graph, torch.compile) take turns in rounds. Of a single product,
the CUDA graph is cuBLAS's kernel and nothing else. PyTorch has what its users write: stacked LSTMs
are one module, branches of ResNeXt grouped convolutions, attention is one function. What is not
installed is named. Each group is one model in one precision; one that fails does not end the
others, and FILE has all that are done so far.

stress alternates between eight inputs, copies all outputs of every launch back and compares them to
the bit. --sanitizer does the same below NVIDIA's compute-sanitizer.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from measurements import command
from measurements._gpu_bench_options import NAME, add_options
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, report

if TYPE_CHECKING:
    from measurements._gpu_bench_figures import GroupFigure
    from measurements._gpu_bench_group import Group
    from measurements._packed_folder import PackedFolder


def _compile(given: argparse.Namespace) -> int:
    from measurements._gpu_bench_compile import cases, compile_case, nvidia_gpu
    from measurements._packed_folder import PackedFolder
    from rcompiler.errors import CompilerError
    from rcompiler.profiler.gpu_bench_text import bench_code

    device = nvidia_gpu(given.target)
    folder = PackedFolder(given.output)
    folder.create()
    chip = device.level_name
    (folder.path / f"microbench-{chip}.ptx").write_bytes(bench_code(chip))
    found = [case for name in given.models for case in cases(name, given.target)]
    failed, count = [], 0
    how = given.policies, given.seed
    for case in found:
        for precision in given.precisions:
            doing(f"{case.name}, {precision}")
            try:
                compile_case(case, folder, given.target, precision, *how)
                count += 1
            except CompilerError as error:
                failed.append(f"{case.name}, {precision}: {error}")
    print(f"{folder.path}: {count} groups added, {folder.nbytes / 1e6:.1f} MB in all")
    return report(NAME, failed)


def _run(given: argparse.Namespace) -> int:
    from measurements._gpu_bench_figures import GOALS
    from measurements._gpu_bench_jobs import measured
    from measurements._gpu_bench_run import Job, Settings
    from measurements._gpu_bench_tables import print_figures
    from measurements._shared import print_goals, reached
    from measurements._torch_baselines import BASELINES

    folder, groups = _folder(given)
    chosen = [(number, g) for number, g in enumerate(groups) if _asked_for(g, given, "network")]
    _some(chosen, given)
    jobs = [Job(number, _policies(group, given)) for number, group in chosen]
    settings = Settings(
        *(str(folder.path), given.rounds, given.seconds, given.baseline),
        *(given.limit, given.wait_limit),
    )
    figures: list[GroupFigure] = []
    devices: list[dict[str, Any]] = []

    def opened(device: dict[str, Any]) -> None:
        if device not in devices:
            devices.append(device)

    for figure in measured(groups, jobs, settings, given.most, opened):
        figures.append(figure)
        doing(str(figure))
        _write(given, groups, devices, figures)
    names = BASELINES if given.baseline is None else given.baseline
    print_figures(figures, {name: BASELINES[name].short for name in names})
    print_goals(reached(GOALS, figures))
    wrong = [f"{f}: {f.error}" for f in figures if f.error]
    wrong += [
        f"{f}, {name}: {why}"
        for f in figures
        for name, why in f.unmeasured.items()
        if not f.error and name not in BASELINES
    ]
    return report(NAME, wrong)


def _write(
    given: argparse.Namespace,
    groups: Sequence[Group],
    devices: Sequence[dict[str, Any]],
    figures: Sequence[GroupFigure],
) -> None:
    from measurements._gpu_bench_figures import GOALS
    from measurements._shared import reached
    from measurements._torch_baselines import BASELINES
    from rcompiler.tools._record import keep

    keep(
        given,
        gpus=list(devices),
        compiled_by=sorted({group.commit or "unknown" for group in groups}),
        baselines={name: dict(each.settings) for name, each in BASELINES.items()},
        results=[vars(figure) for figure in figures],
        goals=reached(GOALS, figures),
    )


def _stress(given: argparse.Namespace) -> int:
    from measurements._gpu_bench_tables import print_stress
    from measurements._gpu_stress import stress
    from rcompiler.tools._record import keep

    if given.sanitizer:
        return _sanitized(given)
    folder, groups = _folder(given)
    chosen = [group for group in groups if _asked_for(group, given, "stress")]
    _some(chosen, given)
    done = []
    for group in chosen:
        for policy in _policies(group, given):
            doing(f"{group}, {policy}")
            done.append(stress(folder, group, policy, given.launches, given.wait_limit))
    print_stress(done)
    keep(given, results=[vars(each) for each in done])
    return report(NAME, (each.fault for each in done if each.fault))


def _sanitized(given: argparse.Namespace) -> int:
    from measurements._sanitizer import sanitized
    from rcompiler.tools._record import keep

    again = command("gpu_bench", "stress", given.folder)
    for name in ("models", "policies", "precisions"):
        if chosen := getattr(given, name):
            again.append(f"--{name}={','.join(chosen)}")
    again += [f"--launches={given.launches}", f"--wait-limit={given.wait_limit}"]
    verdict = sanitized(given.sanitizer, again, given.most, given.sanitizer_path)
    print(verdict.text)
    print(f"{verdict.tool}: {'clean' if verdict.clean else f'{verdict.found} found'}")
    keep(given, **vars(verdict), clean=verdict.clean)
    what = f"{verdict.tool} has found {verdict.found}; the command's status is {verdict.status}"
    return report(NAME, [] if verdict.clean else [what])


# -- groups
def _folder(given: argparse.Namespace) -> tuple[PackedFolder, list[Group]]:
    from measurements._gpu_bench_group import read_groups
    from measurements._packed_folder import PackedFolder

    folder = PackedFolder(given.folder)
    return folder, read_groups(folder)


def _asked_for(group: Group, given: argparse.Namespace, kind: str) -> bool:
    """By --models, names or kinds, and --precisions; without --models, all but those to stress or
    these alone.
    """
    if given.precisions and group.precision not in given.precisions:
        return False
    if given.models:
        return group.model in given.models or group.kind in given.models
    return (group.kind == "stress") == (kind == "stress")


def _policies(group: Group, given: argparse.Namespace) -> list[str]:
    return [name for name in group.policies if not given.policies or name in given.policies]


def _some(chosen: Sequence[object], given: argparse.Namespace) -> None:
    from rcompiler.errors import CompilerError

    if not chosen:
        raise CompilerError(
            f"{given.folder}: holds no such model; make it with gpu_bench compile -o {given.folder}"
        )


def _work(given: argparse.Namespace) -> int:
    """Exit code 1: a model failed or is wrong. A goal that is missed is no failure."""
    return {"compile": _compile, "run": _run, "stress": _stress}[given.command](given)


main = Command(__name__, __doc__, add_options, _work)
