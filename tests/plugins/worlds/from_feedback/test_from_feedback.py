"""What people rated is learned from: good answers as they are, and corrections in place of bad ones."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asynchronous import asynchronous

from agentfw import Environment, Episode, Host, Message, Moment, Run, Task, Turn
from agentfw.errors import UsageError
from agentfw.request import Action, Sampling
from agentfw.runs import LiveRun, parse_spec
from agentfw.runs.spec.start import start_from_runs
from agentfw.scores import RewardModel
from agentfw_plugins.view.annotations import Target, annotate
from agentfw_plugins.worlds.from_feedback import read_examples, split_of
from agentfw_rewardmodels import PreferenceModel

LOOK = Action("look", "Look", {"type": "object", "properties": {}})
SPEC = {
    "environment": "sessions",
    "policy": {"name": "scripted", "settings": {"replies": ["mint tea"]}},
    "rewards": ["feedback"],
}


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
                session.feedback(number % 5 + 1, metric="stars", turn=0)
                if number % 2:  # the others are still going on when the gateway stops
                    await live.conclude(session)
                else:
                    await live.keep(session)
            return live.folder.path

    return asyncio.run(record())


def test_good_and_bad_answers_and_corrections_are_examples_each_in_one_split(recorded: Path) -> None:
    examples = read_examples([recorded], 0.5)
    splits = [split_of(examples, split) for split in ("train", "validation", "test")]

    found = Counter((each.text, each.value, each.corrected) for each in examples)
    assert found == {("mint tea", 1.0, False): 20, ("mint tea", -1.0, False): 40, ("green tea", 1.0, True): 30}
    assert examples[0].messages[0].content.startswith("Which tea")
    assert [action.name for action in examples[0].actions] == ["look"]
    begun = [{each.messages[0].content for each in split} for split in splits]
    assert [len(some) for some in begun] == [24, 3, 3]
    assert len(set().union(*begun)) == 30, "no conversation is in two splits"
    assert read_examples([recorded, recorded], 0.5) == examples, "a run that is named twice counts once"
    by_metric = Counter(each.value for each in read_examples([recorded], 0.5, "stars>=3"))
    assert by_metric == {1.0: 18, -1.0: 12}


@asynchronous
async def test_a_policy_answers_with_the_end_and_the_limit_of_the_recorded_requests(host: Host, tmp_path: Path) -> None:
    async with LiveRun.create(parse_spec(SPEC), host, tmp_path) as live:
        for number in range(12):
            session = live.begin(f"s{number}", user="ada")
            asked = [Message("user", f"Which tea at {number}?")]
            await session.answer(asked, [], Sampling(max_tokens=5), stop=["\n"])
            session.feedback(1.0, turn=0)
            await live.keep(session)

    recorded = {"name": "from_feedback", "settings": {"runs": [str(live.folder.path)]}}
    spec = SPEC | {"environment": recorded, "episodes": 2, "rewards": ["utility"]}
    run = Run.create(parse_spec(spec), host, tmp_path)
    await run.execute()

    turns = [turn for episode in run.folder.episodes() for turn in episode.turns]
    assert turns
    assert {(turn.stop, turn.max_tokens) for turn in turns} == {(("\n",), 5)}


@asynchronous
async def test_a_training_that_is_resumed_finds_the_tasks_that_it_began_with(host: Host, tmp_path: Path) -> None:
    async def rate(live: LiveRun, numbers: range, value: float = 1.0) -> None:
        for number in numbers:
            session = live.begin(f"s{number} {value}", user="ada")
            await session.answer([Message("user", f"Which tea at {number}?")])
            session.feedback(value, turn=0)
            await live.keep(session)

    async with LiveRun.create(parse_spec(SPEC), host, tmp_path) as live:
        await rate(live, range(12))
        annotate(live.folder.path, corrected := Target("", "00003-0", 0, "ada"), "correction", "green tea")
        values = start_from_runs([str(live.folder.path)], tmp_path, "grpo")(host, None, None)
        await rate(live, range(12, 30))
        annotate(live.folder.path, corrected, "note", "as before")
        await rate(live, range(12, 13), -1.0)

    assert len(read_examples([live.folder.path], 0.5)) == 32
    with pytest.raises(UsageError, match="are in 1 conversation"):  # an answer is no better than itself
        read_examples([live.folder.path], 0.5, kind="pair")
    for settings in (values["environment"]["settings"], values["rewards"][0]["settings"]):
        found = read_examples([live.folder.path], 0.5, until=settings["until"])
        assert [one.corrected for one in found].count(True) == 1
        assert len(found) == 13  # with the answer that was corrected
    tasks = parse_spec(values)
    environment = host.create("environment", tasks.environment.name, tasks.environment.settings)
    assert isinstance(environment, Environment)
    assert len(environment.tasks(100, 7, "train")) == 11


@asynchronous
async def test_too_little_feedback_is_an_error_that_says_why_and_what_to_do(host: Host, tmp_path: Path) -> None:
    policy = {"name": "tiny", "settings": {"model": "tiny-sums"}}
    async with LiveRun.create(parse_spec(SPEC | {"policy": policy}), host, tmp_path) as live:
        session = live.begin("s", user="ada")
        await session.answer([Message("user", "What is 2 + 3?")], [], Sampling(max_tokens=1))
        session.feedback(1.0, turn=0)
        await live.keep(session)

    with pytest.raises(UsageError, match="are needed") as caught:
        read_examples([live.folder.path], 0.5)
    assert "cut off at the limit of tokens: 1 rated answer" in caught.value.message


Trained = Callable[..., tuple[Run, Any, list[Any]]]


@pytest.fixture
def trained(host: Host, small_model: Path, tmp_path: Path) -> Trained:
    """Train the small model on what a run recorded; gives the run, its summary and the lines of its updates."""

    def train(recorded: Path, optimizer: str | None, learner: str, updates: int, tokens: int = 12, **more: Any) -> Any:
        settings = {"model": str(small_model), "device": "cpu"}
        values = start_from_runs([str(recorded)], tmp_path, *([optimizer] if optimizer else []))(host, None, None)
        wanted = {"name": learner, "settings": {**settings, **more.pop("sets", {})}}
        values |= {"policy": {"name": "transformers", "settings": settings}, "learner": wanted, "updates": updates}
        examined = {"every": updates, "tasks": 3, "sampling": {"temperature": 0}}
        values |= {"sampling": {"max_tokens": tokens}, "evaluation": examined, **more}
        run = Run.create(parse_spec(values), host, tmp_path)
        summary = asyncio.run(run.execute())
        lines = (run.folder.path / "updates.jsonl").read_text("utf-8").splitlines()
        return run, summary, [json.loads(line) for line in lines]

    return train


def test_train_from_learns_the_wanted_answers(trained: Trained, recorded: Path) -> None:
    _, summary, _ = trained(recorded, None, "sft", 4, sets={"weights": "all", "learning_rate": 0.01})

    assert summary.figures["agreement"].estimate > summary.before["agreement"].estimate + 0.2


KINDS = {"tea": ("green", "mint", "jasmine", "black", "white"), "coffee": ("filter", "mocha", "iced", "strong", "mild")}
USERS = 16


def echo(moment: Moment) -> Iterator[str]:
    yield from (said.text.partition(": ")[2] for said in moment.of("message")[-1:])


@pytest.fixture(scope="module")
def tastes(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half of the users like every tea and no coffee that they were offered, the other half the reverse."""
    spec = SPEC | {"policy": {"name": "scripted", "settings": {"rule": f"{__name__}:echo"}}}

    async def record() -> Path:
        async with LiveRun.create(parse_spec(spec), host, tmp_path_factory.mktemp("runs")) as live:
            for number in range(USERS):
                for drink, sorts in KINDS.items():
                    for sort in sorts[:4]:
                        session = live.begin(f"{number}-{sort}", user=f"user {number}")
                        await session.answer([Message("user", f"For guest {number}: {sort} {drink}")])
                        session.feedback(1.0 if (drink == "tea") == (number % 2 == 0) else -1.0)
                        await live.conclude(session)
            return live.folder.path

    return asyncio.run(record())


def test_answers_are_scored_by_what_their_user_liked_so_far(host: Host, tastes: Path, tmp_path: Path) -> None:
    reward, again = (host.create("reward", "feedback_preference", {"runs": [str(tastes)]}) for _ in range(2))
    assert isinstance(reward, RewardModel)
    assert isinstance(again, RewardModel)
    reward.open(tmp_path)

    def scored(user: str, answer: str) -> float:
        played = Episode(Task(0, 7, user=user), turns=[Turn(0, 0, 1, text=answer)])
        return next(one.value for one in asyncio.run(reward.score([played])) if one.component == "preference")

    right = [
        (scored(f"user {number}", "white tea") > scored(f"user {number}", "mild coffee")) == (number % 2 == 0)
        for number in range(USERS)
    ]

    # Neither answer was ever rated. By chance, 13 of 16 are right once in a hundred times.
    assert sum(right) >= 13
    model = tmp_path / "feedback_preference" / "model.json"
    assert "coffee" not in model.read_text(), "who is forgotten was given some of the answers"
    fitted = model.stat().st_mtime_ns
    again.open(tmp_path)
    assert model.stat().st_mtime_ns == fitted, "a resumed training fits nothing again"
    (tmp_path / "killed" / "feedback_preference").mkdir(parents=True)
    again.open(tmp_path / "killed")  # while its model was saved


@asynchronous
async def test_the_newest_of_what_a_user_says_of_an_answer_counts(host: Host, tmp_path: Path) -> None:
    spec = SPEC | {"policy": {"name": "scripted", "settings": {"rule": f"{__name__}:echo"}}}
    async with LiveRun.create(parse_spec(spec), host, tmp_path) as live:
        for number in range(24):
            session = live.begin(f"s{number}", user="ana")
            annotate(live.folder.path, Target("", session.episode.id, 0, "ana"), "rating", "1")
            await session.answer([Message("user", f"Which tea? Say: tea {number % 12}")])
            session.feedback(-1.0 if number < 12 else 1.0, turn=0)
            await live.conclude(session)

    reward = host.create("reward", "feedback_preference", {"runs": [str(live.folder.path)], "epochs": 1})
    assert isinstance(reward, RewardModel)
    reward.open(tmp_path)

    facts = PreferenceModel.load(tmp_path / "feedback_preference").facts
    assert (facts["likes"], facts["dislikes"], facts["contradictions"]) == (10, 0, 10)


def test_fresh_samples_of_recorded_tasks_train_a_policy(trained: Trained, tastes: Path) -> None:
    run, _, (update,) = trained(tastes, "parpo", "lora", 1, tokens=8, tasks=2, evaluation={"every": 1, "tasks": 1})

    rollouts = (run.folder.path / "rollouts" / "00001" / "episodes.jsonl").read_text("utf-8").splitlines()
    told = [Episode.from_record(json.loads(line)).turns[0].text for line in rollouts]
    assert len(told) == 8
    assert len(set(told)) > 2, "answers are drawn anew"
    assert update["rollouts"]["groups_learned"] == 2
    assert (run.folder.path / "learner" / "00001" / "adapter" / "adapter_model.safetensors").exists()
    assert (run.folder.path / "feedback_preference" / "model.json").exists()
