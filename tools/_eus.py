"""Programs of more execution units than there are CPUs: allowed, and slow without a word."""

from __future__ import annotations

import argparse

from rcompiler.device.cgroups import usable_cpus
from rcompiler.device.target import is_host
from rcompiler.options import DEFAULT, default_device
from rcompiler.runtime.program import MAX_EUS
from rcompiler.tools._console import warn


def check_eus(prog: str, eus: int | None, options: argparse.Namespace, what: str = "--eus") -> None:
    """Warn where `eus` are more than the CPUs of this process, and it is they that will run them.

    options: with --target and --device: a program for a GPU, or by the record of another machine,
    may well be run elsewhere. what: the option that says how many.
    """
    usable = usable_cpus()
    if eus is None or not usable < eus <= MAX_EUS or not is_host(options.target or "cpu"):
        return
    if (options.device or default_device() or DEFAULT) != DEFAULT:
        return
    warn(
        prog,
        f"{what}={eus}: this process may use {usable} CPU{'s' if usable > 1 else ''}, which take "
        f"turns at the work of {eus}: results come later than with {what}={usable}, and expected "
        "times do not hold",
    )
