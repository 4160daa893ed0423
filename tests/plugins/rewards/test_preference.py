"""The preference model in runs: whose actions it likes, what it reads, and what it does with strangers."""

from __future__ import annotations

import asyncio
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentfw.episode import Call, Episode, Event, Task, Turn
from agentfw.errors import AgentfwError, SettingsError, UsageError
from agentfw.host import Host
from agentfw.scores import Score
from agentfw.testing import contract, made_by
from agentfw.testing.checks import CheckFunction, run_check, sample_episodes
from agentfw_plugins.rewards.preference import Preference


def make(host: Host, town: Any, **settings: Any) -> Preference:
    made = host.create("reward", "preference", {"model": str(town.model), **settings})
    assert isinstance(made, Preference)
    return made


def book(place: str, user: str = "user-0", *, name: str = "book", refused: bool = False, **turn: Any) -> Episode:
    call = Call(name, {"place": place}, "1.0")
    events = [Event(1, "refused", name, {"id": "1.0"})] if refused else []
    return Episode(Task(0, 7, user=user), turns=[Turn(0, 0, 1, calls=(call,), **turn)], events=events)


def scores(model: Preference, *episodes: Episode) -> list[dict[str, Score]]:
    """Of each episode its scores by component."""
    return [{score.component: score for score in asyncio.run(_score(model, episode))} for episode in episodes]


async def _score(model: Preference, episode: Episode) -> Any:
    return await model.score([episode])


MUSEUM, FOOTBALL = "the museum of clocks", "a football match of the school"


def test_each_is_given_what_they_like_and_what_it_is_made_of_is_seen_and_does_not_count(host: Host, town: Any) -> None:
    model = make(host, town)
    for user, liked, other in (
        ("user-0", MUSEUM, FOOTBALL),
        ("user-1", FOOTBALL, MUSEUM),
        ("newcomer", MUSEUM, FOOTBALL),
    ):
        high, low = scores(model, book(liked, user), book(other, user))
        assert high["preference"].value > 0.5 > low["preference"].value
        assert high["preference"].track == "personal"
        assert {name for name, score in high.items() if score.counts} == {"preference"}
        assert set(high) == {"preference", "preference_interest", "preference_conformity", "preference_unscored"}
        assert high["preference_unscored"].value == 0.0

    words = book(FOOTBALL, text=f"Go and see {MUSEUM}.")
    (said,) = scores(make(host, town, text="said"), words)
    assert said["preference"].value > 0.5, "an agent that answers in words is scored by its words"


def test_the_weights_of_the_two_branches_can_be_set(host: Host, town: Any) -> None:
    episode = book(MUSEUM)
    only, none = (make(host, town, interest_weight=weight, conformity_weight=0) for weight in (2, 0))
    (one,), (other,) = scores(only, episode), scores(none, episode)
    assert one["preference"].value > 0.7
    assert other["preference"].value == 0.5
    own = make(host, town).model.settings
    (same,) = scores(
        make(host, town, interest_weight=own.interest_weight, conformity_weight=own.conformity_weight), episode
    )
    assert same == scores(make(host, town), episode)[0]


@pytest.mark.parametrize(
    ("episode", "settings"),
    [
        (book(MUSEUM, refused=True), {}),
        (book(MUSEUM, finish="interrupted"), {}),
        (book(MUSEUM, name="look_up"), {"actions": ["book"]}),
        (book(MUSEUM, text="  "), {"text": "said"}),
        (book(MUSEUM, "a stranger"), {}),
        (Episode(Task(0, 7, user="user-0")), {}),
    ],
    ids=["refused", "broken off", "another action", "said nothing", "a stranger", "did nothing"],
)
def test_what_cannot_be_scored_gets_the_middle_and_says_so(
    host: Host, town: Any, episode: Episode, settings: dict[str, Any]
) -> None:
    (found,) = scores(make(host, town, **settings), episode)
    assert {name: score.value for name, score in found.items()} == {"preference": 0.5, "preference_unscored": 1.0}


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({}, SettingsError, "reward.model: is required"),
        ({"model": "nowhere"}, UsageError, "no preference model"),
        ({"model": "nowhere", "interest_weight": -1}, SettingsError, "interest_weight"),
    ],
)
def test_what_is_wrong_is_told_at_once(
    host: Host, settings: dict[str, Any], error: type[AgentfwError], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        host.create("reward", "preference", settings)
    assert caught.value.fix


@pytest.mark.parametrize("check", contract("reward"), ids=lambda check: check.__name__)
def test_it_keeps_the_promises_of_a_reward_model(host: Host, town: Any, check: CheckFunction) -> None:
    for user in ("user-0", "nobody"):
        episodes = sample_episodes()
        for episode in episodes:
            object.__setattr__(episode.task, "user", user)
        factory = made_by(host, "reward", "preference", {"model": str(town.model)})
        result = run_check(check, factory, episodes=episodes, time_limit=60)
        assert result.passed, result.detail


def chose(item: str, text: str, user: str = "user-0", verdict: str = "accepted", **task: Any) -> Episode:
    effects = [{"item": item, "text": text, "verdict": verdict}]
    return Episode(Task(0, 7, user=user, **task), events=[Event(1, "observation", "done", {"effects": effects})])


def test_effects_are_scored_by_item_where_it_is_known_and_by_text_elsewhere(host: Host, town: Any) -> None:
    model = make(host, town, text="effects")

    (known,) = scores(model, chose("museum-0", "closed"))
    (new,) = scores(model, chose("nowhere", MUSEUM))
    (nothing,) = scores(model, Episode(Task(0, 7, user="user-0")))
    told = [*chose("football-0", "").events, Event(1, "observation", "done", {"effects": [{"item": "museum-0"}] * 2})]
    (twice,) = scores(model, Episode(Task(0, 7, user="user-0"), events=told))
    stranger = {"profile": "often seen at a museum"}
    new_ones = [replace(chose("nowhere", text, "zoe"), profile=stranger) for text in (MUSEUM, FOOTBALL)]
    liked, other = scores(model, *new_ones)

    assert twice["preference_interest"].value == pytest.approx(known["preference_interest"].value), (
        "the mean of the last"
    )
    assert liked["preference"].value > other["preference"].value
    assert known["preference"].value > 0.5
    assert new["preference"].value > 0.5
    assert nothing["preference_unscored"].value == 1.0


def test_what_users_accept_and_reject_becomes_a_newer_model(host: Host, town: Any, tmp_path: Path) -> None:
    model = make(host, town)
    (before,) = scores(model, book("a football match of the army"))
    accepted = [chose(f"football-{place}", "", sample=place) for place in range(6)]
    rejected = [chose(f"museum-{place}", "", verdict="rejected", sample=6 + place) for place in range(6)]

    for episode in [*accepted, *rejected, accepted[0]]:
        asyncio.run(model.learn(episode))
    assert asyncio.run(model.write_learned(tmp_path / "newer"))

    (unchanged,) = scores(model, book("a football match of the army"))
    newer = host.create("reward", "preference", {"model": str(tmp_path / "newer")})
    assert isinstance(newer, Preference)
    (after,) = scores(newer, book("a football match of the army"))
    assert unchanged["preference"].value == before["preference"].value
    assert after["preference"].value > before["preference"].value
    assert not asyncio.run(make(host, town).write_learned(tmp_path / "nothing"))


def test_who_is_forgotten_stays_so_and_others_keep_what_they_like(host: Host, town: Any, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(town.model, tmp_path / "model"))
    model = make(host, town, model=str(folder), text="effects")
    told = [chose(item, "", user) for user in ("user-0", "user-1", "user-2") for item in ("museum-1", "football-1")]
    before = [one["preference_interest"].value for one in scores(model, *told[2:])]
    for user, item, verdict in (
        ("user-0", "football-0", "accepted"),
        ("user-1", "museum-0", "rejected"),
        ("user-1", "museum-0", "accepted"),
        ("user-2", "football-3", "accepted"),
    ):
        asyncio.run(model.learn(chose(item, "", user, verdict, sample=int(verdict == "accepted"))))

    assert [asyncio.run(model.forget("user-0")) for _ in range(2)] == [True, False]

    again = make(host, town, model=str(folder), text="effects")
    for one in (model, again):
        assert [each["preference_unscored"].value for each in scores(one, *told)] == [1.0] * 2 + [0.0] * 4
        after = [each["preference_interest"].value for each in scores(one, *told[2:])]
        assert after == pytest.approx(before, abs=0.1)
    files = {path.suffix: path for path in folder.iterdir()}
    assert len(list(folder.iterdir())) == 2, "the arrays with what is forgotten are gone"
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.values()} == {0o600}
    assert [item for item, _ in again.model.recommend("user-2", 20) if item.startswith("m")] == ["museum-2"]
    assert asyncio.run(model.write_learned(tmp_path / "newer"))
    newer = make(host, town, model=str(tmp_path / "newer")).model
    assert "user-0" not in newer.users
    for user, item in (("user-1", "museum-0"), ("user-2", "football-3")):
        assert item not in [found for found, _ in newer.recommend(user, 20)], "the newest verdict of each counts"
