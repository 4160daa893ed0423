"""Action dependency alignment (AD): do predictions follow one another as the domain's workflows do?

How likely one action follows another is counted in the workflows, smoothed over all actions of the catalog (equations
13 and 14). AD sums over all actions of the previous prediction, as printed, and can exceed 1; `ad_mean` divides by
their number. Both are undefined where either prediction is empty.

    >>> dependencies = Dependencies([["look-up", "refund"], ["look-up", "refund"], ["look-up", "reship"]])
    >>> round(dependencies.probability("look-up", "refund"), 3)
    0.667
    >>> round(dependencies.alignment(["look-up"], ["refund", "reship"]), 3)
    0.5
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Self

from agentfw_papers.timing.catalog import Catalog
from agentfw_rewardmodels import BadInputError

EPSILON = 1e-7


class Dependencies:
    """Transition probabilities between the actions of a domain."""

    def __init__(self, workflows: Iterable[Sequence[str]], actions: Iterable[str] = ()) -> None:
        """Count the transitions. `actions` are those that no workflow has."""
        workflows = [tuple(workflow) for workflow in workflows]
        self.actions = frozenset(actions).union(*workflows)
        if not self.actions:
            raise BadInputError("there is no action to count transitions of", fix="give workflows, or actions")
        self.transitions = Counter(pair for workflow in workflows for pair in pairwise(workflow))
        self._outgoing = Counter[str]()
        for (before, _), count in self.transitions.items():
            self._outgoing[before] += count

    @classmethod
    def of(cls, catalog: Catalog) -> Self:
        return cls((one.actions for one in catalog.workflows), (one.name for one in catalog.actions))

    def probability(self, before: str, after: str) -> float:
        """How likely `after` is the action that follows `before`; 0 for an action that the domain doesn't have."""
        if before not in self.actions or after not in self.actions:
            return 0.0
        return (self.transitions[before, after] + EPSILON) / (self._outgoing[before] + EPSILON * len(self.actions))

    def alignment(self, before: Sequence[str], after: Sequence[str]) -> float | None:
        """AD of a prediction, given the one before it."""
        if not before or not after:
            return None
        return sum(self.probability(first, second) for second in after for first in before) / len(after)
