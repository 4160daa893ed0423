"""Recorded sessions are asked again of another variant, and stand beside the old ones in the view."""

from __future__ import annotations

import json
from pathlib import Path

from chat_server import completion
from command_line import Agentfw
from starlette.testclient import TestClient

from agentfw import Host
from agentfw.runs import read_sessions
from agentfw_plugins.view.app import Viewer
from agentfw_plugins.view.index import Index

from .conftest import CLIENT
from .test_sessions import body
from .upstream import passing


def test_questions_are_asked_again_with_the_recorded_conversation(tmp_path: Path, agentfw: Agentfw) -> None:
    (tmp_path / "terse.md").write_text("Be terse.")
    answers = [completion(text) for text in ("Green tea, I think.", "At four.", "Green.", "Four.")]
    with passing(tmp_path / "runs", *answers, counts=True) as gateway:
        first = body("Which tea?", user="ada")
        CLIENT.post(f"{gateway.session('tea')}/chat/completions", json=first).raise_for_status()
        said = [*first["messages"], {"role": "assistant", "content": "Green tea, I think."}]
        again = body(*said, "When?", user="ada")
        CLIENT.post(f"{gateway.session('tea')}/chat/completions", json=again).raise_for_status()
        run = gateway.live.folder.path

        told = agentfw("serve", "replay", run.name, "--variant", "terse:prompt=terse.md,model=small", "--json")

    assert told.code == 0, told.err
    assert (told.json["sessions"], told.json["answers"], told.json["same"]) == (1, 2, 0)
    asked = gateway.asked[2:]
    assert {one["model"] for one in asked} == {"small"}
    assert asked[0]["messages"] == [{"role": "system", "content": "Be terse."}, *first["messages"]]
    assert asked[1]["messages"][1:] == again["messages"]
    [episode] = read_sessions(Path(told.json["folder"]))
    assert (episode.task.query, episode.task.user) == ("tea", "ada")
    assert [turn.text for turn in episode.turns] == ["Green.", "Four."]
    index = Index(tmp_path / "runs")
    index.refresh()
    with TestClient(Viewer(index, Host.load()).app, base_url="http://127.0.0.1") as view:
        page = view.get(told.json["compare"].partition("8766")[2])
    assert page.status_code == 200
    assert "tea" in page.text
    assert "pair?left=" in page.text


def test_what_cant_be_asked_again_is_refused(tmp_path: Path, agentfw: Agentfw) -> None:
    with passing(tmp_path / "runs", completion("fine"), counts=True) as gateway:
        CLIENT.post(f"{gateway.session('tea')}/chat/completions", json=body("Which tea?")).raise_for_status()
        run = gateway.live.folder.path.name
        forgets = agentfw("serve", "replay", run, "--variant", "forgets:memory=off")
        version = agentfw("serve", "replay", run, "--variant", "newer:version=v9")
        nobody = agentfw("serve", "replay", run, "--variant", "small:model=small", "--user", "eve")

    assert (forgets.code, version.code, nobody.code) == (2, 2, 2)
    assert "memory can't be left out" in forgets.err
    assert "no version v9" in version.err
    assert "has no such sessions" in nobody.err
    assert json.dumps(gateway.asked).count("Which tea?") == 1
