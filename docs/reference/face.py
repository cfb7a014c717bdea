"""What of the package is public: the names that users and who extends the compiler import."""

import inspect
import sys
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from types import FunctionType
from typing import Any

# Title and module, and the names of it; () for every public class and function that it defines.
FACE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Compile and load", "rcompiler", ("compile_onnx", "compile_schedule", "load")),
    ("Functions of yours", "rcompiler.fallback", ("Fallback",)),
    ("Models with functions of yours", "rcompiler.composite_model", ("CompositeModel",)),
    ("What files of these consist of", "rcompiler.runtime.composite",
     ("Plan", "PartStep", "FunctionStep")),
    ("Sessions", "rcompiler.session.inference_session", ()),
    ("What sessions say", "rcompiler.session.signature", ("NodeArg", "ModelMetadata")),
    ("Inputs and outputs of sessions", "rcompiler.session.io_binding", ("IOBinding",)),
    ("Values of sessions", "rcompiler.session.values", ("OrtValue",)),
    ("Options of sessions", "rcompiler.session.options", tuple(
        "SessionOptions RunOptions GraphOptimizationLevel ExecutionMode ExecutionOrder "
        "get_available_providers get_all_providers get_device set_default_logger_severity "
        "set_default_logger_verbosity enable_telemetry_events disable_telemetry_events".split())),
    ("Compile in other ways", "rcompiler.compile", ("compile_policies", "operators_of")),
    ("Models", "rcompiler.model", tuple(
        "CompiledModel GpuModel Explained Portable model_of".split())),
    ("Models for several sizes", "rcompiler.bucketed", ("BucketedModel", "SizedTensor")),
    ("Models that get programs while they serve", "rcompiler.growing_model", ("GrowingModel",)),
    ("What of these is built", "rcompiler.driver.growth", ("Build",)),
    ("Many callers", "rcompiler.pool", ("Pool",)),
    ("Calls that are joined", "rcompiler.batching", ("Batching",)),
    ("Models for packed requests", "rcompiler.packed", ("PackedModel",)),
    ("Load bytes", "rcompiler.loading", ("load_bytes",)),
    ("Options", "rcompiler.options", tuple(
        "CompileOptions Scheduler OwnPolicy policy_of default_device default_cache".split())),
    ("Reports", "rcompiler.report", ()),
    ("Errors", "rcompiler.errors", ()),
    ("Files", "rcompiler.runtime.artifact", ("Artifact",)),
    ("Files for several sizes", "rcompiler.runtime.family", ("Family",)),
    ("What files consist of", "rcompiler.runtime.program",
     ("Tensor", "KernelEntry", "Program", "IndexRange", "IndexCheck", "State")),
    ("Run on a CPU", "rcompiler.runtime.executable", ()),
    ("Calls without allocation", "rcompiler.runtime.binding", ()),
    ("State between calls", "rcompiler.runtime.sessions", ()),
    ("What is kept", "rcompiler.runtime.state", ("State",)),
    ("Outputs", "rcompiler.runtime.outputs", ("Outputs",)),
    ("Close", "rcompiler.runtime.closing", ()),
    ("Run on a GPU", "rcompiler.runtime.gpu.executable", ()),
    ("Calls on a GPU without allocation", "rcompiler.runtime.gpu.binding", ()),
    ("Arrays on a GPU", "rcompiler.runtime.gpu.arrays", ("DeviceArray",)),
    ("Devices", "rcompiler.device.model", ("Device", "Costs")),
    ("Device records", "rcompiler.device.record",
     ("builtin_names", "builtin_device", "load_device", "save_device")),
    ("Policies of your own", "rcompiler.rammer.policy", tuple(
        "Policy Launch Tasks waves fastest most_efficient select_kernels simulate Graph Operator "
        "Kernel Program".split())),
    ("Passes of your own", "rcompiler.passes", ()),
)  # fmt: skip
_SPECIAL = ("__init__", "__call__", "__getitem__", "__enter__", "__exit__", "__copy__")
# Instances come from `bind` and the like: how they are made is nobody's business.
_MADE_ELSEWHERE = (
    "Binding",
    "CompositeBinding",
    "GpuBinding",
    "DeviceArray",
    "DeviceNeeds",
    "Tasks",
    "State",
    "Session",
)
_DESCRIPTORS = (FunctionType, property, cached_property, staticmethod, classmethod)


def public(module: str, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The classes and functions of a module that are public, by their full names, in order."""
    home = import_module(module)
    found = names or [
        name
        for name, value in vars(home).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module
    ]
    for name in found:
        yield f"{module}.{name}", getattr(home, name)


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """What a class itself defines of methods and properties that users call."""
    for name, value in vars(cls).items():
        own = name == "__init__" and cls.__name__ in _MADE_ELSEWHERE
        shown = not name.startswith("_") or (name in _SPECIAL and is_written(value, cls))
        if shown and not own and isinstance(value, _DESCRIPTORS):
            yield name, value


def is_written(method: Any, cls: type) -> bool:
    """Whether a method stands in the file of its class: those of dataclasses are made."""
    code = getattr(method, "__code__", None)
    return code is not None and code.co_filename == sys.modules[cls.__module__].__file__


def is_property(member: Any) -> bool:
    """Whether a member of a class is read, and not called."""
    return isinstance(member, property | cached_property)


def function_of(member: Any) -> Any:
    """The function behind a method or property."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    return inspect.unwrap(member)


def everything() -> Iterator[tuple[str, Any]]:
    """Each public class and function, and each public member of the classes, by its full name."""
    for _, module, names in FACE:
        for name, value in public(module, names):
            yield name, value
            if inspect.isclass(value):
                for member, found in members(value):
                    yield f"{name}.{member}", found
