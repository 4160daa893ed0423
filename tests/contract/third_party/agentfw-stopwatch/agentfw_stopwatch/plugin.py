"""Writes the length of each episode, in the time of its world, to stopwatch.csv in the folder of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentfw import hookimpl

if TYPE_CHECKING:
    from agentfw import Episode
    from agentfw.runs import RunInfo

AGENTFW_PLUGIN_API = 1

FILE = "stopwatch.csv"


@hookimpl
def agentfw_run_started(run: RunInfo) -> None:
    path = run.folder.path / FILE
    if not path.exists():  # a resumed run starts again
        path.write_text("episode,turns,time\n", encoding="utf-8")


@hookimpl
def agentfw_episode_done(run: RunInfo, episode: Episode) -> None:
    with (run.folder.path / FILE).open("a", encoding="utf-8") as file:
        file.write(f"{episode.id},{len(episode.turns)},{episode.ended - episode.started:g}\n")
