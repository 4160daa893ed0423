"""Two models in one session: each goes on from its own tokens, and a retry is another sample, also after a restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence

import pytest

from agentfw import Episode, Generation, Memory, Message, Policy, Request, Session, Task
from agentfw.memory import Query, Recollection
from agentfw.request import Sampling
from agentfw.turns.session import Reply


class Numbered(Policy):
    """Answers with the text that it was made with. All of its tokens lie in a hundred of their own."""

    def __init__(self, mark: int, text: str) -> None:
        self.mark, self.text, self.requests = mark, text, list[Request]()

    async def generate(self, request: Request) -> Generation:
        self.requests.append(request)
        number = self.mark * 100 + len(self.requests)
        return Generation(self.text, prompt_ids=(self.mark * 100,), token_ids=(number,), logprobs=(-1.0,))


def user(text: str) -> Message:
    return Message("user", text)


def answer(session: Session, messages: Sequence[Message], policy: Policy, model: str) -> Reply:
    return asyncio.run(session.answer(messages, policy=policy, model=model))


def goes_on_from(policy: Numbered) -> tuple[int, ...]:
    """The tokens that the policy was last given to go on from."""
    before = policy.requests[-1].before
    return () if before is None else before.token_ids


def restored(session: Session, policy: Policy) -> Session:
    """The session in a later process, from its record."""
    later = Session(policy, session.episode.task)
    later.restore(Episode.from_record(json.loads(json.dumps(session.episode.to_record()))))
    return later


@pytest.mark.parametrize("restarts", [False, True])
def test_a_model_goes_on_from_its_own_tokens_and_from_no_other_models(restarts: bool) -> None:
    big, small = Numbered(1, "Yes, from big."), Numbered(2, "Yes, from small.")
    session = Session(big, Task(0, seed=7))
    first = answer(session, [user("Tea?")], big, "big")
    talk = [user("Tea?"), first.message, user("Green?")]
    later = restored(session, big) if restarts else session

    answer(later, talk, small, "small")
    answer(later, talk, big, "big")

    assert goes_on_from(small) == ()
    assert goes_on_from(big) == first.turn.token_ids


def test_an_answer_that_two_models_gave_in_the_same_words_keeps_the_tokens_of_each() -> None:
    big, small = Numbered(1, "Yes."), Numbered(2, "Yes.")
    session = Session(big, Task(0, seed=7))
    models = {"big": big, "small": small}
    given = {model: answer(session, [user("Tea?")], policy, model) for model, policy in models.items()}
    talk = [user("Tea?"), given["big"].message, user("Green?")]

    for led in (session, restored(session, big)):
        for model, policy in models.items():
            answer(led, talk, policy, model)
            assert goes_on_from(policy) == given[model].turn.token_ids


def seeds(policy: Numbered) -> list[int | None]:
    return [request.sampling.seed for request in policy.requests]


def asked_again(times: int, restart_after: int | None = None, **more: int) -> list[int | None]:
    """The seeds of a request that is repeated, at the beginning of a conversation and later in it."""
    policy = Numbered(1, "Yes.")
    session = Session(policy, Task(0, seed=7))
    first = asyncio.run(session.answer([user("Tea?")], sampling=Sampling(**more)))
    for number in range(times):
        if number == restart_after:
            session = restored(session, policy)
        for talk in ([user("Tea?")], [user("Tea?"), first.message, user("Green?")]):
            asyncio.run(session.answer(talk, sampling=Sampling(**more)))
    return seeds(policy)


def test_each_retry_is_another_sample_and_a_restart_changes_none_of_them() -> None:
    without = asked_again(4)
    first, later = [without[0], *without[1::2]], without[2::2]

    assert len(set(first)) == len(first) == 5
    assert len(set(later)) == len(later) == 4
    for restart_after in range(4):
        assert asked_again(4, restart_after) == without


def test_a_retry_with_a_seed_is_the_same_sample() -> None:
    assert set(asked_again(2, seed=5)) == set(asked_again(2, restart_after=1, seed=5)) == {5}


def test_an_answer_that_breaks_off_is_written_before_anybody_is_told() -> None:
    written, before = list[Episode](), list[Message]()

    class Breaking(Policy):
        async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
            before.extend(message for news in written for message in news.messages)
            tell("It begins ")
            raise ConnectionResetError("gone")

    session = Session(Breaking(), Task(0, seed=7), write=lambda one: written.append(one.news()))
    told = list[str]()

    with pytest.raises(ConnectionResetError):
        asyncio.run(session.answer([user("Go on")], tell=told.append))

    [cut] = [event.data for news in written for event in news.events if event.name == "cut_off"]
    assert (cut["text"], cut["why"], cut["shown"]) == ("It begins ", "gone", [0])
    assert before == [user("Go on")], "the question is written before the policy is asked"


class Notes(Memory):
    """Recalls these notes."""

    def __init__(self, *notes: str) -> None:
        self.notes = notes

    async def recall(self, query: Query) -> Sequence[Recollection]:
        return [Recollection(note) for note in self.notes]


@pytest.mark.parametrize("before", [(), ("She likes tea.",)])
def test_a_conversation_keeps_what_was_recalled_for_it_after_a_restart_also_if_it_was_nothing(
    before: tuple[str, ...],
) -> None:
    policy = Numbered(1, "Yes.")
    session = Session(policy, Task(0, seed=7, user="ada"), memories=[Notes(*before)])
    first = asyncio.run(session.answer([user("Tea?")], user="ada"))
    later = Session(policy, session.episode.task, memories=[Notes("She has learned to like coffee.")])
    later.restore(Episode.from_record(session.episode.to_record()))

    asyncio.run(later.answer([user("Tea?"), first.message, user("Green?")], user="ada"))
    asyncio.run(later.answer([user("And now?")], user="ada"))

    goes_on, new = policy.requests[1:]
    assert goes_on.before is not None
    assert goes_on.before.token_ids == first.turn.token_ids
    assert "coffee" not in goes_on.messages[0].content
    assert "coffee" in new.messages[0].content, "a new conversation is told what is known now"
