"""`agentfw serve`, and what it is measured beside, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from .processes import free_port


def serve(
    runs: Path, *options: str, port: int = 0, environment: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[str], str, Path]:
    """Start a gateway, and wait until it is ready. Returns its process, its address and the folder of its run."""
    command = [sys.executable, "-m", "agentfw", "serve", "--port", str(port), "--runs", str(runs), "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    assert process.stdout is not None
    told = ""
    while not told.rstrip().endswith("}"):
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"the gateway didn't start: {' '.join(command)}")
        told += line
    ready = json.loads(told)
    return process, ready["url"], Path(ready["folder"])


@contextmanager
def serving(runs: Path, *options: str) -> Iterator[tuple[str, Path]]:
    """The address of a gateway, and the folder of its run, until the block ends."""
    process, url, run = serve(runs, *options)
    try:
        yield url, run
    finally:
        process.terminate()
        process.wait()


@contextmanager
def litellm_proxy(command: str, upstream: str, native: str, folder: Path) -> Iterator[str]:
    """The address of a LiteLLM proxy. The command is that of an environment of its own."""
    port = free_port()
    settings = {"num_retries": 0, "use_chat_completions_url_for_anthropic_messages": True}
    routes: dict[str, dict[str, object]] = {
        "served": {"model": "openai/served", "api_base": upstream, "use_chat_completions_api": True},
        "served-text": {"model": "text-completion-openai/served", "api_base": upstream},
        "served-vectors": {"model": "openai/served", "api_base": upstream},
        "served-responses": {"model": "openai/served", "api_base": native},
        "served-messages": {"model": "anthropic/served", "api_base": native.removesuffix("/v1")},
    }
    listed = [{"model_name": name, "litellm_params": {**one, "api_key": "sk-up"}} for name, one in routes.items()]
    config = {"model_list": listed, "litellm_settings": settings, "router_settings": {"disable_cooldowns": True}}
    (folder / "config.yaml").write_text(json.dumps(config))
    words = [command, "--config", str(folder / "config.yaml"), "--host", "127.0.0.1", "--port", str(port)]
    environment = os.environ | {"LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(1200):
            try:
                httpx.get(f"{url}/health/liveliness").raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()
