"""No secret of a run is in a file, in what is printed, or in what a model is sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest
from command_line import Agentfw

KEY = "hunter2/swordfish+and=chips"

FORECASTS = """
import logging
import httpx
from pydantic import SecretStr
from agentfw import Component, Generation, Memory, Policy, Settings, hookimpl
from agentfw.episode import Call
from agentfw.memory import Recollection
from agentfw.tool import tool

class ForecastSettings(Settings):
    key: SecretStr
    url: str

def forecasts(settings):
    key = settings.key.get_secret_value()

    @tool
    async def forecast(city: str) -> str:
        '''The weather in a city.'''
        async with httpx.AsyncClient() as client:
            reply = await client.get(settings.url, params={"city": city, "key": key})
        logging.getLogger("forecasts").warning("asked %s", reply.request.url)
        print("asked with", key)
        reply.raise_for_status()
        return reply.text

    return forecast

class Diary(Memory):
    def __init__(self, settings):
        self.token = settings.token

    async def recall(self, query):
        if query.task.index == 1:
            raise ValueError(self.token)
        return [Recollection(f"the token is {self.token}")]

class DiarySettings(Settings):
    token: str

class Curious(Policy):
    '''Asks for the weather, and writes down all that it is shown.'''

    async def generate(self, request):
        with open("prompts.txt", "a") as file:
            file.write("".join(f"{message.role}: {message.content}" for message in request.messages))
        called = any(message.role == "tool" for message in request.messages)
        return Generation("", calls=() if called else (Call("forecast", {"city": "Paris"}),))

@hookimpl
def agentfw_tools():
    return [Component("forecasts", f"{__name__}:forecasts", "", settings=f"{__name__}:ForecastSettings")]

@hookimpl
def agentfw_memories():
    return [Component("diary", f"{__name__}:Diary", "", settings=f"{__name__}:DiarySettings")]

@hookimpl
def agentfw_policies():
    return [Component("curious", f"{__name__}:Curious", "")]
"""


class NotFound(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404, explain=f"there is no {self.path}")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    """A server that has nothing, and quotes in its answer what it was asked for."""
    with ThreadingHTTPServer(("127.0.0.1", 0), NotFound) as listening:
        Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}/"
        listening.shutdown()


def test_no_secret_is_written_printed_or_sent(agentfw: Agentfw, install: Callable[..., None], server: str) -> None:
    install("agentfw-forecasts", "[agentfw]\nforecasts = agentfw_forecasts\n", FORECASTS)
    words = ("run", "guessing", "--policy", "curious", "--tool", "forecasts", "--memory", "diary", "--episodes", "3")
    settings = (
        f"tool.forecasts.key={KEY}",
        f"tool.forecasts.url={server}",
        "memory.diary.token=token-of-a-diary",
        "max_failed=0.5",
    )

    answer = agentfw(*words, *(word for setting in settings for word in ("--set", setting)), "--debug")

    assert answer.code == 0, answer.err
    (about,) = Path("runs").glob("*/run.json")
    written = {
        str(path): path.read_bytes().decode(errors="replace") for path in about.parent.rglob("*") if path.is_file()
    }
    prompts = Path("prompts.txt").read_text("utf-8")
    for name, text in {**written, "out": answer.out, "err": answer.err, "prompts": prompts}.items():
        for secret in (KEY, quote(KEY, safe=""), "swordfish", "token-of-a-diary"):
            assert secret not in text, f"{secret} in {name}"
    assert "404 Not Found" in prompts
    assert "the token is ****" in prompts
    assert "ValueError: ****" in (about.parent / "failed.jsonl").read_text("utf-8")
    assert "asked with ****" in answer.err
    spec = json.loads(about.read_text("utf-8"))["spec"]
    assert spec["memories"][0]["settings"] == {"token": "**********"}


def test_a_secret_in_an_error_that_ends_the_run(agentfw: Agentfw, install: Callable[..., None]) -> None:
    install(
        "agentfw-forecasts",
        "[agentfw]\nforecasts = agentfw_forecasts\n",
        FORECASTS.replace('[Recollection(f"the token is {self.token}")]', "int(self.token)"),
    )

    answer = agentfw(
        "run", "guessing", "--policy", "curious", "--memory", "diary", "--set", "memory.diary.token=abcd-x"
    )

    assert answer.code == 3
    assert "abcd-x" not in answer.err
    assert "invalid literal for int() with base 10: '**********'" in answer.err


@pytest.mark.slow
def test_a_tool_of_one_file_is_struck(
    agentfw: Agentfw, install: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    install("agentfw-forecasts", "[agentfw]\nforecasts = agentfw_forecasts\n", FORECASTS)
    monkeypatch.setenv("FORECAST_KEY", KEY)
    code = "import os\n\n\ndef forecast(city: str) -> str:\n    'The weather.'\n    print(os.environ['FORECAST_KEY'])\n"
    Path("answers.py").write_text(code + "    return 'with ' + os.environ['FORECAST_KEY']\n")
    words = ("run", "guessing", "--policy", "curious", "--tool", "./answers.py", "--episodes", "1")

    here = agentfw(*words)

    assert here.code == 0, here.err
    files = [path for path in Path("runs").rglob("*") if path.is_file()]
    written = [path.read_bytes().decode(errors="replace") for path in files]
    prompts = Path("prompts.txt").read_text("utf-8")
    for text in (*written, prompts, here.out, here.err):
        assert "swordfish" not in text
    assert prompts.count("with **********") == 1
    assert "**********" in here.err
