"""The enumerator of Astra: the choices that a model has, as a tree, without any time (§4.2, §4.3).

    Fork(fusion) { Prefix[ Parallel over segments { Prefix(kernels) }, schedule, memory ] }

Segments are Astra's super-epochs: their rOperators have a time of their own, so that kernels of
different segments are tried in one launch. Inside of a segment, and for what is judged by the time
of the whole model, one comes after the other, in the context of what was pinned before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rcompiler.astra import Fork, Leaf, Node, Parallel, Prefix, Variable
from rcompiler.astra.variables import WHOLE, mangled

FUSION, SCHEDULE, MEMORY = "fusion", "schedule", "memory"  # names of variables
_SHARE = 0.01  # of all work: kernels with less are not tried, since they cannot gain more
_TOGETHER = 8  # bodies of one segment that are tried, those with the most work
DIMENSIONS = "fksm"
"""What may be explored: f, fusion groups; k, kernels; s, EUs and how they wait for one another; m,
memory of temporary tensors."""


@dataclass(frozen=True)
class Kernels:
    """The kernels that the rOperators of one body may have.

    body: digest of what they compute. choices: digests of tilings, the static plan's first. work:
    what the cost model expects of all of its operators, which orders trials and nothing else.
    """

    body: str
    choices: tuple[str, ...]
    work: float = 0.0


@dataclass(frozen=True)
class Segment:
    """rOperators whose time can be told from that of all others. bodies: of each of them."""

    bodies: tuple[str, ...]

    @property
    def scope(self) -> str:
        """A name that says what is in it, whatever the rOperators are called."""
        return f"segment {mangled(sorted(self.bodies))}"


@dataclass(frozen=True)
class Choices:
    """What may be chosen for the operators that one way of fusing makes; the static plan first.

    schedules: see `schedule_name`. memories: strategies of `rammer.schedule`.
    """

    kernels: Sequence[Kernels]
    segments: Sequence[Segment]
    schedules: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()


def tree(branches: Mapping[str, Choices], model: str = "") -> Node:
    """The tree of a model.

    branches: by way of fusing, the static plan's first. model: digest of the static plan, by which
    times of the whole model are kept; those of segments are kept by what is in them.

    Raises ValueError where nothing can be chosen.
    """
    bodies = {fusion: _body(choices, model) for fusion, choices in branches.items()}
    head = Variable(FUSION, (*bodies,), WHOLE, scope_signature=model)
    if len(bodies) == 1:
        only = next(iter(bodies.values()))
        if only is None:
            raise ValueError("there is nothing to choose")
        return only
    return Fork(head, {name: body or Leaf(_fixed(name, model)) for name, body in bodies.items()})


def kernel_name(body: str, segment: Segment) -> str:
    """Of the variable of the kernels of a body: equal for equal operators in equal segments."""
    return f"kernel {body} in {segment.scope}"


def schedule_name(policy: str, eus: int) -> str:
    """A choice of `SCHEDULE`."""
    return f"{policy} on {eus}"


def text(node: Node, indent: str = "") -> str:
    """A tree to read: what is explored, and how; equal trees give equal texts."""
    if isinstance(node, Fork):
        lines = [f"{indent}fork"]
        for choice, body in node.bodies.items():
            lines += [f"{indent}  {choice}:", text(body, indent + "    ")]
        return "\n".join(lines)
    if isinstance(node, Parallel | Prefix):
        name = type(node).__name__.lower()
        return "\n".join([indent + name, *(text(part, indent + "  ") for part in node.parts)])
    return "\n".join(
        f"{indent}{v.name}: {', '.join(v.choices)} by the time of {v.scope}"
        for v in node.variables()
    )


def _body(choices: Choices, model: str) -> Node | None:
    """None where all is fixed."""
    parts: list[Node] = []
    kernels: list[str] = []
    least = _SHARE * sum(each.work for each in choices.kernels)
    worth = (each for each in choices.kernels if len(each.choices) > 1 and each.work >= least)
    known = {each.body: each for each in worth}
    segments = []
    for segment in choices.segments:
        own = sorted({*segment.bodies} & {*known}, key=lambda body: (-known[body].work, body))
        del own[_TOGETHER:]
        context: list[str] = []
        leaves: list[Node] = []
        for body in own:
            name = kernel_name(body, segment)
            variable = Variable(
                name,
                known[body].choices,
                segment.scope,
                tuple(context),
                role=f"kernel {body}",
            )
            leaves.append(Leaf(variable))
            context.append(name)
        kernels += context
        if leaves:
            segments.append(leaves[0] if len(leaves) == 1 else Prefix(*leaves))
    if segments:
        parts.append(segments[0] if len(segments) == 1 else Parallel(*segments))
    before = tuple(kernels)
    for name, values in ((SCHEDULE, choices.schedules), (MEMORY, choices.memories)):
        if len(values) > 1:
            parts.append(Leaf(Variable(name, values, WHOLE, before, scope_signature=model)))
            before = (*before, name)
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else Prefix(*parts)


def _fixed(fusion: str, model: str) -> Variable:
    """A branch in which nothing else can be chosen."""
    return Variable(f"nothing in {fusion}", ("",), WHOLE, scope_signature=model)
