"""Variants of a gateway: who gets which, what differs, and when a comparison is clear."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import httpx
import pytest
from chat_server import completion
from command_line import Agentfw
from starlette.testclient import TestClient
from waiting import until

from agentfw import Host
from agentfw.errors import UsageError
from agentfw.runs import read_sessions
from agentfw_plugins.gateway.variants import (
    CONTROL,
    Comparison,
    Rated,
    Variant,
    VariantFile,
    decisions,
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


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["terse"], "is no variant"),
        (["terse:weight=0.5"], "is no variant"),
        (["terse:speed=1"], "says nothing about a variant"),
        (["terse:prompt=missing.md"], "can't read the prompt"),
        (["control:model=big"], "is called control"),
        (["a:model=x,weight=0.7", "b:model=y,weight=0.7"], "the weights come to 1.4"),
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
        plain = ask(gateway, "ada", "tea")

    assert first.headers["x-agentfw-variant"] == plain.headers["x-agentfw-variant"] == "terse"
    assert again.headers["x-agentfw-session"] == first.headers["x-agentfw-session"]
    for asked in gateway.asked:
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


def test_what_is_clear_ends_the_comparison_for_its_team_alone() -> None:
    comparison = Comparison(read_variants(["terse:model=x"]), per_team=True)
    here = [one._replace(team="here") for one in rated(300, {CONTROL: 0.3, "terse": 0.8})]
    there = [one._replace(team="there") for one in rated(100, {CONTROL: 0.5, "terse": 0.5})]
    worse = [one._replace(team="worse") for one in rated(300, {CONTROL: 0.8, "terse": 0.3})]

    decided = decisions(results([*here, *there, *worse], comparison), comparison)
    comparison.decided |= decided

    assert decided == {"here": "terse", "worse": CONTROL}
    assert comparison.of("anybody", "here:").name == "terse"
    assert {comparison.of(f"u{number}", "there:").name for number in range(50)} == {CONTROL, "terse"}


def test_a_planned_comparison_without_a_clear_difference_goes_back_to_the_control() -> None:
    comparison = Comparison(read_variants(["terse:model=x"]), sessions=200)
    alike = rated(200, {CONTROL: 0.5, "terse": 0.5}, seed=8)

    assert decisions(results(alike, comparison), comparison) == {"": CONTROL}
    assert decisions(results(alike[:-1], comparison), comparison) == {}


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
    (tmp_path / "terse.md").write_text("Be terse.")
    answers = [completion(text) for text in ("Green tea, I think.", "At four.", "Green.", "Four.")]
    with passing(tmp_path / "runs", *answers, counts=True) as gateway:
        first = body("Which tea?", user="ada")
        CLIENT.post(f"{gateway.session('tea')}/chat/completions", json=first).raise_for_status()
        said = [*first["messages"], {"role": "assistant", "content": "Green tea, I think."}]
        again = body(*said, "When?", user="ada")
        CLIENT.post(f"{gateway.session('tea')}/chat/completions", json=again).raise_for_status()
        run = gateway.live.folder.path

        told = agentfw("serve", "replay", run.name, "--variant", "terse:prompt=terse.md,model=small", "--json")

    assert told.code == 0, told.err
    assert (told.json["sessions"], told.json["answers"], told.json["same"]) == (1, 2, 0)
    asked = gateway.asked[2:]
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

    assert (forgets.code, version.code, nobody.code) == (2, 2, 2)
    assert "memory can't be left out" in forgets.err
    assert "no version v9" in version.err
    assert "has no such sessions" in nobody.err
    assert json.dumps(gateway.asked).count("Which tea?") == 1
