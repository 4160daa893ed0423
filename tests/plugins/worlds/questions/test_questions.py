"""Prompts in a file, or in Python, whose answers a reward function scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import agentfw
from agentfw import Request
from agentfw.episode import Call
from agentfw.errors import PluginError, SettingsError, UsageError
from agentfw.runs import RunResult

SUMS = [{"prompt": f"{row // 2}+1=", "answer": str(row // 2 + 1)} for row in range(20)]
"""The split for tests has two of them: 4+1 and 9+1."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def adds(request: Request) -> str:
    """A policy that can add, up to nine."""
    first = request.messages[-1].content.partition("+")[0]
    return str(min(int(first) + 1, 9))


def repeats(request: Request) -> str:
    return " | ".join(message.content for message in request.messages)


def played(tasks: Any, reward: Any, policy: Any = adds, **settings: Any) -> RunResult:
    return agentfw.run(tasks=tasks, policy=policy, reward=reward, episodes=8, settings=settings)


def reward_of(result: RunResult) -> float:
    return result.figures["reward"].estimate


def test_a_function_for_trl_runs_unchanged_on_texts_and_on_messages() -> None:
    chats = [{**row, "prompt": [{"role": "user", "content": row["prompt"]}]} for row in SUMS]
    seen = dict[str, Any]()

    def correct(completions: list[str], answer: list[str], **columns: Any) -> list[float]:
        seen.update(columns, completions=completions)
        return [float(text == gold) for text, gold in zip(completions, answer, strict=True)]

    def of_chats(prompts: list[Any], completions: list[Any], answer: list[str]) -> list[float]:
        assert prompts[0][-1]["role"] == "user"
        return correct([one[0]["content"] for one in completions], answer)

    def of_fives(completions: list[str], answer: list[str], **columns: Any) -> list[float | None]:
        return [1.0 if gold == "5" else None for gold in answer]  # None: nothing to say of it

    assert reward_of(played(SUMS, correct)) == 0.5
    assert sorted(len(line["scores"]) for line in played(SUMS, of_fives).folder.metrics()) == [0, 1]
    assert seen.keys() >= {"prompts", "completion_ids", "trainer_state"}
    assert seen["prompts"][0].endswith("+1=")
    assert reward_of(played(chats, of_chats)) == 0.5


def test_functions_for_verifiers_run_unchanged_plain_and_async() -> None:
    def correct(completion: Any, answer: str, **kwargs: Any) -> float:
        assert kwargs.keys() >= {"prompt", "state", "info"}
        return float(completion[-1]["content"] == answer)

    async def asked(prompt: Any, completion: Any, info: dict[str, Any], state: dict[str, Any]) -> float:
        return float(state["prompt"] == prompt and info["hard"] and len(completion) == 1)

    def short(state: dict[str, Any]) -> float:
        return float(len(state["completion"]) == 1)

    result = played([{**row, "info": {"hard": True}} for row in SUMS], [correct, asked, short])

    assert reward_of(result) == 2.5
    assert [score[0] for score in result.folder.metrics()[0]["scores"]] == ["correct", "asked", "short"]


def test_a_prompt_may_have_the_separators_of_lines_that_json_leaves_as_they_are() -> None:
    result = played([{"prompt": "4\u2028\x85+1=", "answer": "5"}], lambda episode: 1.0, repeats)

    assert [episode.turns[0].text for episode in result.episodes] == ["4\u2028\x85+1="]


def test_a_reward_in_a_file_or_in_a_script_is_found_by_its_name(folder: Path) -> None:
    (folder / "rewards.py").write_text(
        "def short(completion: str) -> float:\n    return float(len(completion) == 1)\n"
        "def never(completion) -> float:\n    return 0.0\n",
        "utf-8",
    )

    (folder / "script.py").write_text(
        "import agentfw\n"
        "def short(completion: str) -> float:\n    return float(len(completion) == 1)\n"
        "agentfw.run('nothing of this name')\n",
        "utf-8",
    )

    assert reward_of(played(SUMS, "rewards.py:short")) == 1.0
    assert reward_of(played(SUMS, "script.py:short")) == 1.0, "a script that trains doesn't run again"
    with pytest.raises(UsageError, match=r"shirt.*did you mean"):
        played(SUMS, "rewards.py:shirt")
    with pytest.raises(PluginError, match="several"):
        played(SUMS, "rewards.py")


def test_a_file_of_tasks_takes_the_place_of_an_environment(folder: Path) -> None:
    (folder / "sums.jsonl").write_text("\n".join(map(json.dumps, SUMS)), "utf-8")

    result = agentfw.run("sums.jsonl", policy=adds, reward="format")

    assert reward_of(played([{"prompt": "2+1=", "answer": "3 "}], "utility", lambda request: " 3")) == 1.0
    assert result.folder.about["spec"]["environment"]["name"] == "questions"
    assert sorted(episode.messages[0].content for episode in result.episodes) == ["4+1=", "9+1="]


def test_a_conversation_goes_on_with_what_the_task_or_a_function_says(folder: Path) -> None:
    (folder / "world.py").write_text(
        "def answers(messages, patience):\n    return 'again' if len(messages) < 2 * patience else None\n", "utf-8"
    )
    tasks = [{"prompt": "one", "follow_ups": ["two"], "patience": 3}]
    settings = {"environment.reply": "world.py:answers", "environment.system": "Be."}
    chat = [{"role": role, "content": role} for role in ("system", "user", "assistant")]

    result = played(tasks, "format", repeats, **settings)
    row = {"messages": chat, "patience": 9, **dict.fromkeys(("user", "follow_ups", "answer"))}  # as tables write it
    short = played([row], "format", repeats, **settings, **{"environment.max_turns": 2})

    assert short.episodes[0].turns[0].text == "system | user", "its own system message, and no answer"
    assert (len(short.episodes[0].turns), short.episodes[0].task.user) == (2, "user")
    assert [turn.text for turn in result.episodes[0].turns] == [
        "Be. | one",
        "Be. | one | Be. | one | two",
        "Be. | one | Be. | one | two | Be. | one | Be. | one | two | again",
    ]


def test_the_policy_calls_tools_that_are_functions() -> None:
    def weather(city: str) -> str:
        """Today's weather in a city."""
        return f"rain in {city}"

    def looks_up(request: Request) -> Any:
        last = request.messages[-1]
        return last.content if last.role == "tool" else Call("weather", {"city": "Lyon"}, "1")

    def told(completion: list[dict[str, Any]]) -> float:
        return float([one["role"] for one in completion] == ["assistant", "tool", "assistant"])

    tasks = [{"prompt": "Weather in Lyon?"}]
    result = agentfw.run(tasks=tasks, policy=looks_up, tool=weather, reward=told)

    assert result.episodes[0].turns[-1].text == "rain in Lyon"
    assert reward_of(result) == 1.0


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"answer": "2"}, "asks nothing"),
        ({"prompt": [{"role": "king", "content": "?"}]}, "role"),
        ({"messages": [1]}, "messages"),
        ({"prompt": 5}, "its prompt is 5"),
    ],
)
def test_a_task_that_cannot_be_asked_is_an_error_before_any_work(row: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        played([row], "format")
