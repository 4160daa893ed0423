"""Communities in step with the store: kept for the next process, counted again where they can't be read."""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path

import pytest

from agentfw_memory import GraphSettings, MissingExtraError, NewSkill, SkillGraph
from agentfw_memory.graph.communities import Membership

pytest.importorskip("igraph")


def grow(graph: SkillGraph, count: int, *, seed: int = 7) -> list[str]:
    """Skills of two circles of four people, all with the same tools and scenarios; everybody uses their circle's."""
    generator = random.Random(seed)
    skills = graph.add_all(
        NewSkill(
            f"{circle} {generator.randrange(4)}",
            f"{circle} way {place}",
            (f"tool {generator.randrange(3)}",),
            (f"scenario {generator.randrange(3)}",),
            "shared",
        )
        for place in range(count)
        for circle in ("red", "blue")
    )
    for circle in ("red", "blue"):
        theirs = [skill.id for skill in skills if skill.owner.startswith(circle)]
        for trip in range(2 * count):
            use(graph, f"{circle} {trip}", f"{circle} {generator.randrange(4)}", generator.sample(theirs, 2))
    return [skill.id for skill in skills]


def use(graph: SkillGraph, trip: str, user: str, skills: list[str], reward: float = 0.9) -> None:
    graph.learn({"id": trip, "user": user, "query": "q", "skills": skills}, reward)


def circle_of(graph: SkillGraph, user: str) -> set[str]:
    """Whose skills are with a user on the widest level."""
    hits = graph.recall("way", user=user, k=200, at_least=0)
    return {hit.skill.owner.split()[0] for hit in hits if hit.why.community > 0.0}


def communities(graph: SkillGraph) -> dict[str, tuple[int, ...]]:
    return {
        name: tuple(data[f"community_{level}"] for level in range(3))
        for name, data in graph.admin.to_networkx().nodes(data=True)
        if "community_0" in data
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "skills.db"


@pytest.fixture(scope="module")
def circles(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A prepared graph of two circles, and its skills."""
    made = tmp_path_factory.mktemp("circles") / "skills.db"
    with SkillGraph.open(made, tenant="t", embedder="hash") as graph:
        skills = grow(graph, 30)
        graph.prepare()
    return made, skills


@pytest.fixture
def grown(circles: tuple[Path, list[str]], path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copy(circles[0], path))


def test_people_who_do_the_same_are_together(grown: Path) -> None:
    with SkillGraph.open(grown, tenant="t") as graph:
        assert circle_of(graph, "red 0") == {"red"}
        assert circle_of(graph, "blue 0") == {"blue"}
        found = communities(graph)
    assert {name.partition(":")[0] for name in found} == {"user", "skill"}, "tools and scenarios bring nobody together"


def test_who_comes_later_joins_those_they_are_bound_to(grown: Path) -> None:
    with SkillGraph.open(grown, tenant="t") as graph:
        before = communities(graph)
        hits = graph.recall("red way", user="red 0", k=200, at_least=0)
        reds = [hit.skill.id for hit in hits if hit.why.community == 1.0]
        use(graph, "the first of a newcomer", "a newcomer", reds[:3])
        new = graph.add(owner="a newcomer", text="way in")
        assert circle_of(graph, "a newcomer") == {"red", "a"}
        use(graph, "in vain", "somebody else", reds[:3], reward=0.04)
        assert circle_of(graph, "somebody else") == set(), "what didn't help brings nobody together"
        after = communities(graph)
        assert {name: after[name] for name in before} == before  # nobody else was moved for it
        assert after[f"skill:{new.id}"] == after["user:a newcomer"]


def similar_people(graph: SkillGraph) -> None:
    """Two circles whose profiles are alike. Everybody has many skills of their own, and none in common."""
    for circle, likes in (("red", "gardens and maps"), ("blue", "chess and novels")):
        for number in range(5):
            graph.set_profile(f"{circle} {number}", f"likes {likes}")
            graph.add_all(
                NewSkill(f"{circle} {number}", f"{circle} {number} way {place}", (), (), "shared") for place in range(8)
            )


def test_people_with_similar_profiles_are_together_and_a_newcomer_with_a_first_skill_stays_so(path: Path) -> None:
    with SkillGraph.open(path, tenant="t", embedder="hash") as graph:
        similar_people(graph)
        graph.prepare()
        assert circle_of(graph, "red 0") == {"red"}
        assert circle_of(graph, "blue 3") == {"blue"}

        graph.set_profile("new", "likes chess and gardening novels")
        assert circle_of(graph, "new") == {"blue"}
        graph.add(owner="new", text="my first way")
        assert circle_of(graph, "new") - {"new"} == {"blue"}


def test_what_people_of_two_circles_share_suits_both(path: Path) -> None:
    wishes = GraphSettings(share_after=3, calibrate=False)
    with SkillGraph.open(path, tenant="t", embedder="hash", settings=wishes) as graph:
        similar_people(graph)
        for circle, taste in (("red", "calm"), ("blue", "vivid")):
            for number in range(5):
                for words in (f"I prefer {taste} tables.", "I prefer fresh tables."):
                    trip = {"id": f"{circle} {number} {words}", "user": f"{circle} {number}", "query": "a table"}
                    graph.learn({**trip, "scenarios": ["dining"], "outcome": words}, 0.5)
        graph.prepare()
        graph.set_profile("new", "likes chess and gardening novels")

        hits = graph.recall("dining tables", user="new", k=50, at_least=0)

        together = {hit.skill.text.split()[-2]: hit.why.community for hit in hits if hit.skill.owner.startswith("*")}
        assert together["vivid"] > together["fresh"] > together["calm"]


def test_the_next_process_takes_them_up_where_they_were(grown: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SkillGraph.open(grown, tenant="t") as graph:
        graph.add(owner="red 0", text="one more way", tools=["red tool 1"])
        kept = communities(graph)

    def never(self: Membership) -> None:
        raise AssertionError("a full pass isn't needed")

    monkeypatch.setattr(Membership, "split_all", never)
    with SkillGraph.open(grown, tenant="t") as again:
        assert communities(again) == kept
    monkeypatch.undo()
    with SkillGraph.open(grown, tenant="t", settings=GraphSettings(resolutions=(1.0, 1.0, 1.0))) as again:
        assert len({*again.admin.stats().communities}) == 1, "those of other levels are of no use"


def test_missing_libraries_are_told_each_time_until_they_are_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SkillGraph.open(path, tenant="t", embedder="hash", settings=GraphSettings(calibrate=False)) as graph:
        skill = graph.add(owner="ana", text="way home")
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "igraph", None)
            for _ in range(2):
                with pytest.raises(MissingExtraError, match="communities") as missing:
                    graph.recall("way", user="ana")
                assert "[memory]" in missing.value.fix
        (hit,) = graph.recall("way", user="ana")
        assert hit.skill == skill
        assert hit.why.community > 0.0
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "igraph", None)
        for chosen in (GraphSettings(), GraphSettings.ablation("B1")):
            with SkillGraph.open(path, tenant="t", settings=chosen) as graph:
                assert [hit.skill for hit in graph.recall("way", user="ana")] == [skill]
