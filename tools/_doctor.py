"""The work of doctor: each thing that the compiler or its models need or can use, looked at once.

What may end a process (libraries of others, generated code) is tried in one of its own.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rcompiler.device.cgroups import usable_cpus
from rcompiler.device.cpu import detect_cpu, host_name
from rcompiler.device.host_flags import host_cap, psabi_level
from rcompiler.device.instruction_set import InstructionSet
from rcompiler.device.store import find_record, record_path
from rcompiler.errors import CompilerError
from rcompiler.options import default_cache, default_device
from rcompiler.support.installed import (
    HOME,
    Requirement,
    importable,
    install_command,
    own_version,
    requirements,
    runtime_alone,
    version,
)
from rcompiler.support.private_folder import PrivateFolder

OK, ABSENT, FAILED = "ok", "absent", "FAILED"
_MODEL = "tiny_chain"  # compiled, run and compared: less than a second
_PATIENCE_S = 120.0
_ROOM = 1 << 30  # bytes that a cache may well take
_CLAUSE = re.compile(r"\s*(==|>=|<=|<|>)\s*([\d.]+)\s*")
_DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True)
class Finding:
    """What was found of one thing.

    state: "ok"; "absent", which costs only what it is for; "FAILED", which is needed. remedy: what
    to do where it is not ok; "" where the detail says it.
    """

    name: str
    state: str
    detail: str
    remedy: str = ""


def findings() -> Iterator[Finding]:
    """All of them, in the order in which they need one another."""
    yield Finding("rcompiler", OK, f"{own_version()} ({HOME})")
    yield Finding("Python", OK, f"{platform.python_version()} ({sys.executable})")
    needed = [each for each in requirements() if not each.extra]
    packages = [_package(each, FAILED) for each in needed]
    yield from packages
    compiler = [each.package for each in needed if each.package != "numpy"]
    missing = [name for name in compiler if not importable(name)]
    compiles = not missing and not runtime_alone()
    if runtime_alone():
        detail = "is not installed: this is its runtime alone, for compiled .rcx files"
        yield Finding("compiler", ABSENT, detail, install_command())
    elif missing:
        yield Finding(
            "compiler",
            FAILED,
            f"is not installed (there is no {', '.join(missing)}); compiled .rcx files run",
            install_command(),
        )
    else:
        yield from _libraries()
    yield from _processor()
    yield _eus()
    yield _cache()
    yield _record()
    yield _executable_memory()
    if compiles:
        yield _profile_index()
        yield _compilation()
    if importable("numpy"):
        yield from _gpu(not compiles)
    yield from _optional()


# -- packages


def _package(requirement: Requirement, otherwise: str) -> Finding:
    name, found = requirement.package, version(requirement.package)
    if not importable(name):
        return Finding(name, otherwise, "is not installed", requirement.remedy)
    if found is None:
        return Finding(name, OK, "version unknown")
    if not meets(found, requirement.bounds):
        detail = f"{found}, and {requirement.bounds} is needed"
        return Finding(name, otherwise, detail, f"pip install '{name}{requirement.bounds}'")
    return Finding(name, OK, found)


def meets(found: str, bounds: str) -> bool:
    """Whether a version is within "<14,>=13" and the like; what cannot be read bounds nothing."""
    have = _numbers(found)
    for operator, text in _CLAUSE.findall(bounds):
        want = _numbers(text)
        length = max(len(have), len(want))
        a, b = (v + (0,) * (length - len(v)) for v in (have, want))
        if not {"==": a == b, ">=": a >= b, "<=": a <= b, "<": a < b, ">": a > b}[operator]:
            return False
    return True


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0]))


def _optional() -> Iterator[Finding]:
    """The packages of the extras that are for use; test brings what only tests need."""
    for each in requirements():
        if each.extra not in ("", "test"):
            yield _package(each, ABSENT)


# -- libraries of others, each in a process of its own


def _libraries() -> Iterator[Finding]:
    mlir = "from torch_mlir import ir; from rcompiler import dialects; dialects.load(ir.Context())"
    llvm = "from rcompiler.codegen.llvm_worker import release; print(release())"
    for name, code, package in (("MLIR", mlir, "torch-mlir"), ("LLVM", llvm, "llvmlite")):
        status, said = _child("-c", code)
        if status:
            yield Finding(
                name, FAILED, said, f"pip install --force-reinstall {package}; {install_command()}"
            )
        else:
            yield Finding(name, OK, said or "the bindings load")


def _compilation() -> Finding:
    arguments = ("-m", "rcompiler.tools.rc_run", _MODEL, "--verify", "--reference=onnx")
    status, said = _child(*arguments)
    name = "compile and run"
    if status:
        return Finding(name, FAILED, said, f"see what is above; python {' '.join(arguments)}")
    return Finding(name, OK, f"{_MODEL}: {said.partition(': ')[2]}")


def _child(*arguments: str) -> tuple[int, str]:
    """Exit status and last line of a Python process, which finds this very package."""
    paths = [str(HOME), *map(os.path.abspath, filter(None, sys.path))]
    environment = {"PYTHONPATH": os.pathsep.join(paths), "RC_CACHE_DIR": "", "RC_DEVICE": "default"}
    try:
        done = subprocess.run(
            [sys.executable, "-P", *arguments],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
            env={**os.environ, **environment},
        )
    except subprocess.TimeoutExpired:
        return 1, f"was not done after {_PATIENCE_S:.0f} s"
    except OSError as error:
        return 1, f"no process can be started: {error.strerror}"
    if done.returncode < 0:
        return done.returncode, f"ended by {signal.Signals(-done.returncode).name}"
    lines = (done.stderr if done.returncode else done.stdout).strip().splitlines()
    return done.returncode, lines[-1] if lines else ""


# -- this machine


def _processor() -> Iterator[Finding]:
    system = platform.system(), platform.machine()
    if system != ("Linux", "x86_64"):
        detail = f"{' '.join(system)}; code for CPUs is made for Linux x86-64"
        yield Finding("CPU", FAILED, detail, "take such a machine")
        return
    try:
        device, cap = detect_cpu(), host_cap()
    except CompilerError as error:
        yield Finding("CPU", FAILED, str(error))
        return
    level = "" if device.level_name == "x86-64" else "x86-64-"
    capped = f" (capped by RC_HOST_LEVEL={cap})" if cap else ""
    yield Finding(
        "CPU",
        OK,
        f"{host_name()}: {psabi_level()}; code is for {level}{device.level_name}{capped}, vectors "
        f"of {8 * device.compute.vector_bytes} bits",
    )
    features = ", ".join(sorted(device.features)) or "sse2"
    named = InstructionSet.of(device.level_name, device.features)
    yield Finding("vector features", OK, f"{features}; target cpu:{named.name}")


def _eus() -> Finding:
    usable, affine = usable_cpus(), len(os.sched_getaffinity(0))
    limits = f"{os.cpu_count()} CPUs"
    if affine != os.cpu_count():
        limits += f", {affine} by affinity"
    if usable < affine:
        limits += f", {usable} by the quota of the control group"
    return Finding("execution units", OK, f"{limits}: --eus is {usable} by default")


def _cache() -> Finding:
    name, folder = "cache folder", default_cache()
    if folder is None:
        detail = (
            "none (RC_CACHE_DIR is empty): all code is generated each time, nothing is measured"
        )
        return Finding(name, ABSENT, detail, "unset RC_CACHE_DIR, or name a folder in it")
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    remedy = f"name another folder in RC_CACHE_DIR, or: mkdir -p {folder}; chmod 700 {folder}"
    try:
        if there == folder:
            PrivateFolder(folder).close()
        free = shutil.disk_usage(there).free
    except (CompilerError, OSError) as error:
        return Finding(name, ABSENT, f"{folder} is not used: {error}", remedy)
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        return Finding(name, ABSENT, f"{folder} is not used: {there} is not writable", remedy)
    detail = f"{folder}{'' if there == folder else ' (made on first use)'}, {free >> 20} MB free"
    if free < _ROOM:
        return Finding(
            name, ABSENT, detail, "free some space, or name another folder (RC_CACHE_DIR)"
        )
    return Finding(name, OK, detail)


def _record() -> Finding:
    """Of the figures that tiles are chosen by."""
    name, folder, chosen = "device record", default_cache(), default_device()
    if chosen is not None:
        return Finding(name, OK, f"RC_DEVICE={chosen} decides, not what is measured")
    remedy = "rc-tune --device measures this machine; else the first compilation does"
    if folder is None:
        detail = "not measured: default figures choose tiles, there is no cache folder for others"
        return Finding(name, ABSENT, detail, "see cache folder; or rc-tune --device -o FILE")
    try:
        device = detect_cpu()
        found = find_record(device, folder)
    except CompilerError as error:
        return Finding(name, ABSENT, f"not measured: {error}")
    if found is None or found.measurement is None:
        return Finding(name, ABSENT, "this machine is not measured yet", remedy)
    return Finding(name, OK, f"measured {found.measurement.date}: {record_path(device, folder)}")


def _profile_index() -> Finding:
    """Of the file of measured times; it is only read, also where a use of it would mend it."""
    from rcompiler.profiler.storage import NAME, NewerLayout, counted

    name, folder = "profile index", default_cache()
    if folder is None:
        return Finding(name, ABSENT, "none: there is no cache folder for it", "see cache folder")
    path = folder / NAME
    if not path.exists():
        return Finding(name, OK, f"{path} (made when rc-tune or --tune=kernels measures)")
    try:
        with PrivateFolder(folder) as own:
            found = counted(own.checked(NAME))
    except (CompilerError, OSError) as error:
        return Finding(name, ABSENT, f"{path} is not used: {error}", "see cache folder")
    except NewerLayout as error:
        remedy = "name another folder in RC_CACHE_DIR, or use that version"
        return Finding(name, ABSENT, f"{path} is not used: {error}", remedy)
    except sqlite3.OperationalError as error:
        return Finding(name, ABSENT, f"{path} cannot be read now: {error}", "try again")
    except sqlite3.DatabaseError as error:
        aside = path.with_suffix(".damaged").name
        remedy = f"rc-tune MODEL measures again, and puts the file aside as {aside}"
        return Finding(name, ABSENT, f"{path} is damaged: {error}", remedy)
    each = [f"{count} {kind}{'s' * (count != 1)}" for kind, count in found.items()]
    held = " and ".join([", ".join(each[:-1]), *each[-1:]]) if each else ""
    return Finding(name, OK, f"{path}: times of {held or 'an older layout'}")


def _executable_memory() -> Finding:
    """As models get it; nothing is called."""
    name = "executable memory"
    if not importable("numpy"):
        return Finding(name, FAILED, "not tried: models need numpy", "pip install numpy")
    from rcompiler.runtime.image import PAGE, Image, LoadedImage

    content = b"\xc3".ljust(PAGE, b"\xcc") + bytes(PAGE)
    image = Image(content, PAGE, PAGE, 2 * PAGE, {"nothing": 0}, PAGE, (), ())
    try:
        LoadedImage(image)
    except CompilerError as error:
        return Finding(name, FAILED, str(error))
    return Finding(name, OK, "this process may run what it loads")


# -- GPUs


def _gpu(runs_only: bool) -> Iterator[Finding]:
    if not runs_only:
        yield _assembler()
    from rcompiler.runtime.gpu.cuda import CudaDriver

    try:
        driver = CudaDriver()
    except CompilerError as error:
        yield Finding("GPU", ABSENT, str(error))
        return
    except Exception as error:  # whatever a broken driver does: models for CPUs need none
        yield Finding("GPU", ABSENT, f"{type(error).__name__}: {error}", "reinstall its driver")
        return
    major, minor = driver.capability
    lines = _DRIVER.read_text().splitlines() if _DRIVER.exists() else []
    release = re.search(r"\d+\.\d+(\.\d+)?", lines[0]) if lines else None
    by = f", driver {release[0]}" if release else ""
    yield Finding("GPU", OK, f"{driver.name}, sm_{major}{minor}, {driver.multiprocessors} EUs{by}")


def _assembler() -> Finding:
    """Without one the driver compiles PTX."""
    from rcompiler.codegen.cuda_tools import needed_tool
    from rcompiler.codegen.toolkit import toolkits

    try:
        needed_tool("ptxas")
        found = toolkits()[0]
    except CompilerError as error:
        return Finding("ptxas", ABSENT, str(error))
    return Finding("ptxas", OK, f"{found.version} ({found.ptxas})")
