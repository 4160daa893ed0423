"""The nodes, skills and edges of a tenant, as rows of a store.

A valid skill has a row in `live` and its valid version in `version`. A change ends a version or an edge and starts
another, so all that was is still there, until it is erased (forgetting.py).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from .records import Edge, EdgeKind, Float32Array, NodeKind, Skill, SkillHistory, SkillVersion, Use
from .row_types import LIVE, EdgeRow, LiveRows, SkillRow, digest, live_rows, version_insert
from .stores.sql import Store
from .stores.store import Among, Between, Change, Count, Delete, EmbedderRecord, Insert, Not, Select, Update, Where

EMBEDDED_AT_ONCE = 500  # number of texts that are embedded between two commits
READ_AT_ONCE = 20_000
MAXIMUM_CACHED_NAMES = 100_000
VERSION = ("number", "text", "visibility", "valid_from", "valid_to", "recorded_at", "metadata", "ordinal")
EDGE = ("kind", "source", "target", "weight", "valid_from")
TERMS = ("user_term", "community_term")


class GraphRows:
    """Reads and writes the graph of one tenant."""

    def __init__(self, store: Store) -> None:
        self.store, self.writing, self._read = store, store.writing, store.read
        self._names: dict[int, str] = {}
        self._users: dict[str, int] = {}

    def find(self, kind: NodeKind, name: str) -> int | None:
        """Return the number of a node, or None. Trajectories are found by their id."""
        found = self._column(Select("node", ("number",), {"kind": kind, "name": name}))
        return found[0] if found else None

    def nodes(self, change: Change, kind: NodeKind, names: Iterable[str]) -> dict[str, int]:
        """Return the numbers of nodes by name, creating missing ones. Not for skills and trajectories."""
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return {}
        known = dict(self._read(Select("node", ("name", "number"), {"kind": kind, "name": Among(wanted)}))[0])
        missing = [name for name in wanted if name not in known]
        if missing:
            known |= dict(zip(missing, self._new_nodes(change, kind, missing), strict=True))
        return {name: known[name] for name in wanted}

    def names(self, numbers: Collection[int]) -> dict[int, str]:
        """Return the names of these users, tools, scenarios and other nodes, without those that are forgotten."""
        # They never change, so they are cached.
        missing: Collection[int] = [number for number in numbers if number not in self._names]
        if missing:
            if len(self._names) > MAXIMUM_CACHED_NAMES:
                self._names.clear()
                missing = numbers
            self._names.update(self._read(Select("node", ("number", "name"), {"number": Among(missing)}))[0])
        return {number: self._names[number] for number in numbers if number in self._names}

    def user(self, name: str) -> int | None:
        """Return the number of a user, or None. Not inside a transaction, which may be undone."""
        if name not in self._users and (number := self.find("user", name)) is not None:
            if len(self._users) > MAXIMUM_CACHED_NAMES:
                self._users.clear()
            self._users[name] = number
        return self._users.get(name)

    def forget_names(self) -> None:
        """Read names again, because they may hold that of a user who was forgotten."""
        self._names.clear()
        self._users.clear()

    def profile(self, user: int) -> Float32Array | None:
        found = self._column(Select("profile", ("vector",), {"user": user}))
        return self.store.vectors(found)[0] if found else None

    def profiles(self, since: int) -> dict[int, Float32Array]:
        """Return the vectors of the profiles that changed after `since`, by user."""
        found = self._read(Select("profile", ("user", "vector"), {"changed": Between(above=since)}))[0]
        return {user: self.store.vectors([vector])[0] for user, vector in found}

    def add_skills(self, change: Change, rows: Sequence[SkillRow]) -> None:
        columns = ("number", "changed", "owner", "shared", "digest", "valid_from", "vector", "words")
        live = [(row.number, change.number, row.owner, *row.searched.values()) for row in rows]
        self.store.write(Insert("live", columns, live), version_insert(change, [(row, 0) for row in rows]))

    def replace_skill(self, change: Change, row: SkillRow) -> None:
        """End the current version at `row.valid_from` and start this one."""
        self._end_versions([row.number], row.valid_from)
        ordinals = self._column(Select("version", ("ordinal",), {"number": row.number}))
        self.store.write(
            version_insert(change, [(row, max(ordinals, default=-1) + 1)]),
            Update("live", {"number": row.number}, {"changed": change.number, **row.searched}),
            Delete("staged", {"number": row.number}),
        )

    def end_skills(self, change: Change, numbers: Sequence[int]) -> None:
        """End skills with their versions and edges. Their vectors are deleted, their history stays."""
        self._end_versions(numbers, change.now)
        self.note_ended(change, numbers)
        some, ended = Among(numbers), {"valid_to": change.now}
        self.store.write(
            Delete("live", {"number": some}),
            Update("edge", {"source": some, "valid_to": None}, ended),
            Update("edge", {"target": some, "valid_to": None}, ended),
            Delete("staged", {"number": some}),
        )

    def count_uses(self, change: Change, numbers: Sequence[int], reward: float) -> None:
        """Add a use with this reward to each of these skills."""
        used = Update("live", {"number": Among(numbers)}, {"changed": change.number}, {"uses": 1, "rewards": reward})
        self.store.write(used)

    def recount(self, change: Change, numbers: Sequence[int]) -> None:
        """Recompute uses and rewards of these skills from their valid EXECUTED edges."""
        where = {"target": Among(numbers), "kind": "EXECUTED", "valid_to": None}
        uses, rewards = Counter[int](), defaultdict[int, float](float)
        for _, skill, weight in sorted(self._read(Select("edge", ("row", "target", "weight"), where))[0]):
            uses[skill] += 1
            rewards[skill] += weight  # one by one, as `count_uses` does: `sum` rounds otherwise from Python 3.12 on
        for one in numbers:
            values = {"uses": uses[one], "rewards": rewards[one], "changed": change.number}
            self.store.write(Update("live", {"number": one}, values))

    def touch(self, change: Change, numbers: Iterable[int]) -> None:
        """Mark skills as changed, for example because an edge of theirs did. Those that this change added are."""
        where = {"number": Among(list(numbers)), "changed": Not(change.number)}
        self.store.write(Update("live", where, {"changed": change.number}))

    def note_ended(self, change: Change, numbers: Iterable[int]) -> None:
        """Tell other processes that these skills or users are gone."""
        self.store.write(Insert("ended", ("changed", "number"), [(change.number, number) for number in numbers]))

    def twins(self, pairs: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        """Return the numbers of valid skills that have one of these (owner, text) pairs. See `told_apart`."""
        asked = defaultdict[int, dict[str, str]](dict)
        for owner, text in pairs:
            asked[owner][digest(text)] = text
        columns = ("owner", "digest", "number")
        by_owner = [Select("live", columns, {"owner": one, "digest": Among(some)}) for one, some in asked.items()]
        found = self._read(*by_owner) if by_owner else []
        return {(owner, asked[owner][mark]): number for rows in found for owner, mark, number in rows}

    def live(self, numbers: Sequence[int] | None) -> Iterator[LiveRows]:
        """Yield the valid ones of these skills, or of all, by number, in batches."""
        if numbers is None:
            batches = self.store.scan("live", LIVE, {}, size=READ_AT_ONCE)
        else:
            some = (numbers[start : start + READ_AT_ONCE] for start in range(0, len(numbers), READ_AT_ONCE))
            batches = (self._read(Select("live", LIVE, {"number": Among(one)}))[0] for one in some)
        yield from (live_rows(self.store, batch) for batch in batches if batch)

    def changes(self, since: int) -> tuple[list[int], list[int], list[int]]:
        """Return what is gone since a change, the skills that changed, and the users whose profile did. Gone are skills
        that ended or were forgotten, and users that were forgotten."""
        later, columns = {"changed": Between(above=since)}, {"ended": "number", "live": "number", "profile": "user"}
        found = self._read(*(Select(table, (column,), later) for table, column in columns.items()))
        gone, changed, profiles = (sorted({number for (number,) in rows}) for rows in found)  # some were retired before
        if gone:
            self.forget_names()
        return gone, changed, profiles

    def expired(self) -> list[int]:
        where = {"expires_at": Between(high=self.store.now()), "valid_to": None}
        return self._column(Select("version", ("number",), where))

    def skills(self, numbers: Sequence[int], reader: int | None = None) -> dict[int, Skill]:
        """Return the valid ones of these skills, in this order. With a `reader`, only those that user may see."""
        if not numbers:
            return {}
        asked, valid = Among(list(numbers)), {"valid_to": None}
        kinds = ("REQUIRES", "APPLIES_TO", "STATES", "SAID_IN")
        about = ("number", "text", "visibility", "valid_from", "recorded_at", "ordinal", "metadata", "expires_at")
        live, versions, edges = self._read(
            Select("live", ("number", "owner", "uses", "rewards"), {"number": asked}),
            Select("version", about, {"number": asked, **valid}),
            Select("edge", ("row", "source", "kind", "target"), {"source": asked, "kind": kinds, **valid}),
        )
        used = {number: (owner, uses, rewards) for number, owner, uses, rewards in live}
        seen = {row[0]: row for row in versions if row[0] in used}
        if reader is not None:
            seen = {one: row for one, row in seen.items() if row[2] == "shared" or used[one][0] == reader}
        names = self.names({used[one][0] for one in seen} | {target for _, one, _, target in edges if one in seen})
        # Another process may just have forgotten the owner, with whatever nobody else is connected to.
        linked = defaultdict[tuple[int, str], list[str]](list)
        for _, source, kind, target in sorted(edges):
            if source in seen and target in names:
                linked[source, kind].append(names[target])
        found = {}
        for number in numbers:
            if number not in seen or used[number][0] not in names:
                continue
            _, text, visibility, since, recorded, ordinal, metadata, ends = seen[number]
            owner, uses, rewards = used[number]
            tools, scenarios, facts, talks = (tuple(linked[number, kind]) for kind in kinds)
            found[number] = Skill(
                id=f"s{number}",
                owner=names[owner],
                text=text,
                tools=tools,
                scenarios=scenarios,
                visibility=visibility,
                uses=uses,
                utility=rewards / uses if uses else 0.0,
                valid_from=since,
                recorded_at=recorded,
                metadata=_object(metadata),
                expires_at=ends,
                fact="".join(facts),
                conversation="".join(talks[-1:]),
                corrections=ordinal,
            )
        return found

    def texts(self, numbers: Sequence[int]) -> dict[int, str]:
        where = {"number": Among(list(numbers)), "valid_to": None}
        return dict(self._read(Select("version", ("number", "text"), where))[0])

    def metadata(self, numbers: Sequence[int] | None = None) -> dict[int, dict[str, Any]]:
        """Return the metadata of the valid ones of these skills, or of all, without those that have none."""
        some = {} if numbers is None else {"number": Among(list(numbers))}
        where = {**some, "valid_to": None, "metadata": Not("")}
        rows = self._read(Select("version", ("number", "metadata"), where))[0]
        return {number: _object(text) for number, text in rows}

    def owned(self, user: int) -> list[int]:
        return sorted(self._column(Select("live", ("number",), {"owner": user})))

    def skills_of(self, scenario: int) -> list[int]:
        """Return the valid skills that apply to a scenario or are triggered by it."""
        applies, triggers = self._read(
            Select("edge", ("source",), {"target": scenario, "kind": "APPLIES_TO", "valid_to": None}),
            Select("edge", ("target",), {"source": scenario, "kind": "TRIGGERS", "valid_to": None}),
        )
        return sorted({number for (number,) in (*applies, *triggers)})

    def in_context(
        self, scenarios: Sequence[int], tools: Sequence[int], numbers: Sequence[int] | None = None
    ) -> dict[int, float]:
        """Return the share of scenarios and tools (each as one) that each connected skill has, of these or of all."""
        some = {} if numbers is None else {"source": Among(numbers)}
        required = {"target": Among(tools), "kind": "REQUIRES", "valid_to": None, **some}
        found = Counter({skill for one in scenarios for skill in self.skills_of(one)})
        found.update(set(self._column(Select("edge", ("source",), required))) if tools else ())
        named = bool(scenarios) + bool(tools)
        return {one: found[one] / named for one in (found if numbers is None else numbers) if one in found}

    def held_at(self, when: float, reader: int) -> dict[int, Skill]:
        """Return what held at a time, of what this user may see. What was made private since is its owner's alone."""
        began = {"valid_from": Between(high=when)}
        columns = (*VERSION, "owner")
        shared, own = self._read(
            Select("version", columns, {"visibility": "shared", **began}),
            Select("version", columns, {"visibility": "private", "owner": reader, **began}),
        )
        of_others = {number for number, *_, owner in shared if owner != reader}
        latest = self._read(Select("version", ("number", "ordinal", "visibility"), {"number": Among(of_others)}))[0]
        seen = {number: visibility for number, _, visibility in sorted(latest)}
        rows = (*own, *(row for row in shared if seen.get(row[0]) != "private"))
        held = sorted((row for row in rows if row[4] is None or row[4] > when), key=lambda row: row[7])
        names = self.names({row[-1] for row in held})
        held = [row for row in held if row[-1] in names]
        found = {}
        for number, text, visibility, valid_from, valid_to, recorded_at, metadata, ordinal, owner in held:
            found[number] = Skill(
                id=f"s{number}",
                owner=names[owner],
                text=text,
                visibility=visibility,
                valid_from=valid_from,
                recorded_at=recorded_at,
                metadata=_object(metadata),
                valid_to=valid_to,
                corrections=ordinal,
            )
        return dict(sorted(found.items()))

    def history(self, number: int) -> SkillHistory:
        """Return all versions and edges of a skill, ended ones included, oldest first."""
        versions = self._read(Select("version", VERSION, {"number": number}))[0]
        columns = ("row", "kind", "source", "target", "weight", "valid_from", "valid_to", "recorded_at")
        rows = sorted(set(self._both_ends(columns, number, {})))
        ends = {end for _, _, *both, _, _, _, _ in rows for end in both}
        found = self._read(Select("node", ("number", "kind", "name"), {"number": Among(ends)}))[0]
        named = {one: f"{kind}:{name}" for one, kind, name in found}
        edges = (
            Edge(kind, named.get(source, f"skill:s{source}"), named.get(target, f"skill:s{target}"), *rest)
            for _, kind, source, target, *rest in rows
        )
        told = [
            SkillVersion(text, visibility, since, until, recorded_at, _object(metadata), ordinal)
            for _, text, visibility, since, until, recorded_at, metadata, ordinal in versions
        ]
        return SkillHistory(tuple(sorted(told, key=lambda one: one.number)), tuple(edges))

    def add_edges(self, change: Change, rows: Sequence[EdgeRow]) -> int:
        """Add edges and return how many are new. An edge that exists with the same weight stays. With another weight
        the old edge ends and a new one starts."""
        if not rows:
            return 0
        # The unique index over valid edges rejects an edge that exists.
        columns = (*EDGE, *TERMS, "recorded_at")
        begun = (row if row.valid_from is not None else row._replace(valid_from=change.now) for row in rows)
        values = [(*row, change.now) for row in begun]
        (new,) = self.store.write(Insert("edge", columns, values, existing="keep"))
        for row in rows if new != len(rows) else ():
            if self._column(Select("edge", ("weight",), row.where))[0] != row.weight:
                self.end_edges(change, [row])
                new += self.add_edges(change, [row])
        return new

    def end_edges(self, change: Change, rows: Sequence[EdgeRow]) -> int:
        return sum(self.store.write(*(Update("edge", row.where, {"valid_to": change.now}) for row in rows)))

    def add_trajectory(self, change: Change, name: str, user: int, query: str, outcome: str, reward: float) -> int:
        """Add a trajectory and return its number. Its steps and messages are not kept."""
        (number,) = self._new_nodes(change, "trajectory", [name])
        columns = ("number", "user", "query", "outcome", "reward")
        self.store.write(Insert("trajectory", columns, [(number, user, query, outcome, reward)]))
        return number

    def edge_rows(self, number: int) -> list[EdgeRow]:
        """Return the valid edges of a node, oldest first."""
        return [EdgeRow(*row) for _, *row in sorted(set(self._both_ends(("row", *EDGE), number, {"valid_to": None})))]

    def owners(self, numbers: Sequence[int]) -> list[tuple[int, int]]:
        """Return (skill, user) for each user who has one of these skills, by skill and user."""
        where = {"target": Among(numbers), "kind": "OWNS", "valid_to": None}
        return sorted(self._read(Select("edge", ("target", "source"), where))[0])

    def relations(self, numbers: Sequence[int] | None = None) -> list[tuple[EdgeKind, int, int]]:
        """Return the valid COMPLEMENTS and CONFLICTS edges of these skills, or of all skills."""
        columns, where = ("kind", "source", "target"), {"kind": ("COMPLEMENTS", "CONFLICTS"), "valid_to": None}
        if numbers is None:
            return self._read(Select("edge", columns, where))[0]
        return list(dict.fromkeys(self._both_ends(columns, Among(numbers), where)))

    def facts(self, number: int) -> list[str]:
        """Return the names of what a skill states now, sorted."""
        stated = {"kind": "STATES", "valid_to": None, "source": number}
        return sorted(self.names(self._column(Select("edge", ("target",), stated))).values())

    def stating(self, fact: str) -> list[int]:
        """Return the skills that state a fact now, oldest edge first."""
        node = self.find("fact", fact)
        return [] if node is None else [edge.source for edge in self.edge_rows(node)]

    def uses(
        self, after: int, kinds: tuple[EdgeKind, ...], least: float | None = None
    ) -> Iterator[tuple[int, EdgeKind, Use]]:
        """Yield (row, kind, use) for the valid edges of these kinds after a row, oldest first. They are EXECUTED and
        SHOWN, with the user of the trajectory, and OWNS, where a user's own skill counts as used by nothing else. The
        reward of a use is the weight of its edge, and at least `least`."""
        where = {"valid_to": None, "kind": kinds, **({} if least is None else {"weight": Between(least)})}
        columns = ("row", "kind", "source", "target", "weight", *TERMS)
        for batch in self.store.scan("edge", columns, where, after=after):
            trips = Among({source for _, kind, source, *_ in batch if kind != "OWNS"})
            users = dict(self._read(Select("trajectory", ("number", "user"), {"number": trips}))[0])
            for row, kind, source, *use in batch:
                if kind == "OWNS" or source in users:
                    yield row, kind, Use(source, users.get(source, source), *use)

    def co_uses(self, numbers: Sequence[int], reward: float) -> dict[tuple[int, int], int]:
        """Count the trajectories of at least this reward that used both skills of a pair, smaller number first."""
        where = {"target": Among(numbers), "kind": "EXECUTED", "valid_to": None, "weight": Between(reward)}
        used = defaultdict[int, list[int]](list)
        for trip, skill in self._read(Select("edge", ("source", "target"), where))[0]:
            used[trip].append(skill)
        pairs = Counter(pair for some in used.values() for pair in combinations(sorted(some), 2))
        return dict(sorted(pairs.items()))

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return {"nodes": by kind, "edges": valid ones by kind, "skills": {"shared": n, "past": n}}."""
        valid = Count("edge", "kind", {"valid_to": None})
        ended = Count("version", "visibility", {"valid_to": Not(None)})
        nodes, edges, live, past = self._read(Count("node", "kind"), valid, Count("live", "shared"), ended)
        skills, kinds = dict(live), {kind: count for kind, count in sorted(nodes) if kind != "case"}
        return {
            "nodes": {**kinds, "skill": sum(skills.values())},
            "edges": dict(sorted(edges)),
            "skills": {"shared": skills.get(1, 0), "past": sum(count for _, count in past)},
        }

    def save_state(self, change: Change, name: str, state: bytes) -> None:
        """Save what is kept beside the rows, such as a cache."""
        self.store.write(Insert("state", ("name", "value"), [(name, state)], existing="replace"))

    def state(self, name: str) -> bytes | None:
        found = self._column(Select("state", ("value",), {"name": name}))
        return bytes(found[0]) if found else None

    def reembed(self, maker: EmbedderRecord, embed: Callable[[list[str]], Float32Array]) -> int | None:
        """Embed a batch of texts again, while the old vectors stay in use. Return how many, or None if none are left.
        New vectors are staged beside the old ones, so that a call that was interrupted can be repeated. When every text
        has one, all are taken over in one transaction."""
        if self.store.head().embedder == maker:
            return None
        key = f"{maker.name}\n{maker.version}\n{maker.dimensions}"
        there = Not(Among(Select("staged", ("number",), {"embedder": key})))

        def unstaged(most: int) -> list[tuple[int, str]]:
            skills, profiles = self._read(
                Select("version", ("number", "text"), {"valid_to": None, "number": there}, limit=most),
                Select("profile", ("user", "text"), {"user": there}, limit=most),
            )
            return [*skills, *profiles][:most]

        batch = unstaged(EMBEDDED_AT_ONCE)
        vectors = embed([text for _, text in batch]) if batch else ()
        staged = [(number, key, vector) for (number, _), vector in zip(batch, vectors, strict=True)]
        with self.writing() as change:
            self.store.write(Insert("staged", ("number", "embedder", "vector"), staged, existing="replace"))
            # Looked for under the write lock, because another process may have added a skill just now.
            if not unstaged(1):
                self.store.take_staged(change)
                self.store.set_head(embedder=maker)
        return len(batch)

    def _column(self, one: Select) -> list[Any]:
        return [value for (value,) in self._read(one)[0]]

    def _new_nodes(self, change: Change, kind: NodeKind, names: Sequence[str]) -> range:
        numbers = self.store.new_numbers(len(names))
        rows = [(number, kind, name, change.now) for number, name in zip(numbers, names, strict=True)]
        self.store.write(Insert("node", ("number", "kind", "name", "recorded_at"), rows))
        return numbers

    def _both_ends(self, columns: tuple[str, ...], one: Any, where: Where) -> list[Any]:
        """Return the edges that start or end at a node, or at one of some."""
        sources, targets = self._read(
            Select("edge", columns, {"source": one, **where}), Select("edge", columns, {"target": one, **where})
        )
        return [*sources, *targets]

    def _end_versions(self, numbers: Sequence[int], when: float) -> None:
        valid = {"number": Among(numbers), "valid_to": None}
        ends = self._read(Select("version", ("number", "expires_at"), {**valid, "expires_at": Between(high=when)}))[0]
        expired = [Update("version", {"number": one, "valid_to": None}, {"valid_to": end}) for one, end in ends]
        self.store.write(*expired, Update("version", valid, {"valid_to": when}))


def _object(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text) if text else {}
    return found
