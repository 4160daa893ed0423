"""What the policy says at an update, in three answers: a person sees from them what no figure tells.

sampled_answers(groups)[0]    # {"which": "best", "episode": "00003-1", "reward": 0.9, "answer": "..."}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...episode import Episode
from ...optimizer import Scored
from ..results.transcript import call_in_words

__all__ = ["sampled_answers"]

_LONGEST = 600
"""Maximum number of characters of an answer; the episode has the whole."""


def sampled_answers(groups: Sequence[Sequence[Scored]]) -> list[dict[str, Any]]:
    """The last answers of the best, the median and the worst episode."""
    order = sorted((scored for group in groups for scored in group), key=lambda scored: -scored.reward)
    if not order:
        return []
    places = {"best": 0, "median": len(order) // 2, "worst": len(order) - 1}
    return [
        {
            "which": which,
            "episode": order[place].episode.id,
            "reward": order[place].reward,
            "answer": _last_answer(order[place].episode),
        }
        for which, place in places.items()
    ]


def _last_answer(episode: Episode) -> str:
    said = next((turn for turn in reversed(episode.turns) if turn.text or turn.calls), None)
    if said is None:
        return ""
    text = said.text.strip() or "\n".join(map(call_in_words, said.calls))
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
