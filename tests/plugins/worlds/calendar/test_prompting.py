"""The prompting styles, end to end: what a model behind a server reads, and what becomes of its answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_server import completion, serving, tool_call

from agentfw import Host
from agentfw.host import HostOptions
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec
from agentfw.runs.spec.values import apply_assignments, read_spec
from agentfw_memory import StrategyHubs
from agentfw_plugins.worlds.calendar.environment import CalendarConflicts

DECISION = {"accept": "C", "ranking": ["C", "A", "B", "D", "E"], "reason": "it is urgent"}
ROUNDS = 23

Message = dict[str, Any]
Model = Callable[[dict[str, Any]], Message]


def call(name: str, **arguments: Any) -> Message:
    return {"tool_calls": [tool_call(name, **arguments)]}


def play(style: str, model: Model, folder: Path, rounds: int = ROUNDS) -> tuple[Run, list[dict[str, Any]]]:
    """A short run of the spec that is shipped for a style."""
    host = Host.load(HostOptions(disabled=("all",)))
    values = read_spec(Path(host.find_spec(f"calendar-{style}").path))
    with serving(lambda body: completion(None, message=model(body))) as (address, server):
        changes = {"environment": {"rounds": rounds}, "policy": {"base_url": address, "model": "m"}, "episodes": 1}
        run = Run.create(parse_spec(apply_assignments(values, changes)), host, folder)
        asyncio.run(run.execute())
    return run, server.bodies


def told(body: dict[str, Any], what: str) -> int:
    """How many messages of a request have such a line."""
    return sum(what in str(message["content"]) for message in body["messages"] if message["role"] == "user")


@pytest.mark.parametrize(
    ("style", "rounds", "answer", "told"),
    [
        ("zero-shot", 3, "", ["at once"]),
        ("react", 3, "<reasoning>A is optional, C is not.</reasoning>", ["<reasoning>"]),
        (
            "memory-react",
            ROUNDS,
            "<observation>None yet.</observation><reasoning>So C.</reasoning>",
            ["<observation>", "<reasoning>"],
        ),
    ],
)
def test_a_style_is_what_the_model_reads_and_its_answer_is_a_decision(
    tmp_path: Path, style: str, rounds: int, answer: str, told: list[str]
) -> None:
    run, asked = play(style, lambda body: {"content": answer, **call("decide", **DECISION)}, tmp_path, rounds)

    (episode,) = run.folder.episodes()
    assert len(asked) == rounds
    assert episode.outcome["invalid"] == 0
    assert [turn.calls[0].arguments["accept"] for turn in episode.turns] == ["C"] * rounds
    for body in asked:
        system = body["messages"][0]
        assert system["role"] == "system"
        assert system["content"].startswith(CalendarConflicts().goal())
        assert all(words in system["content"] for words in told)
        assert "strategy_hub" not in json.dumps(body)
        assert [tool["function"]["name"] for tool in body["tools"]] == ["decide"]
        assert (body["temperature"], body["top_p"]) == (0.6, 0.95)
    # The window of the paper: 20 rounds back, each with the feedback on the one before.
    last = [message for message in asked[-1]["messages"] if message["role"] == "user"]
    assert len(last) == min(rounds, 20 + 1)
    assert all("feedback: " in message["content"] for message in last[1:])


def test_with_a_strategyhub_the_model_lists_updates_and_decides(tmp_path: Path) -> None:
    def model(body: dict[str, Any]) -> Message:
        last = body["messages"][-1]
        answered = [message["content"] for message in body["messages"] if message["role"] == "tool"]
        if "conflict: " in str(last["content"]):
            return call("strategy_hub", action="list")
        if answered[-1] == "(no strategies yet)":
            return call("strategy_hub", action="update", strategies=["urgent first"])
        return call("decide", **DECISION)

    run, asked = play("strategyhub", model, tmp_path)

    (episode,) = run.folder.episodes()
    assert [tool["function"]["name"] for tool in asked[0]["tools"]] == ["decide", "strategy_hub"]
    assert "strategy_hub" in asked[0]["messages"][0]["content"]
    names = [call.name for turn in episode.turns for call in turn.calls]
    assert names == ["strategy_hub", "strategy_hub", "decide", *["strategy_hub", "decide"] * (ROUNDS - 1)]
    assert episode.outcome["invalid"] == 0
    with StrategyHubs.open(run.folder.path / "strategies.db") as hubs:
        assert [change.strategies for change in hubs.hub(episode.task.user, episode.id).history()] == [
            ("urgent first",)
        ]
    seen = [message["content"] for message in asked[-1]["messages"] if message["role"] == "tool"]
    assert "urgent first" in seen[-1]
    assert told(asked[-1], "conflict: ") == 20 + 1, "as many as in the other styles, for the window counts rounds"
    assert told(asked[-1], "feedback: ") == 20 + 1
