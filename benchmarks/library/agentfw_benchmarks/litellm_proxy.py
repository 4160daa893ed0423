"""A LiteLLM proxy beside which gateways are measured: the command is that of an environment of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx


@contextmanager
def litellm_proxy(command: str, upstream: str, native: str, folder: Path) -> Iterator[str]:
    """Its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    route = {"model": "openai/served", "api_base": upstream, "api_key": "sk-up", "use_chat_completions_api": True}
    settings = {"num_retries": 0, "use_chat_completions_url_for_anthropic_messages": True}
    at = {"api_base": upstream, "api_key": "sk-up"}
    routes = {
        "served": route,
        "served-text": {"model": "text-completion-openai/served", **at},
        "served-vectors": {"model": "openai/served", **at},
        "served-responses": {"model": "openai/served", "api_base": native, "api_key": "sk-up"},
        "served-messages": {"model": "anthropic/served", "api_base": native.removesuffix("/v1"), "api_key": "sk-up"},
    }
    listed = [{"model_name": name, "litellm_params": given} for name, given in routes.items()]
    config: dict[str, Any] = {"model_list": listed, "litellm_settings": settings}
    config["router_settings"] = {"disable_cooldowns": True}
    (folder / "config.yaml").write_text(json.dumps(config))
    words = [command, "--config", str(folder / "config.yaml"), "--host", "127.0.0.1", "--port", str(port)]
    open_to_all = {"LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}
    process = subprocess.Popen(
        words, env={**os.environ, **open_to_all}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
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
