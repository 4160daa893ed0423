"""Starts actors with the engine `ray`, and looks at what they answer: `ray_driver.py FILE`, where one leaves a note."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from agentfw.engine import EngineSettings, Remote, RemoteDiedError, Resources, make_engine
from agentfw.errors import PluginError, SettingsError, UsageError


def wait(remote: Remote, method: str, *arguments: Any) -> Any:
    return remote.submit(method, *arguments).result(60)


ray = make_engine(EngineSettings(name="ray"))
value = {"numbers": [0.1, 2**60, None], "weights": bytes(range(256))}
try:
    wrong = ray.start("remote_counter:Counter", [-1], name="counter 1")
    resources = Resources(cpus=3, environment={"COLOUR": "green"})
    counter = ray.start("remote_counter:Counter", [10, sys.argv[1]], name="counter 0", resources=resources)

    assert wait(counter, "add", 1) == 11
    assert wait(counter, "echo", value) == value
    assert wait(counter, "process")[1:] == ["3", "green"]
    with pytest.raises(SettingsError, match="limit is 0"):
        wait(counter, "refuse")
    with pytest.raises(PluginError, match=r"counter 0 on the node \S+ failed in fail: KeyError"):
        wait(counter, "fail")
    with pytest.raises(SettingsError, match="start is -1"):
        wrong.ready.result(60)
    counter.stop()

    dying = ray.start("remote_counter:Counter", name="counter 2")
    with pytest.raises(RemoteDiedError, match="the actor of counter 2 died"):
        wait(dying, "die")
    with pytest.raises(RemoteDiedError):
        wait(dying, "add", 1)
    with pytest.raises(UsageError, match=r"no room for counter 3.*: needed are 0 CPUs and 0\.5 GPUs"):
        ray.start("remote_counter:Counter", name="counter 3", resources=Resources(gpus=0.5))
finally:
    ray.close()
