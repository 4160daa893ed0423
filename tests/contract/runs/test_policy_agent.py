"""The agent made of a policy, tools and memories: what the policy reads, and what becomes of what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agentfw import Engagement, Environment, Generation, Policy, PolicyAgent, Request, World, action
from agentfw.episode import Episode, Message, Task
from agentfw.interfaces import Interface
from agentfw.memory import Memory, Query, Recollection
from agentfw.request import Brief, Sampling
from agentfw.tool import Tool, tool


class Scripted(Policy):
    """Says these, one after the other, and then nothing; remembers what it was asked."""

    def __init__(self, *answers: str | Generation) -> None:
        self.answers, self.requests = list(answers), list[Request]()

    async def generate(self, request: Request) -> Generation:
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else ""
        return answer if isinstance(answer, Generation) else Generation(answer, count=len(answer), pieces=tuple(answer))


class Desk(Environment):
    """Answer the mail."""

    def __init__(self, *mails: float) -> None:
        self.mails = mails

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        for number, when in enumerate(self.mails):
            world.at(when, lambda number=number: world.observe("mail", {"number": number}))  # type: ignore[misc]

    @action
    def reply(self, number: int) -> None:
        """Reply to a mail."""
        self.world.utility(1.0, "replied")

    @action(takes=4)
    def write(self) -> None:
        """Write something."""


def play(policy: Policy, environment: Environment, interface: Interface | None = None, **options: object) -> Episode:
    tokens = options.pop("time_per_token", 0.0)
    agent = PolicyAgent(policy, **options)  # type: ignore[arg-type]
    return asyncio.run(Engagement(environment, agent, interface, time_per_token=tokens).run(Task(0, seed=7)))  # type: ignore[arg-type]


def read(request: Request) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in request.messages]


def test_what_became_known_is_one_message_and_what_was_said_stays() -> None:
    policy = Scripted("Let me see.", '{"name": "reply", "arguments": {"number": 0}}')
    play(policy, Desk(3, 3, 5))
    assert read(policy.requests[2]) == [
        ("system", "Answer the mail."),
        ("user", "[0]"),
        ("assistant", "Let me see."),
        ("user", "[3]\nmail number=0\nmail number=1"),
        ("assistant", '{"name": "reply", "arguments": {"number": 0}}'),
        ("tool", "accepted"),
        ("user", "[5]\nmail number=2"),
    ]
    said, heard = policy.requests[2].messages[4], policy.requests[2].messages[5]
    assert heard.answers == said.calls[0].id


def test_turns_share_the_messages_that_they_share() -> None:
    policy = Scripted("a", "b", "c")
    episode = play(policy, Desk(1, 2))
    assert [turn.shown for turn in episode.turns] == [(0, 1), (0, 1, 2, 3), (0, 1, 2, 3, 4, 5)]
    for turn, request in zip(episode.turns, policy.requests, strict=True):
        assert [episode.messages[index] for index in turn.shown] == list(request.messages)
    assert [one.name for one in policy.requests[0].actions] == ["reply", "write"]


def test_a_refusal_answers_the_call_that_was_refused() -> None:
    policy = Scripted(
        '{"name": "reply", "arguments": {"number": "first"}} {"name": "reply", "arguments": {"number": 1}}'
    )
    play(policy, Desk())
    refused, accepted = policy.requests[1].messages[3:5]
    assert "number" in refused.content
    assert refused.content.startswith("reply refused")
    assert accepted.content == "accepted"
    calls = policy.requests[1].messages[2].calls
    assert [refused.answers, accepted.answers] == [call.id for call in calls]


class Survey(Desk):
    """Write what you think."""

    def brief(self) -> Brief:
        return replace(super().brief(), plain=True)


def test_what_cannot_be_understood_is_a_failure_but_for_a_world_that_reads_the_text_itself() -> None:
    answer = '{"name": "reply", "arguments": {"number": "many"}} <tool_call>?</tool_call>'

    called, plain = play(Scripted("<tool_call>reply to it</tool_call>"), Desk()), play(Scripted(answer), Survey(1))

    assert called.turns[0].calls == ()
    assert len(called.turns[0].failures) == 1
    assert plain.turns[0].text == answer
    assert [(turn.calls, turn.failures) for turn in plain.turns] == [((), ()), ((), ())]


def test_an_answer_that_was_broken_off_stays_as_far_as_it_had_come() -> None:
    said = 'Dear Ada.\n<tool_call>{"name": "reply", "arguments": {"number": 0}}</tool_call>'
    policy, early = Scripted(said, "and so on"), Scripted(said, "and so on")
    episode = play(policy, Desk(4, 5), time_per_token=1.0)
    play(early, Desk(0.5), time_per_token=1.0)
    assert read(policy.requests[1]) == [
        ("system", "Answer the mail."),
        ("user", "[0]"),
        ("assistant", "Dear"),
        ("user", "[4]\nmail number=0"),
    ]
    assert episode.turns[1].finish == "stop", "it isn't broken off again before it has answered"
    # The call that it would have made was never out: nobody waits for its answer.
    assert episode.utility == 0
    assert (episode.turns[0].text, episode.turns[0].count, episode.turns[0].finish) == ("Dear", 4, "interrupted")
    assert (episode.turns[0].calls, episode.turns[0].said) == ((), None)
    assert policy.requests[1].before is not None
    assert policy.requests[1].before.text == "Dear", "its tokens go on from those that were out"
    assert read(early.requests[1])[1:] == [("user", "[0]"), ("user", "[0.5]\nmail number=0")]
    assert early.requests[1].before is None


def test_a_window_shows_the_last_turns_and_no_answer_without_its_call() -> None:
    policy = Scripted(*['{"name": "reply", "arguments": {"number": 0}}'] * 9)
    episode = play(policy, Desk(1, 2, 3, 4), window=2)
    for turn, request in zip(episode.turns, policy.requests, strict=True):
        assert [episode.messages[place] for place in turn.shown] == list(request.messages)
        roles = [message.role for message in request.messages]
        assert roles[0] == "system"
        assert roles[1] == "user"
        assert roles.count("user") <= 2
        asked = {call.id for message in request.messages for call in message.calls}
        assert {message.answers for message in request.messages if message.role == "tool"} <= asked


class Quiz(Environment):
    """Five questions, one a round."""

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        self._ask(1)

    def _ask(self, number: int) -> None:
        self.world.round(number, 5)
        self.world.observe("question", {"number": number})
        self.world.measure("asked", 1.0)
        self._number = number

    @action
    def hint(self) -> None:
        """Ask for a hint."""
        self.world.observe("hint")

    @action
    def answer(self) -> None:
        """Answer the question."""
        if self._number < 5:
            self._ask(self._number + 1)
        else:
            self.world.finish()


@tool
def look() -> str:
    """Look it up."""
    return "it is blue"


@pytest.mark.parametrize("looks", [0, 2])
def test_a_window_of_rounds_shows_whole_rounds_whatever_their_number_of_turns(looks: int) -> None:
    turns = [*['{"name": "look"}'] * looks, '{"name": "hint"}', '{"name": "answer"}'] * 5
    policy = Scripted(*turns)
    episode = play(policy, Quiz(), tools=[look], window=3)

    assert [measure.round for measure in episode.measures] == [1, 2, 3, 4, 5]

    last = policy.requests[-1].messages
    told = "\n".join(message.content for message in last)
    assert [number for number in range(1, 6) if f"number={number}" in told] == [3, 4, 5]
    assert told.count("it is blue") == 3 * looks
    assert [message.role for message in last[:2]] == ["system", "user"], "no answer without its call"


class Notes(Memory):
    """Recalls a line about whatever is asked, and has a tool of its own."""

    def __init__(self) -> None:
        self.queries: list[Query] = []
        self.begun: list[str] = []
        self.met: list[tuple[str, dict[str, str]]] = []

    async def recall(self, query: Query) -> Sequence[Recollection]:
        self.queries.append(query)
        return [Recollection("Ada is in a hurry", 0.5, {"since": Path("march")})] if "mail" in query.text else []

    def begin(self, task: Task) -> None:
        self.begun.append(task.id)

    def introduce(self, user: str, profile: Mapping[str, str]) -> None:
        self.met.append((user, dict(profile)))

    def tools(self, task: Task) -> Sequence[Tool]:
        @tool
        def look_up(word: str) -> str:
            """Look something up."""
            return f"{word}: see above"

        return [look_up]


def test_what_the_memories_recall_is_told_before_the_news_and_the_record_says_why() -> None:
    notes, policy = Notes(), Scripted()
    episode = play(policy, Desk(3), memories=[notes], recall=2)

    assert read(policy.requests[1])[-1] == ("user", "[3]\nYou remember:\n- Ada is in a hurry\nmail number=0")
    assert (notes.queries[1].text, notes.queries[1].now, notes.queries[1].limit) == ("mail number=0", 3, 2)
    assert (notes.begun, notes.met) == (["00000-0"], [])
    found = [event for event in episode.events if event.kind == "memory"]
    assert [(event.time, event.name, event.data) for event in found] == [
        (3, "recalled", {"text": "Ada is in a hurry", "score": 0.5, "why": {"since": "march"}})
    ]
    seen = [place for place, event in enumerate(episode.events) if event.kind == "seen"]
    assert episode.events.index(found[0]) == seen[1] + 1, "it belongs to the turn that began then"


def test_the_tools_of_a_memory_are_tools_of_the_agent() -> None:
    policy = Scripted('{"name": "look_up", "arguments": {"word": "Ada"}}')
    play(policy, Desk(), memories=[Notes()])
    assert [one.name for one in policy.requests[0].actions] == ["reply", "write", "look_up"]
    assert policy.requests[1].messages[3:] == [Message("tool", "Ada: see above", answers="1.0")], "and no empty message"


@pytest.mark.parametrize(
    ("asked", "said", "kept"),
    [
        (Sampling(0.7, 0.9), (None, None), (0.7, 0.9)),
        (Sampling(0.7, 0.9), (0.5, 1.0), (0.5, 1.0)),
        (Sampling(), (0.0, None), (0.0, 1.0)),
    ],
)
def test_a_turn_keeps_how_it_was_sampled(
    asked: Sampling, said: tuple[float | None, float | None], kept: tuple[float, float]
) -> None:
    """What the policy says of itself counts, and else what it was asked for."""
    answer = Generation("well", count=4, temperature=said[0], top_p=said[1])

    episode = play(Scripted(answer), Desk(), sampling=asked)

    assert (episode.turns[0].temperature, episode.turns[0].top_p) == kept
    assert Episode.from_record(episode.to_record()) == episode


class Errand(Environment):
    """A world that knows its user. Two requests, each followed by news that doesn't say what it is about."""

    def begin(self, world: World, task: Task) -> None:
        self.user = task.user
        for when, about in enumerate((["dining"], None, ["music", "trips"], None)):
            data = {} if about is None else {"scenarios": about}
            world.at(when, lambda data=data: world.observe("news", data))  # type: ignore[misc]

    def profile(self) -> dict[str, str]:
        return {"about": "likes " + {"ana": "tea", "ben": "jazz"}[self.user]}


def test_memories_are_told_of_the_user_and_asked_with_what_the_episode_is_about_until_that_changes() -> None:
    memory, world = Notes(), Errand()

    found = [
        asyncio.run(Engagement(world, PolicyAgent(Scripted(), memories=[memory])).run(Task(0, 7, user=user)))
        for user in ("ana", "ben")
    ]

    assert memory.met == [("ana", {"about": "likes tea"}), ("ben", {"about": "likes jazz"})]
    assert Episode.from_record(found[0].to_record()).profile == {"about": "likes tea"}
    assert found[1].profile == {"about": "likes jazz"}
    asked = [query.scenarios for query in memory.queries]
    assert asked == [("dining",), ("dining",), ("music", "trips"), ("music", "trips")] * 2
