"""A small agent on the official client of OpenAI, for a base model and users who come back, and what these users like.

It knows nothing of agentfw, and any server with this API will do. The prompt shows four earlier answers, each with what
this user thought of it, and asks for an answer that the user thinks is good. Some users like short answers, and some
long ones; nobody tells the model. Whether an answer names what it is about is the same for every user.

As a file it is a reward too, on the personal track: how well the answer suits its user, in that user's own unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openai import OpenAIError
from openai_client import client

from agentfw import Episode, RewardModel, Score

SHOWN = (
    ("What do cows eat?", "Grass"),
    ("Where do fish live?", "Fish live in rivers, in lakes and in all the oceans"),
    ("What colour is the sky?", "The sky is blue when the sun shines on it"),
    ("What is the capital of Italy?", "Rome"),
)
SHORT, LONG = 4, 8
"""Most words of a short answer, and least words of a long one."""
MOST_TOKENS = 16


class Suits(RewardModel):
    """How well the answer suits its user. Users rate on scales of their own, of 1 up to 10."""

    components = ("suits",)

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [
            Score(one.id, "suits", one.outcome.get("suits", 0.0) * one.outcome.get("scale", 0.0), "personal")
            for one in group
        ]


def suits(answer: str, taste: str) -> bool:
    words = len(answer.split())
    return 0 < words <= SHORT if taste == "short" else words >= LONG


def names(answer: str, thing: str) -> bool:
    return thing.removesuffix("s") in answer.lower()


def prompt(question: str, taste: str) -> str:
    told = "".join(
        f"Question: {asked}\nRating: {'good' if suits(answer, taste) else 'bad'}\nAnswer: {answer}\n"
        for asked, answer in SHOWN
    )
    return f"{told}Question: {question}\nRating: good\nAnswer:"


async def solve(task: dict[str, Any], base_url: str, api_key: str) -> dict[str, Any]:
    """Answer one question: {"question": "What do owls eat?", "thing": "owls", "taste": "short", "scale": 3.0}."""
    asked: list[Any] = [{"role": "user", "content": prompt(task["question"], task["taste"])}]
    try:
        reply = await client(base_url, api_key).chat.completions.create(
            model="base", messages=asked, max_tokens=MOST_TOKENS, stop=["\n"]
        )
    except OpenAIError as error:
        return {"reward": 0.0, "error": str(error)}
    answer = reply.choices[0].message.content or ""
    return {
        "reward": float(names(answer, task["thing"])),
        "named": float(names(answer, task["thing"])),
        "suits": float(suits(answer, task["taste"])),
        "scale": task["scale"],
        "words": len(answer.split()),
    }
