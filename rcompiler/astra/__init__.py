"""Astra (ASPLOS'19): plans that are measured while they serve, and get better.

Pure Python; no clock, no machine, no IR. A compiler enumerates *adaptive variables*: legal choices,
without times. What is here wires them by times alone, and knows nothing of legality:

    variables      a variable, its choices, and the key of a measured time in its context
    tree           the order of the trials: parallel, prefix and fork of other nodes
    choices        its leaves: one variable, an exhaustive few, replicas in equal scopes
    separation     refuses trees whose times could not be told apart
    measurements   times by key, believed when two runs agree
    race           pairs of a candidate and the incumbent, and what they prove under noise
    budget         how much slower the requests may become meanwhile
    explorer       request by request: which plan is next; the final duel
    drift          a frozen plan that has become slower
    distributions  ways to deal equal rTasks out to EUs, each once
"""

from rcompiler.astra.explorer import Explorer, Sample, Settings, Step
from rcompiler.astra.measurements import Measurements
from rcompiler.astra.tree import Exhaustive, Fork, Leaf, Node, Parallel, Prefix, Replicas
from rcompiler.astra.variables import Plan, Variable

__all__ = [
    "Exhaustive",
    "Explorer",
    "Fork",
    "Leaf",
    "Measurements",
    "Node",
    "Parallel",
    "Plan",
    "Prefix",
    "Replicas",
    "Sample",
    "Settings",
    "Step",
    "Variable",
]
