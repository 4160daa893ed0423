"""The settings of a skill graph.

    >>> GraphSettings(candidates=20).siblings
    0
    >>> GraphSettings.ablation("B1").community_weight
    0.0

The parpo-psgm paper's values of the four weights, the number of candidates and the thresholds are not known, so the
defaults are ours. `user_weight` and `conflicts_with` were tuned on generated users, `neighbour_weight` on half of the
conversations of LoCoMo, and `owner_weight` on these and on two sets of questions about documents, other than those in
the docs' figures.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from ..errors import BadInputError

FEWEST_SHARED = 3  # minimum number of users behind a shared skill, so that it says nothing about any one of them

PATIENCE = 30.0  # seconds to wait for a server, unless a setting says otherwise

Count = Annotated[int, Field(ge=0)]
Number = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Relevance = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]


def _enough(count: int) -> int:
    if 0 < count < FEWEST_SHARED:
        raise ValueError(f"it must be 0, or {FEWEST_SHARED} or more")
    return count


class _Refusing(type):
    """Refuses invalid settings with an error of ours."""

    def __call__(cls, *args: Any, **values: Any) -> Any:
        try:
            return super().__call__(*args, **values)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            problem = f"invalid {name}: {first['input']}"
            raise BadInputError(problem, fix=f"change {name}: {first['msg'].removeprefix('Value error, ')}") from None


@dataclass(
    frozen=True,
    slots=True,
    kw_only=True,
    config=ConfigDict(use_attribute_docstrings=True, allow_inf_nan=False, extra="forbid"),
)
class GraphSettings(metaclass=_Refusing):
    """How a graph ranks, learns and stores. Each setting is declared here once: its type, bounds, default and help."""

    query_weight: float = 0.4
    """Weight of the similarity of query and skill."""
    owner_weight: float = 0.15
    """Added to the score of a skill whose owner the query names."""
    user_weight: float = 0.05
    """Weight of the similarity of user and skill. A user's vector is their profile, or the mean of their skills."""
    community_weight: float = 0.2
    """Weight of the share of community levels that user and skill have in common."""
    complement_boost: float = 0.0
    """Added to the score of a skill that complements a candidate. The paper's score has it."""
    conflict_weight: float = 0.1
    """Subtracted from the score of a skill that contradicts a candidate."""
    conflicts_with: Literal["candidates", "selected"] = "selected"
    """Which skills a conflict counts with: any candidate (as in the paper), or only those already selected."""
    neighbour_weight: float = 0.25
    """Share of the query's similarity to the skills just before and after one that is added to its own. Long texts
    get less."""
    context_weight: float = 0.15
    """Added to the score of a skill of the scenario and the tools that the caller names."""
    newest_first: bool = True
    """Whether what is newer about the same thing is recalled before what is older."""
    rating_weight: float = 0.2
    """Weight of what the user thought of answers to such questions for which a skill was shown."""
    calibrate: bool = True
    """Whether the terms of user, community and neighbours count only as far as this graph shows that they help."""
    query_similarity: Literal["hybrid", "vectors", "words"] = "hybrid"
    """How queries and skills are compared: by vectors and words together, or by one of them alone."""
    candidates: Count = 5
    """Number of skills found by each way of comparing, before the graph adds connected ones. 0 recalls nothing."""
    at_least: Relevance = 0.002
    """Minimum relevance of a skill to be recalled, from 0 to 1. 0 leaves nothing out."""
    siblings: Count = 0
    """Maximum number of other skills of a candidate's owner to consider, as in the paper. 0 turns this hop off."""
    time_hop: bool = True
    """Whether the skills just before and after a candidate are considered beside it."""

    communities: Literal["leiden", "louvain"] = "leiden"
    """Algorithm that finds the communities."""
    resolutions: Annotated[tuple[Positive, ...], Field(min_length=1)] = (0.5, 1.0, 2.0)
    """Resolution of each community level, from coarse to fine."""

    evolve: bool = True
    """Whether `learn` changes the graph."""
    learn_from: float = 0.7
    """Minimum reward of a trajectory to learn what belongs together, and what an extractor drafts beside wishes."""
    wishes_from: float | None = None
    """Minimum reward of a trajectory to learn wishes from. None: any, as failures make users say what they want."""
    newest_wins: bool = True
    """Whether a new wish replaces an older one of the same user that it rewords."""
    new_skills: Count = 3
    """Maximum number of new skills per trajectory."""
    merge_above: Share = 0.9
    """Similarity above which two skills are compared for being the same. 1 merges only equal ones."""
    share_after: Annotated[Count, AfterValidator(_enough)] = 0
    """Number of users that must have the same skill before everyone is shown it, at least 3. 0 shares nothing."""
    share_learned: bool = False
    """Whether everyone is shown what is learned from anyone's trajectories: skills, and requests with their answers."""
    profile_neighbours: Count = 10
    """Number of users with similar profiles that a user is connected to. A user without skills is counted to their
    communities. 0 for none."""
    complement_after: Count = 2
    """Number of good trajectories that must use two skills before they complement each other. 0 turns this off."""
    skills_per_owner: Number = 1000
    """Maximum number of skills per owner. Beyond it, `learn` retires the least useful."""

    in_memory_up_to: Count = 200_000
    """Number of skills up to which each process holds the graph in memory. Beyond it, a PostgreSQL server searches."""
    longest_text: Number = 1_000_000
    """Maximum number of characters of a skill, a query or a profile."""
    power_safe: bool = False
    """Whether each write waits for the disk. Without it, writes survive `kill -9`, but the last ones may be lost in a
    power failure."""
    hearing_waits: bool = True
    """Whether what `hear` writes waits for the disk of a PostgreSQL server, also where it has an id and is heard again.
    Off, it is safe where the same server notes later what was heard."""
    patience: Positive = PATIENCE
    """Maximum number of seconds that a call waits for a PostgreSQL server that restarts or has no free connection."""
    seed: int = 7
    """Random seed of the communities."""

    @classmethod
    def ablation(cls, name: str) -> GraphSettings:
        """Return the settings of the paper's method, or of one of its ablations.

        "full" is the method of the paper, the others change one thing of it. A1 recalls nothing. A2 is a flat list
        searched by similarity. B1 has no communities, B2 finds them by Louvain. B3 never learns. B4 compares words
        instead of vectors. The reference has a table of all settings beside the paper's text, and a test compares it
        with this. In every setting, communities are made of users and skills, without tools, scenarios and
        trajectories, and skills conflict only where somebody connects them.
        """
        paper = cls(
            query_similarity="vectors",
            calibrate=False,
            user_weight=0.1,
            candidates=10,
            siblings=20,
            complement_boost=0.1,
            conflicts_with="candidates",
            owner_weight=0.0,
            at_least=0.0,
            neighbour_weight=0.0,
            context_weight=0.0,
            time_hop=False,
            newest_first=False,
            rating_weight=0.0,
            wishes_from=0.7,
            share_learned=True,
            profile_neighbours=0,
        )
        changes: dict[str, dict[str, Any]] = {
            "full": {},
            "A1": {"candidates": 0},
            "A2": {
                **dict.fromkeys(("user_weight", "community_weight", "complement_boost", "conflict_weight"), 0.0),
                "siblings": 0,
            },
            "B1": {"community_weight": 0.0},
            "B2": {"communities": "louvain"},
            "B3": {"evolve": False},
            "B4": {"query_similarity": "words"},
        }
        if name not in changes:
            raise BadInputError(f'unknown ablation "{name}"', fix=f"use one of {', '.join(changes)}")
        return replace(paper, **changes[name])
