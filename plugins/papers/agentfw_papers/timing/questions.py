"""Metrics of the questions that an agent would ask next.

>>> turns = (Turn("customer", "I can't log in"), Turn("professional", "I am sorry. What is your user name?"))
>>> next_questions(turns, 1)
('What is your user name?',)
>>> asked_missing(["What is your order ID?", "How are you?"], ["order_id", "email"])
0.5
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from agentfw_papers.timing.dialogues import Turn
from agentfw_papers.timing.matching import normalise

_QUESTION = re.compile(r"[^.!?]*\?")

Encode = Callable[[Sequence[str]], Any]
"""From texts to one row of unit length for each, such as `encode` of the preference model's encoders."""


def information_consistency(reference: Sequence[str], predicted: Sequence[str], encode: Encode) -> float | None:
    """Mean cosine similarity of all pairs of a reference and a predicted question (equation 12).

    None if either side is empty. The paper leaves the similarity open; here it is the cosine of the encoder's rows.
    """
    if not reference or not predicted:
        return None
    import numpy as np

    rows = np.asarray(encode([*reference, *predicted]), dtype=np.float64)
    return float((rows[: len(reference)] @ rows[len(reference) :].T).mean())


def asked_missing(questions: Sequence[str], missing: Sequence[str]) -> float | None:
    """Share of questions that name one of the missing inputs. None without a question.

    The paper asks of a good question that it fills a missing input, which equation 12 doesn't measure.
    """
    if not questions:
        return None
    names = [f" {normalise(name)} " for name in missing]
    return sum(any(name in f" {normalise(question)} " for name in names) for question in questions) / len(questions)


def next_questions(
    turns: Sequence[Turn], turn: int, *, asks: Callable[[str], bool] = lambda text: False
) -> tuple[str, ...]:
    """What the professional asks right after a turn: the reference of IC, where an annotation has none.

    The paper compares with the questions of the original dialogue, and doesn't say which. Here these are the sentences
    with a question mark in the next turn that isn't an entry of an action, if the professional says it. `asks`
    recognises a turn that asks without one, such as "Please let me know your name."
    """
    following = next((one for one in turns[turn:] if one.speaker != "action"), None)
    if following is None or following.speaker != "professional":
        return ()
    found = tuple(one.strip() for one in _QUESTION.findall(following.text) if one.strip(" ?"))
    return found or ((following.text,) if asks(following.text) else ())
