"""`agentfw chat` without a terminal: each line is said or obeyed, answers go to stdout, and all of it is recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Agentfw
from serving_gateways import EARS

from agentfw import Episode
from agentfw.runs import RunFolder

POLICY = '''
def decide(request):
    """Repeats what was said, and says what it is told of the user."""
    told = [message.content for message in request.messages if message.role == "system"]
    return f"You said: {request.messages[-1].content}" + (" I know: " + told[-1] if told else "")
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "echo.py").write_text(POLICY)
    return tmp_path


Talk = Callable[..., str]


@pytest.fixture
def talk(chat: Agentfw, folder: Path) -> Talk:
    """Types lines. Returns what is answered."""

    def call(*lines: str, user: str = "ada") -> str:
        typed = "".join(f"{line}\n" for line in lines)
        done = chat(typed, "--policy", "./echo.py", "--memory", str(EARS), "--user", user)
        assert done.code == 0, done.err
        return done.out

    return call


def episodes(folder: Path) -> list[Episode]:
    [run] = (folder / "runs").iterdir()
    return list(RunFolder.open(run).episodes())


def test_a_conversation_is_answered_rated_and_recorded(talk: Talk, folder: Path) -> None:
    told = talk("Which tea?", "/good Short.", "And which \\", "cake?", "/edit A plum cake.", "Thanks", "/undo")

    answers = [line for line in told.splitlines() if line.startswith("You said: ")]
    assert answers[0] == "You said: Which tea?"
    assert "You said: And which \ncake?" in told
    [episode] = episodes(folder)
    assert [episode.messages[turn.shown[-1]].content for turn in episode.turns] == [
        "Which tea?",
        "And which \ncake?",
        "Thanks",
    ]
    given = [event.data for event in episode.events if event.name == "feedback"]
    assert [(one["value"], one["turn"], one["text"]) for one in given] == [
        (1.0, 0, "Short."),
        (-1.0, 1, "A plum cake."),
    ]
    thanks = [
        episode.messages[place].content for place in episode.turns[2].shown if episode.messages[place].role != "system"
    ]
    assert thanks == ["Which tea?", "You said: Which tea?", "And which \ncake?", "A plum cake.", "Thanks"]


def test_what_one_user_said_is_known_to_them_alone_until_they_are_forgotten(talk: Talk, folder: Path) -> None:
    talk("I like plums.")
    hers, his = talk("What do I like?", "/forget"), talk("What do I like?", user="bob")
    later = talk("What do I like?")

    assert "I know: " in hers
    assert "plums" in hers
    assert "plums" not in his + later
    assert "plums" not in json.dumps(episodes(folder)[-1].to_record())
