"""Generators of real networks as ONNX models, with random weights: for tests and benchmarks.

    build("resnet50", image=64)      python -m rcompiler.tools.models resnet50 -o resnet50.onnx

A module of this package names its generators in ``MODELS``; each option of a generator is a
parameter of its function. Equal options, seed included, give byte-identical models.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from onnx import ModelProto

from rcompiler.errors import InvalidModel

__all__ = ["build", "names", "options"]


@cache
def _generators() -> dict[str, Callable[..., ModelProto]]:
    found = {}
    for info in pkgutil.iter_modules(__path__):
        if info.name != "__main__":
            module = importlib.import_module(f"{__name__}.{info.name}")
            found.update({name: getattr(module, name) for name in getattr(module, "MODELS", ())})
    return dict(sorted(found.items()))


def names() -> tuple[str, ...]:
    """All models that ``build`` can make."""
    return tuple(_generators())


def options(name: str) -> dict[str, Any]:
    """The options of a model with their defaults. Raises InvalidModel for an unknown name."""
    if name not in _generators():
        raise InvalidModel(f"no model '{name}' is built in; there are: {', '.join(names())}")
    parameters = inspect.signature(_generators()[name]).parameters.values()
    return {p.name: p.default for p in parameters}


def build(name: str, **chosen: Any) -> ModelProto:
    """Make a model. The seed may be a generator of numbers instead.

    Raises InvalidModel for an unknown name, an unknown option or a bad value.
    """
    known = options(name)
    for option, value in chosen.items():
        if option not in known:
            raise InvalidModel(
                f"model '{name}' has no option '{option}'; it has: {', '.join(known)}"
            )
        allowed = choices(name, option)
        if option == "seed" and isinstance(value, np.random.Generator):
            continue
        if allowed:
            fits, remedy = value in allowed, f"one of {', '.join(map(repr, allowed))}"
        else:
            fits = _fits(value, known[option], least=0 if option == "seed" else 1)
            remedy = f"something like {known[option]!r}"
        if not fits:
            raise InvalidModel(f"model '{name}': {option}={value!r} does not do; give {remedy}")
    return _generators()[name](**chosen)


def choices(name: str, option: str) -> tuple[Any, ...]:
    """The values of an option that can have these only; () of all others, known or not."""
    hint = get_type_hints(_generators()[name]).get(option)
    return get_args(hint) if get_origin(hint) is Literal else ()


def _fits(value: Any, default: Any, least: int) -> bool:
    """Numbers for a number, a (nested) list of numbers for a list; ``least``: of a number."""
    if isinstance(default, int):
        return isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not isinstance(value, list | tuple) or not value:
        return False
    # inside a list, 0 and () stand for special layers where the default has them
    least = 0 if 0 in default else 1
    return all(x in default or any(_fits(x, d, least) for d in default) for x in value)
