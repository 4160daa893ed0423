"""What was answered is on disk, also when the gateway is killed at that moment."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx
import pytest
from waiting import until

from agentfw.runs import RunFolder, read_sessions

from .conftest import CLIENT
from .endless_upstream import endless
from .killing import begun, start, told

pytest.importorskip("uvicorn")


@pytest.mark.slow
def test_a_deploy_lets_answers_end_cuts_off_what_takes_longer_than_the_drain_and_keeps_sessions(tmp_path: Path) -> None:
    with endless() as upstream:
        settings = {"base_url": upstream.url, "model": "served", "token_ids": "off"}
        options = ["--policy", "openai", *(f"--set=policy.{name}={value}" for name, value in settings.items())]
        process, url, run = start(tmp_path, *options)
        asked = {"model": "served", "messages": [{"role": "user", "content": "Tell me a story."}]}
        short = {"model": "served", "messages": [{"role": "user", "content": "now"}]}
        CLIENT.post(f"{url}/s/tea/v1/chat/completions", json=short).raise_for_status()
        with httpx.Client(timeout=120) as client:
            with client.stream("POST", f"{url}/s/tale/v1/chat/completions", json={**asked, "stream": True}) as answer:
                said = answer.iter_text()
                until(lambda: "word" in next(said))
                process.send_signal(signal.SIGTERM)
                until(lambda: _refused(url))
                following = begun(tmp_path, *options, "--drain", "1")
                upstream.stopping.set()
                rest = "".join(said)
            assert process.wait(300) == 0
        again, same = told(following)
        rated = CLIENT.post(f"{again}/s/tea/feedback", json={"value": 1})
        goes_on = CLIENT.post(f"{again}/s/tale/v1/chat/completions", json=short)
        upstream.stopping.clear()
        with (
            httpx.Client(timeout=120) as client,
            client.stream("POST", f"{again}/s/long/v1/chat/completions", json={**asked, "stream": True}) as answer,
        ):
            said = answer.iter_text()
            until(lambda: "word" in next(said))
            following.send_signal(signal.SIGTERM)
            assert following.wait(300) == 0

    assert rest.rstrip().endswith("data: [DONE]")
    assert same == run
    assert rated.status_code == 200
    assert goes_on.headers["x-agentfw-session"] == "tale"
    kept = {episode.task.query: episode for episode in read_sessions(run)}
    assert kept["tale"].turns[0].text.startswith("word ")
    assert len(kept["tale"].turns) == 2
    [cut] = [event.data for event in kept["long"].events if event.name == "cut_off"]
    assert cut["text"].startswith("word ")
    assert not any(episode.finish for episode in kept.values())
    assert RunFolder.open(run).state == "stopped"


def _refused(url: str) -> bool:
    try:
        CLIENT.get(f"{url}/v1/models")
    except httpx.TransportError:
        return True
    return False
