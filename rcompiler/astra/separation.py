"""Which trees are none: where one request tries several things, each has a time of its own."""

from collections.abc import Iterator

from rcompiler.astra.tree import Fork, Node, Parallel, Prefix
from rcompiler.astra.variables import WHOLE


def check_separation(tree: Node) -> None:
    """Check that trials that share a request cannot disturb one another.

    Parts of a parallel node are judged by different scopes, and none is the context of another: ops
    of one wave share EUs and memory, so the time of each depends on what the others have chosen
    (tried at once, as if it did not, they end 1.12 to 1.33 times as slow as the best plan, and
    slower than by Rammer's rule without any trial: the notes to Astra §3 E3).

    Raises:
        ValueError: naming the two variables.
    """
    for node in _nodes(tree):
        if not isinstance(node, Parallel) or len(node.parts) == 1:
            continue
        owners: dict[str, int] = {}
        scopes: dict[str, tuple[int, str]] = {}
        for number, part in enumerate(node.parts):
            for variable in part.variables():
                other = owners.setdefault(variable.name, number)
                if other != number:
                    raise ValueError(f"variable '{variable.name}' is in two parallel parts")
                if variable.scope == WHOLE:
                    raise ValueError(
                        f"variable '{variable.name}' is judged by the time of the whole model, in "
                        "which other parallel parts are, too"
                    )
                owner, name = scopes.setdefault(variable.scope, (number, variable.name))
                if owner != number:
                    raise ValueError(
                        f"variables '{name}' and '{variable.name}' are tried in parallel, and "
                        f"judged by one scope, '{variable.scope}'; make them a prefix"
                    )
        for number, part in enumerate(node.parts):
            for variable in part.variables():
                for name in variable.context:
                    if owners.get(name, number) != number:
                        raise ValueError(
                            f"the time of variable '{variable.name}' depends on '{name}', which "
                            "is tried in parallel with it; make them a prefix"
                        )


def _nodes(tree: Node) -> Iterator[Node]:
    yield tree
    parts: tuple[Node, ...] = ()
    if isinstance(tree, Parallel | Prefix):
        parts = tree.parts
    elif isinstance(tree, Fork):
        parts = (*tree.bodies.values(),)
    for part in parts:
        yield from _nodes(part)
