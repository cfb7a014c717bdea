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
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from rcompiler.astra.measurements import Known
from rcompiler.astra.variables import Plan, Variable, mangled

Runs = Mapping[str, Sequence[float]]  # scope -> runs, apart in time


class Node(ABC):
    """A part of the tree. Nothing of it is shared with another tree."""

    done: bool = False

    @property
    @abstractmethod
    def hopeless(self) -> bool:
        """Whether everything that was tried in some part of it has failed."""

    @abstractmethod
    def variables(self) -> Iterator[Variable]:
        """All of its variables."""

    @abstractmethod
    def names(self, plan: Plan) -> Iterator[str]:
        """Of its variables, in the branches that this plan takes."""

    @abstractmethod
    def trials(self) -> int:
        """How many there are where nothing is known."""

    @abstractmethod
    def judged(self) -> set[str]:
        """The scopes whose times judge the next trial."""

    @abstractmethod
    def default(self, plan: Plan) -> None:
        """Write the first choice of each variable that the plan lacks."""

    @abstractmethod
    def settle(self, plan: Plan, known: Known) -> None:
        """Pass over what is known under this plan; write what is pinned."""

    @abstractmethod
    def propose(self, plan: Plan) -> None:
        """Write the next trial; of a node that is done, what is pinned."""

    @abstractmethod
    def observe(self, plan: Plan, runs: Runs, known: Known) -> None:
        """Note the times of the trial that was proposed."""

    @abstractmethod
    def fail(self, plan: Plan, known: Known, scope: str | None) -> bool:
        """The trial failed in a scope, None for an unknown one: its choices are dropped.

        Returns:
            Whether there were any.
        """

    @abstractmethod
    def reset(self) -> None:
        """Begin anew; what was measured is found again."""


class Exhaustive(Node):
    """All combinations of some variables, which share a scope."""

    def __init__(self, *variables: Variable) -> None:
        scopes = {(variable.scope, variable.scope_signature) for variable in variables}
        if len(scopes) != 1:
            raise ValueError("variables of an exhaustive node have one scope")
        names = [variable.name for variable in variables]
        if len({*names}) != len(names):
            raise ValueError("variables of an exhaustive node have different names")
        self._variables = variables
        outside = (name for v in variables for name in v.context if name not in names)
        self._context = tuple(dict.fromkeys(outside))
        self._trials = [*product(*(variable.choices for variable in variables))]
        self.reset()

    @property
    def scope(self) -> str:
        """Whose time judges it."""
        return self._variables[0].scope

    @property
    def hopeless(self) -> bool:
        return self.done and min(self._ratios) == math.inf

    def variables(self) -> Iterator[Variable]:
        return iter(self._variables)

    def names(self, plan: Plan) -> Iterator[str]:
        return (variable.name for variable in self._variables)

    def trials(self) -> int:
        return len(self._trials)

    def judged(self) -> set[str]:
        return set() if self.done else {self.scope}

    def default(self, plan: Plan) -> None:
        for variable in self._variables:
            plan.setdefault(variable.name, variable.choices[0])

    def settle(self, plan: Plan, known: Known) -> None:
        if self._start is None:  # of a second sweep it is what the first one has pinned
            now = tuple(plan.get(variable.name, "") for variable in self._variables)
            self._start = self._trials.index(now) if now in self._trials else 0
        while not self.done:
            if len(self._ratios) == len(self._trials):
                self._best = self._trials[pinned(self._ratios, self._start, known.margin)]
                self.done = True
                break
            found = known.times.trusted(self._key(plan, known.environment))
            if found is None:
                break
            self._ratios.append(found)
        if self.done:
            self.propose(plan)

    def propose(self, plan: Plan) -> None:
        choices = self._best if self.done else self._trials[len(self._ratios)]
        for variable, choice in zip(self._variables, choices, strict=True):
            plan[variable.name] = choice

    def observe(self, plan: Plan, runs: Runs, known: Known) -> None:
        if not self.done:
            key = self._key(plan, known.environment)
            self._ratios.append(noted(key, runs[self.scope], known))
            self.settle(plan, known)

    def fail(self, plan: Plan, known: Known, scope: str | None) -> bool:
        if self.done or scope not in (None, self.scope):
            return False
        known.times.fail(self._key(plan, known.environment))
        self._ratios.append(math.inf)
        self.settle(plan, known)
        return True

    def reset(self) -> None:
        self.done, self._start, self._best = False, None, self._trials[0]
        self._ratios: list[float] = []  # of the trials so far

    _start: int | None

    def _key(self, plan: Plan, environment: str) -> str:
        one, trial = self._variables[0], self._trials[len(self._ratios)]
        if len(self._variables) == 1:
            return one.key(plan, trial[0], environment)
        roles = [variable.role or variable.name for variable in self._variables]
        context = [plan[name] for name in self._context]
        signature = one.scope_signature or one.scope
        return mangled([environment, signature, *roles, *trial, *context])


class Leaf(Exhaustive):
    """One variable: each of its choices once."""

    def __init__(self, variable: Variable) -> None:
        super().__init__(variable)


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


class Replicas(Node):
    """One variable in several equal scopes (the layers of a network): each trial gives them
    different choices, and all share what is pinned."""

    def __init__(self, *variables: Variable) -> None:
        first = variables[0]
        alike = {(v.role or v.name, v.scope_signature or v.scope, v.choices) for v in variables}
        scopes = {variable.scope for variable in variables}
        if len(alike) != 1 or len(scopes) != len(variables):
            raise ValueError(f"'{first.name}' and its replicas are not equal, or share a scope")
        self._variables, self._choices = variables, first.choices
        self.reset()

    @property
    def hopeless(self) -> bool:
        return self.done and min(self._ratios.values()) == math.inf

    def variables(self) -> Iterator[Variable]:
        return iter(self._variables)

    def names(self, plan: Plan) -> Iterator[str]:
        return (variable.name for variable in self._variables)

    def trials(self) -> int:
        return -(-len(self._choices) // len(self._variables))

    def judged(self) -> set[str]:
        return set() if self.done else {variable.scope for variable in self._variables}

    def default(self, plan: Plan) -> None:
        for variable in self._variables:
            plan.setdefault(variable.name, variable.choices[0])

    def settle(self, plan: Plan, known: Known) -> None:
        if not self.done:
            for choice in self._choices:
                key = self._variables[0].key(plan, choice, known.environment)
                found = known.times.trusted(key)
                if found is not None:
                    self._ratios[choice] = found
            if len(self._ratios) == len(self._choices):
                ratios = [self._ratios[choice] for choice in self._choices]
                self._best, self.done = self._choices[pinned(ratios, 0, known.margin)], True
        if self.done:
            self.propose(plan)

    def propose(self, plan: Plan) -> None:
        for variable, choice in self._proposed():
            plan[variable.name] = choice

    def observe(self, plan: Plan, runs: Runs, known: Known) -> None:
        if self.done:
            return
        for variable, choice in self._proposed():
            key = variable.key(plan, choice, known.environment)
            self._ratios[choice] = noted(key, runs[variable.scope], known)
        self.settle(plan, known)

    def fail(self, plan: Plan, known: Known, scope: str | None) -> bool:
        scopes = [variable.scope for variable in self._variables]
        if self.done or scope not in (None, *scopes):
            return False
        for variable, choice in self._proposed():
            if scope in (None, variable.scope):
                known.times.fail(variable.key(plan, choice, known.environment))
                self._ratios[choice] = math.inf
        self.settle(plan, known)
        return True

    def reset(self) -> None:
        self.done, self._best = False, self._choices[0]
        self._ratios: dict[str, float] = {}

    def _proposed(self) -> list[tuple[Variable, str]]:
        """The choice of each scope: the next ones that are not known, again and again."""
        left = [choice for choice in self._choices if choice not in self._ratios]
        if self.done:
            left = [self._best]
        return [(variable, left[n % len(left)]) for n, variable in enumerate(self._variables)]


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
            found = known.times.trusted(self._key(plan, known.environment))
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
            key = self._key(plan, known.environment)
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
            known.times.fail(self._key(plan, known.environment))
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

    def _key(self, plan: Plan, environment: str) -> str:
        """Of the finished plan: what its body has pinned is a part of it."""
        own = self._head.key(plan, self._choice, environment)
        return mangled([own, *(plan[name] for name in dict.fromkeys(self._body.names(plan)))])


def noted(key: str, runs: Sequence[float], known: Known) -> float:
    """Note runs; the time that counts now. Runs that disagree prove nothing better than the worst
    of them; another tree will try it again."""
    known.times.add(key, runs)
    found = known.times.trusted(key)
    return max(runs) if found is None else found


def pinned(ratios: Sequence[float], start: int, margin: float) -> int:
    """The least; `start` where nothing is better than it by the margin."""
    best = min(range(len(ratios)), key=ratios.__getitem__)
    return best if ratios[best] < (1 - margin) * ratios[start] else start
