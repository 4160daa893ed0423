"""A memory that acts through tools, in a gateway: the program doesn't see the calls, and the record has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from chat_server import completion, tool_call

from agentfw import Intervention, Moment
from agentfw.runs import read_sessions

from .conftest import CLIENT, Serve, Served, served
from .test_sessions import WEATHER, Body, ask, body, said
from .upstream import passing

OPTIONS: dict[str, Any] = {
    "policy": "scripted",
    "memories": ["strategyhub"],
    "assignments": [f"policy.rule={__name__}:rule"],
}
ADA = {"x-agentfw-user": "ada"}


def rule(moment: Moment) -> Iterator[Intervention | str]:
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
def gateway(serve: Serve) -> Served:
    return serve(**OPTIONS)


def test_the_session_calls_the_tools_of_its_memory_and_the_program_sees_the_answer_alone(gateway: Served) -> None:
    url = gateway.session("tea")

    kept = ask(url, body("keep green tea"), ADA)
    known = ask(url, body("keep green tea", said(kept), "what do you know?"), ADA)

    assert said(kept) == {"role": "assistant", "content": "One moment. Kept: green tea"}
    assert kept["choices"][0]["finish_reason"] == "stop"
    assert said(known)["content"] == "Kept: green tea"
    episode = gateway.live.sessions["tea"].episode
    roles = " ".join(message.role for message in episode.messages)
    assert roles == "user assistant tool assistant user assistant tool"
    assert [len(turn.shown) for turn in episode.turns] == [1, 3, 5, 7]
    assert [event.data["name"] for event in episode.events if event.name == "called"] == ["strategy_hub"] * 2
    assert [action["name"] for action in episode.actions[""]] == ["strategy_hub"]


def test_calls_of_the_program_s_own_tools_are_left_to_it(gateway: Served) -> None:
    url = gateway.session("tea")

    first = said(ask(url, body("both", tools=[WEATHER]), ADA))
    result: Body = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "sunny"}
    second = said(ask(url, body("both", first, result, tools=[WEATHER]), ADA))

    assert [call["function"]["name"] for call in first["tool_calls"]] == ["weather"]
    assert second["content"] == "Kept: (no strategies yet), sunny"
    assert [len(turn.shown) for turn in gateway.live.sessions["tea"].episode.turns] == [1, 4]


def test_a_stream_tells_all_words_and_no_call_of_the_memory(gateway: Served) -> None:
    with openai.OpenAI(base_url=gateway.session("tea"), api_key="none", default_headers=ADA) as client:
        stream = client.chat.completions.create(
            model="scripted", messages=[{"role": "user", "content": "keep green tea"}], stream=True
        )
        deltas = [chunk.choices[0].delta for chunk in stream if chunk.choices]

    assert "".join(delta.content or "" for delta in deltas) == "One moment. Kept: green tea"
    assert not any(delta.tool_calls for delta in deltas)


def test_a_tool_of_the_program_may_not_be_called_as_one_of_the_memory(gateway: Served) -> None:
    tool = {"type": "function", "function": {"name": "strategy_hub", "parameters": {"type": "object"}}}

    answer = CLIENT.post(f"{gateway.session('tea')}/chat/completions", json=body("hi", tools=[tool]), headers=ADA)

    assert answer.status_code == 409
    assert "the memory has a tool strategy_hub, too" in answer.text


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
        turns = gateway.live.sessions["tea"].episode.turns

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
