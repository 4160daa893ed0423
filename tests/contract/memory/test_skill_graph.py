"""SkillGraph: who recalls what and why, and what is kept of a skill's past."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentfw_memory import BadInputError, GraphSettings, NewSkill, SkillDraft, SkillGraph, Trajectory, UnknownSkillError

OpenGraph = Callable[..., SkillGraph]


def texts(graph: SkillGraph, query: str, user: str, k: int = 5) -> list[str]:
    return [hit.skill.text for hit in graph.recall(query, user=user, k=k)]


# What is recalled


def test_the_likest_skill_comes_first_with_its_reasons(graph: SkillGraph) -> None:
    graph.add(owner="ana", text="offer the earliest slot first", tools=["calendar"], scenarios=["rescheduling"])
    graph.add(owner="ana", text="send a thank-you card")
    first, second = graph.recall("offer the earliest slot", user="ana")
    assert first.skill.text == "offer the earliest slot first"
    assert (first.skill.tools, first.skill.scenarios) == (("calendar",), ("rescheduling",))
    assert first.score > second.score
    assert first.why.query > second.why.query
    assert first.why.points["words"] > 0 > second.why.points["words"]
    assert first.why.path == "similar to the query"
    assert "words +0." in str(first.why)
    for owner in ("ben", "cem"):
        graph.add(owner=owner, text="call back", visibility="shared")
    of_equals = graph.recall("call back", user="dan")
    assert [hit.skill.owner for hit in of_equals] == ["cem", "ben"], "the newest first"


def test_a_score_is_the_weighted_sum_of_its_reasons(graph: SkillGraph) -> None:
    wanted = [NewSkill("ana", f"word{place} word{place + 1} slot", (), ("meeting",)) for place in range(8)]
    skills = [skill.id for skill in graph.add_all(wanted)]
    graph.connect(skills[0], "COMPLEMENTS", skills[2])
    graph.connect(skills[0], "CONFLICTS", skills[3])
    weights = graph.settings
    hits = graph.recall("word1 slot", user="ana", k=8)
    assert {hit.why.complement for hit in hits} == {hit.why.conflict for hit in hits} == {0.0, 1.0}
    for hit in hits:
        why = hit.why
        assert hit.score == pytest.approx(sum(why.points.values()), abs=1e-6)
        assert why.points["words"] + why.points["vectors"] == pytest.approx(weights.query_weight * why.query, abs=1e-6)
        assert why.points["complement"] == pytest.approx(weights.complement_boost * why.complement)
        assert why.points["conflict"] == pytest.approx(-weights.conflict_weight * why.conflict)
        assert 0.0 <= why.points["community"] <= weights.community_weight * why.community + 1e-9


def test_what_others_keep_private_does_not_take_places(graph: SkillGraph) -> None:
    about: dict[str, Any] = {"metadata": {"kind": "note"}}
    graph.add_all([NewSkill("ana", f"move my meeting {place}", **about) for place in range(200)])
    graph.add_all([NewSkill("ben", f"meeting room {place}", **about) for place in range(12)])
    asked: list[dict[str, Any]] = [{}, {"where": {"kind": "note"}}]
    for options in asked:
        found = graph.recall("move my meeting", user="ben", k=10, **options)
        assert [hit.skill.owner for hit in found] == ["ben"] * 10


def test_of_two_that_contradict_greedy_choice_keeps_the_better_one_whole(open_graph: OpenGraph) -> None:
    greedy = GraphSettings(user_weight=0.0, community_weight=0.0)
    together = replace(greedy, conflicts_with="candidates")
    for settings, conflicts in ((together, [1.0, 1.0]), (greedy, [0.0, 1.0])):
        graph = open_graph(":memory:", settings=settings)
        one = graph.add(owner="ana", text="offer the earliest slot").id
        other = graph.add(owner="ana", text="offer another slot").id
        graph.connect(one, "CONFLICTS", other)
        hits = graph.recall("offer the earliest slot", user="ana")
        assert [(hit.skill.id, hit.why.conflict) for hit in hits] == list(zip((one, other), conflicts, strict=True))
        assert [graph.disconnect(other, "CONFLICTS", one) for _ in range(2)] == [True, False], "it has no direction"
        assert not graph.disconnect(one, "REQUIRES", "kettle")
        assert "tool" not in graph.admin.stats().nodes, "what nobody has isn't made by ending its edge"
        assert [hit.why.conflict for hit in graph.recall("offer the earliest slot", user="ana")] == [0.0, 0.0]


def test_a_profile_says_what_a_user_is_like(graph: SkillGraph) -> None:
    for text in ("plain words here", "mint tea for guests", "black coffee at noon"):
        graph.add(owner="ben", text=text, visibility="shared")
    assert all(hit.why.user == 0.0 for hit in graph.recall("a drink", user="ana"))
    graph.set_profile("ana", "mint tea")
    likes = {hit.skill.text: hit.why for hit in graph.recall("a drink", user="ana")}
    assert max(likes, key=lambda text: likes[text].user) == "mint tea for guests"
    assert likes["mint tea for guests"].points["user"] > 0.0, "also where nothing was used yet"


def test_a_user_without_a_profile_is_the_mean_of_their_skills(graph: SkillGraph) -> None:
    graph.add(owner="ana", text="mint tea")
    graph.recall("drink", user="ana")  # from here on the mean is kept up to date
    graph.add(owner="ana", text="black coffee")
    graph.update("s2", text="green tea")
    rows = graph.embedder.embed(["green tea", "black coffee"])
    mean = rows.sum(0) / np.linalg.norm(rows.sum(0))
    whys = {hit.skill.text: hit.why.user for hit in graph.recall("drink", user="ana")}
    likeness = dict(zip(("green tea", "black coffee"), (rows @ mean).tolist(), strict=True))
    assert whys == pytest.approx(likeness, abs=1e-5)
    graph.retire("s3")
    assert [hit.why.user for hit in graph.recall("drink", user="ana")] == pytest.approx([1.0])


@pytest.mark.parametrize("in_memory_up_to", [0, GraphSettings().in_memory_up_to])
def test_another_process_sees_all_that_this_one_does(where: str, open_graph: OpenGraph, in_memory_up_to: int) -> None:
    one, other = (open_graph(where, settings=GraphSettings(in_memory_up_to=in_memory_up_to)) for _ in range(2))
    skill = one.add(owner="ana", text="first words")
    assert texts(other, "words", "ana") == ["first words"]
    one.update(skill.id, text="second words")
    assert texts(other, "words", "ana") == ["second words"]
    assert texts(other, "words", "ben") == []
    one.update(skill.id, visibility="shared")
    assert texts(other, "words", "ben") == ["second words"]
    one.update(skill.id, visibility="private")
    for graph in (one, other):
        assert (texts(graph, "words", "ana"), texts(graph, "words", "ben")) == (["second words"], [])
    other.delete(one.add(owner="ben", text="words of another", visibility="shared").id)
    assert texts(one, "words", "ben") == []
    one.retire(skill.id)
    assert texts(other, "words", "ana") == []
    one.add(owner="ana", text="third words", visibility="shared")
    assert texts(other, "words", "ben") == ["third words"]
    one.forget("ana")
    assert texts(other, "words", "ben") == []
    one.add(owner="ana", text="fourth words")
    for profile, alike in (("fourth words", True), ("switch on the lamp", False)):
        one.set_profile("ana", profile)
        assert [(hit.skill.text, hit.why.user > 0.9) for hit in other.recall("words", user="ana")] == [
            ("fourth words", alike)
        ]


# The form of the paper

REFERENCE = Path(__file__).parents[3] / "docs/reference/skill-graph.md"
OLDER, NEWER = "My office is on floor 3", "My office floor has changed to 7"


def told() -> dict[str, str]:
    """The settings of the table and what it says that they are in the paper's form."""
    section = REFERENCE.read_text("utf-8").split("### The form of the paper")[1].split("\n## ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    named = [(re.findall(r"`([^`]+)`", names), re.findall(r"`([^`]+)`", values)) for names, values in rows]
    return {name: value for names, values in named for name, value in zip(names, values, strict=True)}


def test_the_reference_tells_each_setting_of_the_papers_form() -> None:
    full = GraphSettings.ablation("full")
    values = {field.name: getattr(full, field.name) for field in fields(full)}

    assert told().keys() == values.keys()
    for name, value in told().items():
        assert (value if isinstance(values[name], str) else literal_eval(value)) == values[name], name


def outcome(trajectory: Trajectory, at_most: int) -> list[SkillDraft]:
    """An extractor that drafts the outcome."""
    return [SkillDraft(trajectory.outcome)]


def test_the_papers_owner_hop_leads_to_what_others_have_learned(open_graph: OpenGraph) -> None:
    """Skills of others are found through an owner (49) only if they may be seen."""
    paper = GraphSettings.ablation("full")
    for settings, found in ((GraphSettings(), []), (paper, [("Use phone", "same owner (ana)")])):
        chosen = replace(settings, candidates=1, user_weight=5.0)
        graph = open_graph(":memory:", embedder="hash", settings=chosen, extractor=outcome)
        for place, tool in enumerate(("calendar", *(f"tool{one}" for one in range(12)), "phone")):
            graph.learn(Trajectory(f"t{place}", "ana", "q", outcome=f"Use {tool}"), 1.0)
        graph.set_profile("ben", "use phone")
        hits = graph.recall("use calendar", user="ben", k=1)
        assert [(hit.skill.text, hit.why.path.partition(" as ")[0]) for hit in hits] == found


def test_hits_about_the_same_thing_stay_in_the_order_of_the_papers_score(open_graph: OpenGraph) -> None:
    """By default the newer of two statements that differ in a value of one kind comes first."""
    for settings, order in ((GraphSettings(), [NEWER, OLDER]), (GraphSettings.ablation("full"), [OLDER, NEWER])):
        graph = open_graph(":memory:", embedder="hash", settings=settings)
        graph.add_all(NewSkill("ana", text, valid_from=1e9 + 1e6 * place) for place, text in enumerate((OLDER, NEWER)))
        for k in (2, 1):
            found = [hit.skill.text for hit in graph.recall("which floor is my office on?", user="ana", k=k)]
            assert found == order[:k]
        older = next(skill.id for skill in graph.skills(owner="ana") if skill.text == OLDER)
        graph.learn(Trajectory("t", "ana", "which floor is my office on?", shown=(older,)), 1.0)
        rated = graph.recall("which floor is my office on?", user="ana")
        assert rated[0].skill.id == older, "what the user liked keeps its place"


@pytest.mark.parametrize("name", ["A1", "A2", "B1", "B2", "B3", "B4"])
def test_each_ablation_turns_its_part_off(name: str) -> None:
    chosen = GraphSettings.ablation(name)
    with SkillGraph.open(":memory:", tenant="team", embedder="hash", settings=chosen) as graph:
        wanted = [NewSkill("ana", f"offer slot {place}", (), ("meeting",), "shared") for place in range(6)]
        skills = [skill.id for skill in graph.add_all(wanted)]
        graph.connect(skills[0], "COMPLEMENTS", skills[2])
        learned = graph.learn({"id": "t", "user": "ana", "query": "q", "outcome": "I always drink tea."}, 0.9)
        hits = graph.recall("offer slot 1", user="ana")
    assert bool(hits) == (name != "A1")
    assert bool(learned.added) == (name != "B3")
    for hit in hits:
        if name in ("A2", "B1"):
            assert hit.why.community == 0.0
        if name == "A2":
            assert hit.score == pytest.approx(0.4 * hit.why.query)
            assert hit.why.path == "similar to the query"
        if name == "B4":
            assert hit.why.query == 1.0 or "offer slot 1" not in hit.skill.text


# What is kept


def test_nothing_is_overwritten_and_the_past_can_be_asked_for(where: str, open_graph: OpenGraph) -> None:
    now = [100.0]
    graph = open_graph(where, clock=lambda: now[0])
    skill = graph.add(owner="ana", text="mornings", tools=["calendar"], valid_from=40.0)
    now[0] = 200.0
    graph.update(skill.id, text="afternoons", tools=["phone"], valid_from=150.0)
    now[0] = 300.0
    graph.retire(skill.id)
    for when, held in ((30.0, []), (60.0, ["mornings"]), (150.0, ["afternoons"]), (299.0, ["afternoons"]), (300.0, [])):
        hits = graph.recall("mornings or afternoons?", user="ana", as_of=when, at_least=0.0)
        assert [hit.skill.text for hit in hits] == held
    history = graph.history(skill.id)
    assert [(v.text, v.valid_from, v.valid_to, v.recorded_at) for v in history.versions] == [
        ("mornings", 40.0, 150.0, 100.0),
        ("afternoons", 150.0, 300.0, 200.0),
    ]
    assert [(e.kind, e.source, e.target, e.valid_to) for e in history.edges] == [
        ("OWNS", "user:ana", f"skill:{skill.id}", 300.0),
        ("REQUIRES", f"skill:{skill.id}", "tool:calendar", 200.0),
        ("REQUIRES", f"skill:{skill.id}", "tool:phone", 300.0),
    ]
    with pytest.raises(UnknownSkillError):
        graph.get("x")


def test_the_same_text_of_one_owner_is_one_skill_and_a_batch_is_taken_whole_or_not_at_all(graph: SkillGraph) -> None:
    first = graph.add(owner="ana", text="mornings", tools=["calendar"])
    again = graph.add(owner="ana", text="mornings", tools=["phone"])
    assert again.id == first.id
    assert again.tools == ("calendar", "phone")
    assert graph.add(owner="ben", text="mornings").id != first.id
    batch = graph.add_all([NewSkill("cleo", "tea"), NewSkill("cleo", "coffee"), NewSkill("cleo", "tea", ("pot",))])
    assert batch[0].id == batch[2].id != batch[1].id
    assert graph.get(batch[0].id).tools == ("pot",)
    with pytest.raises(BadInputError, match="empty"):
        graph.add_all([NewSkill("ana", "fine"), NewSkill("ana", "  ")])
    assert graph.add_all([]) == []
    assert graph.admin.stats().nodes["skill"] == 4


def test_an_update_keeps_what_it_does_not_name(graph: SkillGraph) -> None:
    also: dict[str, Any] = {"metadata": {"kind": "wish"}, "expires_at": 9e9}
    skill = graph.add(owner="ana", text="mornings", tools=["calendar"], scenarios=["meeting"], **also)
    changed = graph.update(skill.id, visibility="shared", tools=[])
    assert (changed.text, changed.visibility) == ("mornings", "shared")
    assert (changed.metadata, changed.expires_at) == (also["metadata"], also["expires_at"])
    assert (changed.tools, changed.scenarios) == ((), ("meeting",))


def test_skills_are_of_the_scenarios_and_tools_that_they_have_now_and_of_one_owner(graph: SkillGraph) -> None:
    skill = graph.add(owner="ana", text="mornings", tools=["calendar"], scenarios=["meeting"], visibility="shared").id
    theirs = graph.add(owner="ben", text="evenings", tools=["calendar"], scenarios=["meeting"], visibility="shared").id
    assert [one.id for one in graph.skills(owner="ana", scenario="meeting")] == [skill]

    graph.update(skill, tools=["phone"], scenarios=["lunch"])

    assert graph.skills(owner="ana", scenario="meeting") == []
    assert [one.id for one in graph.skills(owner="ana", scenario="lunch")] == [skill]
    asked: list[dict[str, Any]] = [{"scenario": "meeting"}, {"tools": ["calendar"]}]
    for context in asked:
        hits = graph.recall("when?", user="ana", **context)
        assert {hit.skill.id for hit in hits if hit.why.context} == {theirs}


def test_statistics_count_what_is_there(graph: SkillGraph) -> None:
    graph.add(owner="ana", text="mornings", tools=["calendar"], scenarios=["meeting"], visibility="shared")
    graph.update(graph.recall("mornings", user="ana")[0].skill.id, text="afternoons")
    stats = graph.admin.stats()
    assert stats.nodes == {"scenario": 1, "skill": 1, "tool": 1, "user": 1}
    assert stats.edges == {"APPLIES_TO": 1, "OWNS": 1, "REQUIRES": 1}
    assert (stats.shared, stats.past_versions, len(stats.communities)) == (1, 1, 3)
    assert (stats.embedder, stats.embedder_version, stats.dimensions) == ("hash:256", "1", 256)
    assert stats.bytes_on_disk > 0


def test_it_goes_to_networkx_with_its_communities(graph: SkillGraph, tmp_path: Path) -> None:
    networkx = pytest.importorskip("networkx")
    skill = graph.add(owner="ana", text="mornings", tools=["calendar"])
    found = graph.admin.to_networkx()
    assert set(found) == {"user:ana", f"skill:{skill.id}", "tool:calendar"}
    assert found.has_edge("user:ana", f"skill:{skill.id}", key="OWNS")
    assert found.nodes[f"skill:{skill.id}"]["text"] == "mornings"
    assert found.nodes["user:ana"]["community_0"] == found.nodes[f"skill:{skill.id}"]["community_0"]
    networkx.write_graphml(found, tmp_path / "graph.graphml")
    assert len(networkx.read_graphml(tmp_path / "graph.graphml")) == 3
