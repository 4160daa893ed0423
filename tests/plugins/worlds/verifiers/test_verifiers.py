"""Environments of the library verifiers: played through the gateway, scored by their rewards, and trained on.

The library needs other releases of openai and mcp than the rest of the tests, so these run in an environment of their
own: pip install "agentfw[verifiers]" pytest hypothesis torch peft accelerate
"""

from __future__ import annotations

import asyncio
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agentfw import Episode, Host, Run
from agentfw.errors import AgentfwError, MissingExtraError, PluginError, SettingsError
from agentfw.runs import parse_spec

HERE = Path(__file__).parent
LOOK = '{"name": "stock_count", "arguments": {"item": "tea"}}'

with_library = pytest.mark.skipif(
    find_spec("verifiers") is None, reason='needs an environment of its own: pip install "agentfw[verifiers]"'
)
with_chat = pytest.mark.skipif(shutil.which("uv") is None, reason="the library's chat needs uv")


@pytest.fixture(autouse=True)
def tasksets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasksets of these tests are found by the library, also by the processes of its tools."""
    monkeypatch.syspath_prepend(str(HERE / "tasksets"))
    monkeypatch.setenv("PYTHONPATH", str(HERE / "tasksets"))


def played(host: Host, runs: Path, settings: dict[str, Any], replies: list[str], **more: Any) -> list[Episode]:
    """The episodes of a run with a policy that gives these replies in turn."""
    policy = {"name": "scripted", "settings": {"replies": replies}}
    run = Run.create(
        parse_spec({"environment": {"name": "verifiers", "settings": settings}, "policy": policy, **more}), host, runs
    )
    asyncio.run(run.execute())
    return sorted(run.folder.episodes(), key=lambda episode: episode.task.index)


@pytest.mark.skipif(find_spec("verifiers") is not None, reason="the library is installed")
def test_without_the_library_the_error_names_the_extra(host: Host, tmp_path: Path) -> None:
    with pytest.raises(MissingExtraError) as error:
        played(host, tmp_path, {"id": "vf-sums"}, ["4"], episodes=1)

    assert error.value.fix.endswith('[verifiers]"')


@with_library
def test_rewards_and_metrics_of_the_library_score_its_examples(host: Host, tmp_path: Path) -> None:
    episodes = played(host, tmp_path, {"id": "vf-sums"}, ["4"], episodes=6)

    assert [episode.utility for episode in episodes] == [0.25, 0.25, 1.25, 0.25, 0.25, 0.25], "only 2 + 2 is 4"
    assert episodes[2].outcome == {"right": 1.0, "brief": 0.5, "length": 1.0, "timed_out": 0.0}
    assert [message.content for message in episodes[2].messages] == ["What is 2 + 2?"]
    assert [turn.text for turn in episodes[2].turns] == ["4"]

    [late] = played(host, tmp_path, {"id": "vf-sums", "timeout": 1e-6}, ["0"], episodes=1)
    assert (late.utility, late.outcome) == (0.0, {"timed_out": 1.0}), "what takes too long earns nothing"


@with_library
def test_arguments_choose_the_tasks_of_a_split(host: Host, tmp_path: Path) -> None:
    settings = {"id": "vf-sums", "arguments": {"taskset": {"split": "{split}", "count": 2}}}

    test, train = (played(host, tmp_path, settings, ["4"], episodes=5, split=split) for split in ("test", "train"))

    assert [episode.messages[0].content for episode in test] == ["What is 100 + 100?", "What is 101 + 101?"]
    assert [episode.messages[0].content for episode in train] == ["What is 0 + 0?", "What is 1 + 1?"]


@with_chat
@with_library
def test_a_taskset_without_a_program_is_a_chat(host: Host, tmp_path: Path) -> None:
    episodes = played(host, tmp_path, {"id": "vf-shout"}, ["TEA"], episodes=1)

    assert [(episode.utility, len(episode.turns)) for episode in episodes] == [(1.0, 1)]
    assert [message.role for message in episodes[0].messages] == ["system", "user"]


@with_chat
@with_library
def test_tools_of_the_library_are_called(host: Host, tmp_path: Path) -> None:
    [episode] = played(host, tmp_path, {"id": "vf-stock"}, [LOOK, "There is 7."], episodes=1)

    assert (episode.utility, episode.outcome["looked"]) == (1.0, 1.0)
    assert [turn.calls[0].name if turn.calls else turn.text for turn in episode.turns] == ["stock_count", "There is 7."]
    assert episode.messages[-1].content == "7", "what the tool said"


@with_library
@pytest.mark.parametrize(
    ("settings", "kind", "complaint"),
    [
        ({"id": "vf-nowhere"}, SettingsError, "'vf-nowhere' not found"),
        ({"id": "vf-sums", "arguments": {"taskset": {"count": 0}}}, SettingsError, "has no tasks"),
        ({"id": "vf-sums", "arguments": {"taskset": {"cuont": 1}}}, SettingsError, "cuont"),
        ({"id": "vf-broken"}, PluginError, "ValueError: no scales here"),
    ],
    ids=["unknown", "empty", "misspelt", "raises"],
)
def test_what_is_wrong_is_one_line(
    host: Host, tmp_path: Path, settings: dict[str, Any], kind: type[AgentfwError], complaint: str
) -> None:
    with pytest.raises(kind, match=complaint) as error:
        played(host, tmp_path, settings, ["4"], episodes=1)

    assert "\n" not in error.value.message
    assert error.value.fix


@with_library
def test_the_model_is_trained_on_examples_of_the_library(host: Host, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    spec = {
        "environment": {"name": "verifiers", "settings": {"id": "vf-sums"}},
        "policy": {"name": "tiny", "settings": {"model": "tiny-sums"}},
        "optimizer": {"name": "grpo", "settings": {"kl": 0.0}},
        "learner": {"name": "lora", "settings": {"model": "tiny-sums", "weights": "all"}},
        "rewards": ["utility"],
        "sampling": {"temperature": 1.0, "max_tokens": 16},
        "evaluation": {"every": 2, "tasks": 1},
        "updates": 2,
        "tasks": 2,
        "samples": 3,
    }
    run = Run.create(parse_spec(spec), host, tmp_path)

    assert asyncio.run(run.execute()).updates == 2

    turns = [turn for update in (1, 2) for episode in run.folder.rollouts(update).episodes() for turn in episode.turns]
    assert len(turns) == 12
    assert all(len(turn.token_ids) == len(turn.logprobs) > 0 for turn in turns)
    assert all(turn.temperature == 1.0 for turn in turns), "the run's sampling holds"
    assert len({turn.version for turn in turns}) == 2, "the second update was played with what the first has learned"
