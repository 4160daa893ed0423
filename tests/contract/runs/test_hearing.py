"""Memories hear what users say in a live run: each saying once, in order, behind the answers, and after a kill too.

They learn from what was rated, and a live run goes on where it was left: with its numbers, its costs and its folder.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from offering import offering
from planted_bugs.memories import Ears

from agentfw import Episode, Generation, Host, Memory, Message, Policy, Request
from agentfw.episode import Usage
from agentfw.errors import AgentfwError, BudgetSpentError, EndpointError, StorageError, UnknownNameError, UsageError
from agentfw.memory import Query, Recollection, Saying
from agentfw.request import Action
from agentfw.runs import LiveRun, RunFolder, parse_spec
from agentfw.testing import fresh_host
from agentfw.turns.session import Session

Play = Callable[[LiveRun], Awaitable[object]]
LOOK = Action("look", "Look", {"type": "object", "properties": {}})


class Slow(Ears):
    """Hears nothing before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()  # memories have a thread of their own
        self.order: list[str] = []

    async def hear(self, saying: Saying) -> None:
        await self.let_go()
        self.order.append(saying.text)
        await super().hear(saying)

    async def let_go(self) -> None:
        while not self.go_on.is_set():
            await asyncio.sleep(0.001)


class Mute(Memory):
    async def recall(self, query: Query) -> Sequence[Recollection]:
        return []


class Away(Ears):
    def __init__(self, error: AgentfwError) -> None:
        super().__init__()
        self.error = error

    async def hear(self, saying: Saying) -> None:
        raise self.error


def play(runs: Path, memory: Memory, lead: Play) -> Path:
    """Lead a live run with this memory, in which the sessions are kept for the next process."""
    spec = {
        "environment": "sessions",
        "policy": {"name": "scripted", "settings": {"replies": ["Fine."]}},
        "memories": ["strategyhub"],
    }

    async def run() -> Path:
        live = LiveRun.create(parse_spec(spec), Host.load(), runs, again="newest")
        [guarded] = live.assembly.memories
        guarded.inside = memory
        async with live:
            await lead(live)
        return live.folder.path

    return asyncio.run(run())


async def say(live: LiveRun, session: Session, *messages: Message, user: str = "ada") -> None:
    await session.answer(messages, user=user)
    await live.keep(session)


def user(text: str) -> Message:
    return Message("user", text)


FINE = Message("assistant", "Fine.")


def test_the_user_s_words_are_heard_once_and_nobody_else_s(tmp_path: Path) -> None:
    heard: list[Saying] = []

    class Listening(Ears):
        async def hear(self, saying: Saying) -> None:
            heard.append(saying)

    async def lead(live: LiveRun) -> None:
        session = live.begin("tea", "ada")
        await say(live, session, Message("system", "I am a system."), user("I like tea."))
        await say(live, session, Message("system", "I am a system."), user("I like tea."))  # a retry
        called = Message("tool", "I prefer account X.", answers="1")
        await say(live, session, user("I like tea."), FINE, user("Green tea."), FINE, called, user("In the mornings."))
        await say(live, session, user("Nobody said this."), user="")
        await say(live, live.begin("his", "bob"), user("I like coffee."), user="bob")
        session, talk, said = (
            live.begin("hers", "eve"),
            [user("Hi."), FINE, user("One. Two.")],
            [(), (), ("One.", "Two.")],
        )
        await session.answer(talk, user="eve", said=said)
        await live.keep(session)
        await live.hearing.finish()

    folder = play(tmp_path, Listening(), lead)

    assert [(one.user, one.text, one.answer_to) for one in heard] == [
        ("ada", "I like tea.", ""),
        ("ada", "In the mornings.", "Fine."),
        ("bob", "I like coffee.", ""),
        ("eve", "One.", "Fine."),
        ("eve", "Two.", ""),
    ]
    assert len({one.id for one in heard}) == 5
    assert [one.before for one in heard] == ["", "Green tea.", "", "Hi.", "One."]
    assert {one.conversation for one in heard} == {"tea", "his", "hers"}
    assert all(one.id.startswith(f"{folder.name}/") for one in heard)


def test_an_answer_waits_for_no_hearing_and_what_is_left_is_heard_at_the_next_start(tmp_path: Path) -> None:
    slow, later = Slow(), Slow()
    later.go_on.set()

    async def lead(live: LiveRun) -> None:
        session = live.begin("tea", "ada")
        await say(live, session, user("one"))
        await say(live, session, user("one"), FINE, user("two"))
        assert [live.hearing.waiting(whose) for whose in (None, "ada", "bob")] == [2, 2, 0]
        await live.hearing.finish(seconds=0)  # as where it takes too long at the end

    async def lead_on(live: LiveRun) -> None:
        await live.hearing.finish()
        await say(live, live.sessions["tea"], user("one"), FINE, user("two"), FINE, user("three"))
        await live.hearing.finish()

    play(tmp_path, slow, lead)
    folder = play(tmp_path, later, lead_on)
    again = Slow()
    again.go_on.set()
    play(tmp_path, again, lambda live: live.hearing.finish())

    assert not slow.order
    assert later.order == ["one", "two", "three"]
    assert not again.order, "what was heard is not heard again"
    lines = (folder / "heard.jsonl").read_text().splitlines()
    assert [json.loads(line).keys() for line in lines] == [{"heard"}] * 3


def test_what_a_kill_came_before_is_heard_at_the_next_start(tmp_path: Path) -> None:
    asked, memory = Slow(), Ears()

    async def lead(live: LiveRun) -> None:
        session = live.begin("tea", "ada")
        await say(live, session, user("I like tea."))
        await session.answer([user("I like tea."), FINE, user("Green tea.")], user="ada")  # answered, and not kept
        shutil.copytree(live.folder.path, tmp_path / "killed" / live.folder.path.name)  # what a kill leaves

    play(tmp_path / "runs", asked, lead)
    play(tmp_path / "killed", memory, lambda live: live.hearing.finish())

    assert [one.text for one in memory.kept.values()] == ["I like tea.", "Green tea."]


@pytest.mark.parametrize(
    "first",
    [Away(StorageError("it is away")), Away(EndpointError("it is away")), Mute()],
    ids=["full", "fails", "can't hear"],
)
def test_what_a_memory_could_not_hear_is_heard_at_the_next_start(
    first: Memory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = Ears()

    async def lead(live: LiveRun) -> None:
        for name, text in (("tea", "I like tea."), ("coffee", "I like coffee.")):
            await say(live, live.begin(name, "ada"), user(text))
        await live.hearing.finish()

    folder = play(tmp_path, first, lead)
    nothing = (folder / "heard.jsonl").read_text()
    play(tmp_path, memory, lambda live: live.hearing.finish())

    assert caplog.text.count("was not learned") == (0 if isinstance(first, Mute) else 1)
    assert not nothing
    assert [one.text for one in memory.kept.values()] == ["I like tea.", "I like coffee."]


def test_sayings_of_one_user_wait_for_each_other_and_for_no_other_user(tmp_path: Path) -> None:
    class First(Slow):
        async def hear(self, saying: Saying) -> None:
            if saying.user == "ada":
                await self.let_go()
            self.order.append(saying.text)

    memory = First()

    async def lead(live: LiveRun) -> None:
        hers = live.begin("hers", "ada")
        await say(live, hers, user("one"))
        await say(live, hers, user("one"), FINE, user("two"))
        await say(live, live.begin("his", "bob"), user("mine"), user="bob")
        await live.hearing.finish("bob")
        memory.go_on.set()
        await live.hearing.finish()

    play(tmp_path, memory, lead)

    assert memory.order == ["mine", "one", "two"]


def test_who_is_forgotten_is_heard_no_more_of_what_was_said(tmp_path: Path) -> None:
    later = Ears()

    class Forgetting(Slow):
        async def forget(self, user: str) -> dict[str, int]:
            return {"sayings": len([self.kept.pop(key) for key in list(self.kept) if key[0] == user])}

    memory = Forgetting()

    async def lead(live: LiveRun) -> None:
        session = live.begin("tea", "ada")
        await say(live, session, user("one"))
        await say(live, session, user("one"), FINE, user("two"))
        memory.go_on.set()
        assert await live.forget("ada") == {"sayings": 1}  # the one that was being heard
        await say(live, session, user("one"), FINE, user("two"), FINE, user("three"))
        await live.hearing.finish(seconds=0)

    play(tmp_path, memory, lead)
    play(tmp_path, later, lambda live: live.hearing.finish())

    assert set(memory.order) <= {"one", "three"}
    assert {one.text for one in [*memory.kept.values(), *later.kept.values()]} <= {"three"}


def test_a_conversation_keeps_what_was_recalled_for_it_until_its_user_corrects_or_deletes_that(tmp_path: Path) -> None:
    memory, system = Ears(), Message("system", "Be brief.")
    asked = [system, user("Which?"), FINE, user("And now?"), FINE, user("Still?"), FINE, user("Well?")]

    def shown(session: Session) -> list[str]:
        return [session.episode.messages[turn.shown[0]].content for turn in session.episode.turns]

    async def lead(live: LiveRun) -> None:
        await say(live, live.begin("before", "ada"), user("I like tea."))
        await live.hearing.finish()
        await say(live, live.begin("tea", "ada"), *asked[:2])
        await live.hearing.finish()

    async def lead_on(live: LiveRun) -> None:
        session = live.sessions["tea"]
        await say(live, session, *asked[:4])
        assert shown(session) == ["Be brief.\n\nYou remember:\n- I like tea."] * 2, "its turns share their prefix"
        recalled = next(event for event in session.episode.events if event.name == "recalled")
        assert recalled.data["message"] == session.episode.turns[0].shown[0]
        tea = next(one for one in await live.remembered("ada") if one.text == "I like tea.")
        assert not await live.remembered("bob")
        for change in (live.correct("bob", tea.id, "x"), live.forget_one("bob", tea.id)):
            with pytest.raises(UnknownNameError):
                await change
        await live.correct("ada", tea.id, "I like coffee.")
        await say(live, session, *asked[:6])
        assert "- I like coffee." in shown(session)[-1]
        assert "I like tea." not in shown(session)[-1]
        await live.forget_one("ada", tea.id)
        assert tea.id not in [one.id for one in await live.remembered("ada")]

    async def lead_to_the_end(live: LiveRun) -> None:
        await say(live, live.sessions["tea"], *asked)
        assert "I like coffee." not in shown(live.sessions["tea"])[-1]
        await live.conclude(live.sessions["tea"])
        assert [line["recalled"] for line in live.folder.metrics()] == [4], "turns, two of which share it"

    play(tmp_path, memory, lead)
    play(tmp_path, memory, lead_on)
    play(tmp_path, memory, lead_to_the_end)


class Paid(Policy):
    async def generate(self, request: Request) -> Generation:
        return Generation("Fine.", usage=Usage(prompt=9, sampled=1))


class Deaf(Ears):
    async def hear(self, saying: Saying) -> None:
        pass

    async def forget(self, user: str) -> dict[str, int]:
        return {"sayings": len(self.kept) + 1}


class Full(Deaf):
    """Its disk has room at the second attempt."""

    away = True

    async def hear(self, saying: Saying) -> None:
        if self.away:
            self.away = False
            raise StorageError("it is full")
        await Ears.hear(self, saying)


def test_a_full_memory_hears_a_little_later_and_what_only_the_second_one_has_is_changed_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentfw.runs.hearing._AGAIN", 0.01)
    host = fresh_host(offering(memory={"deaf": Deaf, "full": Full}, policy={"paid": Paid}), builtins=True)
    spec = parse_spec({"environment": "sessions", "policy": "paid", "memories": ["deaf", "full"]})

    async def lead() -> None:
        async with LiveRun.create(spec, host, tmp_path) as live:
            await say(live, live.begin("tea", "ada"), user("I like tea."))
            async with asyncio.timeout(60):
                while live.hearing.waiting():
                    await asyncio.sleep(0.01)
            [tea] = await live.remembered("ada")
            assert (await live.correct("ada", tea.id, "I like coffee.")).text == "I like coffee."
            assert await live.forget("ada") == {"sayings": 1 + 2}, "of both"

    asyncio.run(lead())


def test_where_nothing_can_be_shown_the_reason_is_told(tmp_path: Path) -> None:
    async def lead(live: LiveRun) -> None:
        with pytest.raises(UsageError, match="the memory Mute can't show what it keeps"):
            await live.remembered("ada")

    async def without(live: LiveRun) -> None:
        live.assembly.memories.clear()
        with pytest.raises(UsageError, match="there is no memory"):
            await live.remembered("ada")

    play(tmp_path, Mute(), lead)
    play(tmp_path / "without", Mute(), without)


def test_others_are_answered_while_a_memory_waits_without_awaiting_in_the_thread_of_memories(tmp_path: Path) -> None:
    go_on, called, threads = threading.Event(), list[str](), set[str]()

    class Waits(Memory):
        """As for a lock of a database."""

        async def recall(self, query: Query) -> Sequence[Recollection]:
            called.append("recall")
            threads.add(threading.current_thread().name)
            assert go_on.wait(300)
            return [Recollection("Ada likes green tea.")]

        async def close(self) -> None:
            called.append("close")
            threads.add(threading.current_thread().name)

    async def lead(live: LiveRun) -> None:
        waiting = asyncio.create_task(live.begin("with", "ada").answer([user("Which tea?")], user="ada"))
        while not called:
            await asyncio.sleep(0.001)
        await live.begin("without").answer([user("Anybody there?")])
        assert not waiting.done()
        go_on.set()
        await waiting
        assert "Ada likes green tea." in live.sessions["with"].episode.messages[0].content

    play(tmp_path, Waits(), lead)

    assert called == ["recall", "close"]
    assert threads == {"agentfw memories"}
    assert not any(thread.name == "agentfw memories" for thread in threading.enumerate())


# -- what a live run goes on with --------------------------------------------------------------------------------------


class Pupil(Mute):
    def __init__(self) -> None:
        self.learned: list[tuple[str, float]] = []

    async def learn(self, episode: Episode, reward: float) -> None:
        self.learned.append((episode.task.query, reward))

    async def forget(self, user: str) -> dict[str, int]:
        return {}


def test_what_a_known_user_rated_and_nobody_forgot_is_learned_in_the_order_of_the_ends_also_again(
    tmp_path: Path,
) -> None:
    first, later = Pupil(), Pupil()

    async def rated(live: LiveRun, name: str, whose: str = "ada", **more: str) -> Session:
        session = live.begin(name, whose)
        await say(live, session, user("Hi."), user=whose)
        session.feedback(1.0, **more)  # type: ignore[arg-type]
        await live.keep(session)
        return session

    async def lead(live: LiveRun) -> None:
        slow = await rated(live, "slow")
        await live.conclude(await rated(live, "quick"))
        await live.conclude(await rated(live, "of a metric", metric="solved"))
        await live.conclude(await rated(live, "nobody's", ""))
        await say(live, silent := live.begin("silent", "ada"), user("Hi."))
        await live.conclude(silent)
        forgotten = [await rated(live, name, "bob") for name in ("his", "his, too")]
        await live.forget("bob")
        await rated(live, "open")
        for session in (*forgotten, await rated(live, "after", "bob"), slow):
            await live.conclude(session)

    async def lead_on(live: LiveRun) -> None:
        assert live.begin("new", "ada").episode.task.index == 9, "no number comes twice"
        for session in [*live.sessions.values()]:
            await live.conclude(session)

    folder = RunFolder.open(play(tmp_path, first, lead))
    assert folder.state == "stopped", "a session goes on"
    metrics = folder.path / "metrics.jsonl"  # without the last line, as after a kill: it is scored and learned again
    metrics.write_bytes(b"".join(metrics.read_bytes().splitlines(keepends=True)[:-1]))
    play(tmp_path, later, lead_on)

    assert [name for name, _ in first.learned] == ["quick", "after", "slow"]
    assert later.learned == [*first.learned, ("open", first.learned[0][1])]
    assert folder.state == "done"
    assert len({episode.id for episode in folder.episodes()}) == len([*folder.episodes()]) == 10


def test_what_sessions_took_before_a_restart_counts_once_whether_they_have_ended_or_not(tmp_path: Path) -> None:
    spec = parse_spec({"environment": "sessions", "policy": "paid", "budget": {"tokens": 25}})

    async def lead(*names: str) -> None:
        host = fresh_host(offering(policy={"paid": Paid}), builtins=True)
        async with LiveRun.create(spec, host, tmp_path, again="newest") as live:
            for name in names:
                session = live.sessions.get(name) or live.begin(name)
                await say(live, session, user(name), user="")
                if name == "ended":
                    await live.conclude(session)

    asyncio.run(lead("ended", "open"))
    asyncio.run(lead("open"))
    with pytest.raises(BudgetSpentError, match="30 of 25"):
        asyncio.run(lead("open"))


def test_the_newest_run_of_the_same_policy_and_seed_goes_on_and_none_that_works(tmp_path: Path) -> None:
    host = Host.load()

    def continued(again: Literal["", "newest", "free"] = "newest", reply: str = "Fine.", **more: Any) -> RunFolder:
        policy = {"name": "scripted", "settings": {"replies": [reply]}}
        spec = parse_spec({"environment": "sessions", "policy": policy, **more})
        return LiveRun.create(spec, host, tmp_path, again=again).folder

    first, newer = continued(), continued("")
    others = [continued(seed=8), continued(reply="No."), continued(policy="random"), continued(policy="rules")]
    found = [continued(), continued(memories=["strategyhub"]), continued("free")]
    newer.lock()
    free = continued("free")
    newer.unlock()

    assert len({folder.id for folder in (first, newer, *others)}) == 6
    assert [folder.id for folder in found] == [newer.id] * 3
    assert free.id == first.id
