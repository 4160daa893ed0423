"""The assistant learns from rewards, and its world can be a log of one's own: every later like is a request."""

from __future__ import annotations

import asyncio
import csv
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw import Host, Intervention, Moment, Request, Task
from agentfw.errors import SettingsError
from agentfw.request import Sampling
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec
from agentfw_papers.linear import Choices, Decision, read_decisions, write_decisions
from agentfw_papers.worlds.assistant.assistant_settings import AssistantSettings
from agentfw_papers.worlds.assistant.environment import Assistant
from agentfw_papers.worlds.assistant.logs import write_logs


def trained(folder: Path, **more: Any) -> Run:
    chosen = {"environment": "assistant", "policy": "assistant-linear", "learner": "assistant-linear"}
    size = {"updates": 4, "tasks": 12, "samples": 4, "evaluation": {"every": 4, "tasks": 40}}
    spec = {**chosen, "rewards": ["assistant_base", "assistant_personal"], **size, **more}
    run = Run.create(parse_spec(spec), Host.load(), folder)
    asyncio.run(run.execute())
    return run


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "parpo", "groups": "query"},
        # Each request once, as a live product would.
        pytest.param({"optimizer": "empirical_bayes", "tasks": 48, "samples": 1}, marks=pytest.mark.nightly),
    ],
)
def test_a_training_raises_what_users_get(tmp_path: Path, settings: dict[str, Any]) -> None:
    run = trained(tmp_path, **settings)

    stages = run.folder.stages()
    before, after = ([record["outcome"]["visible_judge"] for record in stages[update]] for update in (0, 4))

    gains = [late - early for early, late in zip(before, after, strict=True)]
    error = stdev(gains) / math.sqrt(len(gains))
    assert fmean(gains) > 2 * error


def rows(width: int) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(*[st.floats(0, 1)] * width), min_size=2, max_size=5)


@settings(max_examples=50)
@given(rows(2), st.floats(-3, 3), st.floats(-3, 3))
def test_the_gradients_are_exact(options: list[tuple[float, float]], first: float, second: float) -> None:
    decision = Decision(("stated", "fame"), tuple(options), len(options) - 1)
    weights, reference, step = {"stated": first, "fame": second}, {"stated": 0.3, "fame": -0.2}, 1e-6

    def divergence(at: dict[str, float]) -> float:
        now, before = decision.probabilities(at), decision.probabilities(reference)
        return sum(one * (math.log(one) - math.log(other)) for one, other in zip(now, before, strict=True))

    for name in weights:
        more, less = weights | {name: weights[name] + step}, weights | {name: weights[name] - step}
        slope = (decision.logprob(more) - decision.logprob(less)) / (2 * step)
        away = (divergence(more) - divergence(less)) / (2 * step)
        assert decision.gradient(weights)[name] == pytest.approx(slope, abs=1e-5)
        assert decision.divergence_gradient(weights, reference)[name] == pytest.approx(away, abs=1e-5)
    assert read_decisions(write_decisions([decision])) == [decision]


WEIGHTS = {"fame": math.log(3), "stated": 0.0}
OPTIONS = ((0.0, 1.0), (1.0, 0.0))


def request(seed: int, temperature: float | None = None) -> Request:
    return Request([], moment=Moment(0), task=Task(0, 7), sampling=Sampling(temperature=temperature, seed=seed))


def test_an_answer_has_its_decisions_with_their_logprobs_and_is_the_likeliest_at_temperature_0() -> None:
    greedy, choices = Choices(WEIGHTS, request(1, temperature=0)), Choices(WEIGHTS, request(5))
    assert [greedy.decide(("fame", "stated"), OPTIONS), greedy.flip("fame")] == [1, True]
    assert greedy.generation((), "start").temperature == 0

    choices.decide(("fame", "stated"), OPTIONS)
    choices.flip("fame")

    answer = choices.generation([Intervention("take")], "start")

    decisions = read_decisions(answer.text)
    assert [one.names for one in decisions] == [("fame", "stated"), ("fame",)]
    assert [one.choice for one in decisions] == list(answer.token_ids)
    assert list(answer.logprobs) == pytest.approx([one.logprob(WEIGHTS) for one in decisions])
    assert (answer.calls[0].name, answer.said, answer.version) == ("take", "", "start")


# -- on a log of one's own ---------------------------------------------------------------------------------------------


LATER = 12
"""Number of likes of a user that become requests."""


def write(path: Path, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    with path.open("w", encoding="utf-8-sig", newline="") as file:  # as Excel writes it
        csv.writer(file).writerows([columns, *rows])


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log of forty users whose names and items mean nothing to the world."""
    folder = tmp_path / "logs"
    write_logs(folder, AssistantSettings(world=3, train_users=40, validation_users=1, test_users=1, items=10))
    with (folder / "interactions.csv").open(encoding="utf-8", newline="") as file:
        likes = [(row["user"], row["item"]) for row in csv.DictReader(file) if row["user"].startswith("train")]
    early, later = [], []
    for user in dict.fromkeys(user for user, _ in likes):
        own = [like for like in likes if like[0] == user]
        early += own[:-LATER]
        later += own[-LATER:]
    write(folder / "interactions.csv", ("user", "item"), early)
    write(folder / "requests.csv", ("user", "item"), later)
    return folder


def world(folder: Path, **settings: Any) -> Assistant:
    return Assistant(AssistantSettings.model_validate({"logs": str(folder), **settings}))


def test_each_later_like_is_one_request_among_offers_of_like_popularity(logs: Path) -> None:
    env = world(logs)
    turns = {split: env.tasks(count, 7, split) for split, count in _counts(env).items()}

    tasks = [task for some in turns.values() for task in some]
    assert len({(task.user, task.query) for task in tasks}) == len(tasks) == 40 * LATER
    users = [{task.user for task in some} for some in turns.values()]
    assert sum(map(len, users)) == len(set.union(*users)) == 40
    found: dict[str, list[float]] = {}
    for task in turns["train"]:
        for name, figures in env.references(task).items():
            found.setdefault(name, []).append(figures["satisfaction"])
    assert set(found) == {"random", "most famous", "knows the truth"}
    assert fmean(found["random"]) == pytest.approx(0.2)
    assert fmean(found["most famous"]) < 0.45
    assert fmean(found["knows the truth"]) == 1.0


def _counts(env: Assistant) -> dict[str, int]:
    """The number of requests of each split."""
    counts = {}
    for split in ("train", "validation", "test"):
        with pytest.raises(SettingsError, match="requests of the split") as refused:
            env.tasks(10_000, 7, split)
        counts[split] = int(refused.value.message.split(" has ")[1].split()[0].replace(",", ""))
    return counts


def test_a_run_on_a_log_is_rewarded_by_a_model_of_the_same_log(logs: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="fitting needs torch")
    torch.set_num_threads(1)
    (logs / "profiles.csv").unlink()
    preference = {"model": str(tmp_path / "model"), "logs": str(logs), "dimensions": 8, "epochs": 1}
    spec = {
        "environment": {"name": "assistant", "settings": {"logs": str(logs)}},
        "policy": "assistant-linear",
        "memories": [{"name": "skillgraph", "settings": {"embedder": "hash"}}],
        "rewards": ["assistant_base", {"name": "assistant_preference", "settings": preference}],
        "split": "train",
        "episodes": 20,
        "concurrency": 20,
    }
    run = Run.create(parse_spec(spec), Host.load(), tmp_path / "runs")

    asyncio.run(run.execute())

    records = run.folder.metrics()
    assert {record["outcome"]["satisfaction"] for record in records} == {0.0, 1.0}
    assert len({record["reward"] for record in records}) > 5
    assert (run.folder.path / "rewards" / "assistant_preference").is_dir()


@pytest.mark.parametrize(
    ("file", "rows", "problem"),
    [
        ("requests.csv", [("ana", "no such thing")], 'no item "no such thing"'),
        ("requests.csv", [], "needs rows with user and item"),
        ("interactions.csv", None, "can't be read"),
    ],
)
def test_a_log_that_cannot_be_used_is_named(logs: Path, file: str, rows: Any, problem: str) -> None:
    (logs / file).unlink()
    if rows is not None:
        write(logs / file, ("user", "item"), rows)

    with pytest.raises(SettingsError, match=problem) as refused:
        world(logs)
    assert file in refused.value.message
