"""The tape: the same call has the same answer, each is made once, and what was answered survives a kill."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentfw import Component, Host, Tool, Toolbox, hookimpl
from agentfw.errors import SettingsError, StorageError, UsageError
from agentfw.testing import fresh_host
from agentfw.tool import FunctionTool
from agentfw_plugins.tools.tape import Tape, same_call

CALLS: list[tuple[str, int]] = []


class Shop(Toolbox):
    """A live shop, whose prices change with every call."""

    async def open(self) -> Sequence[Tool]:
        def price(article: str, pieces: int = 1) -> str:
            """The price of an article."""
            CALLS.append((article, pieces))
            if article == "nothing":
                raise ValueError("sold out")
            return f"{pieces} {article}: {len(CALLS)}"

        return [FunctionTool(price, takes=0.5)]


class Plugin:
    AGENTFW_PLUGIN_API = 1

    @hookimpl
    def agentfw_tools(self) -> list[Component]:
        return [Component("shop", f"{__name__}:Shop", "A shop")]


@pytest.fixture
def host() -> Host:
    CALLS.clear()
    return fresh_host(Plugin(), builtins=True, strict=False)


def ask(host: Host, path: Path, *calls: dict[str, Any], **settings: Any) -> list[tuple[bool, str]]:
    async def run() -> list[tuple[bool, str]]:
        tape = host.create("tool", "tape", {"inner": "shop", "path": str(path), **settings})
        assert isinstance(tape, Tape)
        (tool,) = await tape.open()
        assert tool.takes == 0.5
        try:
            return list(await asyncio.gather(*(tool.answer(arguments) for arguments in calls)))
        finally:
            await tape.close()

    return asyncio.run(run())


def test_the_same_call_is_made_once_and_answered_alike_for_ever(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "answers.db"

    first = ask(host, path, {"article": "tea", "pieces": 2}, {"pieces": 2.0, "article": "tea"})
    again = ask(host, path, {"article": "tea", "pieces": 2})

    assert first == [(True, "2 tea: 1")] * 2
    assert again == first[:1]
    assert CALLS == [("tea", 2)]


def test_another_state_or_recording_anew_asks_again(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    ask(host, path, {"article": "tea"})

    monday = ask(host, path, {"article": "tea"}, state="monday")
    anew = ask(host, path, {"article": "tea"}, mode="record")
    later = ask(host, path, {"article": "tea"})

    assert [monday, anew, later] == [[(True, "1 tea: 2")], [(True, "1 tea: 3")], [(True, "1 tea: 3")]]


def test_a_replay_asks_nobody_and_says_what_is_missing(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    with pytest.raises(UsageError, match="nothing to replay"):
        ask(host, path, mode="replay")
    ask(host, path, {"article": "tea"})

    known, unknown = ask(host, path, {"article": "tea"}, {"article": "milk"}, mode="replay")

    assert known == (True, "1 tea: 1")
    assert unknown == (False, "the tape has no answer of price to these arguments")
    assert len(CALLS) == 1


def test_a_failure_is_told_and_not_recorded(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "answers.db"

    (failed,) = ask(host, path, {"article": "nothing"})
    (again,) = ask(host, path, {"article": "nothing"})

    assert not failed[0]
    assert not again[0]
    assert len(CALLS) == 2


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": 1, "b": [1.0, {"x": "é"}]}, {"b": [1, {"x": "e\u0301"}], "a": 1.0}, True),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": 0.1}, {"a": 0.10000000000000001}, True),
        ({"a": None}, {}, False),
        ({"a": "\ud800"}, {"a": "\ud800"}, True),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
    ],
)
def test_calls_are_the_same_by_what_they_mean(one: dict[str, Any], other: dict[str, Any], same: bool) -> None:
    assert (same_call(one) == same_call(other)) is same


def test_what_cannot_be_is_refused(host: Host, tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        host.create("tool", "tape", {"path": "x.db"})
    (tmp_path / "notes.txt").write_text("no tape " * 1000)
    with pytest.raises(StorageError, match="can't open"):
        ask(host, tmp_path / "notes.txt")


@pytest.mark.slow
def test_an_answer_that_was_given_survives_a_kill(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    script = textwrap.dedent(
        f"""
        import asyncio, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from agentfw.testing import fresh_host
        import test_tape

        async def main():
            host = fresh_host(test_tape.Plugin(), builtins=True, strict=False)
            tape = host.create("tool", "tape", {{"inner": "shop", "path": {str(path)!r}}})
            (tool,) = await tape.open()
            for number in range(10_000):
                print((await tool.answer({{"article": f"article {{number}}"}}))[1], flush=True)

        asyncio.run(main())
        """
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = [process.stdout.readline().strip() for _ in range(25)]
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()

    replayed = ask(host, path, *({"article": f"article {number}"} for number in range(25)), mode="replay")

    assert [text for _, text in replayed] == told
