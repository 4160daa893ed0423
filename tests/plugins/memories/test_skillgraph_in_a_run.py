"""The skill graph in a whole run: what one episode taught stands in the next one's prompt."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from agentfw import Host
from agentfw.errors import MissingExtraError
from agentfw.host import HostOptions
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec
from agentfw_memory import SkillGraph

pytest.importorskip("igraph")

REPLIES = ['{"name": "decide", "arguments": {"accept": "A", "ranking": ["A", "B", "C", "D", "E"]}}']


def test_what_an_episode_taught_stands_in_the_next_ones_prompt(tmp_path: Path) -> None:
    spec = {
        "environment": {"name": "calendar", "settings": {"rounds": 4, "users_each": 1, "test_organisations": 1}},
        "policy": {"name": "scripted", "settings": {"replies": REPLIES}},
        "memories": [{"name": "skillgraph", "settings": {"embedder": "hash", "learn_from": -100.0}}],
        "episodes": 2,
        "concurrency": 1,
    }
    run = Run.create(parse_spec(spec), Host.load(HostOptions(disabled=("all",))), tmp_path)
    asyncio.run(run.execute())

    first, second = run.folder.episodes()
    said = ["\n".join(message.content for message in episode.messages) for episode in (first, second)]
    assert "You remember:" not in said[0]
    with SkillGraph.open(run.folder.path / "skills.db", tenant="agentfw") as graph:
        shown = re.search(r"You remember:\n- (s\d+): (.*) \(tools: decide; for: calendar\)\n", said[1])
        assert shown is not None
        skill = graph.get(shown[1])
        assert (skill.text, skill.owner) == (shown[2], second.task.user)
        assert graph.admin.stats().nodes["trajectory"] == 2
        # It came of the first, and was said again in the second. Nothing that the agent did says whether it followed.
        assert skill.uses >= 1


def test_without_its_extra_a_run_is_refused_before_it_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Communities are found late, so a run would end in the middle.
    monkeypatch.setitem(sys.modules, "igraph", None)
    policy = {"name": "scripted", "settings": {"replies": REPLIES}}
    spec = {"environment": "calendar", "policy": policy, "memories": ["skillgraph"], "episodes": 1}

    with pytest.raises(MissingExtraError) as caught:
        Run.create(parse_spec(spec), Host.load(HostOptions(disabled=("all",))), tmp_path)

    assert caught.value.fix.endswith('[memory]"')
    assert not any(tmp_path.iterdir())
