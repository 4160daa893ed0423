"""Reads what there is to learn in a batch: each turn's exact tokens, with its advantage.

Everything that could be wrong with a batch is found here, before anything is computed, and named by episode and turn.
Tokens that can't be learned from are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentfw import Episode, Turn
from agentfw.errors import UsageError
from agentfw.learner import Batch
from agentfw.optimizer import Loss
from agentfw.seeds import Seeds

from .token_tree import TurnTokens

Tokens = Callable[[Episode, Turn], TurnTokens | None]
"""Returns the tokens of a turn, or None if there are none."""
Hinted = Callable[[Episode, Turn], Sequence[int]]
"""Returns the prompt of a turn with its hint, or nothing if there is no hint that the model can be shown."""


@dataclass(frozen=True, slots=True)
class Lesson:
    tokens: TurnTokens
    advantage: float
    sampler: tuple[float, ...]  # the sampler's logprobs; empty where it gave none
    task: int
    turn: int
    episode: str = ""
    temperature: float = 1.0  # of the distribution that the loss is about: the sampler's, or 1 without samples
    teacher: tuple[float, ...] = ()  # the teacher's logprobs of the sampled tokens; empty where there is none
    hinted: tuple[int, ...] = ()  # the prompt of the model as its own teacher; empty where it isn't


def lesson_from(plain: Mapping[str, Any]) -> Lesson:
    """What `asdict` made of a lesson."""
    values = {name: tuple(plain[name]) for name in ("sampler", "teacher", "hinted")}
    return Lesson(**{**plain, **values, "tokens": TurnTokens(*plain["tokens"])})


def read_lessons(
    batch: Batch, vocabulary: int, tokens: Tokens, hinted: Hinted | None = None
) -> tuple[list[Lesson], int, int]:
    """The lessons of a batch, in the order of its episodes. `hinted` is given if the model is to teach itself.

    Also the number of sampled tokens in turns without an advantage, and that of turns with one but without tokens.
    """
    advantages = _advantages(batch)
    taught = {(one.episode, one.turn): some for one, some in zip(batch.advantages, batch.teacher, strict=False)}
    sampled = batch.loss.sampled
    lessons: list[Lesson] = []
    dropped = empty = 0
    for episode in batch.episodes:
        for turn in episode.turns:
            advantage = advantages.get((episode.id, turn.index))
            found = None if advantage is None else tokens(episode, turn)
            shown = tuple(hinted(episode, turn)) if hinted and found else ()
            if found is None or advantage is None or (hinted and not shown):
                dropped += len(turn.token_ids)
                empty += advantage is not None
                continue
            lesson = Lesson(
                tokens=found,
                advantage=advantage,
                sampler=turn.logprobs if turn.token_ids and sampled else (),
                task=episode.task.index,
                turn=turn.index,
                episode=episode.id,
                temperature=turn.temperature if sampled else 1.0,
                teacher=tuple(taught.get((episode.id, turn.index), ())),
                hinted=shown,
            )
            _require_learnable(lesson, turn, batch.loss, vocabulary)
            lessons.append(lesson)
    if not lessons:
        why = "no turn has an advantage" if not empty else f"none of {empty} turns with an advantage has tokens"
        raise UsageError(
            f"there is nothing to learn from: {why}",
            fix="use a policy that gives the tokens that it samples; demonstrations are learned with --learner sft",
        )
    return lessons, dropped, empty


def split(lessons: Sequence[Lesson], minibatches: int, seeds: Seeds) -> list[list[Lesson]]:
    """Shuffle into minibatches of whole tasks, so that samples stay with their group and share what they share.

    With fewer tasks than minibatches, the samples' turns of one number stay together instead.
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
    """The advantage of each turn. That its turn exists, and that it is finite, the boundary has checked."""
    found: dict[tuple[str, int], float] = {}
    for one in batch.advantages:
        if (one.episode, one.turn) in found:
            wrong = f"there are two advantages for turn {one.turn} of episode {one.episode}"
            raise UsageError(wrong, fix="every turn needs an index, and every episode an id")
        found[one.episode, one.turn] = one.value
    return found


def _require_learnable(lesson: Lesson, turn: Turn, loss: Loss, vocabulary: int) -> None:
    """Refuse a turn that can't be learned from as it was sampled."""
    where = f"turn {lesson.turn} of episode {lesson.episode}"
    check_vocabulary(lesson.tokens, vocabulary, where)
    _check_logprobs(lesson.tokens, lesson.sampler, where, "logprobs")
    _check_logprobs(lesson.tokens, lesson.teacher, where, "logprobs of the teacher")
    if loss.sampled:
        _check_sampling(turn, where)
    if loss.importance_cap is not None and not lesson.sampler:
        wrong = f"{where} has no logprobs of the sampler, and importance_cap weighs tokens by them"
        raise UsageError(wrong, fix="use a policy that gives them, or unset optimizer.importance_cap")
    if lesson.teacher and lesson.temperature != 1:
        wrong = f"{where} was sampled at temperature {lesson.temperature:g}, and the teacher's logprobs are those at 1"
        raise UsageError(wrong, fix="set sampling.temperature=1")


def _check_sampling(turn: Turn, where: str) -> None:
    """Refuse samples whose distribution the loss can't follow."""
    if turn.temperature == 0:
        wrong = f"{where} was sampled at temperature 0, where nothing is left to chance that could be learned from"
        raise UsageError(wrong, fix="set sampling.temperature=1")
    if turn.top_p < 1:
        wrong = f"{where} was sampled with top_p {turn.top_p:g}, and the learner can't know which tokens that left out"
        raise UsageError(wrong, fix="set sampling.top_p=1")
    if turn.constrained:
        raise UsageError(
            f"{where} was sampled by a JSON schema or with penalties, and the learner can't know what they left out",
            fix="leave its episode out, or learn with a loss that doesn't weigh by logprobs: --optimizer kto",
        )


def check_vocabulary(tokens: TurnTokens, vocabulary: int, where: str) -> None:
    """Raise if the learner's model doesn't know one of the tokens: then the policy runs another model."""
    for token in (*tokens.prompt, *tokens.sampled):
        if not 0 <= token < vocabulary:
            wrong = f"{where} has the token {token}, and the learner's model knows 0 to {vocabulary - 1}"
            raise UsageError(wrong, fix="let policy and learner use the same model; see their settings `model`")


def _check_logprobs(tokens: TurnTokens, logprobs: Sequence[float], where: str, what: str) -> None:
    if logprobs and len(logprobs) != len(tokens.sampled):
        wrong = f"{where} has {len(tokens.sampled)} tokens and {len(logprobs)} {what}"
        raise UsageError(wrong, fix="fix the policy: it must give one logprob for each token")
    if not all(map(math.isfinite, logprobs)):
        raise UsageError(
            f"one of the {what} of {where} is not a finite number", fix="check the policy: its weights may be broken"
        )
