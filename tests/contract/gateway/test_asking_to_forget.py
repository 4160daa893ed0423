"""Who asks a gateway's memory to forget something is asked back, and what was listed goes with their yes."""

from __future__ import annotations

import pytest
from waiting import until

from .conftest import Gateway, Start, said

pytest.importorskip("igraph")


@pytest.fixture
def running(gateway: Start) -> Gateway:
    started = gateway(memories=["skillgraph"], assignments=["memory.skillgraph.embedder=hash"])
    for number, text in enumerate(("I have a dog called Rex.", "I live in Rome.")):
        hear(started, f"before-{number}", text)
    return started


def hear(running: Gateway, session: str, *texts: str) -> None:
    """Say something in a conversation, and wait until the memory has heard it."""
    messages = []
    for text in texts:
        messages.append({"role": "user", "content": text})
        messages.append(said(running.ask(session, *messages, user="ada")))
        until(lambda: running.request("GET", "/memory?user=ada").json()["waiting"] == 0)


def told(running: Gateway, session: str) -> str:
    return "\n".join(message.content for message in running.kept(session).messages if message.role == "system")


def test_what_was_asked_to_forget_is_told_and_goes_with_a_yes(running: Gateway) -> None:
    hear(running, "talk", "Please forget that I have a dog.")
    assert len(running.remembered("ada")) == 2
    [line] = [line for line in told(running, "talk").splitlines() if "asks to forget this" in line]
    assert "I have a dog called Rex." in line

    hear(running, "talk-again", "Please forget that I have a dog.", "Yes, please delete it!")

    assert running.remembered("ada") == ["I live in Rome."]


@pytest.mark.parametrize("answer", ["No, keep it.", "Yes, and what about the weather?", "What else do you know?"])
def test_nothing_goes_with_another_answer(running: Gateway, answer: str) -> None:
    hear(running, "talk", "Please forget that I have a dog.", answer, "Yes.")
    assert "I have a dog called Rex." in running.remembered("ada")
