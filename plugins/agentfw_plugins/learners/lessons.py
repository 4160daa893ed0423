"""Extracts lessons from a batch: the exact tokens of each turn, with its advantage.

All errors in a batch are found here, before anything is computed, and reported by episode and turn. Turns that can't be
used are counted, never silently skipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentfw import Seeds
from agentfw.episode import Episode, Turn
from agentfw.errors import UsageError
from agentfw.learner import Batch

from .token_tree import TurnTokens

__all__ = ["Lesson", "Lessons", "read", "split"]

Tokens = Callable[[Episode, Turn], TurnTokens | None]
"""Returns the tokens of a turn, or None if there are none."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """One turn to learn from."""

    tokens: TurnTokens
    advantage: float
    sampler: tuple[float, ...]
    """The sampler's logprobs. Empty if there are none."""
    task: int
    turn: int


@dataclass(frozen=True, slots=True)
class Lessons:
    lessons: tuple[Lesson, ...]
    dropped: int
    """Number of sampled tokens in turns without an advantage."""
    empty: int
    """Number of turns with an advantage but without tokens."""


def read(batch: Batch, vocabulary: int, tokens: Tokens) -> Lessons:
    """The lessons of a batch, in the order of its episodes."""
    advantages = _advantages(batch)
    lessons: list[Lesson] = []
    dropped = empty = 0
    for episode in batch.episodes:
        for turn in episode.turns:
            advantage = advantages.get((episode.id, turn.index))
            found = None if advantage is None else tokens(episode, turn)
            if found is None or advantage is None:
                dropped += len(turn.token_ids)
                empty += advantage is not None
                continue
            where = f"turn {turn.index} of episode {episode.id}"
            sampler = turn.logprobs if turn.token_ids else ()
            _check_tokens(found, sampler, vocabulary, where)
            if batch.loss.importance_cap is not None and not sampler:
                raise UsageError(
                    f"{where} has no sampler logprobs, which the loss needs",
                    fix="use a policy that returns logprobs, or an optimizer without importance_cap",
                )
            lessons.append(Lesson(found, advantage, sampler, episode.task.index, turn.index))
    if not lessons:
        why = "no turn has an advantage" if not empty else f"none of {empty} turns with an advantage has tokens"
        raise UsageError(
            f"there is nothing to learn from: {why}",
            fix="use a policy that returns its sampled tokens; for demonstrations, use the learner sft",
        )
    return Lessons(tuple(lessons), dropped, empty)


def split(lessons: Sequence[Lesson], minibatches: int, seeds: Seeds) -> list[list[Lesson]]:
    """Shuffle the lessons into minibatches of whole tasks, so that groups and their shared prefixes stay together.

    With fewer tasks than minibatches, the turns with the same index stay together instead.
    """
    by_task = len({lesson.task for lesson in lessons}) >= minibatches
    units: dict[tuple[int, int], list[Lesson]] = {}
    for lesson in lessons:
        units.setdefault((lesson.task, 0 if by_task else lesson.turn), []).append(lesson)
    keys = list(units)
    order = seeds.numpy("minibatches").permutation(len(keys)).tolist() if minibatches > 1 else range(len(keys))
    parts: list[list[Lesson]] = [[] for _ in range(min(minibatches, len(keys)))]
    for place, index in enumerate(order):
        parts[place % len(parts)] += units[keys[index]]
    return parts


def _advantages(batch: Batch) -> dict[tuple[str, int], float]:
    known = {(episode.id, turn.index) for episode in batch.episodes for turn in episode.turns}
    found: dict[tuple[str, int], float] = {}
    for episode, turn, value in ((one.episode, one.turn, one.value) for one in batch.advantages):
        where = f"turn {turn} of episode {episode}"
        if (episode, turn) not in known:
            raise UsageError(
                f"there is an advantage for {where}, which isn't in the batch", fix="add its episode to the batch"
            )
        if (episode, turn) in found:
            raise UsageError(
                f"there are two advantages for {where}", fix="every turn needs at most one, and every episode an id"
            )
        if not math.isfinite(value):
            raise UsageError(
                f"the advantage of {where} is {value}", fix="check its rewards: one of them is not a finite number"
            )
        found[episode, turn] = value
    return found


def _check_tokens(tokens: TurnTokens, logprobs: Sequence[float], vocabulary: int, where: str) -> None:
    for token in (*tokens.prompt, *tokens.sampled):
        if not 0 <= token < vocabulary:
            raise UsageError(
                f"{where} has the token {token}, but the learner's model has 0 to {vocabulary - 1}",
                fix="use the same model for policy and learner",
            )
    if logprobs and len(logprobs) != len(tokens.sampled):
        raise UsageError(
            f"{where} has {len(tokens.sampled)} tokens and {len(logprobs)} logprobs",
            fix="the policy must return one logprob per token",
        )
    if not all(map(math.isfinite, logprobs)):
        raise UsageError(
            f"a logprob of {where} is not a finite number", fix="check the policy: its weights may be broken"
        )
