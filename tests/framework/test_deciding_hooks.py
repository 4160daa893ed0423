"""Hooks that decide, called in pluggy's order, in runs from the command line and from Python."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from offering import offering

from agentfw import Generation, Message, Policy, Request, Task, hookspecs
from agentfw.episode import Call, Usage
from agentfw.errors import AgentfwError, EndpointError, PluginError, UsageError
from agentfw.hookspecs import Verdict, hookimpl
from agentfw.host import Host
from agentfw.host.hook_calls import HookManager
from agentfw.policy import FREE, Price
from agentfw.runs import LiveRun, parse_spec
from agentfw.runs.deciding import Decisions, Questions, Spending
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import SpendingSettings
from agentfw.testing import fresh_host, sample_episode

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


def test_an_observer_that_raises_is_called_again_in_the_next_run_alone() -> None:
    class Diary:
        pages = 0

        @hookimpl
        def agentfw_turn(self) -> None:
            self.pages += 1
            raise OSError("full")

    diary = Diary()
    host = fresh_host(diary, strict=False)

    for _ in range(2):
        hooks = host.hooks_of_run((), 60.0)
        for _ in range(3):
            hooks.tell("agentfw_turn", run=None, episode_id="e", turn=None)

    assert (diary.pages, len(host.notes)) == (2, 2)


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


def test_what_a_hook_does_to_a_call_that_it_allows_is_not_done() -> None:
    class Twisting:
        @hookimpl
        def agentfw_before_call(self, call: Call) -> Verdict:
            call.arguments["to"].append("eve")
            return Verdict("allow")

    call = Call("send", {"to": ["ada"]}, "1")
    decide = Decisions(hooks_of(Twisting()), Spending(SpendingSettings())).before_call
    assert decide is not None
    assert asyncio.run(decide(TASK, call, lambda *note: None)) is None
    assert call.arguments == {"to": ["ada"]}


@pytest.mark.parametrize(
    "cut",
    [
        lambda record: {**record, "turns": record["turns"][1:]},
        lambda record: {**record, "task": {**record["task"], "user": "eve"}},
    ],
    ids=["turns", "task"],
)
def test_a_hook_may_change_a_record_and_take_no_turn_out_of_it_or_give_it_to_another(cut: Callable[..., Any]) -> None:
    class Cutting:
        @hookimpl
        def agentfw_record(self, record: dict[str, Any]) -> dict[str, Any]:
            changed: dict[str, Any] = cut(record)
            return changed

    record = Decisions(hooks_of(Cutting()), Spending(SpendingSettings())).record
    assert record is not None
    with pytest.raises(PluginError, match="has taken turns or messages out of a record"):
        record(sample_episode(TASK))


def test_the_first_answer_to_a_question_counts_and_none_after_its_time() -> None:
    async def ask() -> None:
        questions = Questions()
        questions.listeners.append(lambda one: [questions.answer(one.number, allow=allow) for allow in (False, True)])
        assert await questions.ask("?", "ada", "tea", 60) == (False, "a person said no")
        questions.listeners[:] = [lambda one: None]
        assert (await questions.ask("?", "ada", "tea", 0.01))[0] is False
        assert not questions.open
        assert not questions.answer(2, allow=True)
        for line, allowed in (("yet to be seen", False), ("", False), (" Yes\n", True)):
            questions.listeners[:] = [partial(lambda said, one: questions.take_line(one.number, said), line)]
            assert (await questions.ask("?", "ada", "tea", 60))[0] is allowed

    asyncio.run(ask())


def test_a_limit_on_money_needs_the_price_of_all_and_one_that_costs() -> None:
    paid = Price(prompt=1, cached=1, sampled=1)

    def check(**prices: Price | None) -> None:
        policies = {name: Breaks() for name in prices}
        for name, policy in policies.items():
            policy.price = prices[name]
        Spending(SpendingSettings(money=1)).check(policies)

    check(program=FREE, judge=paid)
    with pytest.raises(UsageError, match="the price of judge, which is not set"):
        check(policy=paid, judge=None)
    with pytest.raises(UsageError, match="policy and judge costs nothing"):
        check(policy=FREE, judge=FREE)


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


class Breaks(Policy):
    """Says a part of its answer, if it is asked aloud, and breaks off."""

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        tell(request.messages[-1].content)
        raise EndpointError("the line is dead")


def test_what_was_said_before_an_answer_broke_off_is_counted_and_what_was_refused_is_not(tmp_path: Path) -> None:
    class Bill:
        told: ClassVar[list[tuple[Usage, bool]]] = []

        @hookimpl
        def agentfw_request(self, request: Request) -> None:
            if request.messages[-1].content == "refuse":
                raise AgentfwError("not this one")

        @hookimpl
        def agentfw_answered(self, usage: Usage, counted: bool) -> None:
            self.told.append((usage, counted))

    async def lead() -> None:
        host = fresh_host(Bill(), offering(policy={"breaks": Breaks}), builtins=True)
        async with LiveRun.create(parse_spec({"environment": "sessions", "policy": "breaks"}), host, tmp_path) as live:
            session = live.begin("tea")
            for said in ("refuse", "half of it"):
                with pytest.raises(AgentfwError):
                    await session.answer([Message("user", said)], tell=lambda text: None)

    asyncio.run(lead())

    (refused, _), (broken_off, counted) = Bill.told
    assert refused.tokens == 0
    assert (broken_off.prompt, broken_off.sampled, counted) == (3, 3, False)
