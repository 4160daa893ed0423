"""Cases: what was asked, what was answered, and what came of it, to be shown to a policy as demonstrations.

A pretrained model can't make much of "prefers X", but it copies well. A case is a skill whose text is the request, so
that it is found as skills are. The answer and the verdict are its metadata. Other recalls leave cases out. A secret
never becomes part of a case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentfw_memory.graph.learning.extraction import Trajectory
from agentfw_memory.graph.records import Hit, NewSkill
from agentfw_memory.writing.secrets import has_secret

CASES: Mapping[str, Any] = {"case": {"$exists": True}}
"""The filter by which cases are recalled."""
GOOD = 0.5
"""Verdict from which on an answer is shown as one to copy."""
LETTERS = 4
"""Characters of a token, where nothing counts tokens."""


@dataclass(frozen=True, slots=True)
class Case:
    """One request with its answer."""

    id: str
    request: str
    answer: str
    verdict: float
    """What came of the answer: from 0 (bad) to 1 (good)."""
    owner: str
    score: float = 0.0

    @property
    def good(self) -> bool:
        return self.verdict >= GOOD


def case_of(trajectory: Trajectory, reward: float, *, shared: bool) -> list[NewSkill]:
    """Return the case of a trajectory, and that of a correction, as skills. Without an answer there are none."""
    answers = {trajectory.answer: reward, trajectory.corrected: 1.0}
    return [
        NewSkill(
            trajectory.user,
            trajectory.query,
            scenarios=trajectory.scenarios,
            visibility="shared" if shared else "private",
            metadata={"case": {"answer": answer, "verdict": min(max(verdict, 0.0), 1.0)}},
        )
        for answer, verdict in answers.items()
        if answer.strip() and trajectory.query.strip() and not has_secret(f"{trajectory.query}\n{answer}")
    ]


def chosen_cases(
    hits: Iterable[Hit], k: int, tokens: int, count: Callable[[str], int] | None, *, bad: bool
) -> list[Case]:
    """Return the k best cases that fit a budget of tokens, the best last. Bad ones only where they are asked for.

    Of several cases of one request and owner the newest says how it is answered now.
    """
    counted = count or (lambda text: len(text) // LETTERS + 1)
    newest: dict[tuple[str, str, bool], Hit] = {}
    for hit in hits:
        key = hit.skill.owner, hit.skill.text, hit.skill.metadata["case"]["verdict"] >= GOOD
        if key not in newest or hit.skill.recorded_at > newest[key].skill.recorded_at:
            newest[key] = hit
    found: list[Case] = []
    for hit in newest.values():
        case = hit.skill.metadata["case"]
        one = Case(hit.skill.id, hit.skill.text, case["answer"], case["verdict"], hit.skill.owner, hit.score)
        needed = counted(as_text([one]))
        if (one.good or bad) and len(found) < k and needed <= tokens:
            tokens -= needed
            found.append(one)
    return found[::-1]


def as_messages(cases: Sequence[Case]) -> list[dict[str, str]]:
    """Return good cases as turns of a conversation before the request. What a model has said itself it says again, so
    bad answers are left out."""
    return [
        {"role": role, "content": content}
        for case in cases
        if case.good
        for role, content in (("user", case.request), ("assistant", case.answer))
    ]


def as_text(cases: Sequence[Case]) -> str:
    """Return cases as text before a prompt."""
    return "\n\n".join(
        f"Request: {case.request}\n{'Answer' if case.good else 'Not this answer'}: {case.answer}" for case in cases
    )
