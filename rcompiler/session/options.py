"""What sessions are asked for beside the model: options as onnxruntime has them, and providers.

What has a meaning here is done; all else is accepted, and noted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import Any, TypeVar

from rcompiler.errors import CompilerError, UnsupportedOp
from rcompiler.session.absent import KnowsAbsent, absent

CPU = "CPUExecutionProvider"
_OF_GPUS = {"ptx": "CUDAExecutionProvider", "amdgcn": "ROCMExecutionProvider"}


class GraphOptimizationLevel(IntEnum):
    """How much of the graph may be rewritten: ORT_DISABLE_ALL compiles the operators as written,
    all others are the same."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Whether operators may run at the same time. Here a schedule says so."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """The order of operators. Here a schedule says so."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


_SCHEDULE = "one static schedule says what runs when"
_MEMORY = "memory is planned when a model is compiled"
_LOG = "nothing is logged; errors are exceptions"
_PROFILE = "load the model with timed=True, or use rc-run --profile"
# Defaults, and why another value changes nothing; without a reason it has a meaning, or is met.
_SESSION: dict[str, tuple[Any, str]] = {
    "enable_cpu_mem_arena": (True, _MEMORY),
    "enable_mem_pattern": (True, _MEMORY),
    "enable_mem_reuse": (True, _MEMORY),
    "enable_profiling": (False, _PROFILE),
    "execution_mode": (ExecutionMode.ORT_SEQUENTIAL, _SCHEDULE),
    "execution_order": (ExecutionOrder.DEFAULT, _SCHEDULE),
    "graph_optimization_level": (GraphOptimizationLevel.ORT_ENABLE_ALL, ""),
    "inter_op_num_threads": (0, _SCHEDULE),
    "intra_op_num_threads": (0, ""),
    "log_severity_level": (-1, _LOG),
    "log_verbosity_level": (0, _LOG),
    "logid": ("", _LOG),
    "optimized_model_filepath": ("", "save the compiled model: rcompiler.compile_onnx(...).save"),
    "profile_file_prefix": ("onnxruntime_profile_", _PROFILE),
    "use_deterministic_compute": (False, ""),  # it always is
    "use_per_session_threads": (True, "every model has threads of its own"),
}
_RUN: dict[str, tuple[Any, str]] = {
    "log_severity_level": (-1, _LOG),
    "log_verbosity_level": (0, _LOG),
    "logid": ("", _LOG),
    "only_execute_path_to_fetches": (False, "all outputs are computed"),
    "terminate": (False, "a call that runs comes to its end"),
}


# Entries that are options of `InferenceSession`, and the numbers that they may be.
_OURS = {
    "rcompiler.ranges": ("ranges", range(2)),
    "rcompiler.keep_bytes": ("keep_bytes", range(1, 1 << 62)),
    "session.set_denormal_as_zero": ("denormals", range(2)),
}


def _said(numbers: range) -> str:
    return "'0' or '1'" if len(numbers) == 2 else "a number of bytes, 1 or more"


class _Options(KnowsAbsent):
    """Named values with defaults; other names are refused, as onnxruntime does."""

    _known: dict[str, tuple[Any, str]]

    def __init__(self) -> None:
        self.__dict__.update({name: default for name, (default, _) in self._known.items()})
        self.__dict__["_entries"] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._known:
            raise absent(type(self).__name__, name)
        self.__dict__[name] = value

    def _notes(self) -> Iterator[str]:
        """What was asked for and changes nothing, with the reason."""
        for name, (default, reason) in self._known.items():
            value = getattr(self, name)
            if isinstance(default, IntEnum):
                value = type(default)(int(value))  # also of onnxruntime's own
            if reason and value != default:
                yield f"{name}={value!r} changes nothing: {reason}"
        for key, value in self.__dict__["_entries"].items():
            if key in _OURS:
                continue
            yield f"{key}={value!r} changes nothing: it is an entry for another runtime"


class SessionOptions(_Options):
    """Options of a session, by the names that onnxruntime has for them.

    intra_op_num_threads is the number of EUs, 0 for all of the device; graph_optimization_level
    ORT_DISABLE_ALL compiles without fusion and normalisation; sizes of open dimensions are fixed by
    add_free_dimension_override_by_name. All others are accepted, and noted by the session.
    """

    _known = _SESSION

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["_sizes"] = {}
        self.__dict__["_providers"] = []

    def add_provider(self, name: str, options: Mapping[str, str]) -> None:
        """Name a provider, as `providers` of a session does.

        Args:
            name: such as "CUDAExecutionProvider".
            options: its options.
        """
        self.__dict__["_providers"].append((name, dict(options)))

    def has_providers(self) -> bool:
        """Whether `add_provider` named one."""
        return bool(self.__dict__["_providers"])

    def set_provider_selection_policy(self, policy: Any) -> None:
        """Nothing: what a model is compiled for is `target`, which the session notes.

        Args:
            policy: of onnxruntime.
        """
        self.__dict__["_providers"].append((f"policy {policy}", {}))

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fix the size of an open dimension.

        Args:
            name: of the dimension, as the model has it.
            size: not negative.
        """
        self.__dict__["_sizes"][name] = int(size)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry. "rcompiler.ranges" ("0" or "1") and "rcompiler.keep_bytes" are those of
        `InferenceSession`, "session.set_denormal_as_zero" is `denormals` of `compile_onnx`; the
        session notes all others, which have no meaning here.

        Args:
            key, value: text.
        """
        self.__dict__["_entries"][key] = value

    def get_session_config_entry(self, key: str) -> str:
        """The entry of that name.

        Args:
            key: of `add_session_config_entry`.

        Raises:
            CompilerError: there is none.
        """
        if key not in self.__dict__["_entries"]:
            raise CompilerError(f"there is no entry {key!r}; add it by add_session_config_entry")
        return str(self.__dict__["_entries"][key])

    def register_custom_ops_library(self, path: str) -> None:
        """Libraries of operators are for another runtime.

        Args:
            path: of the library.

        Raises:
            UnsupportedOp: always, with the remedy.
        """
        raise UnsupportedOp(
            f"'{path}' has operators for another runtime; give InferenceSession("
            "fallback={'domain::Op': function}) functions of numpy for them, or translate them "
            "(docs/extending.md)"
        )

    def _kept(self) -> dict[str, Any]:
        """Entries that are options of a session. Raises CompilerError for a bad value."""
        found: dict[str, Any] = {}
        for key, value in self.__dict__["_entries"].items():
            if key not in _OURS:
                continue
            name, numbers = _OURS[key]
            if not value.isdigit() or int(value) not in numbers:
                raise CompilerError(f"entry {key!r} is {value!r}: give {_said(numbers)}")
            found[name] = bool(int(value)) if len(numbers) == 2 else int(value)
        return found

    def _named_providers(self) -> list[Any]:
        return list(self.__dict__["_providers"])

    def _sized(self) -> dict[str, int]:
        return dict(self.__dict__["_sizes"])

    def _compiling(self) -> dict[str, Any]:
        """As options of compile_onnx. Raises CompilerError for a bad number of threads."""
        threads, level = self.intra_op_num_threads, int(self.graph_optimization_level)
        if not isinstance(threads, int) or threads < 0:
            raise CompilerError(f"intra_op_num_threads={threads!r}: give 1 or more, or 0 for all")
        options: dict[str, Any] = {"eus": threads} if threads else {}
        if level == GraphOptimizationLevel.ORT_DISABLE_ALL:
            options |= {"fusion": False, "normalise": False}
        if self._kept().get("denormals"):
            options["denormals"] = "zero"
        return options


class RunOptions(_Options):
    """Options of a run, by the names that onnxruntime has for them; none changes anything."""

    _known = _RUN

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry.

        Args:
            key, value: text.
        """
        self.__dict__["_entries"][key] = value

    def get_run_config_entry(self, key: str) -> str:
        """The entry of that name.

        Args:
            key: of `add_run_config_entry`.
        """
        return str(self.__dict__["_entries"].get(key, ""))


_T = TypeVar("_T", bound=_Options)


def given_options(options: Any, kind: type[_T]) -> _T:
    """The options that a caller gives, also those of onnxruntime's own classes; None: the defaults.

    Raises:
        CompilerError: it is something else.
    """
    if options is None:
        return kind()
    if isinstance(options, kind):
        return options
    if type(options).__name__ != kind.__name__:
        raise CompilerError(
            f"the options are a {type(options).__name__}; give rcompiler.{kind.__name__}()"
        )
    made = kind()
    for name in kind._known:
        if hasattr(options, name):
            setattr(made, name, getattr(options, name))
    for key in _OURS:
        with suppress(Exception):  # onnxruntime raises where there is no such entry
            made.__dict__["_entries"][key] = options.get_session_config_entry(key)
    return made


def provider_notes(providers: Any, there: Sequence[str]) -> list[str]:
    """What is to be said of the providers that a caller names.

    Args:
        providers: names, or pairs of a name and options; None for any.
        there: what the model runs on.
    """
    names = [each if isinstance(each, str) else each[0] for each in providers or ()]
    options = [each[0] for each in providers or () if not isinstance(each, str) and each[1]]
    notes = [
        f"provider '{name}' is not used: the model is compiled for {there[0]}; target= says for "
        "what a model is compiled"
        for name in names
        if name not in there and name != CPU
    ]
    return notes + [f"options of provider '{name}' change nothing" for name in options]


def providers_of(language: str | None) -> list[str]:
    """By the language of a GPU's code, None for a CPU: what a model runs on."""
    return [CPU] if language is None else [_OF_GPUS[language], CPU]


def get_available_providers() -> list[str]:
    """The providers by onnxruntime's names: that of the CPU. GPUs are targets, see compile_onnx."""
    return [CPU]


def set_default_logger_severity(severity: int) -> None:
    """Nothing: no severity is logged; errors are exceptions, and notes warnings.

    Args:
        severity: of onnxruntime's messages.
    """


def get_all_providers() -> list[str]:
    """The same: there are no others that could be installed."""
    return get_available_providers()


def set_default_logger_verbosity(verbosity: int) -> None:
    """Nothing, as `set_default_logger_severity`.

    Args:
        verbosity: of onnxruntime's messages.
    """


def enable_telemetry_events() -> None:
    """Nothing: there is no telemetry."""


def disable_telemetry_events() -> None:
    """Nothing: there is no telemetry."""


def get_device() -> str:
    """What models run on where no target says otherwise: "CPU"."""
    return "CPU"
