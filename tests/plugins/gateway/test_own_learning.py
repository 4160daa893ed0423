"""Versions of single users: who gets one, that it is nobody else's, and that it goes when it has to."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Agentfw

from agentfw import Generation, Message, Policy, Request, Task
from agentfw.errors import UsageError
from agentfw.runs import LiveRun
from agentfw_plugins.gateway.learning import learning
from agentfw_plugins.gateway.learning.learning import Learning, ServedVersions, check_learns
from agentfw_plugins.gateway.learning.ratings import Rating, comparable, read_ratings
from agentfw_plugins.gateway.learning.trainer import AT_ONCE, Look, Making, attempt, can_show, chosen, mark_better
from agentfw_plugins.gateway.learning.version_file import Removal, State, Version, VersionFile, Wished
from agentfw_plugins.gateway.live import opened
from agentfw_plugins.worlds.from_feedback import read_examples

from .tasting import Tasting
from .test_learning import by_nothing

TASTING = Path(__file__).with_name("tasting.py")
SPEC = f"""
environment = "from_feedback"
policy = "{TASTING}"
teacher = "scripted"
optimizer = "imitation"
learner = "{TASTING}"
rewards = ["utility"]
updates = 2
tasks = 8
samples = 1
"""
MANY = ("ada", "bob", "cleo", "dan", "eve")
FEW = ("Zoë/../x\n+%", "mia")
"""Those who like to hear no."""


def thumbs(user: str, liked: int, disliked: int, *, at: float = 1.0, held_out: bool = True) -> list[Rating]:
    return [Rating("s", user, at, n < liked, "v0", (1,), (n,), held_out) for n in range(liked + disliked)]


def test_who_has_too_few_thumbs_for_the_test_is_not_looked_at_and_an_attempt_is_bounded() -> None:
    assert not can_show(thumbs("ana", 1, 0))
    assert not can_show(thumbs("ana", 4, 4)), "1 in 70 is more than the level that is left for one of eight"
    assert not can_show(thumbs("ana", 40, 2))
    assert can_show(thumbs("ana", 5, 5))

    ten_thousand = [one for number in range(10_000) for one in thumbs(f"u{number}", 1, 0)]
    many = [one for number in range(3 * AT_ONCE) for one in thumbs(f"m{number}", 6, 6)]
    most = thumbs("most", 9, 9)
    state = State(owns=True)
    found = chosen(state, [*ten_thousand, *many, *most])
    assert len(found) == 3 * AT_ONCE + 1
    assert found[0].user == "most"
    state.tried["most"] = 1.0
    later = thumbs("most", 4, 4, at=2.0)
    assert "most" not in [one.user for one in chosen(state, [*most, *later])]
    assert "most" in [one.user for one in chosen(state, [*most, *later, *thumbs("most", 5, 5, at=2.0)])]


def test_answers_of_versions_that_were_forgotten_are_not_taken_for_those_of_others() -> None:
    versions = [Version(1, 1.0, "withdrawn", 0, ""), Version(2, 1.0, "served", 0, "00002/a")]
    ratings = [one._replace(version=name) for name in ("", "v1", "v2") for one in thumbs("ana", 1, 1)]

    assert [one.version for one in comparable(ratings, State(versions))] == ["", "", "v2", "v2"]


def test_thumbs_that_say_nothing_give_any_of_eight_users_a_version_no_more_often_than_the_level() -> None:
    lucky, found = 0, [Look([], f"u{number}", comparison=one) for number, one in enumerate(by_nothing())]
    for start in range(0, len(found), AT_ONCE):
        looks = found[start : start + AT_ONCE]
        mark_better(looks)
        lucky += any(one.is_better for one in looks)

    # 1.5 of 30 are expected at the level of 0.05; more than 6 would be seen in one of a thousand cases.
    assert lucky <= 6


def make(file: VersionFile, users: dict[int, str], *, served: int = 1, taught: str = '{"yes": 1}') -> None:
    """Make versions by number, everybody's or those of single users, and serve them."""
    for number, user in users.items():
        (made := file.run / "made").mkdir(parents=True, exist_ok=True)
        (made / "adapter.json").write_text(taught)
        version = Version(number, 1.0, "served", 0, f"{number:05d}/made", [f"of {user}"], user=user)
        file.keep(version, made)
        with file.change() as state:
            state.versions.append(version)
            state.served = served


class Gateway:
    """A gateway that learns, without its process: the trainer works when it is told to."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number, self.dislikes_yes = folder, 0, {*FEW}
        (folder / "spec.toml").write_text(SPEC)

    def opened(self, run: str | None = None) -> tuple[LiveRun, Learning]:
        live = opened(self.folder / "runs", run) if run else opened(self.folder / "runs", policy=str(TASTING))
        self.file = VersionFile(live.folder.path)
        return live, Learning(live, print, self.file)

    async def talk(self, live: LiveRun, users: Iterable[str], count: int) -> dict[str, list[tuple[str, str]]]:
        """Conversations with a thumb each. Returns what each user heard, and from which version."""
        heard: dict[str, list[tuple[str, str]]] = {}
        for user in [*users] * count:
            self.number += 1
            session = live.begin(f"c{self.number}", user=user)
            reply = await session.answer([Message("user", f"Is it {self.number}?")])
            session.feedback(1.0 if (reply.turn.text == "no") == (user in self.dislikes_yes) else -1.0)
            await live.keep(session)
            heard.setdefault(user, []).append((reply.turn.version, reply.turn.text))
        return heard

    async def train(self, learning: Learning) -> State:
        """Let the trainer do all that is to be done, as the gateway would start it. Returns what is served then."""
        while True:
            await asyncio.to_thread(attempt, self.file, self.folder / "spec.toml")
            await learning.served.refresh()
            if not learning.served.state.rebuilds:
                return learning.served.state


def test_a_session_teaches_without_the_part_of_its_feedback_that_was_removed(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)

    async def rate(part: int, live: LiveRun) -> None:
        for name in ("one", "two", "three"):
            session = live.sessions.get(name) or live.begin(name, user="ada")
            await session.answer([Message("user", f"Is it {name}, {part}?")])
            session.feedback(1.0, turn=part)
            await live.keep(session)

    async def rate_twice() -> float:
        live, _ = gateway.opened()
        async with live:
            await rate(0, live)
            between = time.time()
            await rate(1, live)
        return between

    state = State(removals=[Removal(until=asyncio.run(rate_twice()))])
    ratings, room = read_ratings(gateway.file.episodes(), state.removals), tmp_path / "room"
    Making(gateway.file, state, tmp_path / "spec.toml").values(ratings, room)

    taught = [one.messages[-1].content for one in read_examples([room / "recorded"], 0.5)]
    assert sorted(taught) == ["Is it one, 1?", "Is it three, 1?", "Is it two, 1?"]


def test_who_likes_the_opposite_of_the_others_gets_a_version_until_it_is_no_longer_better_or_forgotten(
    agentfw: Agentfw, tmp_path: Path
) -> None:
    gateway = Gateway(tmp_path)

    async def first() -> str:
        live, learning = gateway.opened()
        learning.start(Wished(every=40, share=0.0, owns=True), tmp_path / "spec.toml")
        async with live:
            await learning.ready()
            await gateway.talk(live, [*MANY, *FEW, ""], 40)
            await gateway.talk(live, ["once"], 1)
            state = await gateway.train(learning)

            assert state.served == 1
            assert chosen(state, read_ratings(gateway.file.episodes())) == [], "nobody is looked at twice for the same"
            assert state.own.keys() == {*FEW}, [(one.name, one.why) for one in state.versions]
            names = {one.user: one.name for one in state.versions if one.user}
            assert names[FEW[1]] in ("v2+mia", "v3+mia")
            assert names[FEW[0]].endswith("+Zo%C3%AB%2F..%2Fx%0A%2B%25")
            assert {one.name for one in (gateway.file.folder / "versions").iterdir()} == {"00001", "00002", "00003"}

        live, learning = gateway.opened(live.folder.path.name)
        async with live:
            await learning.ready()
            heard = await gateway.talk(live, [*MANY, *FEW, "new"], 12)
            for user, answers in heard.items():
                assert {version for version, _ in answers} == {names.get(user, "v1")}
                assert [text for _, text in answers].count("no" if user in FEW else "yes") >= 9

            # Now the others like to hear no, too: their new version does what the two had for themselves.
            gateway.dislikes_yes |= {*MANY, "new", ""}
            await gateway.talk(live, [*MANY, "new", ""], 60)
            state = await gateway.train(learning)
            assert (state.served, state.own) == (4, {}), state.said
            assert {one.outcome for one in state.versions if one.user} == {"not better any more"}
        return live.folder.path.name

    run = asyncio.run(first())
    listed = agentfw("serve", "versions", "--runs", str(tmp_path / "runs")).out
    assert "+mia" in listed

    told = agentfw("serve", "forget", "mia", "--run", run, "--runs", str(tmp_path / "runs"), "--yes", "--json").json

    assert [name for name in told["withdrawn"] if name not in ("v2+mia", "v3+mia")] == ["v1"]
    about = gateway.file.path.read_bytes()
    assert b"+mia" not in about
    kept = {one.adapter.partition("/")[0] for one in gateway.file.read().versions if one.adapter}
    assert {one.name for one in (gateway.file.folder / "versions").iterdir()} == kept
    assert gateway.file.read().served == 4, "those who have their own teach the others nothing"


def test_a_version_that_is_not_better_is_not_served(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)

    async def disagreed() -> tuple[State, str]:
        live, learning = gateway.opened()
        learning.start(Wished(every=40, share=0.0), tmp_path / "spec.toml")
        async with live:
            await learning.ready()
            await gateway.talk(live, ["ada", "mia"], 30)
            state = await gateway.train(learning)
            return state, (await gateway.talk(live, ["ada"], 1))["ada"][0][0]

    state, version = asyncio.run(disagreed())

    assert [(one.outcome, one.adapter) for one in state.versions] == [("rejected", "")], state.said
    assert version == "v0"


def test_what_a_trainer_can_not_do_is_told_and_ends_no_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, told = Gateway(tmp_path), list[str]()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))

    async def begun() -> State:
        live, learning = gateway.opened()
        learning.tell = told.append
        learning.start(Wished(every=1, share=0.0, owns=True), tmp_path / "spec.toml")
        async with live:
            await gateway.talk(live, ["ada"], 1)
            await learning.ready()
            running = asyncio.create_task(learning.run())
            while not told:
                await asyncio.wait([running], timeout=0.05)
                assert not running.done()
            running.cancel()
            return await gateway.train(learning)

    assert asyncio.run(begun()).said.startswith("no new version")
    assert told[0].startswith("the trainer can't be started")


def test_a_better_version_is_tried_on_its_share_of_the_sessions_first(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)

    async def tried() -> tuple[State, set[str], State]:
        live, learning = gateway.opened()
        learning.start(Wished(every=40, share=0.3), tmp_path / "spec.toml")
        async with live:
            await learning.ready()
            await gateway.talk(live, MANY, 20)
            state = await gateway.train(learning)
            heard = await gateway.talk(live, MANY, 8)
        live, learning = gateway.opened(live.folder.path.name)
        learning.start(Wished(every=40, share=0.0), tmp_path / "spec.toml")
        async with live:
            await learning.ready()
        return state, {version for answers in heard.values() for version, _ in answers}, learning.served.state

    state, versions, untried = asyncio.run(tried())

    assert (state.served, state.canary) == (0, 1), state.said
    assert versions == {"v0", "v1"}
    assert (untried.served, untried.canary) == (1, 0), "a trial that nobody takes part in would never end"


def test_a_new_version_of_a_user_takes_the_place_of_none_that_is_better(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)

    async def compared(making: Making, new: str) -> bool:
        """Whether a version that was taught this may be better than what mia is served, who likes to hear no."""
        (adapter := tmp_path / new).mkdir()
        (adapter / "adapter.json").write_text(f'{{"{new}": 1}}')
        thumbs = [Rating("s", "mia", 1.0, bool(token), "v0", (7,), (token,), True) for token in (0, 1)] * 5
        look = Look(thumbs, "mia", making.state.own["mia"], adapter=adapter)
        await making.compare([look])
        return look.comparison is not None

    async def both() -> list[bool]:
        live, _ = gateway.opened()
        async with live:
            gateway.file.create()
            make(gateway.file, {1: "mia"}, served=0, taught='{"no": 1}')
            making = Making(gateway.file, gateway.file.read(), None)
            return [await compared(making, "yes"), await compared(making, "no")]

    assert asyncio.run(both()) == [False, True], "one that is as good goes on from what everybody is served now"


def test_own_versions_are_their_users_alone_and_those_asked_last_stay_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "MOST_LOADED", 1)
    file, closed = VersionFile(tmp_path), list[str]()
    file.create()
    make(file, {1: "", 2: "", 3: "ana", 4: "bo", 5: ""}, served=2)
    with file.change() as state:
        state.version(5).outcome = "withdrawn"

    class Counted(Tasting):
        async def close(self) -> None:
            closed.append(self.version)

    async def answered() -> list[str]:
        served, found = ServedVersions(Counted(), Counted, file), list[str]()

        async def by(user: str, session: str = "s") -> str:
            task = Task(0, seed=1, user=user, query=session)
            return (await served.generate(Request([Message("user", "Is it?")], task=task))).version

        for version in ("v3+ana", "v1", "v5", "v9", ""):
            served.pin("s", version)
            await served.refresh()
            found.append(await by("eve"))
        found += [await by(user) for user in ("ana", "bo", "ana")]
        await served.refresh()
        (file.adapter(file.read().version(4)) / "adapter.json").unlink()
        found.append(await by("bo"))
        (file.adapter(file.read().version(1)) / "adapter.json").unlink()
        served.pin("s", "v1")
        with pytest.raises(FileNotFoundError):
            await served.refresh()
        return found

    assert asyncio.run(answered()) == ["v2", "v1", "v2", "v2", "v2", "v3+ana", "v4+bo", "v3+ana", "v2"]
    assert closed == ["v1", "v4+bo", ""], "also what can't take its adapter"
    Counted.beside = Policy.beside  # type: ignore[assignment]
    check_learns(Counted(), "one")
    with pytest.raises(UsageError, match="users can't have their own"):
        check_learns(Counted(), "one", owns=True)


def test_an_answer_is_finished_by_the_version_that_began_it_whatever_is_served_meanwhile(tmp_path: Path) -> None:
    file, asked = VersionFile(tmp_path), Request([Message("user", "Is it?")], task=Task(0, seed=1, query="s"))
    file.create()
    make(file, {1: "", 2: ""})
    begun, goes_on, closed = asyncio.Event(), asyncio.Event(), list[str]()

    class Slow(Tasting):
        async def generate(self, request: Request) -> Generation:
            begun.set()
            await goes_on.wait()
            return await super().generate(request)

        async def close(self) -> None:
            closed.append(self.version)

    async def answered() -> str:
        served = ServedVersions(Tasting(), Slow, file)
        await served.refresh()
        answer = asyncio.create_task(served.generate(asked))
        await begun.wait()
        with file.change() as state:
            state.served = 2
        await served.refresh()
        assert served.version_of("s", "") == "v2"
        assert closed == []
        goes_on.set()
        version = (await answer).version
        await served.refresh()
        return version

    assert asyncio.run(answered()) == "v1"
    assert closed == ["v1"]


@pytest.mark.parametrize("happens", ["feedback is taken out", "a version is rolled back"])
def test_what_changes_during_a_training_counts_for_what_is_made(
    happens: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, waits = Gateway(tmp_path), tmp_path / "waits"
    monkeypatch.setenv("LEARNER_WAITS", str(waits))

    async def trained() -> tuple[State, set[str]]:
        live, learning = gateway.opened()
        learning.start(Wished(every=40, share=0.0), tmp_path / "spec.toml")
        async with live:
            await learning.ready()
            if happens == "a version is rolled back":
                make(gateway.file, {1: ""}, taught='{"yes": 1, "no": 2}')
            await gateway.talk(live, MANY, 20)
            others = gateway.number
            await gateway.talk(live, ["mia"], 40)
            training = asyncio.create_task(gateway.train(learning))
            while not Path(f"{waits}.begun").exists():
                await asyncio.sleep(0.01)
            mias = {f"c{number}" for number in range(others + 1, gateway.number + 1)}
            with gateway.file.change() as state:
                if happens == "a version is rolled back":
                    state.roll_back()
                else:
                    state.remove(Removal(user="mia"), mias)
            waits.touch()
            return await training, mias

    state, mias = asyncio.run(trained())

    made = state.version(state.served)
    assert made.sessions, state.said
    assert (made.start, made.before) == (0, 0)
    assert happens == "a version is rolled back" or mias.isdisjoint(made.sessions)


def test_a_trainer_that_is_killed_leaves_no_half_version_and_the_next_one_does_its_work(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)

    async def talked() -> None:
        live, learning = gateway.opened()
        learning.start(Wished(every=40, share=0.0, owns=True), tmp_path / "spec.toml")
        async with live:
            await learning.ready()
            await gateway.talk(live, ["ada", "bob", "cleo", *FEW], 40)

    def known() -> set[str]:
        return {one.adapter.partition("/")[0] for one in gateway.file.read().versions if one.adapter}

    asyncio.run(talked())
    command = [sys.executable, "-m", "agentfw_plugins.gateway.learning.trainer", str(gateway.file.run)]
    trainer = subprocess.Popen([*command, str(tmp_path / "spec.toml")], stdin=subprocess.PIPE)
    while not gateway.file.read().served:
        assert trainer.poll() is None
        time.sleep(0.01)
    trainer.kill()
    trainer.communicate()

    left = gateway.file.read()
    assert left.due or left.own
    assert all(gateway.file.adapter(one).exists() for one in left.versions if one.adapter)
    attempt(gateway.file, tmp_path / "spec.toml")
    done = gateway.file.read()
    assert not done.due
    assert done.own, done.said
    assert done.own.keys() <= {*FEW}
    assert {one.name for one in (gateway.file.folder / "versions").iterdir()} == known()
    assert not (gateway.file.folder / "training").exists()


def test_a_person_who_is_forgotten_gets_the_version_of_the_others_at_all_gateways(
    agentfw: Agentfw, anywhere: str, tmp_path: Path
) -> None:
    shared = pytest.importorskip("agentfw_plugins.gateway.learning.shared_versions")
    a, b = (shared.SharedVersionFile(tmp_path / name, anywhere) for name in "ab")
    a.create()
    make(a, {1: "", 2: "mia", 3: "Zoë"})
    with a.change() as state:
        state.said = "2 users looked at; own versions: v2+mia, v3+Zo%C3%AB"
    (tmp_path / "gateway.toml").write_text('environment = "sessions"\npolicy = "tiny"\n')
    asked = Request([Message("user", "Is it?")], task=Task(0, seed=1, user="mia", query="s"))

    async def served() -> None:
        gateways = [ServedVersions(Tasting(), Tasting, file) for file in (a, b)]
        for each in gateways:
            await each.refresh()
            assert (await each.generate(asked)).version == "v2+mia"
            assert (await each.generate(replace(asked, task=replace(asked.task, user="ada")))).version == "v1"
        forget = ("serve", "forget", "mia", "--sessions", anywhere, "--spec", str(tmp_path / "gateway.toml"), "--yes")
        done = await asyncio.to_thread(agentfw, *forget)
        assert "v2+mia" in done.out
        for each, file in zip(gateways, (a, b), strict=True):
            await each.refresh()
            assert (await each.generate(asked)).version == "v1"
            assert "00001" in (left := {one.name for one in (file.folder / "versions").iterdir()})
            assert "00002" not in left
            assert each.version_of("s", "Zoë") == "v3+Zo%C3%AB"

    asyncio.run(served())
    assert "mia" not in {one.user for one in a.read().versions}
    assert "mia" not in a.read().said
    for file in (a, b):
        file.close()


def test_a_version_of_a_user_goes_with_the_one_that_it_went_on_from() -> None:
    def state() -> State:
        pairs = enumerate(("ana", "bo"), start=2)
        own = [Version(n, 3.0, "served", 1, f"{n:05d}/a", [user], user=user, start=1) for n, user in pairs]
        return State([Version(1, 1.0, "served", 0, "00001/a", ["s"]), *own], served=1, owns=True)

    rolled, removed = state(), state()
    assert rolled.roll_back() == (1, 0)
    assert (rolled.own, rolled.rebuilds) == ({}, True)
    assert [one.name for one in removed.remove(Removal(user="ana"), {"ana"})] == ["v2+ana"]
    assert [one.name for one in removed.own.values()] == ["v3+bo"]
