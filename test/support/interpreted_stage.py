"""Stages of ONNX models, and what their texts mean: the one place where tests stop a compilation in
front of the code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.driver.compilation import Compilation
from rcompiler.driver.host import target_device
from rcompiler.frontend import TensorSpec, import_onnx
from rcompiler.frontend.dtypes import numpy_dtype, to_storage
from rcompiler.options import CompileOptions
from rcompiler.passes import Element
from rcompiler.passes._pipeline_text import runner
from rcompiler.passes.constants.model_context import ModelContext, context_of
from rcompiler.pipelines._lowering import Lowering
from rcompiler.runtime.deferred import Constant, whole
from rcompiler.support.extent import Symbol

_Stage = TypeVar("_Stage", bound="Stage")


@dataclass(frozen=True)
class Stage(ABC):
    """The text of a stage, the constants that it names, and the signature of the model."""

    text: str
    constants: dict[str, np.ndarray]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    counts: tuple[Symbol, ...] = ()

    def __call__(self, *arrays: np.ndarray, seed: int = 0) -> list[np.ndarray]:
        """The model's outputs as the text says; seed: the order of what may be in any order."""
        kept = [to_storage(a, t.dtype) for a, t in zip(arrays, self.inputs, strict=True)]
        with parsed(self.text) as module:
            found = self._results(module, kept, seed)
        # behind the outputs are the sizes that the model computes, and behind these checks
        told = zip(self.counts, found[len(self.outputs) :], strict=False)
        counts = {symbol.name: int(number) for symbol, number in told}
        outputs = zip(found, self.outputs, strict=False)
        return [_there(array.view(numpy_dtype(t.dtype)), t, counts) for array, t in outputs]

    @abstractmethod
    def _results(
        self, module: ir.Module, inputs: Sequence[np.ndarray], seed: int
    ) -> list[np.ndarray]:
        """The results of @main for inputs in the types of storage."""


def _there(array: np.ndarray, tensor: TensorSpec, counts: Mapping[str, int]) -> np.ndarray:
    """The part of a result that is there."""
    return array[tuple(slice(e.at(counts) if e else None) for e in tensor.extents)]


@contextmanager
def parsed(text: str, constants: Mapping[str, Constant] | None = None) -> Iterator[ir.Module]:
    """A module of the compiler's dialects, in a context of its own, where resources keep their
    names.
    """
    with dialects.load(ModelContext(constants)) as context, ir.Location.unknown():
        context.enable_multithreading(False)
        yield ir.Module.parse(text)


def stage_of(
    kind: type[_Stage],
    passes: Callable[[Lowering], Sequence[Element]],
    model: Any,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
    target: str = "cpu",
    bounds: Mapping[str, int] | None = None,
) -> _Stage:
    """A stage as `compile_onnx` makes it with the same arguments, by default figures.

    passes: of a lowering those that run up to it. Raises CompilerError for models that are not
    compiled.
    """
    imported = import_onnx(model, shapes, values, limits=bounds)
    options = CompileOptions(target)
    lowering = Compilation(options, target_device(target), None).lowering(options)
    with parsed(imported.module_text, imported.constants) as module:
        runner(passes(lowering), module.context)(module)
        text = module.operation.get_asm()
        constants = context_of(module.operation).arrays
    arrays = {key: whole(array) for key, array in constants.items()}
    return kind(text, arrays, imported.inputs, imported.outputs, imported.counts)
