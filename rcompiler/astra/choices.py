"""Nodes of the update tree that try the choices of variables; see `tree`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from rcompiler.astra.measurements import Known
from rcompiler.astra.node import Node, Runs, noted, pinned
from rcompiler.astra.variables import Plan, Variable, mangled


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
        self._start: int | None = None  # the trial that stays if nothing is better
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
            found = known.times.trusted(self._key(plan, known))
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
            key = self._key(plan, known)
            self._ratios.append(noted(key, runs[self.scope], known))
            self.settle(plan, known)

    def fail(self, plan: Plan, known: Known, scope: str | None) -> bool:
        if self.done or scope not in (None, self.scope):
            return False
        known.times.fail(self._key(plan, known))
        self._ratios.append(math.inf)
        self.settle(plan, known)
        return True

    def reset(self) -> None:
        self.done, self._start, self._best = False, None, self._trials[0]
        self._ratios: list[float] = []  # of the trials so far

    def _key(self, plan: Plan, known: Known) -> str:
        one, trial = self._variables[0], self._trials[len(self._ratios)]
        names = [*(variable.name for variable in self._variables), *self._context]
        environment = known.beside(self.scope, names)
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
                key = self._key(self._variables[0], plan, choice, known)
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
            key = self._key(variable, plan, choice, known)
            self._ratios[choice] = noted(key, runs[variable.scope], known)
        self.settle(plan, known)

    def fail(self, plan: Plan, known: Known, scope: str | None) -> bool:
        scopes = [variable.scope for variable in self._variables]
        if self.done or scope not in (None, *scopes):
            return False
        for variable, choice in self._proposed():
            if scope in (None, variable.scope):
                known.times.fail(self._key(variable, plan, choice, known))
                self._ratios[choice] = math.inf
        self.settle(plan, known)
        return True

    def reset(self) -> None:
        self.done, self._best = False, self._choices[0]
        self._ratios: dict[str, float] = {}

    def _key(self, variable: Variable, plan: Plan, choice: str, known: Known) -> str:
        names = [variable.name, *variable.context]
        return variable.key(plan, choice, known.beside(variable.scope, names))

    def _proposed(self) -> list[tuple[Variable, str]]:
        """The choice of each scope: the next ones that are not known, again and again."""
        left = [choice for choice in self._choices if choice not in self._ratios]
        if self.done:
            left = [self._best]
        return [(variable, left[n % len(left)]) for n, variable in enumerate(self._variables)]
