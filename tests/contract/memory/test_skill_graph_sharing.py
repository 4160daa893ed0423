"""What users have in common is shared, and never what fewer than the required number have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentfw_memory import BadInputError, GraphSettings, SkillGraph, Trajectory

pytest.importorskip("igraph")


def opened(place: str | Path = ":memory:", **values: Any) -> SkillGraph:
    chosen = GraphSettings(**{"share_after": 3, **values})
    return SkillGraph.open(place, tenant="team", embedder="hash", settings=chosen)


def say(graph: SkillGraph, user: str, words: str, number: int = 0) -> None:
    graph.learn(Trajectory(f"{user} {number}", user, "a table", ("dining",), (), words), 0.5)


def shown_to(graph: SkillGraph, user: str) -> set[str]:
    return {hit.skill.text for hit in graph.recall("dining", user=user, k=50)}


def test_what_three_users_want_is_shown_to_a_fourth() -> None:
    with opened() as graph:
        for user in ("ana", "ben"):
            say(graph, user, "I prefer quiet tables.")
        assert shown_to(graph, "new") == set()

        say(graph, "cem", "I prefer quiet tables.")

        (hit,) = graph.recall("dining", user="new")
        assert (hit.skill.text, hit.skill.visibility) == ("For dining: I prefer quiet tables.", "shared")
        assert hit.skill.owner.startswith("*")


def test_nothing_is_shared_by_default() -> None:
    with opened(share_after=0) as graph:
        for user in ("ana", "ben", "cem"):
            say(graph, user, "I prefer quiet tables.")

        assert shown_to(graph, "new") == set()


@pytest.mark.parametrize("words", ["I prefer tables at Marios", "I prefer table 1234", "I prefer mail to a@b.org"])
def test_names_numbers_and_addresses_are_never_shared(words: str) -> None:
    with opened() as graph:
        for user in ("ana", "ben", "cem"):
            say(graph, user, words)

        assert shown_to(graph, "new") == set()


def test_forgetting_one_of_three_takes_it_back_with_every_byte(tmp_path: Path) -> None:
    with opened(tmp_path / "skills.db", merge_above=0.5) as graph:
        for user in ("ana", "ben"):
            say(graph, user, "I prefer quiet tables.")
        say(graph, "cem", "I prefer the quiet tables.")
        assert shown_to(graph, "new")

        for user in ("ana", "ben", "cem"):
            graph.forget(user)

        assert shown_to(graph, "new") == set()
    for file in tmp_path.iterdir():
        assert b"quiet tables" not in file.read_bytes()


def test_the_copy_keeps_no_wording_of_a_user_who_left(tmp_path: Path) -> None:
    with opened(tmp_path / "skills.db", merge_above=0.5) as graph:
        for user in ("ben", "cem", "dan"):
            say(graph, user, "I prefer quiet tables.")
        say(graph, "ana", "I prefer the quiet table.")
        assert shown_to(graph, "new") == {"For dining: I prefer quiet tables."}

        graph.forget("ben")

        assert shown_to(graph, "new") == {"For dining: I prefer quiet tables."}
        graph.forget("cem")
        assert shown_to(graph, "new") == set()


def test_who_says_something_else_is_no_longer_behind_it() -> None:
    with opened(merge_above=0.5) as graph:
        for user in ("ana", "ben", "cem"):
            say(graph, user, "I prefer quiet tables.")

        say(graph, "ana", "I prefer loud tables.", 1)

        assert shown_to(graph, "new") == set()


def test_reserved_names_are_refused() -> None:
    with opened() as graph:
        with pytest.raises(BadInputError, match="reserved"):
            say(graph, "*shared:1", "I prefer quiet tables.")
        with pytest.raises(BadInputError, match="reserved"):
            graph.add(owner="*shared:1", text="prefer quiet tables")
    with pytest.raises(BadInputError, match="share_after"):
        opened(share_after=2)
