"""What plugins get is theirs to read: nothing that they do to it changes a record, or what others get.

What a reward model is given besides: a folder, the host, and figures that are to be seen and don't count.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from offering import offering

from agentfw import Environment, Policy, Run, World, action
from agentfw.episode import Episode, Event, Intervention, Message, Task, Turn
from agentfw.errors import PluginError
from agentfw.host import Host
from agentfw.memory import Memory, Query, Recollection
from agentfw.request import Generation, Request
from agentfw.runs import Summary, list_runs, parse_spec
from agentfw.scores import RewardModel, Score, wrong_scores
from agentfw.testing import fresh_host


class Pond(Environment):
    """Feed the fish."""

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        world.observe("hungry", {"fish": ["koi"]})
        world.after(5, world.finish)

    @action
    def feed(self, food: str) -> None:
        """Feed them."""
        self.world.utility(1.0, "fed")
        self.world.observe("splash")


class Whitewashed(Pond):
    """Its turns are gone at the end."""

    def outcome(self) -> dict[str, float]:
        self.world.episode.turns.clear()
        return {}

    def begin(self, world: World, task: Task) -> None:
        super().begin(world, task)
        world.after(4, world.episode.turns.clear)


class Tampering(Policy):
    async def generate(self, request: Request) -> Generation:
        fed = any(message.role == "assistant" for message in request.messages)
        assert isinstance(request.messages, list)
        request.messages.clear()
        return Generation("" if fed else "fed", calls=() if fed else (Intervention("feed", {"food": "rice"}),))


def ruin(episode: Episode) -> None:
    episode.utility, episode.finish = 1e9, "ruined"
    for event in episode.events:
        event.data["ruined"] = True
        event.data.get("fish", []).append("ruined")
    for turn in episode.turns:
        turn.text = "ruined"
        for call in turn.calls:
            call.arguments["food"] = "ruined"  # type: ignore[index]
    for message in episode.messages:
        for call in message.calls:
            call.arguments["food"] = "ruined"  # type: ignore[index]
    episode.turns.clear()
    episode.messages.clear()
    episode.events.clear()
    episode.outcome["ruined"] = 1.0


class Ruining(RewardModel):
    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        scores = [Score(episode.id, "turns", len(episode.turns)) for episode in group]
        for episode in group:
            ruin(episode)
        return scores

    async def learn(self, episode: Episode) -> None:
        ruin(episode)


class Forging(Memory):
    async def recall(self, query: Query) -> Sequence[Recollection]:
        return []

    async def learn(self, episode: Episode, reward: float) -> None:
        ruin(episode)


class Odd(RewardModel):
    """Gives what the test says."""

    scores: Any = staticmethod(lambda episode: [])

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [score for episode in group for score in Odd.scores(episode)]


class Noting(RewardModel):
    """Notes how many it scored in the folder it was given, and says how sure it is."""

    def __init__(self, *, host: Host) -> None:
        self.host = host

    def open(self, folder: Path) -> None:
        self.path = folder / "noted.txt"

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        with self.path.open("a") as file:
            file.write(f"{len(group)}\n")
        sure = [Score(episode.id, "sureness", 0.25, counts=False) for episode in group]
        return [*sure, *(Score(episode.id, "worth", 2.0) for episode in group)]

    async def write_learned(self, folder: Path) -> bool:
        folder.mkdir(parents=True)
        shutil.copy(self.path, folder)
        return True


@pytest.fixture
def host() -> Host:
    return fresh_host(
        offering(
            environment={"pond": Pond, "whitewashed": Whitewashed},
            policy={"tampering": Tampering},
            memory={"forging": Forging},
            reward={"ruining": Ruining, "odd": Odd, "noting": Noting},
        )
    )


def run(host: Host, root: Path, environment: str = "pond", **more: Any) -> Summary:
    spec = parse_spec({"environment": environment, "policy": "tampering", "episodes": 3, **more})
    return asyncio.run(Run.create(spec, host, root).execute())


def test_nobody_can_change_a_record(host: Host, tmp_path: Path) -> None:
    untouched = run(host, tmp_path / "untouched")
    touched = run(host, tmp_path / "touched", rewards=["ruining", "odd"], memories=["forging"])

    assert touched.turns == untouched.turns == 6
    for name in ("untouched", "touched"):
        (file,) = (tmp_path / name).rglob("metrics.jsonl")
        lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        assert [line["turns"] for line in lines] == [2, 2, 2]
        assert [line["utility"] for line in lines] == [1.0, 1.0, 1.0]
        assert "ruined" not in file.read_text("utf-8")
    (episodes,) = (tmp_path / "touched").rglob("episodes.jsonl")
    assert "ruined" not in episodes.read_text("utf-8")
    messages = [json.loads(line)["messages"] for line in episodes.read_text("utf-8").splitlines()]
    roles = [[message[0] for message in some] for some in messages]
    assert roles == [["system", "user", "assistant", "tool", "user"]] * 3


def test_a_world_that_removes_turns_is_named(host: Host, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="the world Whitewashed has removed turns from the record"):
        run(host, tmp_path, "whitewashed")


ODD = {
    "twice": lambda episode: [Score(episode.id, "odd", 1.0)] * 2,
    "of no turn": lambda episode: [Score(episode.id, "odd", 1.0, turn=len(episode.turns))],
    "of an unknown track": lambda episode: [Score(episode.id, "odd", 1.0, track="sideways")],  # type: ignore[arg-type]
    "not a number": lambda episode: [Score(episode.id, "odd", float("nan"))],
    "of an unknown episode": lambda episode: [Score("99999-9", "odd", 1.0)],
}


@pytest.mark.parametrize("what", ODD)
def test_a_score_that_does_not_fit_is_an_error_and_none_is_kept(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(Odd, "scores", staticmethod(ODD[what]))

    with pytest.raises(PluginError, match='reward model "odd" of '):
        run(host, tmp_path, rewards=["odd"])

    (failed,) = tmp_path.rglob("failed.jsonl")
    assert {json.loads(line)["stage"] for line in failed.read_text("utf-8").splitlines()} == {"score"}
    (metrics,) = tmp_path.rglob("metrics.jsonl")
    assert metrics.read_text("utf-8") == ""


def test_scores_of_different_places_are_no_doubles() -> None:
    episode = Episode(Task(0, 0), turns=[Turn(0, 0, 1), Turn(1, 1, 2)])
    places = list(product((None, 0, 1), (None, 1), ("base", "personal")))
    scores = [Score("00000-0", "odd", 1e100, turn=turn, round=number, track=of) for turn, number, of in places]  # type: ignore[arg-type]

    assert wrong_scores(scores, [episode]) == ""
    assert "two scores" in wrong_scores([*scores, replace(scores[3], value=2.0)], [episode])


def test_a_copy_shares_nothing_that_can_be_changed() -> None:
    call = Intervention("feed", {"food": "rice"})
    episode = Episode(
        Task(0, 0),
        outcome={"fed": 1.0},
        events=[Event(0, "observation", "hungry", {"fish": ["koi"]})],
        actions={"": [{"name": "feed", "parameters": {}}]},
        messages=[Message("assistant", "", (call,))],
        turns=[Turn(0, 0, 1, calls=(call,))],
        profile={"about": "a pond"},
    )
    before = json.dumps(episode.to_record())

    copied = episode.copied()
    assert copied == episode
    copied.actions[""][0]["parameters"]["more"] = 1
    copied.profile.clear()
    ruin(copied)

    assert json.dumps(episode.to_record()) == before


def test_a_reward_model_gets_host_and_folder_and_what_does_not_count_is_seen(host: Host, tmp_path: Path) -> None:
    summary = run(host, tmp_path, rewards=[{"name": "noting", "weight": 3}], episodes=2, samples=2)
    made = host.create("reward", "noting", {})

    (folder,) = list_runs(tmp_path)
    for record in folder.metrics():
        assert record["reward"] == 6.0
        assert record["outcome"]["sureness"] == 0.25
        assert [row[0] for row in record["scores"]] == ["worth"]
        assert record["scored_by"] == {"worth": "noting"}
    assert summary.figures["sureness"].estimate == 0.25
    assert all("sureness" not in episode.outcome for episode in folder.episodes())
    learned, noted = folder.path / "rewards" / "noting" / "noted.txt", folder.path / "noted.txt"
    assert learned.read_text() == noted.read_text() == "2\n2\n"
    noted.unlink()
    (folder.path / "summary.json").unlink()
    asyncio.run(Run.open(folder, host).execute())
    assert learned.read_text() == "2\n2\n", "a kill before the end changes nothing of it"
    assert isinstance(made, Noting)
    assert made.host is host
