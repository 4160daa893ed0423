"""Kills nodes of a Ray cluster in each phase of a learner's update: are the weights those of one process?

    python benchmarks/node_kill.py                    # on Linux, as root: a minute or two
    python benchmarks/node_kill.py --phases gradient --json

Four nodes on this machine, of which three have a learner worker each and see nothing of the run's folder. In each
update one node gets SIGKILL, at the moment when a worker is given weights, a piece to compute a gradient of, or a piece
to compute log probabilities of. Required: each update's weights are equal to the byte to those of one process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from agentfw_benchmarks import Options, make_model, print_aligned, tell

PHASES = {"weights": "put", "gradient": "gradient", "log probabilities": "logprobs"}
"""What a worker is asked for in each."""
STARTING = 240.0


class Node:
    """One node, as `ray start --block`."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )

    def started(self) -> str:
        until = time.monotonic() + STARTING
        while "Ray runtime started" not in (said := self.log.read_text("utf-8", "replace")):
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit(said)
            time.sleep(0.2)
        return said

    def end(self) -> None:
        """Kill all its processes, some of which have groups of their own."""
        if self.process.poll() is None:
            whole = psutil.Process(self.process.pid)
            for process in [*whole.children(recursive=True), whole]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            self.process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def measure(phases: Sequence[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        model, private = make_model(folder / "model"), folder / "private"
        private.mkdir()
        environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        environment |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_raylet_start_wait_time_s": "180"}
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--log-color=false"]
        ports = [f"--port={(port := free_port())}", f"--ray-client-server-port={free_port()}"]
        head = Node([*ray, "--head", "--num-cpus=0", "--include-dashboard=false", *ports], folder / "head", environment)
        stack.callback(head.end)
        (ip,) = re.findall(r"Local node IP: ([\d.]+)", head.started())
        hidden = f'mount -t tmpfs tmpfs "{private}" && exec "$@"'
        command = ["unshare", "-m", "sh", "-c", hidden, "sh", *ray, "--num-cpus=1", f"--address={ip}:{port}"]
        nodes = []
        for number, _ in enumerate(phases):
            nodes.append(Node(command, folder / f"node{number}", environment))
            stack.callback(nodes[-1].end)
            nodes[-1].started()
        driver = [sys.executable, __file__, "--driver", f"{ip}:{port}", str(model), str(private)]
        process = subprocess.Popen(
            [*driver, "--phases", *phases], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        stack.callback(process.kill)
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:  # Ray writes there, too
            if line == "kill\n":
                nodes.pop().end()
                print("killed", file=process.stdin, flush=True)
            elif line.startswith("[{"):
                if nodes:
                    raise SystemExit(f"{len(nodes)} nodes weren't killed")
                return {"updates": json.loads(line)}
            else:
                print(line, end="", file=sys.stderr)
        raise SystemExit("the training ended early; the error is above")


def drive(address: str, model: Path, private: Path, phases: Sequence[str]) -> None:
    """The training: asks for a kill in each update, and compares."""
    import torch
    from parallel_step import batch_of, weights

    from agentfw.engine import EngineSettings, make_engine
    from agentfw.optimizer import Loss
    from agentfw_plugins.learners.model_learner import LoraLearner
    from agentfw_plugins.learners.settings import LoraSettings

    torch.set_num_threads(1)
    engine = make_engine(EngineSettings(name="ray", address=address))
    settings = {"model": str(model), "learning_rate": 1e-3, "tokens": 48, "worker_patience": 60}
    alone = LoraLearner(LoraSettings.model_validate(settings))
    team = LoraLearner(LoraSettings.model_validate({**settings, "workers": len(phases) + 1}), engine)
    waiting: list[str] = []
    assert team._team is not None
    start_worker = team._team._worker

    def worker(number: int, resources: Any) -> Any:
        remote = start_worker(number, resources)
        submit = remote.submit

        def watched(method: str, *arguments: Any) -> Any:
            answer = submit(method, *arguments)
            if waiting and method == waiting[0]:
                waiting.clear()
                print("kill", flush=True)
                sys.stdin.readline()
            return answer

        remote.submit = watched
        return remote

    team._team._worker = worker  # type: ignore[method-assign]
    team.open(private)
    found = []
    for number, phase in enumerate(phases):
        batches = [batch_of(private / f"{who}{number}", 12, 2, 20, 10, number) for who in ("alone", "team")]
        ours, theirs = (replace(batch, loss=Loss(kl=0.05)) for batch in batches)
        expected = alone.update(ours)
        waiting.append(PHASES[phase])
        update = team.update(theirs)
        assert expected is not None
        assert update is not None
        one, other = weights(expected.adapter), weights(update.adapter)
        equal = all(one[name].tobytes() == other[name].tobytes() for name in one)
        used, lost = update.metrics["workers_used"], update.metrics["workers_lost"]
        found.append({"killed": phase, "workers used": used, "workers lost": lost, "equal": equal})
    team.close()
    alone.close()
    engine.close()
    print(json.dumps(found), flush=True)


def show(result: Mapping[str, Any]) -> None:
    columns = list(result["updates"][0])
    print_aligned(columns, [[str(each[name]) for name in columns] for each in result["updates"]])


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__)
    parser.add_argument("--phases", nargs="+", choices=PHASES, default=list(PHASES))
    parser.add_argument("--driver", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.driver:
        address, model, private = options.driver
        drive(address, Path(model), Path(private), options.phases)
        return {}
    return tell(measure(options.phases), options.json, show)


if __name__ == "__main__":
    main()
