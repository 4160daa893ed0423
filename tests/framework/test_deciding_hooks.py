"""Hooks that decide, called in pluggy's order, in runs from the command line and from Python."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentfw import Message, Request, Task, hookspecs
from agentfw.episode import Call
from agentfw.errors import AgentfwError, PluginError
from agentfw.hookspecs import Verdict, hookimpl
from agentfw.host import Host
from agentfw.host.hook_calls import HookManager
from agentfw.runs import parse_spec
from agentfw.runs.run import Run
from agentfw.testing import fresh_host

MakePlugin = Callable[..., str]

TASK = Task(0, seed=7)


def hooks_of(*plugins: object) -> HookManager:
    return fresh_host(*plugins).hooks_of_run((), 60.0)


def before_call(manager: HookManager) -> Any:
    decided = asyncio.run(manager.decide("agentfw_before_call", run=None, task=TASK, call=Call("pour", {}, "1")))
    return None if decided is None else (decided.answer.text, decided.owner.name)


def saying(text: str | None, **marks: Any) -> Any:
    mark: Callable[[Any], Any] = hookimpl(**marks)

    class Saying:
        @mark
        def agentfw_before_call(self) -> Verdict | None:
            return None if text is None else Verdict("refuse", text)

    return Saying()


def test_the_first_answer_counts_in_the_order_of_the_markers() -> None:
    first, last, silent = saying("first", tryfirst=True), saying("last", trylast=True), saying(None, tryfirst=True)

    assert before_call(hooks_of(first, last, saying("between")))[0] == "first"
    assert before_call(hooks_of(first, last, silent))[0] == "first"
    assert before_call(hooks_of(last, saying("between")))[0] == "between"
    assert before_call(hooks_of(silent)) is None


def test_a_coroutine_is_waited_for_and_a_wrapper_has_the_last_word() -> None:
    class Slow:
        @hookimpl
        async def agentfw_before_call(self, call: Call) -> Verdict:
            await asyncio.sleep(0)
            return Verdict("refuse", f"{call.name} {dict(call.arguments)}")

    class Meddling:
        @hookimpl(tryfirst=True)
        def agentfw_before_call(self, call: Call) -> None:
            call.arguments["poison"] = 1  # type: ignore[index]

    class Around:
        @hookimpl(wrapper=True)
        def agentfw_before_call(self) -> Generator[None, Verdict, Verdict]:
            found = yield
            return found._replace(text=f"around {found.text}") if found.text else found

    assert before_call(hooks_of(Around(), Meddling(), Slow()))[0] == "around pour {}", "each has a copy of its own"
    alone, within = before_call(hooks_of(saying(""))), before_call(hooks_of(saying(""), Around()))
    assert alone == within, "whoever leaves the answer as it is hasn't given it"


def raises(self: object) -> Verdict:
    raise ValueError("odd")


def is_late(self: object) -> Verdict:
    raise TimeoutError("of its own")


async def hangs(self: object) -> Verdict:
    await asyncio.sleep(3600)
    raise AssertionError


def answers_badly(self: object) -> str:
    return "no"


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (raises, r"failed in agentfw_before_call\(\): ValueError: odd"),
        (is_late, r"failed in agentfw_before_call\(\): TimeoutError: of its own"),
        (hangs, r"has not answered agentfw_before_call\(\) within 0.05 s"),
        (answers_badly, r"answered agentfw_before_call\(\) with a str, not a Verdict"),
    ],
)
def test_one_that_raises_hangs_or_answers_badly_is_an_error_with_its_name(hook: Callable[..., Any], words: str) -> None:
    plugin = type("Odd", (), {"agentfw_before_call": hookimpl(hook)})
    manager = fresh_host(plugin()).hooks_of_run((), 0.05)

    with pytest.raises(PluginError, match=f"^plugin .* {words}") as caught:
        before_call(manager)

    assert "--no-plugin" in caught.value.fix


def test_an_order_that_means_nothing_is_told(make_plugin: MakePlugin) -> None:
    make_plugin("agentfw-odd", "@hookimpl(tryfirst=True)\ndef agentfw_tools(): return []")

    assert any(
        "marks agentfw_tools with tryfirst or trylast, which means nothing" in note for note in Host.load().notes
    )


def test_older_plugins_are_supported_for_one_version(make_plugin: MakePlugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hookspecs, "PLUGIN_API", 3)
    monkeypatch.setattr(hookspecs, "OLDEST_PLUGIN_API", 2)
    for number in (1, 2, 3, 4):
        make_plugin(f"agentfw-api{number}", f"AGENTFW_PLUGIN_API = {number}\n@hookimpl\ndef agentfw_tools(): return []")
    make_plugin("agentfw-old", "AGENTFW_PLUGIN_API = 2\n@hookimpl\ndef agentfw_tools(host): return []")

    host = Host.load()

    states = [record.state for record in host.plugins if record.distribution.startswith("agentfw-api")]
    assert states == ["incompatible", "active", "active", "incompatible"]
    assert any("is written for plugin API 1, and this agentfw supports 2 to 3" in note for note in host.notes)
    goes = [note for note in host.notes if "is written for plugin API 2, which goes with the next one" in note]
    assert [next(name for name in ("agentfw-api2", "agentfw-old") if name in note) for note in goes] == [
        "agentfw-api2",
        "agentfw-old",
    ], "also where its registration fails, which that may explain"


class Kind:
    """Adds a message to each request, and raises where a record is written, until it is mended."""

    broken = True

    @hookimpl
    def agentfw_request(self, request: Request) -> Request:
        return replace(request, messages=[*request.messages, Message("user", "be kind")])

    @hookimpl
    def agentfw_record(self) -> None:
        if self.broken:
            raise ValueError("odd")


def test_a_hook_that_raises_at_a_record_loses_nothing_and_the_record_says_what_it_changed(tmp_path: Path) -> None:
    hook = Kind()
    host = fresh_host(hook, builtins=True)
    run = Run.create(parse_spec({"environment": "inbox", "policy": "scripted", "episodes": 2}), host, tmp_path)

    with pytest.raises(AgentfwError, match=r"failed in agentfw_record\(\): ValueError: odd"):
        asyncio.run(run.execute())
    hook.broken = False
    summary = asyncio.run(Run.open(run.folder, host).execute())

    assert summary.episodes == 2
    for episode in run.folder.episodes():
        decisions = [event.data["did"] for event in episode.events if event.kind == "hook"]
        assert decisions == ["changed the request"] * len(episode.turns)
