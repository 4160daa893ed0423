"""Episodes to check with: they look like what an engagement leaves behind, and are the same every time.

>>> group = sample_group(index=0, samples=4)
>>> [episode.id for episode in group]
['00000-0', '00000-1', '00000-2', '00000-3']
>>> Episode.from_record(group[0].to_record()) == group[0]
True
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ..episode import Call, Episode, Event, Measure, Message, Task, Turn
from ..seeds import Seeds

_ROUNDS = 2
_TURNS_PER_ROUND = 2
_LARGEST_TOKEN = 40  # below any vocabulary's end, so that a learner with a real model takes them
_DRINKS = ("green tea", "black coffee", "mint tea", "hot chocolate")


def sample_episodes() -> list[Episode]:
    """Two groups of two, of one user."""
    return [*sample_group(0, 2), *sample_group(1, 2)]


def sample_group(index: int, samples: int, *, user: str = "user") -> list[Episode]:
    """Several samples of one task: same world, different choices."""
    seed = Seeds(7).integer("sample", index)
    return [sample_episode(Task(index, seed, user=user, sample=sample)) for sample in range(samples)]


def sample_episode(task: Task, *, text: str = "", turns: int | None = None) -> Episode:
    """One episode, all of it drawn from its task. `text` is put into what was observed and answered besides."""
    generator = Seeds(task.seed).random("sample episode", task.sample)
    episode = Episode(task, environment="teahouse", rounds=_ROUNDS, finish="finished")
    episode.messages.append(Message("system", "Serve each guest what they like."))
    count = _ROUNDS * _TURNS_PER_ROUND if turns is None else turns
    for number in range(count):
        _serve(episode, number, generator, text)
    episode.ended = float(count * 3)
    right = sum(event.data["value"] for event in episode.events if event.kind == "utility")
    episode.utility = right
    episode.outcome = {"served": float(count), "right": right / max(1, count)}
    return episode


def _serve(episode: Episode, number: int, generator: random.Random, text: str) -> None:
    """One turn: a guest comes in, the agent serves something, and it was right or wrong."""
    time, about = float(number * 3), number // _TURNS_PER_ROUND + 1
    if number % _TURNS_PER_ROUND == 0:
        episode.events.append(Event(time, "round", str(about), {"of": _ROUNDS}))
    wanted, served = generator.choice(_DRINKS), generator.choice(_DRINKS)
    said = f"a guest who likes {wanted} comes in" + (f": {text}" if text else "")
    episode.events.append(Event(time, "observation", "guest", {"likes": wanted, "text": said}))
    episode.events.append(Event(time, "seen", "", {"events": [len(episode.events) - 1]}))
    call = Call("serve", {"drink": served, "note": text}, f"{number + 1}.0")
    answer = Message("assistant", f"I serve {served}. {text}".strip(), (call,))
    episode.messages.append(Message("user", f"[{time:g}] round {about} of {_ROUNDS}\n{said}"))
    length = generator.randint(4, 8)
    before = episode.turns[-1].prompt_ids + episode.turns[-1].token_ids if episode.turns else ()
    episode.turns.append(
        Turn(
            index=number,
            started=time,
            ended=time + 1,
            round=about,
            shown=tuple(range(len(episode.messages))),
            text=answer.content,
            calls=(call,),
            count=length,
            prompt_ids=(*before, *_tokens(generator, 6)),  # prompts of one conversation grow
            token_ids=tuple(_tokens(generator, length)),
            logprobs=tuple(-generator.random() for _ in range(length)),
            version="base",
        )
    )
    episode.messages.append(answer)
    episode.events.append(Event(time + 1, "intervention", "serve", {**call.arguments, "id": call.id}))
    value = 1.0 if served == wanted else 0.0
    episode.events.append(Event(time + 1, "utility", "right drink" if value else "wrong drink", {"value": value}))
    if number % _TURNS_PER_ROUND == _TURNS_PER_ROUND - 1:  # as worlds do: one of a name for each round
        episode.measures.append(Measure("error", 1.0 - value, time + 1, about))
    said = "thank you" if value else f"I'd have liked {wanted}"
    episode.events.append(Event(time + 1, "observation", "reply", {"text": said, "right": bool(value)}))
    episode.messages.append(Message("tool", said, answers=call.id))


def _tokens(generator: random.Random, count: int) -> Sequence[int]:
    return [generator.randint(1, _LARGEST_TOKEN) for _ in range(count)]
