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

from rcompiler.astra.measurements import Measurements
from rcompiler.astra.variables import Plan, Variable, mangled

Runs = Mapping[str, Sequence[float]]  # scope -> ns of runs, apart in time


class Node(ABC):
    """A part of the tree. Nothing of it is shared with another tree."""

    done: bool = False

    @abstractmethod
    def variables(self) -> Iterator[Variable]:
        """All of its variables."""

    @abstractmethod
    def trials(self) -> int:
        """How many there are where nothing is known."""

    @abstractmethod
    def default(self, plan: Plan) -> None:
        """Write the first choice of each variable that the plan lacks."""

    @abstractmethod
    def settle(self, plan: Plan, times: Measurements, environment: str) -> None:
        """Pass over what is known under this plan; write what is pinned."""

    @abstractmethod
    def propose(self, plan: Plan) -> None:
        """Write the next trial; of a node that is done, what is pinned."""

    @abstractmethod
    def observe(self, plan: Plan, runs: Runs, times: Measurements, environment: str) -> None:
        """Note the times of the trial that was proposed."""

    @abstractmethod
    def fail(self, plan: Plan, times: Measurements, environment: str, scope: str | None) -> None:
        """The trial failed in a scope, None for an unknown one: its choices are dropped."""

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
        inside = {*names}
        self._context = tuple(
            dict.fromkeys(n for v in variables for n in v.context if n not in inside)
        )
        self._trials = [*product(*(variable.choices for variable in variables))]
        self.reset()

    @property
    def scope(self) -> str:
        """Whose time judges it."""
        return self._variables[0].scope

    def variables(self) -> Iterator[Variable]:
        return iter(self._variables)

    def trials(self) -> int:
        return len(self._trials)

    def default(self, plan: Plan) -> None:
        for variable in self._variables:
            plan.setdefault(variable.name, variable.choices[0])

    def settle(self, plan: Plan, times: Measurements, environment: str) -> None:
        while not self.done:
            if self._at == len(self._trials):
                self._pin()
                break
            found = times.trusted(self._key(plan, environment))
            if found is None:
                break
            self._found(found)
        if self.done:
            self.propose(plan)

    def propose(self, plan: Plan) -> None:
        choices = self._best if self.done else self._trials[self._at]
        for variable, choice in zip(self._variables, choices, strict=True):
            plan[variable.name] = choice

    def observe(self, plan: Plan, runs: Runs, times: Measurements, environment: str) -> None:
        if self.done:
            return
        key = self._key(plan, environment)
        times.add(key, runs[self.scope])
        found = times.trusted(key)
        # runs that disagree are no proof of anything better; another tree will try it again
        self._found(max(runs[self.scope]) if found is None else found)
        self.settle(plan, times, environment)

    def fail(self, plan: Plan, times: Measurements, environment: str, scope: str | None) -> None:
        if self.done or scope not in (None, self.scope):
            return
        times.fail(self._key(plan, environment))
        self._found(math.inf)
        self.settle(plan, times, environment)

    def reset(self) -> None:
        self.done, self._at = False, 0
        self._ns: list[float] = []
        self._best = self._trials[0]

    def _key(self, plan: Plan, environment: str) -> str:
        one = self._variables[0]
        if len(self._variables) == 1:
            return one.key(plan, self._trials[self._at][0], environment)
        roles = [variable.role or variable.name for variable in self._variables]
        context = [plan[name] for name in self._context]
        signature = one.scope_signature or one.scope
        return mangled([environment, signature, *roles, *self._trials[self._at], *context])

    def _found(self, ns: float) -> None:
        self._ns.append(ns)
        self._at += 1

    def _pin(self) -> None:
        self._best = self._trials[self._ns.index(min(self._ns))]  # the first of equal ones
        self.done = True


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

    def variables(self) -> Iterator[Variable]:
        for part in self._parts:
            yield from part.variables()

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

    def settle(self, plan: Plan, times: Measurements, environment: str) -> None:
        for part in self._parts:
            part.settle(plan, times, environment)
        self.done = all(part.done for part in self._parts)

    def propose(self, plan: Plan) -> None:
        for part in self._parts:
            part.propose(plan)

    def observe(self, plan: Plan, runs: Runs, times: Measurements, environment: str) -> None:
        for part in self._parts:
            part.observe(plan, runs, times, environment)
        self.done = all(part.done for part in self._parts)

    def fail(self, plan: Plan, times: Measurements, environment: str, scope: str | None) -> None:
        for part in self._parts:
            part.fail(plan, times, environment, scope)
        self.done = all(part.done for part in self._parts)


class Prefix(_Inner):
    """Parts one after the other; later ones are at their first choices until it is their turn.

    A variable may come twice: the second sweep begins with what the first one found, and its
    context is what has been pinned since.
    """

    def trials(self) -> int:
        return sum(part.trials() for part in self._parts)

    def settle(self, plan: Plan, times: Measurements, environment: str) -> None:
        for part in self._parts:
            part.default(plan)
        for part in self._parts:
            part.settle(plan, times, environment)  # writes its pins before the next one reads them
            if not part.done:
                return
        self.done = True

    def propose(self, plan: Plan) -> None:
        for part in self._parts:
            part.default(plan)
        for part in self._parts:
            part.propose(plan)
            if not part.done:
                return

    def observe(self, plan: Plan, runs: Runs, times: Measurements, environment: str) -> None:
        for part in self._parts:
            if not part.done:
                part.observe(plan, runs, times, environment)
                break
        self.settle(plan, times, environment)

    def fail(self, plan: Plan, times: Measurements, environment: str, scope: str | None) -> None:
        for part in self._parts:
            if not part.done:
                part.fail(plan, times, environment, scope)
                break
        self.settle(plan, times, environment)


class Replicas(Node):
    """One variable in several equal scopes (the layers of a network): each trial gives them
    different choices, and all share what is pinned."""

    def __init__(self, *variables: Variable) -> None:
        first = variables[0]
        alike = {(v.role or v.name, v.scope_signature or v.scope, v.choices) for v in variables}
        scopes = {variable.scope for variable in variables}
        if len(alike) != 1 or len(scopes) != len(variables):
            raise ValueError(f"'{first.name}' and its replicas are not equal, or share a scope")
        self._variables = variables
        self.reset()

    def variables(self) -> Iterator[Variable]:
        return iter(self._variables)

    def trials(self) -> int:
        return -(-len(self._variables[0].choices) // len(self._variables))

    def default(self, plan: Plan) -> None:
        for variable in self._variables:
            plan.setdefault(variable.name, variable.choices[0])

    def settle(self, plan: Plan, times: Measurements, environment: str) -> None:
        if not self.done:
            for choice in self._variables[0].choices:
                found = times.trusted(self._variables[0].key(plan, choice, environment))
                if found is not None:
                    self._ns[choice] = found
            self.done = len(self._ns) == len(self._variables[0].choices)
        if self.done:
            self.propose(plan)

    def propose(self, plan: Plan) -> None:
        for variable, choice in zip(self._variables, self._proposed(), strict=True):
            plan[variable.name] = choice

    def observe(self, plan: Plan, runs: Runs, times: Measurements, environment: str) -> None:
        if self.done:
            return
        for variable, choice in zip(self._variables, self._proposed(), strict=True):
            key = variable.key(plan, choice, environment)
            times.add(key, runs[variable.scope])
            found = times.trusted(key)
            self._ns[choice] = max(runs[variable.scope]) if found is None else found
        self.settle(plan, times, environment)

    def fail(self, plan: Plan, times: Measurements, environment: str, scope: str | None) -> None:
        if self.done:
            return
        for variable, choice in zip(self._variables, self._proposed(), strict=True):
            if scope in (None, variable.scope):
                times.fail(variable.key(plan, choice, environment))
                self._ns[choice] = math.inf
        self.settle(plan, times, environment)

    def reset(self) -> None:
        self.done = False
        self._ns: dict[str, float] = {}

    def _proposed(self) -> list[str]:
        """The choice of each scope: the next ones that are not known, again and again."""
        choices = self._variables[0].choices
        if self.done:
            best = min(choices, key=lambda choice: self._ns[choice])
            return [best] * len(self._variables)
        left = [choice for choice in choices if choice not in self._ns]
        return [left[number % len(left)] for number in range(len(self._variables))]


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
    def head(self) -> Variable:
        """What decides which body there is."""
        return self._head

    @property
    def bodies(self) -> Mapping[str, Node]:
        """By choice of the head."""
        return self._bodies

    def variables(self) -> Iterator[Variable]:
        yield self._head
        for body in self._bodies.values():
            yield from body.variables()

    def trials(self) -> int:
        return sum(body.trials() + 1 for body in self._bodies.values())

    def default(self, plan: Plan) -> None:
        plan.setdefault(self._head.name, self._head.choices[0])
        self._bodies[self._head.choices[0]].default(plan)

    def settle(self, plan: Plan, times: Measurements, environment: str) -> None:
        while not self.done:
            if self._at == len(self._head.choices):
                self.done = True
                break
            self._write(plan, self._choice)
            body = self._bodies[self._choice]
            body.settle(plan, times, environment)
            if not body.done:
                return
            found = times.trusted(self._key(plan, environment))
            if found is None:
                return
            self._found(found)
        if self.done:
            self.propose(plan)

    def propose(self, plan: Plan) -> None:
        choice = self._best if self.done else self._choice
        self._write(plan, choice)
        self._bodies[choice].propose(plan)

    def observe(self, plan: Plan, runs: Runs, times: Measurements, environment: str) -> None:
        if self.done:
            return
        body = self._bodies[self._choice]
        if body.done:
            key = self._key(plan, environment)
            times.add(key, runs[self._head.scope])
            found = times.trusted(key)
            self._found(max(runs[self._head.scope]) if found is None else found)
        else:
            body.observe(plan, runs, times, environment)
        self.settle(plan, times, environment)

    def fail(self, plan: Plan, times: Measurements, environment: str, scope: str | None) -> None:
        if self.done:
            return
        body = self._bodies[self._choice]
        if body.done:
            times.fail(self._key(plan, environment))
            self._found(math.inf)
        else:
            body.fail(plan, times, environment, scope)
        self.settle(plan, times, environment)

    def reset(self) -> None:
        self.done, self._at = False, 0
        self._ns: list[float] = []
        for body in self._bodies.values():
            body.reset()

    @property
    def _choice(self) -> str:
        return self._head.choices[self._at]

    @property
    def _best(self) -> str:
        return self._head.choices[self._ns.index(min(self._ns))]

    def _write(self, plan: Plan, choice: str) -> None:
        """The head, and nothing that another body has written."""
        if plan.get(self._head.name) != choice:
            for body in self._bodies.values():
                for variable in body.variables():
                    plan.pop(variable.name, None)
        plan[self._head.name] = choice
        self._bodies[choice].default(plan)

    def _key(self, plan: Plan, environment: str) -> str:
        """Of the finished plan: what its body has pinned is a part of it."""
        body = dict.fromkeys(v.name for v in self._bodies[self._choice].variables())
        own = self._head.key(plan, self._choice, environment)
        return mangled([own, *(plan[name] for name in body if name in plan)])

    def _found(self, ns: float) -> None:
        self._ns.append(ns)
        self._at += 1
