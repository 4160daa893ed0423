"""Sessions: whoever leads them, the record is a tree of turns, each message once and each answer with its tokens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence

import pytest

from agentfw import Episode, Generation, Memory, Message, Policy, Request, Session, Task
from agentfw.episode import Call
from agentfw.errors import EndpointError, UsageError
from agentfw.memory import Embedded, Query, Recollection
from agentfw.request import Action, Forwarded, Passed, Sampling
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
    """Recalls these notes."""

    def __init__(self, *notes: str) -> None:
        self.notes = notes

    async def recall(self, query: Query) -> Sequence[Recollection]:
        return [Recollection(f"{note} for {query.user}") for note in self.notes]


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
    [reply] = answers(session, [user("a")], actions=[LOOK], stop=["look"])
    told = Message("assistant", reply.text, reply.calls)

    answers(session, [user("a"), told, Message("tool", "nothing", answers=reply.calls[0].id)], actions=[LOOK])

    assert (reply.text, reply.finish, [call.name for call in reply.calls]) == ("So.\n", "calls", ["look"])
    assert policy.requests[1].before is not None
    assert session.episode.messages[1].content == 'So.\n<tool_call>{"name": "look"}</tool_call>'
    assert policy.requests[0].stop == (), "a stop sequence would cut the arguments"


def test_calls_of_which_only_some_have_ids_get_ids_of_their_own_and_a_text_ends_at_the_first_stop() -> None:
    class Two(Policy):
        async def generate(self, request: Request) -> Generation:
            return Generation(
                "One. Two. Three.", calls=(Call("look", {}, "x"), Call("look"))[: len(request.actions) * 2]
            )

    session = Session(Two(), Task(0, seed=7))
    [calling] = answers(session, [user("a")], actions=[LOOK])
    [telling] = answers(session, [user("b")], stop=["Three", "Two"])

    assert len({call.id for call in calling.calls} - {""}) == 2
    assert telling.text == "One. "


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
    whole.turns[0].ended = 60.0
    later.restore(whole)
    assert later.now >= 60.0
    assert later.news().messages == [], "what is on disk isn't written again"
    answers(later, [user("a"), first.message, user("b")])

    assert policy.requests[0].before is not None
    assert policy.requests[0].before.token_ids == (101,)
    assert [turn.index for turn in later.episode.turns] == [0, 1]
    assert later.name == "tea"
    answers(later, [user("c")], actions=[LOOK])
    assert later.episode.actions == {"": [{"name": "look", "description": "Look", "parameters": LOOK.parameters}]}


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
    session, policy = begun(memories=[Notes("note")])
    system = Message("system", "Be brief.")
    [reply] = answers(session, [system, user("a")], user="ada")
    answers(session, [system, user("a"), reply.message, user("b")], user="ada")
    answers(session, [user("a")])
    answers(session, [user("a")], user="eve")

    shown = [[message.content for message in request.messages] for request in policy.requests]
    assert shown[0][0] == shown[1][0] == "Be brief.\n\nYou remember:\n- note for ada"
    assert shown[2] == shown[3] == ["a"]
    assert policy.requests[1].before is not None
    alone, policy = begun(memories=[Notes("note")], sole_user=True)
    answers(alone, [user("a")])
    answers(alone, [user("a")], user="eve")
    assert ["note" in request.messages[0].content for request in policy.requests] == [True, False]


def test_what_can_not_be_done_is_an_error_and_the_session_goes_on() -> None:
    session, _ = begun(max_turns=2)
    with pytest.raises(EndpointError):
        answers(session, [user("fail")])
    failed = session.failure

    async def at_once() -> list[Reply | BaseException]:
        asked = (session.answer([user(text)]) for text in "abc")
        return await asyncio.gather(*asked, return_exceptions=True)

    came = asyncio.run(at_once())

    assert isinstance(failed, EndpointError)
    assert session.failure is None
    assert [type(one) for one in came] == [Reply, Reply, UsageError], "answers on their way are turns, too"
    for wrong in ([user("c")], []):
        with pytest.raises(UsageError):
            answers(session, wrong)
    with pytest.raises(UsageError, match="no turn 2"):
        session.feedback(1.0, turn=2)
    session.end()
    assert session.end("later").finish == "ended"
    with pytest.raises(UsageError, match="ended"):
        answers(session, [user("a")])
    with pytest.raises(UsageError, match="ended"):
        session.feedback(1.0)
    with pytest.raises(UsageError, match="ended"):
        session.remember("Tea.")


class Counter(Notes):
    """A memory with a tool that counts its calls."""

    def __init__(self) -> None:
        super().__init__("note")
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
    memory.notes = ()  # so that the conversations of all users begin alike
    session, policy = begun(memories=[memory])

    [reply] = answers(session, [user("a")], user="ada")

    assert reply.text == "So.\n" * memory.calls + f"answer {len(policy.requests)}"
    assert not reply.calls
    assert 1 < memory.calls < 100
    assert policy.requests[-1].before is not None, "its tokens go on from those of the answer before"
    answers(session, [user("a"), reply.message, user("b")], user="ada")
    assert [one.role for one in policy.requests[-1].messages].count("tool") == memory.calls
    answers(session, [user("c")], user="ada", schema={"type": "object"})
    assert not policy.requests[-1].actions
    later = restored(session, policy, memories=[memory])
    for one in (session, later):
        answers(one, [user("a"), reply.message, user("b")], user="eve")
        assert [one.role for one in policy.requests[-1].messages] == ["user", "assistant", "user"], "it is ada's alone"
    answers(later, [user("b")], user="ada")
    assert len(memory.begun) == 1, "also after a restart"
    short, _ = begun(memories=[memory], max_turns=3)
    with pytest.raises(UsageError, match="3 turns"):
        answers(short, [user("a")], user="ada")
    with pytest.raises(UsageError, match="a tool look, too"):
        answers(session, [user("a")], user="ada", actions=[LOOK])


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


# -- models, retries and restarts --------------------------------------------------------------------------------------


class Numbered(Policy):
    """Answers with the text that it was made with. All of its tokens lie in a hundred of their own."""

    def __init__(self, mark: int, text: str) -> None:
        self.mark, self.text, self.requests = mark, text, list[Request]()

    async def generate(self, request: Request) -> Generation:
        self.requests.append(request)
        number = self.mark * 100 + len(self.requests)
        return Generation(self.text, prompt_ids=(self.mark * 100,), token_ids=(number,), logprobs=(-1.0,))

    async def forward(self, request: Request, forwarded: Forwarded) -> Passed:
        return Passed((Generation(forwarded.recalled),))


def answer(session: Session, messages: Sequence[Message], policy: Policy, model: str) -> Reply:
    return asyncio.run(session.answer(messages, policy=policy, model=model))


def goes_on_from(policy: Numbered) -> tuple[int, ...]:
    """The tokens that the policy was last given to go on from."""
    before = policy.requests[-1].before
    return () if before is None else before.token_ids


def restored(session: Session, policy: Policy, memories: Sequence[Memory] = ()) -> Session:
    """The session in a later process, from its record."""
    later = Session(policy, session.episode.task, memories=memories)
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
    assert session.unfinished == []


class Topics(Memory):
    """Knows a line of each topic, and that texts of different topics are far apart."""

    def __init__(self, *topics: str) -> None:
        self.topics, self.asked = list(topics), list[str]()

    async def recall(self, query: Query) -> Sequence[Recollection]:
        self.asked.append(query.text)
        return [Recollection(f"Ada likes {topic}.") for topic in self.topics if topic in query.text]

    async def embed(self, texts: Sequence[str]) -> Embedded:
        return Embedded("topics", [[float(topic in text) for topic in ("tea", "tests", "Hello")] for text in texts])


@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_recalled_later_is_told_once_and_to_its_user_alone_until_it_is_forgotten(restarts: bool) -> None:
    memory, policy = Topics("tea", "tests"), Numbered(1, "Yes.")
    session = Session(policy, Task(0, seed=7, user="ada"), memories=[memory])

    def shown(*texts: str, name: str = "ada") -> list[str]:
        """What the policy is shown of a conversation in which it always said yes."""
        nonlocal session
        session = restored(session, policy, [memory]) if restarts else session
        talk = [one for text in texts for one in (user(text), Message("assistant", "Yes."))]
        asyncio.run(session.answer(talk[:-1], user=name))
        return [message.content for message in policy.requests[-1].messages]

    later = "Run the tests.\n\nYou remember:\n- Ada likes tests."
    assert shown("Hello") == ["Hello"]
    for _ in range(2):
        assert shown("Hello", "Run the tests.") == ["Hello", "Yes.", later]
    assert shown("Hello", "Run the tests.", "More tests") == ["Hello", "Yes.", later, "Yes.", "More tests"]
    assert memory.asked == ["Hello", "Run the tests."], "once for each subject"
    assert shown("Hello", "Run the tests.", "And tea?")[-1] == "And tea?\n\nYou remember:\n- Ada likes tea."
    assert shown("Hello", "Run the tests.", "And tea?", "Hello tests")[-1] == "Hello tests", "no line twice"
    plain = ["Hello", "Yes.", "Run the tests.", "Yes.", "More"]
    for name in ("", "eve"):
        assert shown("Hello", "Run the tests.", "More", name=name) == plain
        assert goes_on_from(policy) == (), "nor in the tokens of an answer to it"
    first = ["You remember:\n- Ada likes tea.", "Which tea?"]
    assert shown("Which tea?") == first
    memory.topics.append("Which")
    assert shown("Which tea?", "Green?") == [*first, "Yes.", "Green?"]
    assert goes_on_from(policy) == session.episode.turns[-2].token_ids
    assert "likes Which" in shown("Which one?")[0], "a new conversation is told what is known now"
    for name, told in (("ada", first[0]), ("eve", ""), ("", "")):
        passed = session.answer([user("Which tea?")], user=name, forwarded=Forwarded({}))
        assert asyncio.run(passed).turn.text == told
    memory.topics.clear()
    session.forget_recalled()
    assert shown("Hello", "Run the tests.", "More") == plain
    assert shown("Which tea?", "Green?") == ["Which tea?", "Yes.", "Green?"]
    said = [event.data["message"] for event in session.episode.events if event.name == "said"]
    assert [session.episode.messages[place].content for place in said] == [
        *("Hello", "Run the tests.", "More tests", "And tea?", "Hello tests"),
        *("Which tea?", "Green?", "Which one?", "More", "Green?"),
    ], "each is heard once, or again after a forgetting"
