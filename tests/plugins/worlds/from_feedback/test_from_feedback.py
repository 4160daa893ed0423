"""What people rated is learned from: good answers as they are, and corrections in place of bad ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentfw import Action, Host, Message, Run
from agentfw.errors import UsageError
from agentfw.runs import LiveRun, parse_spec
from agentfw.testing import fresh_host
from agentfw_cli.start import start_from_runs
from agentfw_plugins.worlds.from_feedback.examples import read_examples, split_of

LOOK = Action("look", "Look", {"type": "object", "properties": {}})
SPEC = {
    "environment": "sessions",
    "policy": {"name": "scripted", "settings": {"replies": ["mint tea"]}},
    "rewards": ["feedback"],
}


@pytest.fixture(scope="module")
def host() -> Host:
    return fresh_host(builtins=True, strict=False)


@pytest.fixture(scope="module")
def recorded(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty sessions of two answers: the first is good, the second is corrected; every third session is bad."""

    async def record() -> Path:
        async with LiveRun.create(parse_spec(SPEC), host, tmp_path_factory.mktemp("runs")) as live:
            for number in range(30):
                session = live.begin(f"s{number}", user="ada")
                asked = [Message("user", f"Which tea at {number}?")]
                reply = await session.answer(asked, [LOOK])
                await session.answer([*asked, reply.message, Message("user", "And then?")], [LOOK])
                session.feedback(1.0 if number % 3 else -1.0, turn=0)
                session.feedback(-1.0, correction="green tea", turn=1)
                if number % 2:  # the others are still going on when the gateway stops
                    await live.conclude(session)
                else:
                    await live.keep(session)
            return live.folder.path

    return asyncio.run(record())


def test_good_answers_and_corrections_are_examples_each_in_one_split(recorded: Path) -> None:
    examples = read_examples([recorded], 0.5)
    splits = [split_of(examples, split) for split in ("train", "validation", "test")]

    assert len(examples) == 20 + 30
    assert {(each.text, each.corrected) for each in examples} == {("mint tea", False), ("green tea", True)}
    assert examples[0].messages[0].content.startswith("Which tea")
    assert [action.name for action in examples[0].actions] == ["look"]
    begun = [{each.messages[0].content for each in split} for split in splits]
    assert [len(some) for some in begun] == [24, 3, 3]
    assert len(set().union(*begun)) == 30, "no conversation is in two splits"
    assert read_examples([recorded, recorded], 0.5) == examples, "a run that is named twice counts once"


def test_too_little_feedback_is_an_error_that_says_what_to_do(recorded: Path) -> None:
    with pytest.raises(UsageError, match="are needed"):
        read_examples([], 0.5)


@pytest.mark.slow
def test_train_from_learns_the_wanted_answers(host: Host, recorded: Path, small_model: Path, tmp_path: Path) -> None:
    settings = {"model": str(small_model)}
    values = start_from_runs([str(recorded)], tmp_path)(host, None, None)
    values |= {"policy": {"name": "transformers", "settings": {**settings, "device": "cpu"}}, "updates": 4}
    values["learner"] = {"name": "sft", "settings": {**settings, "weights": "all", "learning_rate": 0.01}}
    values |= {"sampling": {"max_tokens": 12}, "evaluation": {"every": 4, "tasks": 3, "sampling": {"temperature": 0}}}
    run = Run.create(parse_spec(values), host, tmp_path)

    summary = asyncio.run(run.execute())

    assert summary.figures["agreement"].estimate > summary.before["agreement"].estimate + 0.2
