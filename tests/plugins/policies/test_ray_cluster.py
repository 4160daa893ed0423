"""A pool on two nodes of a Ray cluster that share no disk: what is checked before the start, and what travels."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from waiting import free_port

if find_spec("ray") is None:
    pytest.skip("needs ray", allow_module_level=True)

DRIVER = Path(__file__).parent / "cluster_driver"
STARTING = 180.0


def _own_mounts() -> bool:
    tool = shutil.which("unshare")
    return tool is not None and subprocess.run([tool, "-m", "true"], capture_output=True).returncode == 0


class Node:
    def __init__(self, command: list[str], log: Path, environment: dict[str, str]) -> None:
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
        until = time.monotonic() + STARTING
        while b"Ray runtime started" not in (said := log.read_bytes()):
            assert self.process.poll() is None, said.decode(errors="replace")
            assert time.monotonic() < until, said.decode(errors="replace")
            time.sleep(0.2)

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def private(tmp_path: Path) -> Path:
    (tmp_path / "private").mkdir()
    return tmp_path / "private"


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of the nodes: a token of their own, and what the machine of a run would have installed."""
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    return {**os.environ, **own, "PYTHONPATH": str(DRIVER)}


@pytest.fixture
def cluster(tmp_path: Path, private: Path, environment: dict[str, str]) -> Iterator[str]:
    """A head with 2 CPUs and 1 GPU (in name only), and a node with 2 CPUs that doesn't see the private folder."""
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--num-cpus=2", "--block", "--log-color=false"]
    port = free_port()
    ports = [f"--port={port}", f"--ray-client-server-port={free_port()}"]
    head = Node([*ray, "--head", "--num-gpus=1", "--include-dashboard=false", *ports], tmp_path / "head", environment)
    try:
        (ip,) = re.findall(r"Local node IP: ([\d.]+)", head.log.read_text("utf-8", "replace"))
        hidden = f'mount -t tmpfs tmpfs "{private}" && exec "$@"'
        command = ["unshare", "-m", "sh", "-c", hidden, "sh", *ray, f"--address={ip}:{port}"]
        other = Node(command, tmp_path / "other", environment)
        try:
            yield f"{ip}:{port}"
        finally:
            other.end()
    finally:
        head.end()


@pytest.mark.nightly
@pytest.mark.skipif(not _own_mounts(), reason="needs the right to hide a folder from a node (unshare -m)")
def test_a_pool_on_two_nodes_without_a_shared_disk(cluster: str, private: Path, environment: dict[str, str]) -> None:
    """One test, because a cluster takes long to start."""
    keys = {"TEA_KEY": "oolong", "OTHER_KEY": "not for them"}
    done = subprocess.run(
        [sys.executable, str(DRIVER / "driver.py"), cluster, str(private)],
        env={**environment, **keys},
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["three GPUs"].startswith("there is no room for 3 replicas: needed are 3 CPUs and 3 GPUs")
    assert "1 node with 2 CPUs and 1 GPU" in found["three GPUs"]
    assert found["five CPUs"].startswith("there is no room for 5 replicas")
    assert found["four CPUs"] == ""
    assert found["another run"].endswith("of which 0 CPUs and 1 GPUs are free"), "before the four have started"
    assert sorted(there for there, *_ in found["seen"]) == [False, False, True, True], "spread over the nodes"
    assert {(key, other) for _, key, other in found["seen"]} == {("oolong", None)}, "keys by name, and no others"
    assert found["here"][0] is True
    assert [version for version, _ in found["published"]] == ["v1", "v1"]
    assert found["published"][0] == found["published"][1]
    assert re.search(
        r"looker on the node \S+ has agentfw-tea not at all, and this machine has agentfw-tea 1.1", found["versions"]
    )
