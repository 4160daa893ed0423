"""Recall: returns the skills that fit a query and a user, with the reasons for them.

Skills are found in this process (embedded.py) or, where there are too many, in the database (in_database.py). Hits that
are about the same thing are in the order of their times, and those that were corrected are marked. What the user has
rated, or what a named scenario or tool brought, keeps its place. The answer is the graph as of the moment of the call,
and each returned skill is checked once more for whether this user may see it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import StorageError, StoreRefusedError
from ..communities import Membership
from ..graph_rows import GraphRows
from ..graph_settings import GraphSettings
from ..index.embedders import Embedder, embedded
from ..index.word_index import WordIndex
from ..records import Float32Array, Hit, NodeKind, Skill, Use, Why, skill_number
from ..stores.store import Among, Change, EmbedderRecord, Head, Select
from ..validation import fits
from ..words import terms
from .embedded import EmbeddedRecall
from .graph_cache import GraphCache
from .in_database import DatabaseRecall
from .ranking import Asked, Ranked

EVERY_ANSWER = "every answer"
"""How the fact ends that is stated by how a user wants to be answered. Unlike others, one may have several of these."""
COMPARED = 20  # maximum number of hits that are compared with each other
LONGEST_STATEMENT = 200
"""Maximum number of characters of what is compared by its words. A longer text says more than one thing."""
SAME_WORDS = 0.5  # share of the longer statement's terms that both must have
CANDIDATES = 4  # number of candidates by each way of finding what held at a time, for each skill to return
ATTEMPTS = 3
ORDERED = 10  # minimum number of hits among which those about the same thing are ordered by time
NEITHER = (0.0, 1.0)
"""The sum and the number of a skill's ratings before the first: as if it had been neither liked nor disliked once."""
CASES = "cases"
"""Name of the node that says that there are cases. Unlike a saved state, it stays when somebody is forgotten."""
NO_CASES: Mapping[str, Any] = {"case.answer": {"$exists": False}}
ALIKE = 20  # number of similar skills among which the first is looked for that isn't a case
NOBODY = 0  # the number of a user who isn't in the store yet. No node has it


class Recaller:
    """What one process recalls from one tenant. Not thread-safe."""

    def __init__(self, rows: GraphRows, embedder: Embedder, settings: GraphSettings) -> None:
        self.rows, self.embedder, self.settings = rows, embedder, settings
        self._maker = record_of(embedder)
        self._by: EmbeddedRecall | DatabaseRecall = EmbeddedRecall(rows, settings, embedder)
        self._has_cases = False
        self.head = rows.store.head()  # what is known of the tenant, as of the latest call of the graph

    @property
    def cache(self) -> GraphCache:
        return self._by.cache

    @property
    def membership(self) -> Membership | None:
        return self._by.membership

    def embed(self, texts: list[str], *, query: bool = False) -> Float32Array:
        """Return the vectors of texts, or of queries, which some models tell apart."""
        return embedded(self.embedder, texts, query=query)

    def check_embedder(self, present: EmbedderRecord | None) -> None:
        """Raise StoreRefusedError if another process has re-embedded the tenant."""
        if present != self._maker:
            there, ours = (
                f"{one.name} (version {one.version or 'unknown'}, {one.dimensions} dimensions)" if one else "nobody"
                for one in (present, self._maker)
            )
            raise StoreRefusedError(
                f'the vectors of tenant "{self.rows.store.tenant}" were made by {there}, not by {ours}',
                fix="open it with that embedder, or re-embed it: SkillGraph.reembed(path, tenant=..., embedder=...)",
            )

    def catch_up(self, upto: int | None = None, *, head: Head | None = None) -> None:
        """Take over all changes of the store, or those up to the change `upto`."""
        if upto is not None and isinstance(self._by, EmbeddedRecall) and self.cache.counter == upto:
            return
        now = head or self.rows.store.head()
        self.check_embedder(now.embedder)
        for _ in range(2):  # it may outgrow this process by what it takes over
            if isinstance(self._by, EmbeddedRecall) and self._by.outgrown():
                self._by = DatabaseRecall(self.rows, self.settings, self.embedder)
            self._by.catch_up(now, now.counter if upto is None else upto)

    def recall(
        self,
        query: str,
        user: str,
        k: int,
        at_least: float,
        *,
        where: Mapping[str, Any] | None = None,
        scenarios: Sequence[str] = (),
        tools: Sequence[str] = (),
    ) -> list[Hit]:
        """Return the k best skills that are at least so relevant, and whose metadata fits `where`. Cases are recalled
        only where `where` asks for them."""
        settings = self.settings
        if not settings.candidates:
            return []
        where = self._without_cases(where or {})
        vector = None if settings.query_similarity == "words" else self.embed([query], query=True)[0]
        self.catch_up(head=self.head)
        about, named = self._known("scenario", scenarios), self._known("tool", tools)
        for _ in range(ATTEMPTS):
            reader = self.rows.user(user)
            asked = Asked(query, vector, reader, max(k, ORDERED), at_least, where, about, named)
            ranked = self._by.rank(asked)
            skills = self._by.read([one.number for one in ranked], user, reader)
            if where:
                skills = {number: skill for number, skill in skills.items() if fits(skill.metadata, where)}
            if len(skills) == len(ranked):
                break
            # Another process has just removed one of them or made it private.
            self.head = self.rows.store.head()
            self.catch_up(head=self.head)
        if reader is not None and settings.rating_weight:
            ranked = self._by_ratings(query, ranked, reader)
        hits = [_hit(one, skills[one.number]) for one in ranked if one.number in skills]
        return (newest_first(query, self._with_newer(hits, reader, where)) if settings.newest_first else hits)[:k]

    def recall_as_of(
        self, query: str, user: str, k: int, when: float, where: Mapping[str, Any], **context: Any
    ) -> list[Hit]:
        """Return the k best skills of those that held at a time, as they were then. Texts that no longer hold are in no
        index. They are found by their words, and those that still hold by the usual recall. Then both are embedded and
        compared with the query in the same way."""
        where = self._without_cases(where)
        then = self.rows.held_at(when, self.rows.find("user", user) or NOBODY)
        held = {number: skill for number, skill in then.items() if fits(skill.metadata, where)}
        words = WordIndex()
        for number, skill in held.items():
            words.put(number, skill.text)
        question = words.question(query, None)
        by_recall = self.recall(query, user, CANDIDATES * k, at_least=0.0, where=where, **context)
        both = [*question.best(CANDIDATES * k).tolist(), *(skill_number(hit.skill.id) for hit in by_recall)]
        found = [number for number in dict.fromkeys(both) if number in held]
        if not found:
            return []
        by_vector = self.embed([held[number].text for number in found]) @ self.embed([query], query=True)[0]
        score = by_vector + question.scores(np.array(found, np.int64))
        now, hits = self.rows.skills(found), list[Hit]()
        for place in sorted(range(len(found)), key=lambda place: -score[place]):
            number = found[place]
            skill = replace(held[number], fact=now[number].fact if number in now else "")
            why = Why(float(by_vector[place]), *(0.0,) * 5, path="held at that time")
            hits.append(Hit(float(score[place]), skill, why))
        return newest_first(query, hits)[:k]

    def _without_cases(self, where: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a filter that leaves cases out, unless it asks for them."""
        asks = any(name.partition(".")[0] == "case" for name in where)
        self._has_cases = self._has_cases or self.rows.find("case", CASES) is not None
        return where if asks or not self._has_cases else {**where, **NO_CASES}

    def no_cases(self, numbers: Sequence[int]) -> list[int]:
        """Return those of these skills that aren't cases."""
        about = self.rows.metadata(numbers)
        return [one for one in numbers if fits(about.get(one, {}), NO_CASES)]

    def _with_newer(self, hits: list[Hit], reader: int | None, where: Mapping[str, Any]) -> list[Hit]:
        """Return hits with what is newer than one of them about the same thing, just before it."""
        shown, whole = {hit.skill.id for hit in hits}, list[Hit]()
        for hit in hits:
            if (fact := hit.skill.fact) and not fact.endswith(EVERY_ANSWER):
                known = self.rows.skills(self.rows.stating(fact), reader or NOBODY).values()
                fitting = (one for one in known if fits(one.metadata, where))
                newest = max(fitting, key=lambda one: one.valid_from, default=hit.skill)
                if newest.valid_from > hit.skill.valid_from and newest.id not in shown:
                    shown.add(newest.id)
                    path = f"newer than {hit.skill.id} about the same thing"
                    whole.append(replace(hit, skill=newest, why=replace(hit.why, path=path)))
            whole.append(hit)
        return whole

    def _by_ratings(self, query: str, ranked: list[Ranked], reader: int) -> list[Ranked]:
        """Return skills in the order of their scores with what the user thought of answers that they were shown for.
        Each rating has the weight of its question's similarity. Every rating is one among others, so a wrong one is
        outweighed by later right ones."""
        if not (some := self._by.rated([one.number for one in ranked])):
            return ranked
        shown = {"target": Among(some), "kind": "SHOWN", "valid_to": None}
        trips = {"number": Among(Select("edge", ("source",), shown)), "user": reader}
        edges, questions = self.rows.store.read(
            Select("edge", ("row", "source", "target", "weight"), shown),
            Select("trajectory", ("number", "query"), trips),
        )
        if not questions:
            return ranked
        asked, asked_then = frozenset(terms(query)), {trip: frozenset(terms(one)) for trip, one in questions}
        sums: dict[int, tuple[float, float]] = {}
        for _, trip, skill, reward in sorted(edges):
            if trip in asked_then:
                then = asked_then[trip]
                alike = float(len(asked & then) / (len(asked) * len(then)) ** 0.5) if asked and then else 0.0
                total, count = sums.get(skill, NEITHER)
                sums[skill] = total + alike * (2.0 * min(1.0, max(0.0, reward)) - 1.0), count + alike
        rated = []
        for one in ranked:
            total, count = sums.get(one.number, NEITHER)
            added = self.settings.rating_weight * total / count
            of, points = {**one.terms, "rating": total / count}, {**one.points, "rating": added}
            rated.append(replace(one, score=one.score + added, terms=of, points=points))
        return sorted(rated, key=lambda one: -one.score)

    def uses(self, trajectory: int, user: int, skills: Sequence[int], reward: float) -> list[Use]:
        """Return what a trajectory used, with the terms of these skills as they are before it is learned."""
        return self._by.uses(trajectory, user, skills, reward) if skills else []

    @contextlib.contextmanager
    def writing(self, *, waits: bool = True) -> Iterator[Change]:
        """Open a write transaction, of which everything here is as of the change before."""
        self.catch_up(head=self.head)  # the slow part, before the write lock is taken
        with self.rows.writing(waits=waits) as change:
            self.catch_up(change.number - 1)
            yield change

    def focus(self, owner: str, scenarios: Sequence[str] = (), vectors: Iterable[Float32Array] = ()) -> None:
        """Have a user's skills at hand, and those of these scenarios that are most similar to some vectors."""
        if isinstance(self._by, DatabaseRecall):  # otherwise everything is
            self._by.focus(self.rows.find("user", owner) or NOBODY, self._known("scenario", scenarios), vectors)

    def _known(self, kind: NodeKind, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(one for one in (self.rows.find(kind, name) for name in names) if one is not None)

    def prepare(self) -> None:
        """Do what may take long: load everything and run a full pass over the communities."""
        self.catch_up()
        self._by.prepare()

    def communities(self) -> tuple[int, ...]:
        self.catch_up()
        return self._by.communities()

    def drop_communities(self) -> None:
        """Compute the communities again, because a user was forgotten."""
        if isinstance(self._by, EmbeddedRecall):  # otherwise they are computed when the graph is prepared
            self._by.membership = None
        self.catch_up()

    def close(self) -> None:
        """Save the communities for the next process, if anything was loaded. If another process has changed the
        embedder, or the store can't be reached, nothing is saved."""
        if self.cache.counter:
            with contextlib.suppress(StoreRefusedError, StorageError):
                self.catch_up()
                self._by.save()


def every_answer(user: int) -> str:
    """Return the fact that is stated by how a user wants to be answered. A name in it could outlive its user."""
    return f"{user}: {EVERY_ANSWER}"


def record_of(embedder: Embedder) -> EmbedderRecord:
    return EmbedderRecord(embedder.name, embedder.version, int(embedder.dimensions))


def _hit(one: Ranked, skill: Skill) -> Hit:
    path = "similar to the query" if not one.terms["context"] else "of the scenario or the tools that were named"
    if one.found is not None:
        how, candidate = one.found
        path = f"{how.format(owner=skill.owner, candidate=candidate)}, which is similar to the query"
    return Hit(one.score, skill, Why(**one.terms, path=path, points=one.points), one.relevance)


def newest_first(query: str, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits, in which those about the same thing have exchanged their places."""
    asked, ordered = frozenset(terms(query)), list(hits)
    groups: list[list[int]] = []
    for place, hit in enumerate(ordered[:COMPARED]):
        group = next((some for some in groups if _same_thing(asked, ordered[some[0]], hit)), None)
        if group is None:
            groups.append(group := [])
        group.append(place)
    for group in groups:
        by_time = sorted((hits[place] for place in group), key=lambda hit: -hit.skill.valid_from)
        for place, hit in zip(group, by_time, strict=True):
            same = hit.skill.fact != "" and hit.skill.fact == by_time[0].skill.fact
            older = same and hit.skill.valid_from < by_time[0].skill.valid_from
            ordered[place] = replace(hit, newer=by_time[0].skill.id) if older else hit
    return ordered


def _same_thing(asked: frozenset[str], one: Hit, other: Hit) -> bool:
    if one.why.rating or other.why.rating or one.why.context != other.why.context:
        return False
    facts = {hit.skill.fact for hit in (one, other)} - {""}
    if len(facts) == 1 and one.skill.fact == other.skill.fact and not one.skill.fact.endswith(EVERY_ANSWER):
        return True
    if one.skill.owner != other.skill.owner or max(len(one.skill.text), len(other.skill.text)) > LONGEST_STATEMENT:
        return False
    mine, theirs = frozenset(terms(one.skill.text)), frozenset(terms(other.skill.text))
    if (mine ^ theirs) & asked or not (mine and theirs):
        return False
    return len(mine & theirs) >= SAME_WORDS * max(len(mine), len(theirs)) and len(mine & theirs) > 1
