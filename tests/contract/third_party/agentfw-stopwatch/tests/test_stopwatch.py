"""What the hooks write, called as in a run that is resumed once."""

from pathlib import Path
from types import SimpleNamespace

from agentfw import Task
from agentfw.testing import fresh_host, sample_episode

from agentfw_stopwatch.plugin import FILE


def test_each_episode_is_one_line_below_one_heading(tmp_path: Path) -> None:
    host = fresh_host("agentfw_stopwatch.plugin")
    run = SimpleNamespace(folder=SimpleNamespace(path=tmp_path))

    for index in range(2):
        host.call("agentfw_run_started", run=run)
        host.call("agentfw_episode_done", run=run, episode=sample_episode(Task(index, seed=7)))

    heading, first, second = (tmp_path / FILE).read_text("utf-8").splitlines()
    assert heading == "episode,turns,time"
    assert first.startswith("00000-0,")
    assert second.startswith("00001-0,")
    assert host.notes == []
