"""Somebody else's program in a run: it asks the policy over HTTP, is scored by what it achieves, and can be trained."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from agentfw import Episode, Host, Run
from agentfw.errors import SettingsError
from agentfw.runs import parse_spec

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

TASKS = Path(__file__).parent / "tasks.jsonl"
AGENT = """
import json, os, sys, urllib.request

task = json.loads(sys.stdin.read())
told = {"model": "whatever", "temperature": 0, "messages": [{"role": "user", "content": task["question"]}]}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
request = urllib.request.Request(url, json.dumps(told).encode(), {"authorization": os.environ["OPENAI_API_KEY"]})
answer = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
open("notes.txt", "w").write(answer)
print("thinking ...")
saw = [*sorted(task), "\\u2028"]
print(json.dumps({"answer": answer, "steps": 1, "pace": 1e999, "reward": 0.25, "saw": saw}, ensure_ascii=False))
"""


async def solve(task: dict[str, Any], base_url: str, api_key: str) -> dict[str, Any]:
    """An agent in this process, on the official client."""
    openai = pytest.importorskip("openai")
    async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key) as client:
        messages = [{"role": "user", "content": task["question"]}]
        first = await client.chat.completions.create(model="any", messages=messages, max_tokens=16)
        return {"answer": first.choices[0].message.content}


def played(host: Host, runs: Path, settings: dict[str, Any], **more: Any) -> list[Episode]:
    """The episodes of a run with a policy that always says 4."""
    spec = {
        "environment": {"name": "program", "settings": {"tasks": str(TASKS), **settings}},
        "policy": {"name": "scripted", "settings": {"replies": ["4"]}},
        "episodes": 3,
        **more,
    }
    run = Run.create(parse_spec(spec), host, runs)
    asyncio.run(run.execute())
    return sorted(run.folder.episodes(), key=lambda episode: episode.task.index)


def test_a_program_is_watched_and_scored(host: Host, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)

    episodes = played(
        host, tmp_path / "runs", {"command": f"{sys.executable} {tmp_path}/agent.py", "keep": str(tmp_path / "kept")}
    )

    assert [episode.utility for episode in episodes] == [0.0, 0.0, 1.0], "only 2 + 2 is 4"
    assert [len(episode.turns) for episode in episodes] == [1, 1, 1]
    assert episodes[2].messages[0].content == "What is 2 + 2?"
    assert episodes[2].outcome == {"steps": 1.0, "failed": 0.0, "timed_out": 0.0}
    ended = next(event.data for event in episodes[0].events if event.name == "ended")
    saw = json.loads(ended["out"].strip().split("\n")[-1])["saw"]
    assert saw[:-1] == ["question", "user"], "the answer is not shown"
    assert sorted(path.name for path in tmp_path.glob("kept/*/*")) == ["notes.txt"] * 3


def test_a_check_command_has_the_last_word_and_a_memory_takes_part(host: Host, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    check = "import json, sys; assert open('notes.txt').read() == '4'; print(json.dumps({'reward': len(sys.argv[1])}))"
    (tmp_path / "check.py").write_text(check)

    episodes = played(
        host,
        tmp_path / "runs",
        {
            "command": f"{sys.executable} {tmp_path}/agent.py",
            "check": f"{sys.executable} {tmp_path}/check.py {{answer}}",
        },
        episodes=1,
        memories=["strategyhub"],
    )

    assert [episode.utility for episode in episodes] == [1.0], "the check is told the answer, which has one digit"
    assert [action["name"] for action in episodes[0].actions[""]] == ["strategy_hub"], "though it names no user"


BAD = {
    "import sys; print('{\"reward\": 1}'); sys.exit(3)": 1.0,
    "print('x' * 3_000_000); print('{\"reward\": NaN}')": 0.0,
    "import os; os.close(0); os.close(1)": 0.0,
}
"""Programs that fail, say too much, and close their streams, and whether that is a failure."""
HANGING = "import os, time; os.fork(); print('{\"reward\": 1}', flush=True); time.sleep(600)"


@pytest.mark.parametrize("codes", [BAD, {HANGING: 1.0}], ids=["ends", "hangs with a child"])
def test_a_bad_program_is_data(host: Host, tmp_path: Path, codes: dict[str, float]) -> None:
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps({"code": code}) + "\n" for code in codes))
    (tmp_path / "bad.py").write_text("import json, sys; exec(json.loads(sys.stdin.readline())['code'])")
    hangs = HANGING in codes

    episodes = played(
        host,
        tmp_path / "runs",
        {
            "command": f"{sys.executable} {tmp_path}/bad.py",
            "tasks": str(tmp_path / "tasks.jsonl"),
            "timeout": 1.0 if hangs else 60.0,
            "check": "true" if hangs else "",
        },
        episodes=len(codes),
    )

    assert [episode.utility for episode in episodes] == [0.0] * len(codes)
    assert sorted(episode.outcome["failed"] for episode in episodes) == sorted(codes.values())
    assert [episode.outcome["timed_out"] for episode in episodes] == [float(hangs)] * len(codes)


def test_values_of_a_task_are_words_and_a_server_that_a_program_starts_is_not_waited_for(
    host: Host, tmp_path: Path
) -> None:
    (tmp_path / "tasks.jsonl").write_text('{"question": "{user}/{me}", "user": "ann", "n": 2}')
    told = "sys.argv, sys.executable, subprocess.Popen(['sleep', '60'], start_new_session=True).pid"
    (tmp_path / "agent.py").write_text(f"import json, subprocess, sys; print(json.dumps([{told}]))")
    (tmp_path / "python").symlink_to(sys.executable)
    command = f"{tmp_path}/python {tmp_path}/agent.py '{{question}}' {{n}} http://a/b"

    (episode,) = played(host, tmp_path, {"command": command, "tasks": str(tmp_path / "tasks.jsonl")}, episodes=1)

    ended = next(event.data for event in episode.events if event.name == "ended")
    words, python, server = json.loads(ended["out"])
    os.kill(server, signal.SIGKILL)
    assert words == [f"{tmp_path}/agent.py", "{user}/{me}", "2", "http://a/b"], "only files have a place"
    assert python == f"{tmp_path}/python", "that of a virtual environment is a link"
    assert (episode.outcome["failed"], episode.outcome["timed_out"]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"command": "no-such-program-here"}, "can't start"),
        ({}, "set either command or function"),
        ({"function": "nowhere:solve"}, "can't be imported"),
        ({"command": "true", "tasks": "missing.jsonl"}, "can't read"),
        ({"command": "'true"}, "quotation"),
    ],
)
def test_a_wrong_setting_is_an_error(host: Host, tmp_path: Path, settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        played(host, tmp_path, settings, episodes=1)


def test_a_function_on_the_official_client_is_scored_and_the_model_inside_is_trained(
    host: Host, tmp_path: Path
) -> None:
    episodes = played(host, tmp_path / "played", {"function": f"{__name__}:solve"})
    assert [episode.utility for episode in episodes] == [0.0, 0.0, 1.0]

    spec = {
        "environment": {"name": "program", "settings": {"tasks": str(TASKS), "function": f"{__name__}:solve"}},
        "policy": {"name": "tiny", "settings": {"model": "tiny-sums"}},
        "optimizer": {"name": "grpo", "settings": {"kl": 0.0}},
        "learner": {"name": "lora", "settings": {"model": "tiny-sums", "weights": "all"}},
        "rewards": ["utility", "format"],
        "sampling": {"temperature": 1.0, "max_tokens": 16},
        "updates": 1,
        "tasks": 2,
        "samples": 3,
        "evaluation": {"every": 1, "tasks": 2},
    }
    run = Run.create(parse_spec(spec), host, tmp_path)

    summary = asyncio.run(run.execute())

    assert summary.updates == 1
    learned = [turn for episode in run.folder.rollouts(1).episodes() for turn in episode.turns]
    assert len(learned) == 6
    assert all(len(turn.token_ids) == len(turn.logprobs) > 0 for turn in learned)
    assert all(turn.temperature == 1.0 for turn in learned), "the run's sampling holds"
    assert all(1 <= len(turn.token_ids) <= 16 for turn in learned)
