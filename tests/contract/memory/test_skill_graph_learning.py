"""What a skill graph learns from trajectories, what it merges and retires, and that nothing is learned twice."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentfw_memory import BadInputError, GraphSettings, Learned, SkillDraft, SkillGraph, Step, Trajectory, extract


def drafting(*texts: str) -> Any:
    """An extractor that finds what the outcome lists, or else these texts."""

    def extract(trajectory: Trajectory, at_most: int) -> Sequence[SkillDraft]:
        found = [line for line in trajectory.outcome.split("|") if line] or list(texts)
        return [SkillDraft(text, ("calendar",), trajectory.scenarios) for text in found]

    return extract


AS_SAID = None
"""The graph's own extractor."""


def opened(place: str | Path = ":memory:", *, extractor: Any = drafting(), **settings: Any) -> SkillGraph:  # noqa: B008
    chosen = GraphSettings(**settings)
    return SkillGraph.open(place, tenant="team", embedder="hash", settings=chosen, extractor=extractor)


def trip(name: str, outcome: str = "", *, user: str = "ana", skills: Sequence[str] = ()) -> Trajectory:
    return Trajectory(name, user, "move my meeting", ("rescheduling",), (), outcome, tuple(skills))


def test_a_good_trajectory_becomes_skills_with_what_shipped() -> None:
    with SkillGraph.open(":memory:", tenant="team", embedder="hash") as graph:
        steps = Step("look", "calendar"), Step("send", "mail")
        told = Trajectory("t1", "ana", "move my meeting", ("rescheduling",), steps, "I prefer the earliest slot.")
        learned = graph.learn(told, 0.9)
        skills = [graph.get(one) for one in learned.added]
        assert skills
        assert all(skill.owner == "ana" and skill.visibility == "private" for skill in skills)
        assert any("earliest slot" in skill.text for skill in skills)
        assert all((skill.uses, skill.utility) == (1, 0.9) for skill in skills)
        assert {tool for skill in skills for tool in skill.tools} == {"calendar", "mail"}
        kinds = {edge.kind for edge in graph.history(skills[0].id).edges}
        assert kinds == {"OWNS", "REQUIRES", "APPLIES_TO", "TRIGGERS", "EXECUTED"}
        assert graph.recall("which slot?", user="ben") == []


def test_a_poor_trajectory_teaches_nothing_but_counts() -> None:
    with opened() as graph:
        skill = graph.learn(trip("t1", "offer the earliest slot"), 0.7).added[0]  # just good enough
        learned = graph.learn(trip("t2", "offer something else", skills=[skill]), 0.2)
        assert learned.added == ()
        kept = graph.get(skill)
        assert [kept.uses, kept.utility] == pytest.approx([2, 0.45])
        assert graph.admin.stats().nodes["skill"] == 1


def test_several_who_learn_the_same_trajectories_at_once_learn_each_once(tmp_path: Path) -> None:
    graphs = [opened(tmp_path / "skills.db") for _ in range(4)]

    def learn(graph: SkillGraph) -> list[Learned]:
        return [graph.learn(trip(f"t{place}", f"alpha beta gamma delta {place}"), 0.9) for place in range(6)]

    with ThreadPoolExecutor(4) as pool:
        results = [one for told in pool.map(learn, graphs) for one in told]
    assert sum(not result.known_already for result in results) == 6
    assert graphs[0].admin.stats().nodes["trajectory"] == 6
    for graph in graphs:
        graph.close()


def test_what_is_nearly_there_is_not_there_twice() -> None:
    texts = "offer the earliest slot on the calendar first", "offer the earliest slot on the calendar first please"
    with opened(merge_above=0.8) as graph:
        first = graph.learn(trip("t1", texts[0]), 0.9)
        second = graph.learn(trip("t2", texts[1]), 0.8)
        assert second.added == ()
        assert second.merged == first.added
        assert (graph.get(first.added[0]).uses, graph.get(first.added[0]).text) == (2, texts[0])
        # Another user's is theirs.
        assert graph.learn(trip("t3", texts[1], user="ben"), 0.9).added
    with opened(merge_above=1.0) as graph:
        assert graph.learn(trip("t1", texts[0]), 0.9).added
        assert graph.learn(trip("t2", texts[1]), 0.9).added
        assert graph.learn(trip("t3", texts[1]), 0.9).merged  # the very same is the same, whatever the threshold


def test_skills_that_succeed_together_complement_each_other() -> None:
    with opened() as graph:
        one, two = graph.learn(trip("t1", "offer the slot|send a card"), 0.9).added
        assert graph.learn(trip("t2", skills=[one, two]), 0.3).complements == ()
        learned = graph.learn(trip("t3", skills=[one, two]), 0.7)  # just good enough
        assert learned.complements == ((one, two),)
        assert graph.learn(trip("t4", skills=[one, two]), 0.9).complements == ()  # known by now
        hits = graph.recall("offer the slot", user="ana")
        assert [hit.why.complement for hit in hits] == [1.0, 1.0]
    for needed in (0, 4):
        with opened(complement_after=needed) as graph:
            one, two = graph.learn(trip("t1", "offer the slot|send a card"), 0.9).added
            for place, reward in enumerate((0.9, 0.3, 0.9)):
                assert graph.learn(trip(f"more {place}", skills=[one, two]), reward).complements == ()


def test_the_cap_holds_and_the_least_useful_goes_first() -> None:
    words = ("tea", "coffee", "train", "plane", "garden", "music", "paper", "window")
    with opened(skills_per_owner=4) as graph:
        ids = {}
        for place, word in enumerate(words):
            learned = graph.learn(trip(f"t{place}", f"{word} {word}s {word}ing"), 0.7 + place / 100)
            ids[word] = learned.added[0]
            if place == 0:
                for more in range(3):  # what is used well stays
                    graph.learn(trip(f"more {more}", skills=[ids["tea"]]), 1.0)
            assert graph.admin.stats().nodes["skill"] <= 4
        kept = {hit.skill.text.split()[0] for hit in graph.recall("tea", user="ana", k=9)}
        assert "tea" in kept
        assert len(kept) == 4
        assert graph.history(ids["coffee"]).versions[0].valid_to is not None
    with opened(skills_per_owner=3, learn_from=0.1) as graph:
        untried = graph.add(owner="ana", text="never tried").id
        case = graph.learn(Trajectory("case", "ana", "which tea?", answer="green"), 0.3).cases
        retired = [graph.learn(trip(word, f"{word} {word}s {word}ing"), 0.3).retired for word in words[:4]]
        assert retired[:2] == [(), ()]
        assert [graph.history(one).versions[0].text.split()[0] for (one,) in retired[2:]] == ["tea", "coffee"]
        assert {one.id for one in graph.skills(owner="ana")} >= {untried, *case}


def test_an_extractor_may_be_anybodys_and_is_checked() -> None:
    with opened(extractor=drafting("fine", "x" * 30_000)) as graph, pytest.raises(BadInputError, match="30000"):
        graph.learn(trip("t1"), 0.9)
    with opened(extractor=drafting("a", "b", "c", "d", "e")) as graph:
        assert len(graph.learn(trip("t1"), 0.9).added) == 3  # new_skills


@pytest.mark.parametrize(
    ("changed", "reward"),
    [
        ({"id": ""}, 0.9),
        ({"query": "x" * 10_000_000}, 0.9),
        ({"unknown": 1}, 0.9),
        ({"steps": [{"tool": "no action"}]}, 0.9),
        ({}, float("nan")),
        ({}, "good"),
    ],
)
def test_a_trajectory_that_cannot_be_is_refused_and_nothing_learned(changed: dict[str, Any], reward: Any) -> None:
    with opened() as graph:
        with pytest.raises(BadInputError) as refusal:
            graph.learn({"id": "t", "user": "ana", "query": "q", "outcome": "offer it", **changed}, reward)
        assert refusal.value.fix
        assert graph.admin.stats().nodes == {"skill": 0}


# What users say: also after a failure, and when they say something else later


def say(graph: SkillGraph, name: str, words: str, reward: float = 0.9, *, about: str = "dining") -> Learned:
    return graph.learn(Trajectory(name, "ana", "a table for two", (about,), (), words), reward)


def texts(graph: SkillGraph, about: str = "dining") -> set[str]:
    return {hit.skill.text for hit in graph.recall(about, user="ana", k=20)}


def test_what_a_user_says_after_a_failure_is_learned() -> None:
    with opened(extractor=AS_SAID) as graph:
        learned = say(graph, "t1", "I prefer quiet tables.", reward=0.2)

        assert texts(graph) == {"For dining: I prefer quiet tables."}
        assert graph.get(learned.added[0]).uses == 0  # it wasn't tried, so the failure isn't its own
        assert "TRIGGERS" not in graph.admin.stats().edges
        for name, words in (("t2", "My password is hunter2."), ("t3", "Forget that I have a dog.")):
            assert say(graph, name, words).added == ()
    with opened(extractor=AS_SAID, wishes_from=0.5) as graph:
        say(graph, "t1", "I prefer quiet tables.", reward=0.2)
        say(graph, "t2", "I prefer round tables.", reward=0.5)

        assert texts(graph) == {"For dining: I prefer round tables."}


def test_the_opposite_in_nearly_the_same_words_becomes_the_newest_version_unless_both_shall_stay() -> None:
    with opened(extractor=AS_SAID, merge_above=0.5) as graph:
        first = say(graph, "t1", "I prefer quiet tables near the window.")
        (old,) = texts(graph)

        graph.connect(first.added[0], "COMPLEMENTS", graph.add(owner="ben", text="reserve a quiet table").id)
        second = say(graph, "t2", "I prefer loud tables near the window.")

        (new,) = texts(graph)
        assert new != old
        assert second.updated == first.added
        assert "COMPLEMENTS" not in graph.admin.stats().edges, "nobody knows whether the new one does"
        assert [version.text for version in graph.history(first.added[0]).versions] == [old, new]
    with opened(extractor=AS_SAID, merge_above=0.5, newest_wins=False) as graph:
        for name, words in (("t1", "quiet"), ("t2", "loud")):
            say(graph, name, f"I prefer {words} tables near the window.")
        assert len(texts(graph)) == 2


# What the extractor that ships takes from a trajectory


def drafts(outcome: str = "", steps: tuple[Step, ...] = (), maximum: int = 3) -> list[SkillDraft]:
    query = "my card 4111 1111 was charged twice"
    return extract(Trajectory("t1", "ana", query, ("refund",), steps, outcome), maximum)


def test_what_the_user_said_is_taken_as_it_was_said_and_nothing_else() -> None:
    steps = Step("try the card", "card", worked=False), Step("send a check instead", "mail"), Step("wait")
    found = drafts("I'd rather have the aisle. Am Fenster!", steps)
    assert [one.text for one in found] == ["For refund: I'd rather have the aisle.", "For refund: Am Fenster!"]
    assert [(one.tools, one.scenarios) for one in found] == [(("mail",), ("refund",))] * 2
    assert drafts("...") == drafts(steps=steps) == drafts("Likes tea.", maximum=0) == []
    assert len(drafts("Likes tea " * 90)[0].text) < 150
    assert len(drafts("Wants tea. Prefers mornings. Dislikes forms. Likes maps.")) == 3
    with pytest.raises(BadInputError, match="-1 skills"):
        drafts(maximum=-1)


@pytest.mark.parametrize("outcome", ["Wants mail at ana@home.org", "Prefers calls on +49 (30) 123-456", "Wants 4111"])
def test_what_is_private_stays_out(outcome: str) -> None:
    assert drafts(outcome) == []
