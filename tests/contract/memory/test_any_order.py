"""Two tenants with two users each, in any order of calls, beside a model of the memory in plain Python.

After every call, each tenant has exactly the skills, versions, uses and trajectories that the model has, and each user
recalls exactly what they may see. The model knows texts of one word each, so that nothing states or contradicts
anything, and trajectories in which nobody says anything: what those teach is held elsewhere.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from agentfw_memory import BadInputError, NewSkill, SkillGraph, Trajectory, UnknownSkillError

TENANTS, USERS = ("ours", "theirs"), ("ana", "ben")
WORDS = ("amber", "birch", "copper", "delta", "ember")
tenants, users, words = st.sampled_from(TENANTS), st.sampled_from(USERS), st.sampled_from(WORDS)
rewards, places = st.sampled_from([0.25, 0.75]), st.integers(0, 30)
"""A place stands for one of the skills that there are, counted from the first."""


@dataclass
class KnownSkill:
    owner: str
    texts: list[str]
    """Its versions, the current one last."""
    shared: bool
    live: bool = True
    rewards: list[float] = field(default_factory=list)
    used_by: list[str] = field(default_factory=list)
    """The user of each of these rewards."""


@dataclass
class KnownTenant:
    """What a tenant should have."""

    skills: dict[str, KnownSkill] = field(default_factory=dict)
    trajectories: dict[str, tuple[str, str]] = field(default_factory=dict)
    """User and query by id."""

    def named(self, place: int) -> str | None:
        return list(self.skills)[place % len(self.skills)] if self.skills else None

    def twin(self, owner: str, text: str) -> str | None:
        for name, skill in self.skills.items():
            if skill.live and skill.owner == owner and skill.texts[-1] == text:
                return name
        return None

    def visible(self, user: str) -> dict[str, str]:
        seen = {name: one for name, one in self.skills.items() if one.live and (one.shared or one.owner == user)}
        return {name: skill.texts[-1] for name, skill in seen.items()}

    def erase(self, name: str) -> None:
        """The skill, past versions of its owner that say the same, and what told it of their trajectories."""
        gone = self.skills.pop(name)
        for other, skill in list(self.skills.items()):
            if skill.owner != gone.owner:
                continue
            now = skill.texts[-1:] if skill.live else []
            past = skill.texts[:-1] if skill.live else skill.texts
            skill.texts = [text for text in past if text not in gone.texts] + now
            if not skill.texts:
                del self.skills[other]
        for told, (user, query) in self.trajectories.items():
            if user == gone.owner and query in gone.texts:
                self.trajectories[told] = user, ""

    def forget(self, user: str) -> None:
        self.skills = {name: skill for name, skill in self.skills.items() if skill.owner != user}
        self.trajectories = {name: told for name, told in self.trajectories.items() if told[0] != user}
        for skill in self.skills.values():
            kept = [place for place, one in enumerate(skill.used_by) if one != user]
            skill.rewards = [skill.rewards[place] for place in kept]
            skill.used_by = [skill.used_by[place] for place in kept]


class TwoTenants(RuleBasedStateMachine):
    """Calls on one store. A subclass says where it is."""

    new_store: Callable[[], str]
    folder: Path

    @initialize()
    def open(self) -> None:
        self.where = self.new_store()
        self.known = {tenant: KnownTenant() for tenant in TENANTS}
        self.graphs: dict[str, SkillGraph] = {}
        self.numbers = itertools.count(1)
        self.reopen()

    def reopen(self) -> None:
        for graph in self.graphs.values():
            graph.close()
        self.graphs = {tenant: SkillGraph.open(self.where, tenant=tenant, embedder="hash:64") for tenant in TENANTS}

    def teardown(self) -> None:
        for graph in getattr(self, "graphs", {}).values():
            graph.close()

    def chosen(self, tenant: str, place: int) -> tuple[SkillGraph, KnownTenant, str, KnownSkill | None]:
        """A skill by its place, or an id that nobody has."""
        known = self.known[tenant]
        name = known.named(place) or "s999"
        return self.graphs[tenant], known, name, known.skills.get(name)

    @rule(tenant=tenants, user=users, text=words, shared=st.booleans())
    def add(self, tenant: str, user: str, text: str, shared: bool) -> None:
        known = self.known[tenant]
        (skill,) = self.graphs[tenant].add_all([NewSkill(user, text, visibility="shared" if shared else "private")])
        twin = known.twin(user, text)
        assert twin in (None, skill.id)
        if twin is None:
            assert skill.id not in known.skills, "an id is given once"
            known.skills[skill.id] = KnownSkill(user, [text], shared)

    @rule(tenant=tenants, place=places, text=words, shared=st.booleans())
    def update(self, tenant: str, place: int, text: str, shared: bool) -> None:
        graph, known, name, skill = self.chosen(tenant, place)

        def call() -> object:
            return graph.update(name, text=text, visibility="shared" if shared else "private")

        if skill is None or not skill.live:
            with pytest.raises(UnknownSkillError):
                call()
        elif known.twin(skill.owner, text) not in (None, name):
            with pytest.raises(BadInputError, match="already has this text"):
                call()
        else:
            call()
            if (text, shared) != (skill.texts[-1], skill.shared):
                skill.texts.append(text)
                skill.shared = shared

    @rule(tenant=tenants, place=places)
    def retire(self, tenant: str, place: int) -> None:
        graph, _, name, skill = self.chosen(tenant, place)
        if skill is None or not skill.live:
            with pytest.raises(UnknownSkillError):
                graph.retire(name)
        else:
            graph.retire(name)
            skill.live = False

    @rule(tenant=tenants, user=users, query=words, used=st.lists(places, max_size=3), reward=rewards)
    def learn(self, tenant: str, user: str, query: str, used: list[int], reward: float) -> None:
        known, name = self.known[tenant], f"t{next(self.numbers)}"
        skills = [one for one in dict.fromkeys(known.named(place) for place in used) if one is not None]
        told = Trajectory(name, user, query, skills=tuple(skills))
        assert not self.graphs[tenant].learn(told, reward).known_already
        assert self.graphs[tenant].learn(told, reward).known_already
        known.trajectories[name] = user, query
        for one in skills:
            if one in known.visible(user):
                known.skills[one].rewards.append(reward)
                known.skills[one].used_by.append(user)

    @rule(tenant=tenants, place=places)
    def erase(self, tenant: str, place: int) -> None:
        graph, known, name, skill = self.chosen(tenant, place)
        receipt = graph.delete(name)
        assert (receipt.skills > 0) == (skill is not None)
        if skill is not None:
            known.erase(name)

    @rule(tenant=tenants, user=users)
    def forget(self, tenant: str, user: str) -> None:
        receipt = self.graphs[tenant].forget(user)
        assert receipt.skills == sum(skill.owner == user for skill in self.known[tenant].skills.values())
        self.known[tenant].forget(user)

    @rule()
    def restart(self) -> None:
        self.reopen()

    @precondition(lambda self: any(known.skills for known in self.known.values()))
    @rule(tenant=tenants)
    def copy(self, tenant: str) -> None:
        """An export says all of it, and an import somewhere else is the same graph."""
        path = self.folder / "copy.jsonl"
        self.graphs[tenant].admin.export_jsonl(path)
        with SkillGraph.open(":memory:", tenant="copy", embedder="hash:64") as graph:
            graph.admin.import_jsonl(path)
            self.check(graph, self.known[tenant])
            graph.admin.export_jsonl(self.folder / "again.jsonl")
        assert (self.folder / "again.jsonl").read_bytes() == path.read_bytes()

    @invariant()
    def everything_is_as_it_should_be(self) -> None:
        for tenant in TENANTS if hasattr(self, "known") else ():
            self.check(self.graphs[tenant], self.known[tenant])

    def check(self, graph: SkillGraph, known: KnownTenant) -> None:
        live = {name: skill for name, skill in known.skills.items() if skill.live}
        for user in USERS:
            found = {skill.id: skill for skill in graph.skills(owner=user)}
            own = {name: skill.texts[-1] for name, skill in live.items() if skill.owner == user}
            assert {name: skill.text for name, skill in found.items()} == own
            for name, skill in found.items():
                rewards = live[name].rewards
                assert (skill.visibility == "shared") == live[name].shared
                assert skill.uses == len(rewards)
                assert skill.utility == pytest.approx(sum(rewards) / max(len(rewards), 1))
        for user in (*USERS, "cleo"):
            hits = graph.recall("amber delta", user=user, k=99, at_least=0.0)
            assert {hit.skill.id: hit.skill.text for hit in hits} == known.visible(user)
            assert len(hits) == len(known.visible(user))
        for name, one in known.skills.items():
            assert [version.text for version in graph.history(name).versions] == one.texts
        assert graph.admin.stats().nodes.get("skill", 0) == len(live)
        assert self.told(graph) == known.trajectories

    def told(self, graph: SkillGraph) -> dict[str, tuple[str, str]]:
        path = self.folder / "rows.jsonl"
        graph.admin.export_jsonl(path)
        rows: list[dict[str, Any]] = [json.loads(line) for line in path.read_text("utf-8").splitlines()[1:]]
        names = {row["number"]: row["name"] for row in rows if row["row"] == "node"}
        return {names[row["number"]]: (names[row["user"]], row["query"]) for row in rows if row["row"] == "trajectory"}


def run(folder: Path, new_store: Callable[[], str], examples: int, steps: int) -> None:
    machine = type("TwoTenantsSomewhere", (TwoTenants,), {"new_store": staticmethod(new_store), "folder": folder})
    chosen = settings(max_examples=examples, stateful_step_count=steps, suppress_health_check=list(HealthCheck))
    run_machine(machine, settings=chosen)


def test_on_a_file(tmp_path: Path) -> None:
    run(tmp_path, lambda: str(Path(tempfile.mkdtemp(dir=tmp_path)) / "skills.db"), examples=6, steps=20)


def test_on_a_server(tmp_path: Path, postgres_database: Callable[[str], str]) -> None:
    stores = (postgres_database(f"store {place}") for place in itertools.count())
    run(tmp_path, lambda: next(stores), examples=2, steps=12)
