"""The update tree (Astra §4.4): in which order choices are tried, and which trials share a request.

A trial is a plan that is run: `propose` writes it, `observe` takes the times of its scopes. Between
two trials `settle` passes over everything that is known already, and writes into the plan what is
pinned: a later variable reads its context there, and under an old context it would find times of
another plan. A node is `done` when all its variables are pinned.

    Parallel     its parts at once, each judged by its own scopes: trials of the longest part
    Prefix       one part after the other, each under what was pinned before: their sum
    Exhaustive   all combinations of a few variables with one scope: their product
    Fork         all of a body under each choice of a head, then the finished plans: sum + heads
    Replicas     one variable of equal scopes, which try different choices: choices / scopes
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from rcompiler.astra.choices import Exhaustive, Leaf, Replicas
from rcompiler.astra.measurements import Known
from rcompiler.astra.node import Node, Runs, noted, pinned
from rcompiler.astra.variables import Plan, Variable, mangled

__all__ = ["Exhaustive", "Fork", "Leaf", "Node", "Parallel", "Prefix", "Replicas"]


class _Inner(Node):
    """Has parts."""

    def __init__(self, *parts: Node) -> None:
        if not parts:
            raise ValueError("a node without parts")
        self._parts = parts

    @property
    def parts(self) -> tuple[Node, ...]:
        """In their order."""
        return self._parts

    @property
    def hopeless(self) -> bool:
        return any(part.hopeless for part in self._parts)

    def variables(self) -> Iterator[Variable]:
        for part in self._parts:
            yield from part.variables()

    def names(self, plan: Plan) -> Iterator[str]:
        for part in self._parts:
            yield from part.names(plan)

    def default(self, plan: Plan) -> None:
        for part in self._parts:
            part.default(plan)

    def reset(self) -> None:
        self.done = False
        for part in self._parts:
            part.reset()


class Parallel(_Inner):
    """Parts whose times do not touch one another: segments with a barrier between them."""

    def trials(self) -> int:
        return max(part.trials() for part in self._parts)

    def judged(self) -> set[str]:
        return {scope for part in self._parts for scope in part.judged()}

    def settle(self, plan: Plan, known: Known) -> None:
        for part in self._parts:
            part.settle(plan, known)
        self.done = all(part.done for part in self._parts)

    def propose(self, plan: Plan) -> None:
        for part in self._parts:
            part.propose(plan)

    def observe(self, plan: Plan, runs: Runs, known: Known) -> None:
        for part in self._parts:
            part.observe(plan, runs, known)
        self.done = all(part.done for part in self._parts)

    def fail(self, plan: Plan, known: Known, scope: str | None) -> bool:
        dropped = [part.fail(plan, known, scope) for part in self._parts]
        self.done = all(part.done for part in self._parts)
        return any(dropped)


class Prefix(_Inner):
    """Parts one after the other; later ones are at their first choices until it is their turn.

    A variable may come twice: the second sweep begins with what the first one found, and its
    context is what has been pinned since.
    """

    def trials(self) -> int:
        return sum(part.trials() for part in self._parts)

    def judged(self) -> set[str]:
        return next((part.judged() for part in self._parts if not part.done), set())

    def settle(self, plan: Plan, known: Known) -> None:
        self.done = True
        for part in self._parts:
            self.default(plan)  # what a fork before it has removed with another branch
            part.settle(plan, known)  # writes its pins before the next one reads them
            if not part.done:
                self.done = False
                break
        self.default(plan)

    def propose(self, plan: Plan) -> None:
        for part in self._parts:
            self.default(plan)
            part.propose(plan)
            if not part.done:
                break
        self.default(plan)

    def observe(self, plan: Plan, runs: Runs, known: Known) -> None:
        for part in self._parts:
            if not part.done:
                part.observe(plan, runs, known)
                break
        self.settle(plan, known)

    def fail(self, plan: Plan, known: Known, scope: str | None) -> bool:
        waiting = (part for part in self._parts if not part.done)
        dropped = next((part.fail(plan, known, scope) for part in waiting), False)
        self.settle(plan, known)
        return dropped


class Fork(Node):
    """Under each choice of a head a tree of its own; then the finished plans beside one another.

    The head is judged by the time of its scope, the whole model, under the best of its body.
    """

    def __init__(self, head: Variable, bodies: Mapping[str, Node]) -> None:
        if {*bodies} != {*head.choices}:
            raise ValueError(f"variable '{head.name}': not one body for each of its choices")
        self._head, self._bodies = head, {choice: bodies[choice] for choice in head.choices}
        self.reset()

    @property
    def bodies(self) -> Mapping[str, Node]:
        """By choice of the head."""
        return self._bodies

    @property
    def hopeless(self) -> bool:
        return self.done and min(self._ratios) == math.inf

    def variables(self) -> Iterator[Variable]:
        yield self._head
        for body in self._bodies.values():
            yield from body.variables()

    def names(self, plan: Plan) -> Iterator[str]:
        yield self._head.name
        yield from self._bodies[plan[self._head.name]].names(plan)

    def trials(self) -> int:
        return sum(body.trials() + 1 for body in self._bodies.values())

    def judged(self) -> set[str]:
        if self.done:
            return set()
        return {self._head.scope} if self._body.done else self._body.judged()

    def default(self, plan: Plan) -> None:
        choice = plan.setdefault(self._head.name, self._head.choices[0])
        self._bodies[choice].default(plan)

    def settle(self, plan: Plan, known: Known) -> None:
        while not self.done:
            if len(self._ratios) == len(self._head.choices):
                best = pinned(self._ratios, 0, known.margin)
                self._best, self.done = self._head.choices[best], True
                break
            self._take(plan, self._choice)
            self._body.settle(plan, known)
            if not self._body.done:
                return
            found = known.times.trusted(self._key(plan, known))
            if self._body.hopeless:
                found = math.inf
            if found is None:
                return
            self._ratios.append(found)
        if self.done:
            self.propose(plan)

    def propose(self, plan: Plan) -> None:
        choice = self._best if self.done else self._choice
        self._take(plan, choice)
        self._bodies[choice].propose(plan)

    def observe(self, plan: Plan, runs: Runs, known: Known) -> None:
        if self.done:
            return
        if self._body.done:
            key = self._key(plan, known)
            self._ratios.append(noted(key, runs[self._head.scope], known))
        else:
            self._body.observe(plan, runs, known)
        self.settle(plan, known)

    def fail(self, plan: Plan, known: Known, scope: str | None) -> bool:
        if self.done:
            return False
        dropped = scope in (None, self._head.scope)
        if not self._body.done:
            dropped = self._body.fail(plan, known, scope)
        elif dropped:
            known.times.fail(self._key(plan, known))
            self._ratios.append(math.inf)
        self.settle(plan, known)
        return dropped

    def reset(self) -> None:
        self.done, self._best = False, self._head.choices[0]
        self._ratios: list[float] = []  # of the choices so far
        for body in self._bodies.values():
            body.reset()

    @property
    def _choice(self) -> str:
        return self._head.choices[len(self._ratios)]

    @property
    def _body(self) -> Node:
        return self._bodies[self._choice]

    def _take(self, plan: Plan, choice: str) -> None:
        """Go into a branch: what another one has written leaves the plan."""
        if plan.get(self._head.name) != choice:
            for body in self._bodies.values():
                for variable in body.variables():
                    plan.pop(variable.name, None)
        plan[self._head.name] = choice
        self._bodies[choice].default(plan)

    def _key(self, plan: Plan, known: Known) -> str:
        """Of the finished plan: what its body has pinned is a part of it."""
        names = [self._head.name, *self._head.context]
        own = self._head.key(plan, self._choice, known.beside(self._head.scope, names))
        return mangled([own, *(plan[name] for name in dict.fromkeys(self._body.names(plan)))])
