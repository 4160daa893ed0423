"""A gateway with a memory, each that ships: it learns from what its users say, and shows each what it keeps of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_server import completion, tool_call
from waiting import until

from agentfw import Intervention, Memory, Moment
from agentfw.memory import Embedded, Query, Recollection, Remembered
from agentfw.runs import read_sessions
from agentfw_plugins.plugin import REGISTRATION
from agentfw_plugins.protocols import protocols

from .conftest import CLIENT, Serve, Served, served
from .test_sessions import WEATHER, Body, ask, body, said
from .upstream import Passing, passing


def told(gateway: Served, text: str, user: str) -> None:
    """Say something, and wait until it was heard."""
    gateway.ask(f"{user}-{time.monotonic_ns()}", text, user=user).raise_for_status()
    until(lambda: text in gateway.remembered(user))


@pytest.mark.parametrize("name", [memory.name for memory in REGISTRATION.memories])
def test_each_memory_that_ships_acts_in_a_gateway(name: str, tmp_path: Path) -> None:
    if name == "skillgraph":
        pytest.importorskip("igraph")

    with served(tmp_path, policy="scripted", assignments=['policy.replies=["I see."]'], memories=[name]) as gateway:

        def is_heard() -> bool:
            heard = CLIENT.get(f"{gateway.url}/memory", params={"user": "ada"})
            return not (heard.is_success and heard.json()["waiting"])

        for session, text in (("first", "I live in Rome."), ("second", "Where do I live?")):
            ask(gateway.session(session), body(text, user="ada"))
            until(is_heard)
        [second] = read_sessions(gateway.live.folder.path, "second")

    is_told = any("Rome" in message.content for message in second.messages if message.role == "system")
    is_offered_tools = any(second.actions.values())
    assert is_told or is_offered_tools


class Topics(Memory):
    """Knows a thing of each topic until it is forgotten, and that texts of different topics are far apart."""

    async def forget(self, user: str) -> dict[str, int]:
        return {}

    async def remembered(self, user: str) -> list[Remembered]:
        return []

    async def recall(self, query: Query) -> list[Recollection]:
        return [Recollection(f"Ada likes {topic}.") for topic in ("tea", "tests") if topic in query.text]

    async def embed(self, texts: Any) -> Embedded:
        vectors = [["tea" in text, "tests" in text, "Hello" in text] for text in texts]
        return Embedded("topics", [[float(one) for one in vector] for vector in vectors])


def asked(gateway: Passing, *messages: str, path: str = "/s/one/v1/chat/completions") -> dict[str, Any]:
    roles = ("user", "assistant")
    conversation = [{"role": roles[i % 2], "content": text} for i, text in enumerate(messages)]
    body: dict[str, Any] = {"model": "served", "messages": conversation, "max_tokens": 50}
    body |= {"metadata": {"user_id": "ada"}} if path.endswith("/messages") else {"user": "ada"}
    answer = CLIENT.post(f"{gateway.url}{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


@pytest.fixture
def knows_topics(tmp_path: Path) -> Iterator[Passing]:
    """A gateway with this memory."""
    with passing(tmp_path, completion("fine"), memories=["strategyhub"]) as running:
        [guarded] = running.live.assembly.memories
        guarded.inside = Topics()
        yield running


def test_another_subject_is_recalled_for_behind_what_stood(knows_topics: Passing) -> None:
    first = ["Which tea?"]
    second = [*first, "fine", "And now run the tests."]
    third = [*second, "fine", "Which tests failed"]
    for conversation in (first, second, second, third):
        asked(knows_topics, *conversation)

    shown = [body["messages"] for body in knows_topics.asked]
    assert shown[0][0]["content"].endswith("- Ada likes tea.")
    assert shown[1][:3] == [*shown[0], {"role": "assistant", "content": "fine"}]
    assert shown[1][3]["content"] == "And now run the tests.\n\nYou remember:\n- Ada likes tests."
    assert shown[2] == shown[1]
    assert shown[3][:4] == shown[1]
    assert shown[3][-1]["content"] == "Which tests failed"
    session = CLIENT.get(f"{knows_topics.url}/s/one?user=ada").json()
    assert [one["text"] for one in session["recalled"]] == ["Ada likes tea.", "Ada likes tests."]
    said = [one["content"] for one in session["messages"] if one["role"] == "user"]
    assert said == ["Which tea?", "And now run the tests.", "Which tests failed"]


def test_what_was_recalled_later_is_told_no_more_once_it_is_forgotten(knows_topics: Passing) -> None:
    asked(knows_topics, "Hello.")
    asked(knows_topics, "Hello.", "fine", "Run the tests.")
    CLIENT.delete(f"{knows_topics.url}/memory?user=ada").raise_for_status()
    asked(knows_topics, "Hello.", "fine", "Run the tests.", "fine", "Go on.")

    told = [[message["content"] for message in body["messages"]] for body in knows_topics.asked]
    assert told[1][-1].endswith("- Ada likes tests.")
    assert told[2] == ["Hello.", "fine", "Run the tests.", "fine", "Go on."]


TEXT = {"type": "text", "text": "Run it."}
RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "I live in Rome."}
ADDED = "- Ada likes tests."


@pytest.mark.parametrize(
    ("protocol", "body", "last"),
    [
        ("chat", {"messages": [{"role": "user", "content": "Run it."}]}, {"content": f"Run it.\n\n{ADDED}"}),
        (
            "messages",
            {"messages": [{"role": "user", "content": [RESULT]}, {"role": "user", "content": [RESULT, TEXT]}]},
            {"content": [RESULT, TEXT, {"type": "text", "text": ADDED}]},
        ),
        (
            "responses",
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Run it."}]}]},
            {"content": [{"type": "input_text", "text": "Run it."}, {"type": "input_text", "text": ADDED}]},
        ),
        ("responses", {"input": "Run it."}, f"Run it.\n\n{ADDED}"),
        (
            "google",
            {"contents": [{"role": "user", "parts": [{"text": "Run it."}]}]},
            {"parts": [{"text": "Run it."}, {"text": ADDED}]},
        ),
    ],
)
def test_each_protocol_is_told_in_the_users_message(protocol: str, body: dict[str, Any], last: Any) -> None:
    [name] = body

    found = protocols()[protocol].with_recalled_again(body, 0, ADDED)

    if isinstance(last, str):
        assert found == {name: last}
    else:
        assert found == {name: [*body[name][:-1], {"role": "user", **last}]}


# -- tools of a memory -------------------------------------------------------------------------------------------------

OPTIONS: dict[str, Any] = {
    "policy": "scripted",
    "memories": ["strategyhub"],
    "assignments": [f"policy.rule={__name__}:keeps"],
}
ADA = {"x-agentfw-user": "ada"}


def keeps(moment: Moment) -> Iterator[Intervention | str]:
    """Keeps what it is told in the hub, says what is there, and looks at the weather and the hub at once."""
    text = moment.observations[-1].text
    if moment.observations[-1].name == "answer":
        yield f"Kept: {', '.join(one.text for one in moment.of('answer'))}"
    elif text.startswith("keep"):
        yield "One moment. "
        yield Intervention("strategy_hub", {"action": "update", "strategies": [text.removeprefix("keep ")]})
    elif text == "both":
        yield Intervention("strategy_hub", {"action": "list"})
        yield Intervention("weather", {"city": "Rome"})
    else:
        yield Intervention("strategy_hub", {"action": "list"})


@pytest.fixture
def hub(serve: Serve) -> Served:
    return serve(**OPTIONS)


def test_the_session_calls_the_tools_of_its_memory_and_the_program_sees_the_answer_alone(hub: Served) -> None:
    url = hub.session("tea")

    kept = ask(url, body("keep green tea"), ADA)
    known = ask(url, body("keep green tea", said(kept), "what do you know?"), ADA)

    assert said(kept) == {"role": "assistant", "content": "One moment. Kept: green tea"}
    assert kept["choices"][0]["finish_reason"] == "stop"
    assert said(known)["content"] == "Kept: green tea"
    episode = hub.episode()
    roles = " ".join(message.role for message in episode.messages)
    assert roles == "user assistant tool assistant user assistant tool"
    assert [len(turn.shown) for turn in episode.turns] == [1, 3, 5, 7]
    assert [event.data["name"] for event in episode.events if event.name == "called"] == ["strategy_hub"] * 2
    assert [action["name"] for action in episode.actions[""]] == ["strategy_hub"]


def test_a_stream_tells_all_words_and_calls_of_the_programs_own_tools_alone(hub: Served) -> None:
    client = hub.openai().with_options(default_headers=ADA)
    keep: Any = [{"role": "user", "content": "keep green tea"}]
    deltas = [
        chunk.choices[0].delta for chunk in client.chat.completions.create(model="scripted", messages=keep, stream=True)
    ]
    first = said(ask(hub.session("both"), body("both", tools=[WEATHER]), ADA))
    result: Body = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "sunny"}
    second = said(ask(hub.session("both"), body("both", first, result, tools=[WEATHER]), ADA))

    assert "".join(delta.content or "" for delta in deltas) == "One moment. Kept: green tea"
    assert not any(delta.tool_calls for delta in deltas)
    assert [call["function"]["name"] for call in first["tool_calls"]] == ["weather"]
    assert second["content"] == "Kept: (no strategies yet), sunny"
    assert [len(turn.shown) for turn in hub.episode("both").turns] == [1, 4]
    tool = {"type": "function", "function": {"name": "strategy_hub", "parameters": {"type": "object"}}}
    clash = CLIENT.post(f"{hub.session('tea')}/chat/completions", json=body("hi", tools=[tool]), headers=ADA)
    assert (clash.status_code, "the memory has a tool strategy_hub, too" in clash.text) == (409, True)


def test_a_conversation_goes_on_after_a_restart_with_what_the_program_did_not_see(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with served(runs, **OPTIONS) as gateway:
        kept = said(ask(gateway.session("tea"), body("keep green tea"), ADA))
        both = said(ask(gateway.session("tea"), body("both", tools=[WEATHER]), ADA))
        gateway.live.sessions["tea"].in_flight = 0
        kept_on = gateway.live.folder
        gateway.stop(keeps_sessions=True)
    with served(runs, resume="last") as gateway:
        again = said(ask(gateway.session("tea"), body("keep green tea", kept, "what do you know?"), ADA))
        result: Body = {"role": "tool", "tool_call_id": both["tool_calls"][0]["id"], "content": "sunny"}
        ask(gateway.session("tea"), body("both", both, result, tools=[WEATHER]), ADA)
        turns = gateway.episode().turns

    assert again["content"] == "Kept: green tea", "the hub belongs to the session, which goes on"
    assert [len(turn.shown) for turn in turns] == [1, 3, 1, 5, 7, 4]
    [episode] = read_sessions(kept_on.path)
    assert len(episode.turns) == 6


def test_in_front_of_a_server_the_tools_are_offered_to_its_model(tmp_path: Path) -> None:
    both = [tool_call("strategy_hub", action="list")] * 2  # of a server that gives two calls one id
    call = completion(None, message={"tool_calls": both})
    with passing(tmp_path / "runs", call, completion("Nothing yet."), memories=["strategyhub"]) as gateway:
        answer = ask(gateway.session("tea"), {**body("what do you know?"), "model": "agentfw"}, ADA)
        refused = CLIENT.post(f"{gateway.session('tea')}/chat/completions", json=body("hi", logit_bias={"5": 1}))
        asked = gateway.asked

    assert said(answer) == {"role": "assistant", "content": "Nothing yet."}
    assert [[tool["function"]["name"] for tool in one["tools"]] for one in asked] == [["strategy_hub"]] * 2
    assert [message["role"] for message in asked[1]["messages"]] == ["user", "assistant", "tool", "tool"]
    assert asked[1]["messages"][-1]["content"] == "(no strategies yet)"
    assert refused.json()["error"]["code"] == "unsupported_parameter"
