"""The command, called in this process, and the files of a small agent that sends mails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chat_server import Server, completion, serving, tool_call

POLICY = """
from agentfw import Intervention

CARD = " ".join(["4111", *["1111"] * 3])  # in parts: a run has a copy of this file, and no hook changes code

def decide(request):
    sent = any(call.name == "send_mail" for message in request.messages for call in message.calls)
    return "done" if sent else [Intervention("send_mail", {"to": "ada", "text": f"my card is {CARD}"})]
"""
TOOL = """
from pathlib import Path

def send_mail(to: str, text: str) -> str:
    "Send a mail."
    with Path("sent.txt").open("a") as file:
        file.write(to)
    return "sent"
"""


@pytest.fixture
def mailing(tmp_path: Path) -> tuple[str, ...]:
    """The words of a run in which the agent sends a mail."""
    (tmp_path / "mailing.py").write_text(POLICY)
    (tmp_path / "send_mail.py").write_text(TOOL)
    return ("run", "inbox", "--policy", "./mailing.py", "--tool", "./send_mail.py", "--episodes", "1")


@pytest.fixture
def model() -> Iterator[tuple[str, Server]]:
    """A server whose model first sends a mail, and then says that it has."""
    sending = completion(None, message={"tool_calls": [tool_call("send_mail", to="ada", text="hello")]})
    with serving(sending, completion("It is done.")) as found:
        yield found
