"""`agentfw serve --engine ray`: replicas that share their sessions, the death of one, and an end that waits."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]  # its types are a package of their own
import pytest

from agentfw.runs import read_journal
from agentfw_cli.main import main

from .endless_upstream import Upstream, endless, until
from .killing import begun, told

pytest.importorskip("sqlalchemy")

SHARED = ("--engine", "ray", "--sessions", "sessions.db")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--engine", "ray"), "they need a place to share them"),
        ((*SHARED, "--replicas", "4-2"), "--replicas 4-2 is no number of replicas"),
        ((*SHARED, "--replicas", "0"), "--replicas 0 is no number of replicas"),
        ((*SHARED, "--learn"), "trains no versions"),
        (("--replicas", "2"), "add --engine ray"),
    ],
)
def test_what_replicas_cannot_do_is_refused_before_ray_starts(
    options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--policy", "tiny", *options])

    assert ended.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_file_of_sessions_is_refused_where_replicas_are_on_several_machines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.5:6379")

    with pytest.raises(SystemExit) as ended:
        main(["serve", "--policy", "tiny", *SHARED])

    assert ended.value.code == 2
    assert "use --sessions postgresql://" in capsys.readouterr().err


class Cluster:
    """The command, with what it serves and where its runs are."""

    def __init__(self, process: subprocess.Popen[str], url: str, runs: Path, upstream: Upstream) -> None:
        self.process, self.url, self.runs, self.upstream = process, url, runs, upstream

    def ask(self, name: str, *, answers_before: int = 0) -> httpx.Response:
        said = [{"role": "user", "content": "now"}, {"role": "assistant", "content": "fine"}] * answers_before
        messages = [*said, {"role": "user", "content": "now"}]
        url = f"{self.url}/s/{name}/v1/chat/completions"
        return httpx.post(url, json={"model": "served", "messages": messages}, timeout=60)

    def answers(self) -> list[int]:
        """How many answers each replica has in its run."""
        return [
            sum(len(record.get("turns", ())) for record in read_journal(folder / "turns.jsonl"))
            for folder in self.runs.iterdir()
        ]

    def replicas(self) -> list[psutil.Process]:
        mine = psutil.Process(self.process.pid).children(recursive=True)
        return [one for one in mine if "ServeReplica:agentfw" in " ".join(one.cmdline())]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    pytest.importorskip("ray.serve", exc_type=ImportError)
    with endless() as upstream:
        settings = ["--set", f"policy.base_url={upstream.url}", "--set", "policy.model=served"]
        sessions = ["--sessions", str(tmp_path / "sessions.db"), "--engine", "ray", "--replicas", "2"]
        process = begun(tmp_path / "runs", "--policy", "openai", *settings, *sessions)
        try:
            yield Cluster(process, *told(process), upstream)
        finally:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=120)


@pytest.mark.nightly
def test_any_replica_answers_in_any_session_also_when_one_is_killed_and_the_end_cuts_no_answer_off(
    cluster: Cluster,
) -> None:
    names = [f"s{number}" for number in range(10)]
    for before in range(2):
        assert [cluster.ask(name, answers_before=before).status_code for name in names] == [200] * 10
    assert len(cluster.answers()) == 2
    assert all(cluster.answers()), "both replicas answer"

    killed, other = cluster.replicas()
    killed.kill()
    statuses = [cluster.ask(name, answers_before=2).status_code for name in names]
    again = [
        cluster.ask(name, answers_before=2).status_code
        for name, status in zip(names, statuses, strict=True)
        if status != 200
    ]
    assert statuses.count(200) >= 8
    assert again == [200] * len(again)
    until(lambda: len({one.pid for one in cluster.replicas()} - {killed.pid}) == 2, 60)
    assert other.is_running()

    pieces: list[str] = []

    def read() -> None:
        body: dict[str, Any] = {"model": "served", "messages": [{"role": "user", "content": "talk"}], "stream": True}
        with httpx.stream("POST", f"{cluster.url}/s/talk/v1/chat/completions", json=body, timeout=60) as answer:
            pieces.extend(answer.iter_lines())

    reading = threading.Thread(target=read)
    reading.start()
    until(lambda: cluster.upstream.begun)
    cluster.process.send_signal(signal.SIGTERM)
    until(lambda: _refused(cluster), 60)
    cluster.upstream.stopping.set()
    reading.join(60)
    _, errors = cluster.process.communicate(timeout=120)
    assert pieces[-2:] == ["data: [DONE]", ""]
    assert cluster.process.returncode == 0, errors
    assert sum(cluster.answers()) >= 31


def _refused(cluster: Cluster) -> bool:
    """Whether new requests aren't taken any more."""
    try:
        return cluster.ask("new").status_code != 200
    except httpx.HTTPError:
        return True
