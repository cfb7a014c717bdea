"""Adaptive variables (Astra §4): what may be chosen, whose time judges it, and on what else that
time depends."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

Plan = dict[str, str]  # variable -> the digest of its choice
WHOLE = "model"  # the scope of all that one request runs


@dataclass(frozen=True)
class Variable:
    """A decision that is left to measurements.

    Attributes:
        name: in plans; unique in a tree, but for a second sweep over the same variable.
        choices: digests of what may be chosen, the most promising first. Digests say what a choice
            *is*, as its tile sizes do; "the second one" would be another one tomorrow.
        scope: whose time judges it: a segment of the schedule, or the whole model.
        context: names of the variables on whose choices that time depends, too.
        role, scope_signature: what variable and scope are, whatever they are called: by default
            their names. Equal ones share their measurements.
    """

    name: str
    choices: tuple[str, ...]
    scope: str
    context: tuple[str, ...] = ()
    role: str = ""
    scope_signature: str = ""

    def __post_init__(self) -> None:
        if not self.choices or len({*self.choices}) != len(self.choices):
            raise ValueError(f"variable '{self.name}': its choices are not different, or none")
        if self.name in self.context:
            raise ValueError(f"variable '{self.name}' is its own context")

    def key(self, plan: Mapping[str, str], choice: str, environment: str) -> str:
        """The mangled key (Astra §4.5) of the time of `choice` where the others are as in `plan`.

        environment: the machine, the version of the code and the bucket of shapes.

        Raises KeyError where the plan lacks a variable of the context.
        """
        context = [plan[name] for name in self.context]
        what = self.scope_signature or self.scope, self.role or self.name, choice
        return mangled([environment, *what, *context])

    def pruned(self, predicted: Mapping[str, float], worst: float = 1.5) -> "Variable":
        """Without the choices whose predicted time is more than `worst` times the best one's.

        predicted: ns by choice, from a model. The first choice stays: it is the static plan's.
        """
        most = worst * min(predicted[choice] for choice in self.choices)
        first, *others = self.choices
        kept = (first, *(choice for choice in others if predicted[choice] <= most))
        return replace(self, choices=kept)


def mangled(parts: Iterable[str]) -> str:
    """A name for some texts in their order, whatever is in them."""
    found = hashlib.sha256()
    for part in parts:
        text = part.encode()
        found.update(len(text).to_bytes(8, "little") + text)
    return found.hexdigest()[:32]
