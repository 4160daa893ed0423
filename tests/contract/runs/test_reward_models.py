"""What the framework does for reward models: a folder, the host, and figures that are to be seen and don't count."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import SITE

from agentfw import Component, Episode, Host, RewardModel, Run, Score, hookimpl
from agentfw.runs import parse_spec
from agentfw.testing import fresh_host


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


class Offers:
    @hookimpl
    def agentfw_reward_models(self) -> list[Component]:
        return [Component("noting", f"{__name__}:Noting", "Notes")]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.syspath_prepend(str(SITE))
    return fresh_host(Offers(), importlib.import_module("agentfw_laboratory.plugin"), builtins=True, strict=False)


def test_a_reward_model_gets_host_and_folder_and_what_does_not_count_is_seen_and_makes_no_reward(
    host: Host, tmp_path: Path
) -> None:
    spec = {"environment": "guessing", "policy": "hashing", "rewards": [{"name": "noting", "weight": 3}]}
    run = Run.create(parse_spec({**spec, "episodes": 2, "samples": 2}), host, tmp_path)
    summary = asyncio.run(run.execute())
    made = host.create("reward", "noting", {})

    for record in run.folder.metrics():
        assert record["reward"] == 6.0
        assert record["outcome"]["sureness"] == 0.25
        assert [row[0] for row in record["scores"]] == ["worth"]
        assert record["scored_by"] == {"worth": "noting"}
    assert summary.figures["sureness"].estimate == 0.25
    assert all("sureness" not in episode.outcome for episode in run.folder.episodes())
    assert (run.folder.path / "noted.txt").read_text() == "2\n2\n"
    assert isinstance(made, Noting)
    assert made.host is host
