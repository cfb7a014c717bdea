"""Reference results from onnxruntime or the ONNX reference evaluator, and their comparison."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rcompiler.errors import CompilerError

if TYPE_CHECKING:
    from onnx import ModelProto

_LONGEST = 400  # characters of a message
ENGINES = ("auto", "onnxruntime", "onnx")

# Allowed error by type, as a multiple of the root mean square of the expected output: about
# eps * sqrt(operations on the longest path) of networks with a hundred layers.
_TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 6e-2}
# Of values that were rounded to such a type on the way: two steps of it, where the range that its
# numbers spread over is eight times the root mean square.
_ROUNDED = {
    **_TOLERANCE,
    **dict.fromkeys(("int8", "uint8"), 16 / 255),
    **dict.fromkeys(("int16", "uint16"), 16 / 65535),
    **dict.fromkeys(("int4", "uint4"), 16 / 15),
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz"), 0.25),
    **dict.fromkeys(("float8_e5m2", "float8_e5m2fnuz"), 0.5),
}


@dataclass(frozen=True)
class Difference:
    """Largest error of an output: absolute, and in units of what is allowed (<= 1 is right)."""

    absolute: float
    relative_to_limit: float
    where: tuple[int, ...]

    @property
    def right(self) -> bool:
        return self.relative_to_limit <= 1.0


def has(package: str) -> bool:
    """Whether a package that is not a dependency is installed."""
    return importlib.util.find_spec(package) is not None


def session(model: ModelProto, threads: int) -> Any:
    """An onnxruntime CPU session: ``threads`` inside an operator, one operator at a time.

    Raises CompilerError when onnxruntime cannot run the model.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 4  # refusals arrive as exceptions
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # its exceptions have no common base class
        raise CompilerError(f"onnxruntime cannot load the model: {error}") from None


def reference(
    model: ModelProto, feeds: Mapping[str, np.ndarray], engine: str = "auto"
) -> tuple[str, list[np.ndarray]]:
    """(engine and version, outputs in order).

    "auto" is onnxruntime where it is installed and can run the model, else the evaluator of onnx.
    Raises CompilerError when the chosen engine cannot run the model.
    """
    if engine == "onnxruntime" and not has("onnxruntime"):
        raise CompilerError("onnxruntime is not installed; use --reference=onnx")
    if engine != "onnx" and has("onnxruntime"):
        import onnxruntime

        try:
            outputs = _run(session(model, threads=0), feeds, "onnxruntime")
            return f"onnxruntime {onnxruntime.__version__}", outputs
        except CompilerError:
            if engine == "onnxruntime":
                raise
    import onnx
    from onnx.reference import ReferenceEvaluator

    try:
        evaluator = ReferenceEvaluator(model)
    except Exception as error:  # whatever the evaluator's own implementation trips over
        raise CompilerError(
            f"the ONNX reference evaluator cannot load the model: {error}"
        ) from None
    return f"onnx.reference {onnx.__version__}", _run(evaluator, feeds, "onnx.reference")


def _run(runner: Any, feeds: Mapping[str, np.ndarray], engine: str) -> list[np.ndarray]:
    try:
        return [np.asarray(y) for y in runner.run(None, dict(feeds))]
    except Exception as error:  # neither engine has a common base class of its errors
        raise CompilerError(f"{engine} cannot run the model: {_short(error)}") from None


def _short(error: Exception) -> str:
    """What an engine said, without its lists of all names of a network."""
    text = str(error)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def compare(
    actual: np.ndarray,
    expected: np.ndarray,
    tolerance: float | None = None,
    rounded: Collection[str] = (),
) -> Difference:
    """Compare one output with its reference.

    Floats may differ by ``tolerance`` times the root mean square of the finite expected values,
    by default after the dtype and the types that values were ``rounded`` to on the way. Values of
    a quantised type that is among those may differ by one; everything else is exact. NaN and
    infinities must agree. Raises CompilerError when shape or dtype differ.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise CompilerError(
            f"the result is {actual.dtype}{list(actual.shape)}, the reference "
            f"{expected.dtype}{list(expected.shape)}"
        )
    if actual.size == 0:
        return Difference(0.0, 0.0, ())
    want = expected.astype(np.float64)
    want = np.where(np.isfinite(want), want, 0.0)
    share = _share(actual.dtype.name, rounded) if tolerance is None else tolerance
    limit = share * float(np.sqrt(np.mean(want * want)))
    if "int" in actual.dtype.name and actual.dtype.name in rounded:
        limit = max(limit, 1.0)  # a tie, or nearly one
    error = _errors(actual, expected)
    worst = int(np.argmax(error))
    largest = float(error.reshape(-1)[worst])
    excess = largest / limit if limit else (np.inf if largest else 0.0)
    where = tuple(int(i) for i in np.unravel_index(worst, actual.shape))
    return Difference(largest, float(excess), where)


def _share(dtype: str, rounded: Collection[str]) -> float:
    if dtype not in _TOLERANCE:
        return 0.0
    return max(_TOLERANCE[dtype], *(_ROUNDED.get(kind, 0.0) for kind in rounded), 0.0)


def check_equal(outputs: Mapping[str, Sequence[np.ndarray]]) -> None:
    """Raises CompilerError where the outputs of two schedules differ in a bit."""
    (first, expected), *others = outputs.items()
    for name, found in others:
        for index, (a, b) in enumerate(zip(expected, found, strict=True)):
            if a.tobytes() != b.tobytes():
                raise CompilerError(
                    f"schedules {first} and {name} do not agree to the bit in output {index}; "
                    "this is a defect of the compiler, report it with the model"
                )


def _errors(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """|actual - expected| in float64; 0 where equal or both NaN, above 0 everywhere else."""
    got, want = actual.astype(np.float64), expected.astype(np.float64)
    same = (actual == expected) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        error = abs(got - want)
    error = np.where(np.isnan(error), np.inf, error)
    # 64-bit integers that differ can be equal in float64
    return np.where(same, 0.0, np.maximum(error, np.finfo(np.float64).tiny))
