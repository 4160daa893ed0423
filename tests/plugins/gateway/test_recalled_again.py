"""What users say later in a session is recalled for, too, and added behind what stood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from chat_server import completion

from agentfw import Memory
from agentfw.memory import Embedded, Query, Recollection, Remembered
from agentfw_plugins.protocols import protocols

from .upstream import Passing, passing


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
    answer = httpx.post(f"{gateway.url}{path}", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


@pytest.fixture
def gateway(tmp_path: Path) -> Any:
    with passing(tmp_path, completion("fine"), memories=["strategyhub"]) as running:
        [guarded] = running.live.assembly.memories
        guarded.inside = Topics()
        yield running


def test_another_subject_is_recalled_for_behind_what_stood(gateway: Passing) -> None:
    first = ["Which tea?"]
    second = [*first, "fine", "And now run the tests."]
    third = [*second, "fine", "Which tests failed"]
    for conversation in (first, second, second, third):
        asked(gateway, *conversation)

    shown = [body["messages"] for body in gateway.asked]
    assert shown[0][0]["content"].endswith("- Ada likes tea.")
    assert shown[1][:3] == [*shown[0], {"role": "assistant", "content": "fine"}]
    assert shown[1][3]["content"] == "And now run the tests.\n\nYou remember:\n- Ada likes tests."
    assert shown[2] == shown[1]
    assert shown[3][:4] == shown[1]
    assert shown[3][-1]["content"] == "Which tests failed"
    session = httpx.get(f"{gateway.url}/s/one?user=ada").json()
    assert [one["text"] for one in session["recalled"]] == ["Ada likes tea.", "Ada likes tests."]
    said = [one["content"] for one in session["messages"] if one["role"] == "user"]
    assert said == ["Which tea?", "And now run the tests.", "Which tests failed"]


def test_what_was_recalled_later_is_told_no_more_once_it_is_forgotten(gateway: Passing) -> None:
    asked(gateway, "Hello.")
    asked(gateway, "Hello.", "fine", "Run the tests.")
    httpx.delete(f"{gateway.url}/memory?user=ada").raise_for_status()
    asked(gateway, "Hello.", "fine", "Run the tests.", "fine", "Go on.")

    told = [[message["content"] for message in body["messages"]] for body in gateway.asked]
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


def test_a_message_that_is_not_there_changes_nothing() -> None:
    bodies: list[dict[str, Any]] = [
        {"messages": []},
        {"messages": None},
        {},
        {"messages": [{"role": "user", "content": [RESULT]}]},
    ]
    for body in bodies:
        assert protocols()["messages"].with_recalled_again(dict(body), 0, ADDED) == body
