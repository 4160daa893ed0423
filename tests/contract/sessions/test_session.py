"""Sessions: whoever leads them, the record is a tree of turns, each message once and each answer with its tokens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from agentfw import Episode, Generation, Message, Policy, Request, Session, Task
from agentfw.errors import EndpointError, UsageError
from agentfw.memory import Memory, Query, Recollection
from agentfw.request import Action, Sampling
from agentfw.tool import FunctionTool, Tool
from agentfw.turns.session import Reply, extended

LOOK = Action("look", "Look", {"type": "object", "properties": {}})


class Counting(Policy):
    """Answers with a number; its tokens continue those of the answer before. Fails where it is told to."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def generate(self, request: Request) -> Generation:
        self.requests.append(request)
        await asyncio.sleep(0)
        if request.messages[-1].content == "fail":
            raise EndpointError("down", fix="start it")
        number = len(self.requests)
        before = request.before
        prompt = (*before.prompt_ids, *before.token_ids, 0) if before else (len(request.messages),)
        text = 'So.\n<tool_call>{"name": "look"}</tool_call>' if request.actions else f"answer {number}"
        return Generation(text, prompt_ids=prompt, token_ids=(100 + number,), logprobs=(-1.0,), version="v1")


class Notes(Memory):
    """Recalls one note for everybody."""

    async def recall(self, query: Query) -> Sequence[Recollection]:
        return [Recollection(f"note for {query.user}")]


def user(text: str) -> Message:
    return Message("user", text)


def begun(**options: object) -> tuple[Session, Counting]:
    policy = Counting()
    return Session(policy, Task(0, seed=7, user="ada"), **options), policy  # type: ignore[arg-type]


def answers(session: Session, *conversations: Sequence[Message], **more: object) -> list[Reply]:
    async def run() -> list[Reply]:
        return [await session.answer(each, **more) for each in conversations]  # type: ignore[arg-type]

    return asyncio.run(run())


def test_an_answer_that_comes_back_unchanged_brings_its_tokens() -> None:
    session, policy = begun()
    [first] = answers(session, [user("a")])

    answers(session, [user("a"), first.message, user("b")], [user("a"), Message("assistant", "edited"), user("b")])

    assert policy.requests[1].before is not None
    assert policy.requests[1].before.token_ids == (101,)
    assert policy.requests[2].before is None
    episode = session.end()
    assert [message.content for message in episode.messages] == ["a", "answer 1", "b", "edited", "b"]
    assert [turn.shown for turn in episode.turns] == [(0,), (0, 1, 2), (0, 3, 4)]


def test_calls_are_told_apart_from_the_text_and_come_back_as_they_were() -> None:
    session, policy = begun()
    [reply] = answers(session, [user("a")], actions=[LOOK])
    told = Message("assistant", reply.text, reply.calls)

    answers(session, [user("a"), told, Message("tool", "nothing", answers=reply.calls[0].id)], actions=[LOOK])

    assert (reply.text, reply.finish, [call.name for call in reply.calls]) == ("So.\n", "calls", ["look"])
    assert policy.requests[1].before is not None
    assert session.episode.messages[1].content == 'So.\n<tool_call>{"name": "look"}</tool_call>'


def test_a_session_goes_on_from_its_record() -> None:
    session = Session(Counting(), Task(0, seed=7, user="ada", query="tea"))
    parts = []
    [first] = answers(session, [user("a")], actions=[LOOK])
    parts.append(session.news())
    session.feedback(1.0, words="I like it", turn=0)
    parts.append(session.news())
    assert [len(part.actions[""]) for part in parts] == [1, 0]  # a large toolbox isn't written again with each turn
    whole = extended(*(Episode.from_record(json.loads(json.dumps(part.to_record()))) for part in parts))
    assert whole == Episode.from_record(json.loads(json.dumps(session.episode.to_record())))

    later, policy = begun()
    later.restore(whole)
    answers(later, [user("a"), first.message, user("b")])

    assert policy.requests[0].before is not None
    assert policy.requests[0].before.token_ids == (101,)
    assert [turn.index for turn in later.episode.turns] == [0, 1]
    assert later.name == "tea"


def test_who_leads_the_session_chooses_the_sampling_unless_the_run_does() -> None:
    asked = Sampling(temperature=0.2, max_tokens=50, seed=5)
    run = Sampling(temperature=1.0, max_tokens=20, seed=9)
    free, first = begun(sampling=run)
    held, second = begun(sampling=run, sampling_wins=True)

    answers(free, [user("a")], sampling=asked)
    answers(held, [user("a")], [user("a")], sampling=asked)

    assert first.requests[0].sampling == Sampling(0.2, None, 20, 5)
    assert second.requests[0].sampling == Sampling(1.0, None, 20, 9)
    assert second.requests[1].sampling.seed != 9, "who asks again gets another sample"


def test_memories_are_asked_once_a_conversation_and_only_for_the_user_that_is_named() -> None:
    session, policy = begun(memories=[Notes()])
    system = Message("system", "Be brief.")
    [reply] = answers(session, [system, user("a")], user="ada")
    answers(session, [system, user("a"), reply.message, user("b")], user="ada")
    answers(session, [user("a")])
    answers(session, [user("a")], user="eve")

    shown = [[message.content for message in request.messages] for request in policy.requests]
    assert shown[0][0] == shown[1][0] == "Be brief.\n\nYou remember:\n- note for ada"
    assert shown[2] == shown[3] == ["a"]
    assert policy.requests[1].before is not None


def test_what_can_not_be_done_is_an_error_and_the_session_goes_on() -> None:
    session, _ = begun(max_turns=2)
    with pytest.raises(EndpointError):
        answers(session, [user("fail")])
    failed = session.failure
    answers(session, [user("a")], [user("b")])

    assert isinstance(failed, EndpointError)
    assert session.failure is None
    for wrong in ([user("c")], []):
        with pytest.raises(UsageError):
            answers(session, wrong)
    with pytest.raises(UsageError, match="no turn 9"):
        session.feedback(1.0, turn=9)
    session.end()
    with pytest.raises(UsageError, match="ended"):
        answers(session, [user("a")])
    with pytest.raises(UsageError, match="ended"):
        session.feedback(1.0)


class Counter(Notes):
    """A memory with a tool that counts its calls."""

    def __init__(self) -> None:
        self.begun, self.calls = list[Task](), 0

    def begin(self, task: Task) -> None:
        self.begun.append(task)

    def tools(self, task: Task) -> Sequence[Tool]:
        def look() -> str:
            """Look."""
            self.calls += 1
            return f"looked {self.calls} times"

        return [FunctionTool(look)]


def test_a_policy_that_only_calls_tools_of_the_memory_has_to_answer_in_the_end() -> None:
    memory = Counter()
    session, policy = begun(memories=[memory])

    [reply] = answers(session, [user("a")], user="ada")

    assert reply.text == "So.\n" * memory.calls + f"answer {len(policy.requests)}"
    assert not reply.calls
    assert 1 < memory.calls < 100
    assert policy.requests[-1].before is not None, "its tokens go on from those of the answer before"
    assert len(memory.begun) == 1


def test_who_leads_a_session_may_call_its_tools_instead() -> None:
    memory = Counter()
    session, _ = begun(memories=[memory])

    async def run() -> tuple[Reply, Message]:
        reply = await session.answer([user("a")], user="ada", carries_out=False)
        return reply, await session.call(reply.calls[0], "ada")

    reply, message = asyncio.run(run())

    assert [call.name for call in reply.calls] == ["look"]
    assert message == Message("tool", "looked 1 times", answers=reply.calls[0].id)
    assert not session.tools("")


def test_two_memories_may_not_have_tools_of_one_name() -> None:
    session, _ = begun(memories=[Counter(), Counter()])

    with pytest.raises(UsageError, match="two tools are called look"):
        answers(session, [user("a")], user="ada")
