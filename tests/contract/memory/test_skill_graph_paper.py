"""The paper's form of the skill graph: the reference tells each setting, and rules of ours don't change it."""

from __future__ import annotations

import re
from ast import literal_eval
from dataclasses import fields, replace
from pathlib import Path

from agentfw_memory import GraphSettings, NewSkill, SkillDraft, SkillGraph, Trajectory

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


def test_the_papers_owner_hop_leads_to_what_others_have_learned() -> None:
    """Skills of others are found through an owner (49) only if they may be seen."""
    found = {}
    for name, settings in (("ours", GraphSettings()), ("paper", GraphSettings.ablation("full"))):
        chosen = replace(settings, candidates=1, user_weight=5.0)
        with SkillGraph.open(":memory:", tenant="t", embedder="hash", settings=chosen, extractor=outcome) as graph:
            for place, tool in enumerate(("calendar", *(f"tool{one}" for one in range(12)), "phone")):
                graph.learn(Trajectory(f"t{place}", "ana", "q", outcome=f"Use {tool}"), 1.0)
            graph.set_profile("ben", "use phone")
            hits = graph.recall("use calendar", user="ben", k=1)
            found[name] = [(hit.skill.text, hit.why.path.partition(" as ")[0]) for hit in hits]

    assert found == {"ours": [], "paper": [("Use phone", "same owner (ana)")]}


def test_hits_about_the_same_thing_stay_in_the_order_of_the_papers_score() -> None:
    """By default the newer of two statements that differ in a value of one kind comes first."""
    orders = {}
    for name, settings in (("ours", GraphSettings()), ("paper", GraphSettings.ablation("full"))):
        with SkillGraph.open(":memory:", tenant="t", embedder="hash", settings=settings) as graph:
            graph.add_all(
                NewSkill("ana", text, valid_from=1e9 + 1e6 * place) for place, text in enumerate((OLDER, NEWER))
            )
            orders[name] = [hit.skill.text for hit in graph.recall("which floor is my office on?", user="ana")]

    assert orders == {"ours": [NEWER, OLDER], "paper": [OLDER, NEWER]}
