"""What a store offers whose database can search, so that no process has to hold the whole of a large graph.

Shared skills are searched by an index, and what a user has in private is read as a whole: it is little. So what a user
may not see is never looked at, and neither is what a filter leaves out. Answers are as of the moment, without a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from agentfw_memory.graph.arrays import Float32Array, Floats, Integers
from agentfw_memory.graph.records import Use

Nearest = tuple[Integers, Floats]
"""Skills with their similarities, the most similar first."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """How many texts there are and how many different terms they have, each text counted for itself."""

    count: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True)
class Sought:
    """What skills are searched for with."""

    reader: int | None
    vector: Float32Array | None
    nearest: int
    """Number of shared skills to find by their vectors."""
    terms: Sequence[str]
    """The words, of which the skills with each are found: shared ones with a seldom word, private ones with any."""
    seldom: Sequence[str]
    holders: int
    """Maximum number of shared skills to find with each seldom word."""
    together: Sequence[str]
    """Common words, of which the shared skills with all of them are found."""
    most_together: int
    among: int | None
    """Number of first skills among which these are looked for, or None for all of them."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """What the metadata of a skill must be. See metadata_filter.py."""


@dataclass(frozen=True, slots=True)
class Proposals:
    """What was found, and what is needed to weigh it."""

    person: Float32Array | None
    """The vector of the reader's profile, or the mean of their skills."""
    described: bool
    """Whether it is a profile's."""
    shared: Nearest
    own: Nearest
    """All private skills of the reader."""
    holders: Mapping[str, list[int]]
    together: Sequence[int]
    own_holders: Mapping[str, list[int]]
    own_corpus: Corpus
    """The texts of all private skills of the reader."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What is true of all skills."""

    corpus: Corpus
    """The texts of all shared skills."""
    common: dict[str, int]
    """How many of them have each common word."""
    sample: list[int]
    """Shared skills, drawn from all of them."""
    uses: list[Use]
    """The latest uses, oldest first."""


class DatabaseSearch(Protocol):
    """Searches the skills of one tenant."""

    def propose(self, sought: Sought) -> Proposals:
        """Search by vectors and words."""

    def connected(
        self, numbers: Sequence[int], reader: int | None, *, seconds: float, siblings: int
    ) -> tuple[list[int], list[int]]:
        """Return the visible skills just before and after each of these, at most so many seconds away, and so many of
        the most useful skills of each one's owner."""

    def similar_in(self, scenarios: Sequence[int], query: Float32Array, k: int, reader: int | None) -> list[int]:
        """Return the skills of these scenarios with the most similar vectors: visible ones, or anyone's private ones.

        Without scenarios, all skills are looked at.
        """

    def person(self, user: int) -> tuple[Float32Array | None, bool]:
        """Return the vector of a user's profile, or the mean of their skills, or None, and whether it is a profile."""

    def summary(self, *, common: int, sample: int, uses: int) -> Summary:
        """Describe the whole graph. A word is common if more than so many shared skills have it."""

    def build(self, dimensions: int, progress: Callable[[str], object]) -> None:
        """Create the indexes that aren't there. Takes minutes for a million skills, during which others go on."""


NOTHING: Nearest = np.zeros(0, np.int64), np.zeros(0)
