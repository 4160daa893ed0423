"""The mcp toolbox with a real server, mcp_servers/tools.py beside this file, over its pipes and over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from asynchronous import asynchronous
from pydantic import ValidationError
from waiting import alive, free_port, listens, until

from agentfw.errors import AgentfwError, MissingExtraError, UnknownNameError
from agentfw.testing import contract_tests
from agentfw.tool import Tool
from agentfw_plugins.tools.mcp import MCPToolbox, unknown_arguments
from agentfw_plugins.tools.mcp_link import MCPSettings

if find_spec("mcp") is None:
    pytest.skip("needs mcp", allow_module_level=True)

SERVER = Path(__file__).parent / "mcp_servers" / "tools.py"


def started_here(**settings: Any) -> MCPSettings:
    return MCPSettings(**{"command": sys.executable, "args": (str(SERVER),), **settings})


@asynccontextmanager
async def opened(settings: MCPSettings) -> AsyncIterator[dict[str, Tool]]:
    """The tools by name. Opened by a task of its own, and closed by another, as a run does it."""
    box = MCPToolbox(settings)
    tools = await asyncio.create_task(box.open())
    try:
        yield {tool.action.name: tool for tool in tools}
    finally:
        await asyncio.create_task(box.close())


def refused(settings: MCPSettings) -> AgentfwError:
    async def run() -> None:
        async with opened(settings):
            pass

    with pytest.raises(AgentfwError) as caught:
        asyncio.run(run())
    return caught.value


@contextmanager
def served(port: int, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """The server at a port, until the end of the block."""
    command = [sys.executable, str(SERVER), str(port)]
    process = subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.DEVNULL)
    try:
        until(lambda: listens(port))
        yield process
    finally:
        process.kill()
        process.wait()


test_the_toolbox_keeps_the_contract = pytest.mark.nightly(contract_tests("tool", lambda: MCPToolbox(started_here())))


@asynchronous
async def test_a_server_that_is_started_here_offers_its_tools_prompts_and_resources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KITCHEN_SECRET", "s3cret")
    monkeypatch.setenv("NOT_HANDED_ON", "x")
    settings = started_here(env={"COLOUR": "red"}, pass_env=("KITCHEN_SECRET",))

    async with opened(settings) as tools:
        action = tools["add"].action
        assert action.description == "Add two numbers."
        assert action.parameters["required"] == ["a", "b"]
        assert await tools["add"].answer({"a": 2, "b": 3}) == (True, "5")
        album = "a picture:\n[image/png, 6 bytes]\n[plan: file:///plan.txt]\ninner words"
        assert await tools["album"].answer({}) == (True, album)
        went_well, structured = await tools["forecast"].answer({})
        assert went_well
        assert '"grey"' in structured
        went_well, reason = await tools["fail"].answer({})
        assert not went_well
        assert "the drawer is stuck" in reason
        refused = "forecast can't be called like this: day: no such argument"
        assert await tools["forecast"].answer({"day": 1}) == (False, refused)
        names = ("COLOUR", "KITCHEN_SECRET", "NOT_HANDED_ON")
        found = [(await tools["variable"].answer({"name": name}))[1].split()[0] for name in names]
        assert found == ["red", "s3cret", "None"]

        assert tools["letter"].action.parameters["required"] == ["to"], "prompts are tools"
        assert await tools["letter"].answer({"to": "Ben"}) == (True, "user: Write a kind letter to Ben.")
        read = tools["read_resource"]
        for words in ("notes://today: What is to be done today.", "notes://{day}"):
            assert words in read.action.description
        assert await read.answer({"uri": "notes://today"}) == (True, "Call the dentist.")
        assert await read.answer({"uri": "notes://monday"}) == (True, "Nothing on monday.")
        went_well, words = await read.answer({"uri": "elsewhere://x"})
        assert not went_well
        assert "elsewhere://x" in words
    assert "s3cret" not in repr(settings)


@asynchronous
async def test_only_wanted_tools_are_offered_under_the_wanted_names_and_one_that_takes_too_long_is_given_up() -> None:
    async with opened(started_here(only=("dawdle", "add"), prefix="kitchen_", timeout=1)) as tools:
        assert sorted(tools) == ["kitchen_add", "kitchen_dawdle"]
        late = "kitchen_dawdle timed out after 1 s"
        assert await tools["kitchen_dawdle"].answer({"seconds": 1.3}) == (False, late)
        assert await tools["kitchen_add"].answer({"a": 1, "b": 1}) == (True, "2"), "the next one works"
        guessed = 'kitchen_add can\'t be called like this: bb: no such argument; did you mean "b"?'
        assert await tools["kitchen_add"].answer({"a": 2, "b": 3, "bb": 4}) == (False, guessed)


@pytest.mark.parametrize("sessions", ["", pytest.param("1", marks=pytest.mark.nightly)])
@asynchronous
async def test_a_server_at_a_url_wants_its_token_and_may_be_started_anew_between_calls(
    monkeypatch: pytest.MonkeyPatch, sessions: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # of no use for a server on this machine
    port = free_port()
    box = MCPToolbox(MCPSettings(url=f"http://127.0.0.1:{port}/mcp", token_env="KITCHEN_TOKEN", timeout=20))
    with served(port, TOKEN="t0ken", SESSIONS=sessions):
        with pytest.raises(AgentfwError, match="KITCHEN_TOKEN"):
            await box.open()
        monkeypatch.setenv("KITCHEN_TOKEN", "wrong-t0ken")
        with pytest.raises(AgentfwError, match="401") as refused:
            await box.open()
        assert "KITCHEN_TOKEN" in refused.value.fix
        assert "wrong-t0ken" not in refused.value.message + refused.value.fix
        monkeypatch.setenv("KITCHEN_TOKEN", "t0ken")
        tools = {tool.action.name: tool for tool in await box.open()}
        assert await tools["add"].answer({"a": 1, "b": 2}) == (True, "3")
    went_well, text = await tools["add"].answer({"a": 1, "b": 2})
    assert not went_well
    assert "can't be reached" in text
    with served(port, TOKEN="t0ken", SESSIONS=sessions):
        assert await tools["add"].answer({"a": 2, "b": 2}) == (True, "4")
        await box.close()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"properties": {"x": {}}, "additionalProperties": {"type": "string"}},
        {"properties": {"x": {}}, "allOf": [{"properties": {"y": {}}}]},
    ],
)
def test_a_schema_that_leaves_open_what_there_may_be_refuses_no_argument(schema: dict[str, Any]) -> None:
    assert unknown_arguments(schema, {"y": 1}) == []


@asynchronous
async def test_a_server_that_dies_is_an_observation_and_is_started_again_for_the_next_call_until_the_toolbox_is_closed(
    tmp_path: Path,
) -> None:
    starts = tmp_path / "starts"
    async with opened(started_here(env={"STARTS": str(starts)})) as tools:
        went_well, text = await tools["die"].answer({"last_words": "out of memory"})
        assert not went_well
        for words in ("went away", "out of memory", "not known"):
            assert words in text
        assert await tools["add"].answer({"a": 1, "b": 2}) == (True, "3")
        assert len(starts.read_text().splitlines()) == 2, "the call is not repeated"

        os.kill(int(starts.read_text().split()[-1]), signal.SIGKILL)
        await asyncio.sleep(0.3)
        found = await asyncio.gather(*(tools["variable"].answer({"name": "X"}) for _ in range(5)))
        (last,) = {int(text.split()[1]) for went_well, text in found if went_well}
        assert starts.read_text().split()[2:] == [str(last)]
        assert alive(last)
    assert not alive(last)
    assert "is closed" in (await tools["add"].answer({"a": 1, "b": 2}))[1]


@asynchronous
async def test_a_toolbox_can_be_closed_while_it_is_being_opened() -> None:
    box = MCPToolbox(MCPSettings(command="sleep", args=("3000",), connect_deadline=3000))
    opening = asyncio.create_task(box.open())
    await asyncio.sleep(0.3)
    async with asyncio.timeout(300):
        await box.close()
        with pytest.raises(AgentfwError):
            await opening


def test_a_command_that_does_not_exist_is_named() -> None:
    error = refused(MCPSettings(command="no-such-server", args=("--fast",)))
    assert "no-such-server --fast can't be started" in error.message
    assert "that no-such-server is installed" in error.fix


def test_a_server_that_stops_at_once_is_told_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    program = "import os, sys; sys.exit('no database for ' + os.environ['DATABASE_PASSWORD'])"
    error = refused(MCPSettings(command=sys.executable, args=("-c", program), pass_env=("DATABASE_PASSWORD",)))
    assert "stopped before" in error.message
    assert "no database for <DATABASE_PASSWORD>" in error.message
    assert error.fix.startswith("run it by hand: ")


def test_a_wanted_tool_that_there_is_not_is_told_with_the_nearest(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    error = refused(started_here(only=("forcast",), env={"STARTS": str(starts)}))
    assert isinstance(error, UnknownNameError)
    assert 'did you mean "forecast"?' in error.message
    assert not alive(int(starts.read_text()))


def test_a_missing_mcp_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    error = refused(started_here())
    assert isinstance(error, MissingExtraError)
    assert "[web]" in error.fix


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "either command or url"),
        ({"command": "x", "url": "http://y"}, "either command or url"),
        ({"url": "localhost:80"}, "http://"),
        ({"command": "x", "timeout": 0}, "greater"),
    ],
)
def test_settings_that_name_no_server_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        MCPSettings(**settings)
