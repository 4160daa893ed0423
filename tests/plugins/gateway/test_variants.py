"""Variants of a gateway: who gets which, what differs, and when a comparison is clear."""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from chat_server import completion, refusal
from command_line import Agentfw
from starlette.testclient import TestClient
from waiting import until

from agentfw import Episode, Host, Task
from agentfw.episode import Event
from agentfw.errors import UsageError
from agentfw.runs import read_sessions
from agentfw_plugins.gateway.live import opened
from agentfw_plugins.gateway.reading import Reading
from agentfw_plugins.gateway.variants import (
    CONTROL,
    Comparison,
    Rated,
    Variant,
    VariantFile,
    decisions,
    rated_sessions,
    read_variants,
    results,
)
from agentfw_plugins.view.app import Viewer
from agentfw_plugins.view.index import Index

from .conftest import CLIENT, EARS, Serve, Served
from .test_sessions import body
from .upstream import passing


def ask(gateway: Served, user: str, session: str = "", said: str = "Which tea?") -> httpx.Response:
    address = gateway.session(session) if session else f"{gateway.url}/v1"
    return CLIENT.post(f"{address}/chat/completions", json=body(said, user=user)).raise_for_status()


def rated(count: int, liked: dict[str, float], *, users: int = 40, seed: int = 7) -> list[Rated]:
    """Sessions of users who each have a variant, and like so many of its answers."""
    draw, names = random.Random(seed), [*liked]
    return [
        Rated("", f"u{user}", names[user % len(names)], float(draw.random() < liked[names[user % len(names)]]))
        for user in (draw.randrange(users) for _ in range(count))
    ]


def test_a_user_keeps_the_variant_and_the_shares_are_kept() -> None:
    comparison = Comparison(read_variants(["big:model=big,weight=0.25"]), began=1.0)

    given = [comparison.of(f"user{number}", "").name for number in range(2000)]

    assert given == [comparison.of(f"user{number}", "").name for number in range(2000)]
    assert 0.2 < given.count("big") / 2000 < 0.3
    assert given.count(CONTROL) + given.count("big") == 2000
    another = Comparison(comparison.variants, began=2.0)
    assert given != [another.of(f"user{number}", "").name for number in range(2000)], "who got it once isn't always it"
    assert given != [comparison.of(f"user{number}", "shop:").name for number in range(2000)]


def noted(session: str, user: str, notes: list[tuple[float, str]], *values: tuple[Any, Any], **more: Any) -> Episode:
    """A session with the variants that it got, and what was said of its answers."""
    events = [Event(0, "session", "variant", {"began": began, "variant": name}) for began, name in notes]
    given = ({"turn": turn, "value": value, **more} for turn, value in values)
    events += [Event(0, "observation", "feedback", about) for about in given]
    return Episode(Task(0, 7, user=user, query=session), events=events)


def test_a_session_counts_by_the_mean_of_its_newest_ratings_for_the_comparison_that_it_is_in() -> None:
    notes = [(1.0, "terse"), (2.0, CONTROL)]
    episodes = [
        noted("shop:tea", "ada", notes, (0, -1.0), (0, 1.0), (1, -1.0)),
        noted("one", "", notes, (None, 1.0)),
        noted("two", "", notes, (None, 1.0)),
        noted("unrated", "ada", notes),
        noted("starred", "ada", notes, (0, 2), (1, 4), metric="stars"),
    ]

    found = list(rated_sessions(episodes, Comparison([], began=2.0, per_team=True)))

    assert [one[::2] for one in found] == [("shop", CONTROL), ("", CONTROL), ("", CONTROL)]
    assert [one.value for one in found] == [0.5, 1.0, 1.0]
    assert len({one.user for one in found}) == 3, "nobody is as many users as there are sessions"
    assert list(rated_sessions(episodes, Comparison([], began=1.0))) == []
    assert [one.value for one in rated_sessions(episodes, Comparison([], "stars", began=2.0))] == [3.0]
    assert [one.value for one in rated_sessions(episodes, Comparison([], "stars>=4", began=2.0))] == [0.5]


def test_what_is_begun_while_a_gateway_looks_at_the_last_comparison_stays(tmp_path: Path) -> None:
    file, looked = VariantFile(tmp_path / "variants.json"), threading.Event()
    first, second = (Comparison([Variant()], sessions=1, began=began) for began in (1.0, 2.0))
    file.write(first)

    class Slow(Reading):
        def rated(self, since: float) -> list[Episode]:
            file.write(second)
            looked.set()
            return [noted("tea", "ada", [(1.0, CONTROL)], (0, 1.0))]  # by which the first one is decided

    async def look() -> None:
        reading = Slow(opened(tmp_path, policy="scripted", assignments=['policy.replies=["yes"]']))
        deciding = asyncio.create_task(reading.decide(file))
        await asyncio.to_thread(looked.wait)
        await asyncio.wait([deciding], timeout=0.3)
        deciding.cancel()

    asyncio.run(look())
    assert file.read() == second


def test_what_is_begun_while_a_gateway_writes_what_it_decided_stays(tmp_path: Path, agentfw: Agentfw) -> None:
    writes, comparison = threading.Event(), Comparison([Variant()], sessions=1, began=1.0)

    class Slow(VariantFile):
        def write(self, comparison: Comparison) -> None:
            writes.set()
            time.sleep(0.5)
            super().write(comparison)

    class Rated(Reading):
        def rated(self, since: float) -> list[Episode]:
            return [noted("tea", "ada", [(1.0, CONTROL)], (0, 1.0))]

    file, slow = VariantFile(tmp_path / "runs" / "variants.json"), Slow(tmp_path / "runs" / "variants.json")
    file.write(comparison)

    async def look() -> None:
        reading = Rated(opened(tmp_path, policy="scripted", assignments=['policy.replies=["yes"]']))
        deciding = asyncio.create_task(reading.decide(slow))
        await asyncio.to_thread(writes.wait)
        await asyncio.to_thread(agentfw, "serve", "variants", "start", "--variant", "terse:model=x")
        deciding.cancel()

    asyncio.run(look())
    assert (begun := file.read()) is not None
    assert [one.name for one in begun.variants] == [CONTROL, "terse"]


def test_nobodys_conversations_have_each_their_variant_and_the_next_comparison_is_noted_once(
    serve: Serve, tmp_path: Path
) -> None:
    gateway, file = serve(), VariantFile(tmp_path / "runs" / "variants.json")
    variants = [Variant(weight=0.5), Variant("terse", 0.5, prompt="Be terse.")]
    file.write(Comparison(variants, began=1.0))
    found = {ask(gateway, "", f"tea{number}").headers["x-agentfw-variant"] for number in range(12)}
    for number in range(8):  # programs may send the name back that they were told
        first = ask(gateway, "", said=f"Tea {number}?").headers
        assert ask(gateway, "", first["x-agentfw-session"]).headers["x-agentfw-variant"] == first["x-agentfw-variant"]
    for began in (1.0, 1.0, 2.0, 2.0):
        file.write(Comparison(variants, began=began))
        ask(gateway, "ada", "tea")

    assert found == {CONTROL, "terse"}
    assert [one.data["began"] for one in gateway.episode().events if one.name == "variant"] == [1.0, 2.0]


def test_names_may_be_of_any_alphabet(serve: Serve, tmp_path: Path) -> None:
    VariantFile(tmp_path / "runs" / "variants.json").write(Comparison([Variant("短", 1.0, prompt="Be brief.")]))
    settings = ["policy.replies=['yes']", "model.快.replies=['yes']"]
    gateway = serve(policy="scripted", models=("快=scripted",), assignments=settings)

    told = [gateway.ask("tea", "Which?", model="快", stream=one).headers for one in (False, True)]

    assert {(one["x-agentfw-variant"], one["x-agentfw-model"]) for one in told} == {("短", "快")}


def test_who_answers_instead_of_another_has_the_prompt_and_is_not_asked_by_its_name(tmp_path: Path) -> None:
    VariantFile(tmp_path / "runs" / "variants.json").write(Comparison([Variant("terse", 1.0, prompt="Be terse.")]))
    away = ("model.big.base_url=http://127.0.0.1:9/v1", "policy.model=")
    more: dict[str, Any] = {"models": ("big=openai",), "fallbacks": ("big=agentfw",), "assignments": away}
    with passing(tmp_path / "runs", completion("fine"), **more) as gateway:
        url = f"{gateway.session('tea')}/chat/completions"
        CLIENT.post(url, json=body("Which tea?", model="big")).raise_for_status()

    [asked] = gateway.asked
    assert asked["messages"][0]["content"] == "Be terse."
    assert asked.get("model") != "big", "its server has no such model"


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["terse"], "is no variant"),
        (["terse:weight=0.5"], "is no variant"),
        (["terse:speed=1"], "says nothing about a variant"),
        *((["terse:model=x,weight=" + weight], '"weight=.*says nothing') for weight in ("nan", "0", "-0.5", "1.5")),
        (["terse:prompt=missing.md"], "can't read the prompt"),
        (["control:model=big"], "is called control"),
        (["a:model=x,weight=0.7", "b:model=y,weight=0.7"], "the weights come to 1.4"),
        (["a:model=x,weight=0.7", "b:model=y,weight=0.3"], "the weights come to 1\n"),
    ],
)
def test_what_is_no_variant_is_refused(texts: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_variants(texts)


def test_a_prompt_reaches_the_server_of_those_who_get_it_and_the_conversation_goes_on(tmp_path: Path) -> None:
    with passing(tmp_path / "runs", completion("fine"), counts=True) as gateway:
        file = VariantFile(tmp_path / "runs" / "variants.json")
        file.write(Comparison([Variant(weight=0.0), Variant("terse", 1.0, prompt="Be terse.", model="small")]))

        first = ask(gateway, "ada")
        messages = [*body("Which tea?")["messages"], {"role": "assistant", "content": "fine"}]
        again = CLIENT.post(f"{gateway.url}/v1/chat/completions", json=body(*messages, "And now?", user="ada"))
        plain, asked_so_far = ask(gateway, "ada", "tea"), gateway.asked
        file.path.unlink()
        messages += [*body("And now?")["messages"], {"role": "assistant", "content": "fine"}]
        after = CLIENT.post(f"{gateway.url}/v1/chat/completions", json=body(*messages, "And then?", user="ada"))

    assert first.headers["x-agentfw-variant"] == plain.headers["x-agentfw-variant"] == "terse"
    sessions = {answer.headers["x-agentfw-session"] for answer in (first, again, after)}
    assert len(sessions) == 1, "it goes on also when the comparison is over"
    for asked in asked_so_far:
        assert asked["messages"][0] == {"role": "system", "content": "Be terse."}
        assert asked["model"] == "served"  # the policy of this gateway has one model


def test_who_has_the_variant_without_memory_is_not_remembered(serve: Serve, tmp_path: Path) -> None:
    gateway = serve(memories=[EARS])
    gateway.ask("before", "I like oolong.", user="ada")
    until(lambda: gateway.remembered("ada"))
    VariantFile(tmp_path / "runs" / "variants.json").write(
        Comparison([Variant(weight=0.0), Variant("forgets", 1.0, remembers=False)])
    )

    ask(gateway, "ada", "tea")

    assert "oolong" not in json.dumps(gateway.episode().to_record())


def test_without_the_variants_that_can_not_be_read_nothing_is_answered(serve: Serve, tmp_path: Path) -> None:
    gateway, file = serve(), tmp_path / "runs" / "variants.json"
    file.symlink_to(file)

    answer = CLIENT.post(f"{gateway.url}/v1/chat/completions", json=body("Which tea?"))

    assert answer.status_code == 503
    assert f"can't read the variants in {file}" in answer.json()["error"]["message"]


def test_a_difference_is_clear_if_many_users_have_it() -> None:
    comparison, differ = Comparison(read_variants(["terse:model=x"])), {CONTROL: 0.4, "terse": 0.75}

    [_, better] = results(rated(300, differ), comparison)
    [_, same] = results(rated(300, {CONTROL: 0.5, "terse": 0.5}), comparison)
    [_, early] = results(rated(20, differ), comparison)
    [_, few] = results(rated(300, differ, users=4), comparison)

    assert better.clear
    assert better.difference > 0.2
    assert [one.clear for one in (same, early, few)] == [False] * 3
    assert early.needed > 8
    [_, unanimous] = results(rated(300, {CONTROL: 0.0, "terse": 1.0}), comparison)
    assert unanimous.clear
    [_, chatty] = results([one for one in rated(30, differ, users=8) for _ in range(10)], comparison)
    assert not chatty.clear, "who says it ten times is still one user"
    [_, of_three, _] = results(rated(300, differ), Comparison(read_variants(["terse:model=x", "big:model=y"])))
    assert of_three.needed > better.needed


def test_what_is_clear_ends_the_comparison_for_its_team_alone() -> None:
    comparison = Comparison(read_variants(["terse:model=x"]), per_team=True)
    here = [one._replace(team="here") for one in rated(300, {CONTROL: 0.3, "terse": 0.8})]
    there = [one._replace(team="there") for one in rated(100, {CONTROL: 0.5, "terse": 0.5})]
    worse = [one._replace(team="worse") for one in rated(300, {CONTROL: 0.8, "terse": 0.3})]

    decided = decisions(results([*here, *there, *worse], comparison), comparison)
    comparison.decided |= decided

    assert decided == {"here": "terse", "worse": CONTROL}
    assert decisions(results([*here, *there, *worse], comparison), comparison) == {}, "what is decided stays"
    assert comparison.of("anybody", "here:").name == "terse"
    assert {comparison.of(f"u{number}", "there:").name for number in range(50)} == {CONTROL, "terse"}


def test_a_planned_comparison_without_a_clear_difference_goes_back_to_the_control() -> None:
    comparison = Comparison(read_variants(["terse:model=x"]), sessions=200)
    alike = rated(200, {CONTROL: 0.5, "terse": 0.5}, seed=8)

    assert decisions(results(alike, comparison), comparison) == {"": CONTROL}
    assert decisions(results(alike[:-1], comparison), comparison) == {}


def test_who_ends_a_comparison_ends_it_for_all_teams(agentfw: Agentfw, tmp_path: Path) -> None:
    file = VariantFile(tmp_path / "runs" / "variants.json")
    file.write(Comparison(read_variants(["terse:model=x"]), per_team=True, decided={"": "terse"}))

    assert "those without a key of users get terse now" in agentfw("serve", "variants").out
    assert agentfw("serve", "variants", "end", "--serve", "terse").ok

    assert (ended := file.read()) is not None
    assert {ended.of(f"u{number}", "shop:").name for number in range(20)} == {"terse"}


def test_the_best_of_several_better_variants_wins() -> None:
    comparison = Comparison(read_variants(["good:model=x", "best:model=y"]))
    found = results(rated(900, {CONTROL: 0.1, "good": 0.6, "best": 0.95}, users=90), comparison)

    assert [one.clear for one in found[1:]] == [True, True]
    assert decisions(found, comparison) == {"": "best"}


def test_a_comparison_is_begun_seen_and_ended_by_command_and_stops_by_itself(
    serve: Serve, agentfw: Agentfw, tmp_path: Path
) -> None:
    gateway, slow = serve(), tmp_path / "runs" / "0" / "turns.jsonl"
    start = ("serve", "variants", "start", "--sessions", "40", "--variant")
    (tmp_path / "terse.md").write_text("Be terse.\n")

    def rate(name: str) -> None:
        for number in range(30):
            answer = ask(gateway, f"u{number}", f"{name}{number}")
            rating = {"session": f"{name}{number}", "value": answer.headers["x-agentfw-variant"] != CONTROL}
            CLIENT.post(f"{gateway.url}/feedback", json=rating).raise_for_status()

    agentfw(*start, "brief:prompt=terse.md")
    slow.parent.mkdir()
    os.mkfifo(slow)  # a record that the gateway is slow to read
    try:
        rate("early")
    finally:
        with slow.open("wb"):  # as soon as it reads
            begun = agentfw(*start, "terse:prompt=terse.md")
            slow.unlink()
    slow.write_text('{"damaged\n{"task": 1}\n')  # in a run that others work on
    rate("s")

    def decided() -> Any:
        return found if (found := agentfw("serve", "variants", "--json").json)["decided"] else None

    shown = until(decided)
    table = agentfw("serve", "variants")
    after = {ask(gateway, f"v{number}").headers["x-agentfw-variant"] for number in range(5)}
    ended = agentfw("serve", "variants", "end", "--serve", CONTROL)

    assert "control 50%, terse 50%" in begun.out
    assert shown["decided"] == {"": "terse"}
    assert "all users get terse now" in table.out
    assert after == {"terse"}
    assert "all users get control now" in ended.out
    assert ask(gateway, "w").headers["x-agentfw-variant"] == CONTROL
    assert sum(one["sessions"] for one in shown["results"]) == 30


# -- asking again ------------------------------------------------------------------------------------------------------


def test_questions_are_asked_again_with_the_recorded_conversation(tmp_path: Path, agentfw: Agentfw) -> None:
    (tmp_path / "terse.md").write_text("Be terse.", "utf-8-sig")
    answers = [completion(text) for text in ("Green tea, I think.", "At four.", "Green.", "Four.")]
    answers += [refusal(400, "not that"), completion("Four.")]
    with passing(tmp_path / "runs", *answers, counts=True) as gateway:
        first = body("Which tea?", user="ada")
        CLIENT.post(f"{gateway.session('tea')}/chat/completions", json=first).raise_for_status()
        said = [*first["messages"], {"role": "assistant", "content": "Green tea, I think."}]
        again = body(*said, "When?", user="ada")
        CLIENT.post(f"{gateway.session('tea')}/chat/completions", json=again).raise_for_status()
        run = gateway.live.folder.path

        told = agentfw("serve", "replay", run.name, "--variant", "terse:prompt=terse.md,model=small", "--json")
        refused = agentfw("serve", "replay", run.name, "--variant", "small:model=small", "--json").json

    assert (refused["failed"], refused["answers"]) == (1, 0), "the next one answers another question"
    assert told.code == 0, told.err
    assert (told.json["sessions"], told.json["answers"], told.json["same"]) == (1, 2, 0)
    asked = gateway.asked[2:4]
    assert {one["model"] for one in asked} == {"small"}
    assert asked[0]["messages"] == [{"role": "system", "content": "Be terse."}, *first["messages"]]
    assert asked[1]["messages"][1:] == again["messages"]
    [episode] = read_sessions(Path(told.json["folder"]))
    assert (episode.task.query, episode.task.user) == ("tea", "ada")
    assert [turn.text for turn in episode.turns] == ["Green.", "Four."]
    spent = agentfw("serve", "usage", "--by", "user", "--json").json["rows"]
    assert {row["name"]: row["requests"] for row in spent} == {"ada": 2, "": 2}, "ada didn't ask again"
    index = Index(tmp_path / "runs")
    index.refresh()
    with TestClient(Viewer(index, Host.load()).app, base_url="http://127.0.0.1") as view:
        page = view.get(told.json["compare"].partition("8766")[2])
    assert page.status_code == 200
    assert "tea" in page.text
    assert "pair?left=" in page.text


def test_what_cant_be_asked_again_is_refused(tmp_path: Path, agentfw: Agentfw) -> None:
    with passing(tmp_path / "runs", completion("fine"), counts=True) as gateway:
        CLIENT.post(f"{gateway.session('tea')}/chat/completions", json=body("Which tea?")).raise_for_status()
        run = gateway.live.folder.path.name
        forgets = agentfw("serve", "replay", run, "--variant", "forgets:memory=off")
        version = agentfw("serve", "replay", run, "--variant", "newer:version=v9")
        nobody = agentfw("serve", "replay", run, "--variant", "small:model=small", "--user", "eve")
        as_it_came = agentfw("serve", "replay", run, "--variant", "first:version=v0", "--json").json
        CLIENT.post(f"{gateway.session('later')}/chat/completions", json=body("And later?")).raise_for_status()
        newest = agentfw("serve", "replay", run, "--limit", "1", "--json").json

    assert (newest["sessions"], as_it_came["same"]) == (1, 1)
    assert "And later?" in json.dumps(gateway.asked[-1])
    assert (forgets.code, version.code, nobody.code) == (2, 2, 2)
    assert "memory can't be left out" in forgets.err
    assert "no version v9" in version.err
    assert "has no such sessions" in nobody.err
    assert json.dumps(gateway.asked).count("Which tea?") == 2
