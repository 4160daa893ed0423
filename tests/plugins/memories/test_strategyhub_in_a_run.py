"""The StrategyHub in a whole run: its hubs are in the run's folder, one for each user and episode."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agentfw import Host
from agentfw.host import HostOptions
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec
from agentfw_memory import StrategyHubs

REPLIES = [
    '{"name": "strategy_hub", "arguments": {"action": "update", "strategies": ["deadlines today first"]}}',
    '{"name": "decide", "arguments": {"accept": "A", "ranking": ["A", "B", "C", "D", "E"]}}',
]


def test_the_hubs_of_a_run_are_in_its_folder_and_using_them_pays(tmp_path: Path) -> None:
    spec = {
        "environment": {"name": "calendar", "settings": {"rounds": 4}},
        "policy": {"name": "scripted", "settings": {"replies": REPLIES}},
        "memories": ["strategyhub"],
        "rewards": ["calendar_hub"],
        "episodes": 2,
    }
    run = Run.create(parse_spec(spec), Host.load(HostOptions(disabled=("all",))), tmp_path)
    asyncio.run(run.execute())

    episodes = list(run.folder.episodes())
    assert len(episodes) == 2
    with StrategyHubs.open(run.folder.path / "strategies.db") as hubs:
        for episode in episodes:
            hub = hubs.hub(episode.task.user, episode.id)
            assert hub.list() == ("deadlines today first",)
            assert [change.round for change in hub.history()] == [1]
    # Every round of both episodes had a valid update, and each is paid once.
    assert [record["reward"] for record in run.folder.metrics()] == [4.0, 4.0]
