"""A network of PyTorch with inputs, as exporters take them: tensors in, a flat tuple out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SEED = 0


@dataclass(frozen=True)
class Exportable:
    """A module in eval mode and its arguments.

    inputs: tensors by name, in the order of the call. dynamic: names of axes whose size is left
    open, by input and axis. least: what such a size has to be, where that is more than 1.
    detections: what comes are boxes, labels and scores of objects, in the order of the scores.
    """

    module: Any
    inputs: Mapping[str, Any]
    dynamic: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    least: Mapping[str, int] = field(default_factory=dict)
    detections: bool = False

    @property
    def sizes(self) -> dict[str, int]:
        """Of the axes that are left open, in these inputs."""
        return {
            name: int(self.inputs[given].shape[axis])
            for given, axes in self.dynamic.items()
            for axis, name in axes.items()
        }

    @property
    def ranges(self) -> dict[str, range]:
        """Sizes of the axes that are left open, up to twice those of these inputs."""
        return {n: range(self.least.get(n, 1), 2 * size + 1) for n, size in self.sizes.items()}

    @property
    def other_sizes(self) -> tuple[dict[str, int], ...]:
        """Two of these ranges that are not those of the inputs."""
        sizes = self.sizes
        return (
            {n: max(self.least.get(n, 1), size // 2 | 1) for n, size in sizes.items()},
            {n: size + size // 2 for n, size in sizes.items()},
        )

    def at(self, sizes: Mapping[str, int], draw: int) -> dict[str, Any]:
        """Inputs of such sizes, made of the numbers of these; others for each number of a draw."""
        import torch

        generator = torch.Generator().manual_seed(SEED + 1 + draw)
        made = {}
        for name, x in self.inputs.items():
            axes = self.dynamic.get(name, {})
            shape = [sizes[axes[a]] if a in axes else n for a, n in enumerate(x.shape)]
            drawn = torch.randint(x.numel(), shape, generator=generator)
            made[name] = x.flatten()[drawn]
        return made


class Outputs:
    """Makes modules that call another one, and return a flat tuple of tensors."""

    @classmethod
    def of(cls, module: Any, *names: Any, **fixed: Any) -> Any:
        """names: of the inputs, where those are given by name. fixed: what is given beside them."""
        import torch

        outer = cls()

        class Wrapped(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner, self.fixed, self.names = module, fixed, names

            def forward(self, *args: Any) -> Any:
                return outer.results(outer.call(self, args))

        return Wrapped()

    def call(self, wrapped: Any, args: Sequence[Any]) -> Any:
        return wrapped.inner(*args, **wrapped.fixed)

    def results(self, made: Any) -> Any:
        found = tuple(_tensors(made))
        return found[0] if len(found) == 1 else found


class First(Outputs):
    """The first result alone."""

    def results(self, made: Any) -> Any:
        return made[0]


class Detector(Outputs):
    """A list of images in, a dict for each out."""

    def call(self, wrapped: Any, args: Sequence[Any]) -> Any:
        (x,) = args
        return wrapped.inner([x[0]])


class ByName(Outputs):
    """transformers: inputs by name."""

    def call(self, wrapped: Any, args: Sequence[Any]) -> Any:
        [names] = wrapped.names
        named = dict(zip(names, args, strict=True))
        return wrapped.inner(**named, **wrapped.fixed, return_dict=True)


def _tensors(value: Any) -> list[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [t for each in value.values() for t in _tensors(each)]
    if isinstance(value, list | tuple):
        return [t for each in value for t in _tensors(each)]
    return []
