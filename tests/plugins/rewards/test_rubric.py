"""The rubric judge in whole runs: a program as the judge, a model server as the judge, and what becomes of failures.

And the built-in rewards: what the environment paid, and whether each answer could be carried out.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_server import Reply, completion, refusal, serving

from agentfw.episode import Call, Episode, Event, Message, Task, Turn, Usage
from agentfw.errors import EndpointError
from agentfw.host import Host
from agentfw.request import Moment
from agentfw.runs.records.folder import RunFolder
from agentfw.runs.records.summary import Summary
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec
from agentfw.scores import RewardModel
from agentfw_plugins.rewards.judges import Rubric
from agentfw_plugins.rewards.measured import Format

QUESTIONS: list[str] = []
"""What the judges below were asked, in the process of the test."""


def attempts(question: str) -> dict[int, str]:
    found = re.findall(r'<attempt-(\w+) id="(\d+)">\n(.*?)\n</attempt-\1>', question, re.S)
    return {int(number): text for _, number, text in found}


def marks(question: str) -> str:
    """The earlier the inbox's agent writes, the better."""
    rows = [
        {"id": number, "why": "so much was written", "score": min(1.0, text.count("write") / 100)}
        for number, text in attempts(question).items()
    ]
    return json.dumps({"scores": rows})


def diligence(moment: Moment) -> Iterable[str]:
    (question,) = moment.observations
    QUESTIONS.append(question.text)
    return [marks(question.text)]


@pytest.fixture(autouse=True)
def fresh() -> None:
    QUESTIONS.clear()


def judge(rule: Callable[[Moment], Iterable[str]], **settings: Any) -> dict[str, Any]:
    policy = {"name": "scripted", "settings": {"rule": f"{__name__}:{rule.__name__}"}}
    return {"name": "rubric", "settings": {"policy": policy, **settings}}


def prepare(host: Host, root: Path, reward: object, **values: Any) -> Run:
    spec = {"environment": "inbox", "policy": "random", "episodes": 2, "samples": 3, "max_turns": 6}
    spec |= {"rewards": [reward], **values}
    return Run.create(parse_spec(spec), host, root)


def rewards(folder: RunFolder) -> list[float]:
    return [record["reward"] for record in folder.metrics()]


def test_a_run_that_goes_on_asks_for_no_mark_twice(host: Host, tmp_path: Path) -> None:
    run = prepare(host, tmp_path, judge(diligence))
    asyncio.run(run.execute())
    before = run.folder.metrics()
    # As if it had been killed when the marks were there and the figures weren't written yet.
    (run.folder.path / "metrics.jsonl").write_text("")
    (run.folder.path / "summary.json").unlink()
    asked = len(QUESTIONS)

    again = Run.open(RunFolder.open(run.folder.path), host)
    asyncio.run(again.execute())

    assert len(QUESTIONS) == asked
    told = again.folder.metrics()
    assert [not any(record.pop("judged").values()) for record in told] == [True] * len(before)
    assert told == [{key: value for key, value in record.items() if key != "judged"} for record in before]


def test_a_cache_of_its_own_serves_many_runs(host: Host, tmp_path: Path) -> None:
    for _ in range(2):
        run = prepare(host, tmp_path, judge(diligence, cache=str(tmp_path / "marks.db")))
        asyncio.run(run.execute())
        assert not (run.folder.path / "judgements.db").exists()
    assert len(QUESTIONS) == 2


def test_attempts_that_differ_in_the_ids_of_their_calls_are_one(host: Host) -> None:
    def episode(sample: int) -> Episode:
        call = Call("write", {}, f"call_{sample}")
        said = [Message("user", "go"), Message("assistant", "", (call,)), Message("tool", "done", answers=call.id)]
        return Episode(Task(0, 7, sample=sample), messages=said)

    model = host.create("reward", "rubric", judge(diligence)["settings"])
    assert isinstance(model, Rubric)
    asyncio.run(model.score([episode(0), episode(1)]))
    (question,) = QUESTIONS
    assert len(attempts(question)) == 1


def answered(sample: int, *texts: str) -> Episode:
    """An episode whose turns have these answers. The record has no message for the last one."""
    episode = Episode(Task(0, 7, sample=sample))
    for index, text in enumerate(texts):
        before = [Message("assistant", texts[index - 1])] if index else []
        episode.messages += [*before, Message("user", f"question {index + 1}")]
        episode.turns.append(Turn(index, 0, 0, index + 1, tuple(range(len(episode.messages))), text))
    return episode


def test_the_judge_reads_the_last_answer_too(host: Host) -> None:
    model = host.create("reward", "rubric", judge(diligence)["settings"])

    assert isinstance(model, RewardModel)
    asyncio.run(model.score([answered(0, "tea", "write"), answered(1, "tea", "sleep")]))

    (question,) = QUESTIONS
    assert question.count("tea") == 1
    assert set(attempts(question).values()) == {
        '{"role": "assistant", "content": "write"}',
        '{"role": "assistant", "content": "sleep"}',
    }


def test_turns_are_judged_one_by_one_with_what_came_before(host: Host) -> None:
    model = host.create("reward", "rubric", {**judge(diligence)["settings"], "per": "turn"})

    assert isinstance(model, RewardModel)
    cut = answered(2, "write")
    cut.turns[0] = replace(cut.turns[0], finish="interrupted")
    scores = asyncio.run(model.score([answered(0, "write", "write write"), answered(1, "sleep", "write"), cut]))

    marks = {(one.episode, one.turn, one.round): one.value for one in scores if one.component == "rubric"}
    assert len(QUESTIONS) == 2
    assert marks == {
        ("00000-0", 0, 1): 0.01,
        ("00000-1", 0, 1): 0.0,
        ("00000-0", 1, 2): 0.03,
        ("00000-1", 1, 2): 0.01,
    }


# -- a model server as the judge -------------------------------------------------------------------------------------

USAGE = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 40}}


def judging(text: str) -> Reply:
    return completion(text, top={"usage": USAGE})


def served(address: str, **settings: Any) -> dict[str, Any]:
    own = {"base_url": address, "model": "judge", "retries": 0, "deadline": 20}
    own |= {"price": {"prompt": 10.0, "cached": 1.0, "sampled": 100.0}}
    return {"name": "rubric", "settings": {"policy": {"name": "openai", "settings": own}, **settings}}


def test_another_model_or_sampling_is_another_judge_and_another_price_is_not(host: Host) -> None:
    def name(temperature: float = 0.0, **own: Any) -> Any:
        settings = served("http://127.0.0.1:9", sampling={"temperature": temperature})["settings"]
        settings["policy"]["settings"] |= own
        return getattr(host.create("reward", "rubric", settings), "name")  # noqa: B009 - a component's own

    assert name() == name(price={"prompt": 9.0, "cached": 1.0, "sampled": 9.0})
    assert len({name(), name(0.5), name(model="other"), name(base_url="http://127.0.0.1:8")}) == 4


def test_a_model_server_judges_and_is_told_what_was_wrong(host: Host, tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        if len(body["messages"]) == 2:
            return judging('<think>hm</think> {"scores": [{"id": 1, "score": 11}]}')
        return judging(marks(body["messages"][1]["content"]))

    with serving(answer) as (address, server):
        run = prepare(
            host, tmp_path, served(address, rules=("Handling a mail in time counts.", "Writing counts, too."))
        )
        summary = asyncio.run(run.execute())

    assert summary.figures["rubric_failed"].estimate == 0.0
    assert len(set(rewards(run.folder)[:3])) > 1
    assert len(server.bodies) == 4
    assert replace(summary.judged, cost=None) == Usage(prompt=400, cached=160, sampled=28, cost=None)
    assert summary.judged.cost == pytest.approx((240 * 10 + 160 * 1 + 28 * 100) / 1_000_000)
    kept = run.folder.summary()
    assert kept is not None
    assert Summary.from_record(kept).judged == summary.judged
    system = server.bodies[0]["messages"][0]["content"]
    assert "Handling a mail in time counts." in system
    assert "Writing counts, too." in system
    assert server.bodies[0]["temperature"] == 0


def test_a_group_that_the_server_refuses_is_a_failure_and_the_run_goes_on(host: Host, tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        return judging(marks(body["messages"][1]["content"]))

    refused = refusal(400, "this model's maximum context length is 4096 tokens")
    with serving(answer, refused, answer) as (address, _):
        run = prepare(host, tmp_path, served(address, parallel=1), episodes=3, concurrency=1)
        summary = asyncio.run(run.execute())

    failed = [record["outcome"]["rubric_failed"] for record in run.folder.metrics()]
    assert sorted(failed) == [0.0] * 6 + [1.0] * 3
    assert summary.figures["rubric_failed"].estimate == pytest.approx(1 / 3)
    assert [reward for reward, one in zip(rewards(run.folder), failed, strict=True) if one] == [0.5] * 3
    assert summary.episodes == 9


def test_a_judge_that_never_answers_stops_the_run_which_goes_on_when_it_does(host: Host, tmp_path: Path) -> None:
    down = [True]

    def answer(body: dict[str, Any]) -> Reply:
        return refusal(400, "no temperature, please") if down else judging(marks(body["messages"][1]["content"]))

    with serving(answer) as (address, _):
        run = prepare(host, tmp_path, served(address))
        with pytest.raises(EndpointError, match="no temperature"):
            asyncio.run(run.execute())
        played = len(list(run.folder.episodes()))
        assert played >= 3

        down.clear()
        again = Run.open(RunFolder.open(run.folder.path), host)
        summary = asyncio.run(again.execute())

    assert summary.episodes == 6
    assert summary.figures["rubric_failed"].estimate == 0.0


@pytest.mark.parametrize(
    ("turn", "values"),
    [
        (Turn(0, 0, 1, calls=(Call("write", {}, "1.0"),)), [1.0]),
        (Turn(0, 0, 1), [1.0]),
        (Turn(0, 0, 1, failures=("a call without a name",)), [0.0]),
        (Turn(0, 0, 1, calls=(Call("handle", {"message": 9}, "2.0"),)), [0.0]),
        (Turn(0, 0, 1, finish="interrupted"), []),
    ],
    ids=["carried out", "did nothing", "not understood", "refused", "broken off"],
)
def test_format_pays_for_what_could_be_carried_out(turn: Turn, values: list[float]) -> None:
    refused = Event(1, "refused", "handle", {"id": "2.0", "reason": "there is no mail 9"})
    episode = Episode(Task(0, 7), turns=[turn], events=[refused])
    scores = asyncio.run(Format().score([episode]))
    assert [score.value for score in scores] == values
    assert all(score.turn == turn.index for score in scores)
