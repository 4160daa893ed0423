"""`agentfw proactive rate`: what the judge reads, what becomes of its ratings, and resuming."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_server import completion, serving
from click.testing import CliRunner

from agentfw import Generation, Policy, Request, Run
from agentfw.runs import RunFolder, parse_spec
from agentfw.testing import fresh_host
from agentfw_papers.worlds.proactive.asking import Asker
from agentfw_papers.worlds.proactive.command import proactive
from agentfw_papers.worlds.proactive.environment import read_turn
from agentfw_papers.worlds.proactive.proactiveness import Predictions, Rater, Ratings, read_predictions

HOST = fresh_host("agentfw_papers.plugin:plugin", builtins=True, strict=False)


class Judge(Policy):
    """Answers what a function makes of the dialogue and the predictions in the question."""

    def __init__(self, answer: Callable[[dict[str, Any]], str]) -> None:
        self.answer, self.read = answer, list[dict[str, Any]]()

    async def generate(self, request: Request) -> Generation:
        material = json.loads(request.messages[1].content)
        self.read.append(material)
        return Generation(self.answer(material), count=1)


def rating(value: object) -> str:
    return json.dumps({"why": "it was foreseeable", "rating": value})


def by_length(material: dict[str, Any]) -> str:
    """The later the turn, the lower the rating; the first two turns can't be judged."""
    turns = len(material["dialogue"])
    return rating(-1 if turns < 3 else 5 if turns < 8 else 2)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    spec = {
        "environment": {"name": "proactive", "settings": {"unit": "dialogue", "dialogues": 20}},
        "policy": "scripted",
        "episodes": 3,
    }
    made = Run.create(parse_spec(spec), HOST, tmp_path_factory.mktemp("runs"))
    asyncio.run(made.execute())
    return RunFolder.open(made.folder.path)


@pytest.fixture
def predicted(played: RunFolder) -> Predictions:
    return read_predictions(played, HOST)


def rate(predicted: Predictions, judge: Policy, folder: Path, *, most: int | None = None) -> Ratings:
    rater = Rater(predicted, Asker(judge, name="test"), most=most)
    return asyncio.run(rater.rate(folder / "ratings.jsonl"))


def test_the_rating_is_the_mean_of_dialogues_without_turns_that_cannot_be_judged(
    predicted: Predictions, tmp_path: Path
) -> None:
    found = rate(predicted, Judge(by_length), tmp_path)

    means, turns = [], 0
    for [episode] in predicted.episodes.values():
        values = [5 if turn.round < 8 else 2 for turn in episode.turns if turn.round >= 3]
        means.append(sum(values) / len(values))
        turns += len(episode.turns)
    assert found.mean is not None
    assert found.mean.estimate == pytest.approx(sum(means) / len(means))
    assert found.mean.count == 3
    assert found.answers == sum(found.counts.values()) == turns
    assert found.counts[-1] >= 3


def test_the_judge_reads_the_dialogue_up_to_the_turn_and_what_was_predicted_there(
    predicted: Predictions, tmp_path: Path
) -> None:
    judge = Judge(by_length)

    rate(predicted, judge, tmp_path, most=1)

    name = next(iter(predicted.episodes))
    spoken = predicted.examples[name].dialogue.turns
    asked = {len(material["dialogue"]): material for material in judge.read}
    for turn in predicted.turns(name):
        shown = asked[turn.round]
        said = read_turn(turn, predicted.environment.catalog).opportunities
        assert [one["text"] for one in shown["dialogue"]] == [one.text for one in spoken[: turn.round]]
        assert [one["name"] for one in shown["predictions"]] == [one.name for one in said]
        assert shown.keys() == {"dialogue", "predictions"}
    assert len(asked) == len(predicted.turns(name))


@pytest.mark.slow
def test_the_command_asks_a_model_server_once(played: RunFolder) -> None:
    with serving(completion(rating(4))) as (address, judge):
        command = ["rate", str(played.path), "--policy", "openai", "--most", "2", "--json"]
        command += ["--set", f"policy.base_url={address}", "--set", "policy.model=judge"]

        first, second = (CliRunner().invoke(proactive, command, catch_exceptions=False) for _ in range(2))

    found, again = json.loads(first.stdout), json.loads(second.stdout)
    assert found["pr"] == {"mean": 4, "low": 4, "high": 4}
    assert found["dialogues"] == 2
    assert found["counts"]["4"] == found["answers"] == len(judge.bodies)
    assert again == {**found, "from_before": found["answers"]}
    assert {body["temperature"] for body in judge.bodies} == {0.1}
    assert (played.path / "ratings.jsonl").exists()
