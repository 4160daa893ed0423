"""What a run does on a cluster, in a process of its own: Ray can't be connected to a second cluster in one process.

driver.py ADDRESS PRIVATE_FOLDER prints what came of it as JSON. The other node can't see the private folder.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentfw import Host, Message, Request, Task
from agentfw.engine import EngineSettings, Remote, Resources, make_engine
from agentfw.errors import AgentfwError
from agentfw.request import Sampling
from agentfw_plugins import policies
from agentfw_plugins.policies.pool_policy import PoolPolicy, PoolSettings

address, private = sys.argv[1], Path(sys.argv[2])
engine = make_engine(EngineSettings(name="ray", address=address, keys=("TEA_KEY",)))


def error_of(work: Callable[[], Any]) -> str:
    try:
        work()
    except AgentfwError as error:
        return error.message
    return ""


def seen(remote: Remote) -> list[Any]:
    """Whether it sees the private folder, and its key."""
    found: list[Any] = remote.submit("look", str(private / "here")).result(120)
    return found


def looking(number: int, **resources: Any) -> Remote:
    return engine.start("cluster_looker:Looker", name=f"looker {number}", resources=Resources(**resources))


async def published() -> list[list[Any]]:
    """The answers of two replicas on two nodes, after a version was published that one node has no disk for."""
    settings = {"policy": "tiny", "replicas": 2, "start_deadline": 300}
    pool = PoolPolicy(PoolSettings.model_validate(settings), Host.load(), engine)
    adapter = private / "adapter"
    shutil.copytree(Path(policies.__file__).parents[1] / "models" / "tiny", adapter)
    try:
        await pool.publish(adapter, "v1")
        asked = Request([Message("user", "hello")], task=Task(0, 7), sampling=Sampling(0.0, None, 4, 7))
        answers = [await replica.generate(asked) for replica in pool.replicas()]
        return [[answer.version, list(answer.token_ids)] for answer in answers]
    finally:
        await pool.close()


(private / "here").touch()
result: dict[str, Any] = {
    "three GPUs": error_of(lambda: engine.require([Resources(gpus=1)] * 3, "3 replicas")),
    "five CPUs": error_of(lambda: engine.require([Resources(cpus=1)] * 5, "5 replicas")),
    "four CPUs": error_of(lambda: engine.require([Resources(cpus=1)] * 4, "4 replicas")),
}
beside = make_engine(EngineSettings(name="ray", address=address))
result["another run"] = error_of(lambda: beside.require([Resources(cpus=1)], "1 replica"))
beside.close()
lookers = [looking(number) for number in range(4)]
result["seen"] = [seen(looker) for looker in lookers]
for looker in lookers:
    looker.stop()
at_home = looking(9, here=True)
result["here"] = seen(at_home)
at_home.stop()
result["published"] = asyncio.run(published())
site = private / "site" / "agentfw_tea-1.1.dist-info"
site.mkdir(parents=True)
(site / "METADATA").write_text("Metadata-Version: 2.1\nName: agentfw-tea\nVersion: 1.1\n")
(site / "entry_points.txt").write_text("[agentfw]\ntea = agentfw_tea\n")
sys.path.append(str(site.parent))
later = make_engine(EngineSettings(name="ray", address=address))
result["versions"] = error_of(lambda: later.start("cluster_looker:Looker", name="looker").ready.result(120))
later.close()
engine.close()
print(json.dumps(result))
