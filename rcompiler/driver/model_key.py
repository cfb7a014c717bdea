"""The hash of all that decides what compile_onnx makes: two calls with one key make equal bytes.

Every option is in the key by itself, so that a new one cannot be forgotten; those that say more
than their text (a target, a device) are with what they stand for on this machine at this moment.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np

from rcompiler.codegen.cuda_tools import tools
from rcompiler.device.cpu import host_name
from rcompiler.device.host_flags import capped_level, host_flags
from rcompiler.device.record import to_option
from rcompiler.device.target import cpu_targets, find_device, is_host
from rcompiler.driver.host import given_device, known_device
from rcompiler.options import Policy
from rcompiler.runtime.container import VERSION
from rcompiler.support.code_version import code_version

# Options that change nothing of what is made.
WITHOUT_EFFECT = frozenset({"cache", "progress"})
# What the digest of the model says, and functions of the caller's, with which nothing is kept.
_ELSEWHERE = frozenset({"model", "fallback"})
_MACHINE_CODE = ("ptxas", "nvlink")  # programs that make code of GPUs


def is_kept(given: Mapping[str, Any]) -> bool:
    """Whether what compile_onnx makes of these arguments is a function of its key.

    Not so: functions of the caller's, whose code nobody knows; what is chosen by measuring, which
    goes on; and models that are built while they serve.
    """
    named = given["policy"] is None or given["policy"] in get_args(Policy)
    plain = given["fallback"] is None and given["tune"] == "off" and given["build"] == "all"
    told = given["progress"] is None or callable(given["progress"])
    return bool(plain and named and told)


def model_key(digest: str, given: Mapping[str, Any], folder: Path) -> str | None:
    """The key of a call of compile_onnx.

    digest: of the model. given: all arguments by name. folder: of the cache.

    Returns:
        Hex digits; None where an option is nothing that has a hash, or this machine was not
        measured yet.

    Raises:
        CompilerError, OSError, ValueError, TypeError: for options that compile_onnx refuses.
    """
    names = sorted(given.keys() - WITHOUT_EFFECT - _ELSEWHERE)
    options = [[name, _encoded(given[name])] for name in names if name != "device"]
    target = given["target"]
    devices = [_devices(name, given["device"], folder) for name in cpu_targets(target)]
    if None in devices:
        return None
    found = [VERSION, code_version(), digest, options, devices, _machine(target)]
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def _devices(target: str, device: Any, folder: Path) -> list[str] | None:
    """The device of a target, and the one whose figures decide; None where it is to be measured."""
    base = find_device(target)
    decides = given_device(target, base, device) or known_device(base, folder)
    return None if decides is None else [to_option(base), to_option(decides)]


def _machine(target: str) -> Any:
    """What else the code for a target depends on."""
    if target == "cpu":
        return [host_name(), capped_level(), sorted(host_flags())]
    if is_host(target.partition(",")[0]):
        return None
    statuses = [(path, os.stat(path)) for name in _MACHINE_CODE for path in tools(name)]
    return [[str(path), s.st_size, s.st_mtime_ns, s.st_ctime_ns] for path, s in statuses]


def _encoded(value: Any) -> Any:
    """A value of an option as JSON, with its type. Raises TypeError for one of another type."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if isinstance(value, float):
        return ["float", value.hex()]
    if isinstance(value, range):
        return ["range", value.start, value.stop, value.step]
    if kind in (tuple, list):
        return [kind.__name__, *map(_encoded, value)]
    if isinstance(value, Mapping):
        return ["mapping", *([_encoded(name), _encoded(value[name])] for name in value)]
    if isinstance(value, np.ndarray | np.generic):
        array = np.ascontiguousarray(value)
        if array.dtype.hasobject:
            raise TypeError(f"{array.dtype} has no content of its own")
        content = hashlib.sha256(array.tobytes()).hexdigest()
        return ["array", array.dtype.name, array.dtype.str, list(value.shape), content]
    raise TypeError(f"{kind.__name__} is no value of an option")
