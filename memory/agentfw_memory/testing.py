"""What every store of a skill graph has to do, as tests. A further store passes them by naming where it keeps its rows:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def address(self, tmp_path):
            return lambda place: f"mystore://{tmp_path}/{place}"

Each place is a database of its own, in which tenants are created as they are opened.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from agentfw_memory.errors import BadInputError
from agentfw_memory.graph.arrays import Float32Array
from agentfw_memory.graph.exchange.import_export import export_jsonl, import_jsonl
from agentfw_memory.graph.records import Visibility
from agentfw_memory.graph.rows import graph_rows
from agentfw_memory.graph.rows.dump import dump
from agentfw_memory.graph.rows.erasing import erase_versions, forget_user
from agentfw_memory.graph.rows.graph_rows import GraphRows
from agentfw_memory.graph.rows.reembedding import stage_vectors, take_staged, unstaged
from agentfw_memory.graph.rows.row_types import EdgeRow, SkillRow, TrajectoryRow
from agentfw_memory.graph.stores import store_class
from agentfw_memory.graph.stores.store import (
    Among,
    Between,
    Change,
    Count,
    Delete,
    EmbedderRecord,
    Insert,
    Not,
    Select,
    Update,
)

__all__ = ["Open", "StoreContract"]

MAKER = EmbedderRecord("hash:4", "1", 4)
Open = Callable[..., GraphRows]
"""Opens a store by the name of a tenant and that of a place."""
NODE = ("number", "kind", "name", "recorded_at")


class _Ticks:
    """A clock that shows one second more at every look."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


class StoreContract:
    """The tests. A subclass has a fixture `address`, which returns the address of a place by its name."""

    @pytest.fixture
    def open_store(self, address: Callable[[str], str]) -> Iterator[Open]:
        opened: list[GraphRows] = []
        clock = _Ticks()

        def open_(tenant: str = "team", place: str = "store") -> GraphRows:
            where = address(place)
            opened.append(GraphRows(store_class(where).open(where, tenant=tenant, clock=clock)))
            return opened[-1]

        yield open_
        for rows in opened:
            rows.store.close()

    # The store

    def test_rows_are_found_by_conditions(self, open_store: Open) -> None:
        store = open_store().store
        nodes = [(1, "user", "ana", 1.0), (2, "user", "Ben", 2.0), (3, "tool", "it's 100%", 3.0), (4, "tool", "ö", 4.0)]
        with store.writing():
            assert store.write(Insert("node", NODE, nodes)) == [4]
            versions = [(7, 0, 1, "text", "shared", 5.0, None, 5.0, "", None)]
            columns = ("number", "ordinal", "owner", "text", "visibility", "valid_from", "valid_to", "recorded_at")
            store.write(Insert("version", (*columns, "metadata", "expires_at"), versions))

        def found(**where: object) -> list[int]:
            return sorted(number for (number,) in store.read(Select("node", ("number",), where))[0])

        assert found(kind="user", name="ana") == [1]
        assert found(name="it's 100%") == [3]
        assert found(number=Among([2, 3, 99])) == [2, 3]
        assert found(name=Among(["ana", "ö"])) == [1, 4]
        assert found(number=Among([])) == []
        assert found(kind=("user", "scenario")) == [1, 2]
        assert found(recorded_at=Between(2.0, 3.0)) == [2, 3]
        assert found(number=Between(above=3)) == [4]
        assert found(name=Between("A", "Z")) == [2]
        assert found(kind=Not("user")) == [3, 4]
        assert found(number=Not(Among([1, 2]))) == [3, 4]
        assert found(number=Among(Select("version", ("owner",), {"valid_to": None}))) == [1]
        assert found(number=Not(Among(Select("version", ("owner",))))) == [2, 3, 4]
        assert store.read(Select("version", ("number",), {"valid_to": Not(None)})) == [[]]
        assert sorted(store.read(Select("node", ("kind",), distinct=True))[0]) == [("tool",), ("user",)]
        assert len(store.read(Select("node", ("number",), limit=2))[0]) == 2
        assert sorted(store.read(Count("node", "kind"))[0]) == [("tool", 2), ("user", 2)]
        both = store.read(Select("node", ("name",), {"number": 1}), Select("node", ("name",), {"number": 3}))
        assert both == [[("ana",)], [("it's 100%",)]]

    def test_rows_are_changed_and_deleted_by_conditions(self, open_store: Open) -> None:
        store = open_store().store
        vector = np.eye(4, dtype=np.float32)
        columns = ("number", "changed", "owner", "shared", "digest", "valid_from", "vector", "words")
        with store.writing() as change:
            rows = [(one, change.number, 1, 0, f"d{one}", 1.0, vector[one], "some text") for one in range(3)]
            store.write(Insert("live", columns, rows))
            changed = store.write(
                Update("live", {"number": Among([1, 2])}, {"shared": 1}, add={"uses": 2, "rewards": 0.5}),
                Update("live", {"number": 1}, {"vector": vector[3]}),
                Update("live", {"number": 99}, {"shared": 1}),
                Delete("live", {"number": 0}),
            )
        assert changed == [2, 1, 0, 1]
        found = sorted(store.read(Select("live", ("number", "shared", "uses", "rewards")))[0])
        assert found == [(1, 1, 2, 0.5), (2, 1, 2, 0.5)]
        values = [value for _, value in sorted(store.read(Select("live", ("number", "vector")))[0])]
        assert store.vectors(values).tolist() == [[0, 0, 0, 1], [0, 0, 1, 0]]

    def test_a_key_that_exists_is_kept_or_replaced(self, open_store: Open) -> None:
        store = open_store().store
        edge = ("kind", "source", "target", "weight", "valid_from", "recorded_at")
        with store.writing():
            one, other = ("OWNS", 1, 2, 1.0, 1.0, 1.0), ("OWNS", 1, 3, 1.0, 1.0, 1.0)
            assert store.write(Insert("edge", edge, [one], existing="keep")) == [1]
            assert store.write(Insert("edge", edge, [one, other], existing="keep")) == [1]
            store.write(Update("edge", {"target": 2}, {"valid_to": 2.0}))
            assert store.write(Insert("edge", edge, [one, other], existing="keep")) == [1]
            for value in (b"one", b"two"):
                store.write(Insert("state", ("name", "value"), [("it", value)], existing="replace"))
        assert len(store.read(Select("edge", ("row",)))[0]) == 3
        assert store.read(Select("state", ("name", "value"))) == [[("it", b"two")]]

    def test_a_scan_yields_the_rows_in_order_and_from_a_row_on(self, open_store: Open) -> None:
        store = open_store().store
        columns = ("number", "ordinal", "owner", "text", "visibility", "valid_from", "recorded_at", "metadata")
        with store.writing():
            rows = [(number, ordinal, 1, "text", "shared", 1.0, 1.0, "") for number in (3, 1, 2) for ordinal in (1, 0)]
            store.write(Insert("version", columns, rows))
        batches = list(store.scan("version", ("number", "ordinal"), {}, size=4))
        assert batches == [[(1, 0), (1, 1), (2, 0), (2, 1)], [(3, 0), (3, 1)]]
        assert list(store.scan("version", ("number", "ordinal"), {"ordinal": 0}, after=1)) == [[(2, 0), (3, 0)]]

    def test_a_snapshot_sees_no_later_change(self, open_store: Open) -> None:
        one, other = open_store(), open_store()
        with one.writing() as change:
            one.nodes(change, "user", ["ana"])
        if not self.writes_while_read:
            return
        with one.store.snapshot():
            assert one.find("user", "ana") is not None
            with other.writing() as change:
                other.nodes(change, "user", ["ben"])
            assert one.find("user", "ben") is None
        assert one.find("user", "ben") is not None

    writes_while_read = True
    """Whether others can write while one reads a snapshot. Otherwise they wait for it."""

    def test_the_tenants_of_a_place_are_listed(self, open_store: Open, address: Callable[[str], str]) -> None:
        for tenant in ("team b", "Team-a", "ö"):
            open_store(tenant)
        open_store("elsewhere", place="other")
        where = address("store")
        assert store_class(where).tenants(where) == ["Team-a", "team b", "ö"]

    # The graph in it

    def test_what_was_written_is_there_for_the_next_who_opens(self, open_store: Open) -> None:
        store = open_store()
        with store.writing() as change:
            store.store.set_head(embedder=MAKER)
            number = _add(store, change, "ana", "Offer the earliest slot", at=2)
            tool = store.nodes(change, "tool", ["calendar"])["calendar"]
            store.add_edges(change, [EdgeRow("REQUIRES", number, tool)])
        again = open_store()
        skill = again.skills([number])[number]
        assert (skill.id, skill.owner, skill.text, skill.tools) == (
            f"s{number}",
            "ana",
            "Offer the earliest slot",
            ("calendar",),
        )
        assert _live(again)[number].tolist() == [0, 0, 1, 0]
        assert again.store.head().embedder == MAKER
        assert again.store.head().identity == store.store.head().identity

    def test_a_block_that_fails_leaves_nothing(self, open_store: Open) -> None:
        store = open_store()
        before = store.store.head().counter

        def half() -> None:
            with store.writing() as change:
                _add(store, change, "ana", "half")
                raise RuntimeError("in the middle")

        with pytest.raises(RuntimeError, match="in the middle"):
            half()
        assert store.store.head().counter == before
        assert _live(store) == {}
        assert store.find("user", "ana") is None

    def test_each_change_has_a_number_and_what_it_touched_is_found_by_it(self, open_store: Open) -> None:
        store = open_store()
        with store.writing() as first:
            one = _add(store, first, "ana", "one")
        with store.writing() as second:
            two = _add(store, second, "ana", "two")
        assert second.number == first.number + 1 == store.store.head().counter
        assert set(_live(store)) == {one, two}
        assert set(_live(store, first.number)) == {two}
        with store.writing() as third:
            store.touch(third, [one])
            store.end_skills(third, [two])
        assert set(_live(store, second.number)) == {one}
        assert store.ended(second.number) == [two]
        assert store.ended(third.number) == []

    @pytest.mark.parametrize("only_changed", [False, True])
    def test_skills_come_in_batches_by_number(self, open_store: Open, only_changed: bool) -> None:
        store = open_store()
        with store.writing() as change:
            numbers = [_add(store, change, "ana", f"skill {place}") for place in range(5)]
        with store.writing() as later:
            store.touch(later, [numbers[3], numbers[0], numbers[1]])
        since = change.number if only_changed else 0

        batches = [rows.numbers.tolist() for rows in store.live(since, rows=2)]

        if only_changed:
            assert batches == [[numbers[0], numbers[1]], [numbers[3]]]
        else:
            assert batches == [numbers[:2], numbers[2:4], numbers[4:]]

    def test_tenants_share_nothing(self, open_store: Open) -> None:
        ours, theirs = open_store("ours"), open_store("theirs")
        with ours.writing() as change:
            number = _add(ours, change, "ana", "our secret", shared=True)
            ours.save_state(change, "communities", b"ours")
        assert theirs.store.head().counter == 0
        assert _live(theirs) == {}
        assert theirs.skills([number]) == {}
        assert theirs.versions(number) == []
        assert theirs.edges(number) == []
        assert theirs.find("user", "ana") is None
        assert theirs.state("communities") is None
        assert list(theirs.structure()) == []
        assert theirs.store.head().identity != ours.store.head().identity
        with theirs.writing() as change:
            same = _add(theirs, change, "ana", "their secret")
        assert theirs.skills([same])[same].text == "their secret"
        assert ours.skills([number])[number].text == "our secret"

    def test_a_reader_gets_what_is_shared_and_their_own(self, open_store: Open) -> None:
        store = open_store()
        with store.writing() as change:
            hers = _add(store, change, "ana", "hers")
            his = _add(store, change, "ben", "his")
            common = _add(store, change, "ben", "common", shared=True)
        ana = store.find("user", "ana")
        assert set(store.skills([hers, his, common], ana)) == {hers, common}
        assert set(store.skills([hers, his, common], 0)) == {common}
        assert set(store.skills([hers, his, common])) == {hers, his, common}

    def test_a_new_version_ends_the_old_one_and_both_stay(self, open_store: Open) -> None:
        store = open_store()
        with store.writing() as change:
            number = _add(store, change, "ana", "first", at=0)
            user = store.nodes(change, "user", ["ana"])["ana"]
        with store.writing() as later:
            row = SkillRow(number, user, "second", "shared", np.eye(4, dtype=np.float32)[1], later.now)
            store.replace_skill(later, row)
        first, second = store.versions(number)
        assert (first.text, first.visibility, first.valid_to) == ("first", "private", later.now)
        assert (second.text, second.visibility, second.valid_from, second.valid_to) == (
            "second",
            "shared",
            later.now,
            None,
        )
        assert _live(store)[number].tolist() == [0, 1, 0, 0]
        assert store.twins([(user, "first"), (user, "second")]) == {(user, "second"): number}

    def test_an_edge_is_there_once_and_keeps_its_past(self, open_store: Open) -> None:
        store = open_store()
        with store.writing() as change:
            one, two = _add(store, change, "ana", "one"), _add(store, change, "ana", "two")
            assert store.add_edges(change, [EdgeRow("COMPLEMENTS", one, two)]) == 1
            assert store.add_edges(change, [EdgeRow("COMPLEMENTS", one, two)]) == 0
        assert store.relations([two]) == [("COMPLEMENTS", one, two)]
        with store.writing() as change:
            assert store.add_edges(change, [EdgeRow("COMPLEMENTS", one, two, 3.0)]) == 1
            assert store.end_edges(change, [EdgeRow("COMPLEMENTS", one, two)]) == 1
            assert store.end_edges(change, [EdgeRow("COMPLEMENTS", one, two)]) == 0
        assert store.relations() == []
        past = [edge for edge in store.edges(one) if edge.kind == "COMPLEMENTS"]
        assert [(edge.weight, edge.valid_to is None) for edge in past] == [(1.0, False), (3.0, False)]
        assert {edge.source for edge in past} == {f"skill:s{one}"}

    def test_structure_is_who_owns_what_and_whom_it_served(self, open_store: Open) -> None:
        store = open_store()
        with store.writing() as change:
            one, other = _add(store, change, "ana", "one"), _add(store, change, "ben", "other", shared=True)
            ana, ben = store.nodes(change, "user", ["ana", "ben"]).values()
        assert [row[1:] for row in store.structure()] == [(ana, one, 1.0), (ben, other, 1.0)]
        last = [row for row, *_ in store.structure()][-1]
        with store.writing() as change:
            # Of these only the trajectory that went well binds anybody, and it binds its user.
            store.add_edges(change, [EdgeRow("CONFLICTS", one, other), EdgeRow("COMPLEMENTS", one, other)])
            tool, scenario = store.nodes(change, "tool", ["calendar"]), store.nodes(change, "scenario", ["trips"])
            store.add_edges(change, [EdgeRow("REQUIRES", one, tool["calendar"])])
            store.add_edges(change, [EdgeRow("APPLIES_TO", one, scenario["trips"])])
            store.add_edges(change, [EdgeRow("TRIGGERS", scenario["trips"], one)])
            for name, reward in (("went well", 0.9), ("came to nothing", 0.01), ("did harm", -1.0)):
                trip = store.add_trajectory(change, TrajectoryRow(name, ana, "q", "o", reward))
                store.add_edges(change, [EdgeRow("EXECUTED", trip, other, reward)])
        assert [row[1:] for row in store.structure(last)] == [(ana, other, 0.9)]
        with store.writing() as change:
            store.end_skills(change, [one])
        assert [row[1:] for row in store.structure()] == [(ben, other, 1.0), (ana, other, 0.9)]

    def test_uses_are_counted_and_can_be_counted_anew(self, open_store: Open) -> None:
        store = open_store()
        with store.writing() as change:
            one, two = _add(store, change, "ana", "one"), _add(store, change, "ana", "two")
            user = store.nodes(change, "user", ["ana"])["ana"]
            for place, reward in enumerate((0.9, 0.8, 0.1)):
                trip = store.add_trajectory(change, TrajectoryRow(f"t{place}", user, "q", "o", reward))
                store.add_edges(change, [EdgeRow("EXECUTED", trip, skill, reward) for skill in (one, two)])
            store.count_use(change, one, 3, 1.8)
            store.recount(change, [two])
        skills = store.skills([one, two])
        assert [(skill.uses, round(skill.utility, 6)) for skill in skills.values()] == [(3, 0.6), (3, 0.6)]
        assert store.co_uses([one, two], 0.7) == {(one, two): 2}
        assert store.find("trajectory", "t1") is not None

    def test_who_is_forgotten_is_gone_and_the_others_stay(self, open_store: Open) -> None:
        store = open_store()
        mine, others = _fill(store)
        user = store.find("user", "unmistakable-0") or 0
        with store.writing() as change:
            # Somebody else's trajectory used the skill, and theirs used somebody else's.
            trip = store.find("trajectory", "unmistakable-0 trip") or 0
            store.add_edges(change, [EdgeRow("EXECUTED", trip, others, 0.9)])
            store.recount(change, [others])
        assert store.skills([others])[others].uses == 2
        with store.writing() as change:
            receipt = forget_user(store, change, user)
        store.store.erase()
        assert receipt == {
            "skills": 1,
            "versions": 2,
            "vectors": 2,
            "edges": 5,
            "trajectories": 1,
            "nodes": 2,
            "communities": 1,
            "word_index": 0,
        }
        assert "unmistakable-0" not in "\n".join(json.dumps(record) for record in dump(store))
        assert set(_live(store)) == {others}
        assert store.skills([others])[others].uses == 1
        assert store.skills([others])[others].tools == ("unmistakable-1 tool", "common tool")
        assert store.versions(mine) == []
        assert store.edges(mine) == []
        assert {mine, user} <= set(store.ended(change.number - 1))
        assert store.store.head().forgotten == change.number
        assert store.state("communities") is None

    def test_an_export_is_equal_after_it_was_imported(self, open_store: Open, tmp_path: Path) -> None:
        store, other = open_store(place="here"), open_store(place="there")
        _fill(store)
        rows = export_jsonl(store, tmp_path / "one.jsonl")
        assert import_jsonl(other, tmp_path / "one.jsonl") == rows
        export_jsonl(other, tmp_path / "two.jsonl")
        assert (tmp_path / "two.jsonl").read_text("utf-8") == (tmp_path / "one.jsonl").read_text("utf-8")
        with pytest.raises(BadInputError, match="is not empty"):
            import_jsonl(other, tmp_path / "one.jsonl")

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("spoil", "words"),
        [
            (lambda lines: ["{}", *lines[1:]], "doesn't start with"),
            (lambda lines: [*lines[:-1], lines[-1][:20]], "not valid JSON"),
            (lambda lines: [lines[0], *lines[2:]], "starts with the row of its tenant"),
            (lambda lines: [line.replace('"OWNS"', '"OWES"') for line in lines], "OWES"),
            (lambda lines: [line for line in lines if '"row": "version"' not in line], "is invalid"),
            (lambda lines: [line.replace('"vector": "', '"vector": "AAAA') for line in lines], "vector"),
            (lambda lines: [*lines, '{"row": "sqlite_schema", "x": 1}'], "is invalid"),
            (lambda lines: [line.replace('"weight": 1.0', '"weight": {}') for line in lines], "is invalid"),
            (lambda lines: [line.replace("anew", "\\ud83e") for line in lines], "is invalid"),
        ],
    )
    def test_a_spoilt_export_is_refused_and_nothing_of_it_taken(
        self, open_store: Open, tmp_path: Path, spoil: Callable[[list[str]], list[str]], words: str
    ) -> None:
        store, other = open_store(place="here"), open_store(place="there")
        _fill(store)
        path = tmp_path / "one.jsonl"
        export_jsonl(store, path)
        path.write_text("\n".join(spoil(path.read_text("utf-8").splitlines())) + "\n", "utf-8")
        with pytest.raises(BadInputError, match=words):
            import_jsonl(other, path)
        assert list(dump(other)) == list(dump(open_store(place="empty")))

    def test_vectors_of_another_embedder_come_all_at_once(self, open_store: Open) -> None:
        store = open_store()
        numbers = _fill(store)
        new = EmbedderRecord("other", "2", 2)
        rows = dict(unstaged(store, new, 100))
        assert len(rows) == 4
        assert rows[numbers[0]] == "unmistakable-0 anew"
        with store.writing() as change:
            stage_vectors(store, new, {number: np.array([1, 0], np.float32) for number in list(rows)[:3]})
        assert store.store.head().embedder == MAKER
        assert _live(store)[numbers[0]].tolist() == [0, 0, 1, 0]
        assert len(unstaged(store, new, 100)) == 1
        with store.writing() as change:
            stage_vectors(store, new, dict.fromkeys(rows, np.array([0, 1], np.float32)))
            take_staged(store, change, new)
        assert store.store.head().embedder == new
        assert {tuple(vector) for vector in _live(store, change.number - 1).values()} == {(0, 1)}
        assert len(unstaged(store, new, 100)) == 4

    def test_a_skill_that_changes_while_vectors_are_made_gets_another(self, open_store: Open) -> None:
        store = open_store()
        numbers = _fill(store)
        new = EmbedderRecord("other", "2", 2)
        with store.writing() as change:
            vectors = {number: np.array([1, 0], np.float32) for number, _ in unstaged(store, new, 100)}
            stage_vectors(store, new, vectors)
            user = store.find("user", "unmistakable-0") or 0
            vector = np.eye(4, dtype=np.float32)[0]
            store.replace_skill(change, SkillRow(numbers[0], user, "changed", "shared", vector, change.now))
        assert unstaged(store, new, 100) == [(numbers[0], "changed")]

    def test_writers_wait_for_each_other(self, open_store: Open) -> None:
        stores = [open_store() for _ in range(4)]

        def write(store: GraphRows, name: str) -> None:
            for place in range(25):
                with store.writing() as change:
                    _add(store, change, name, f"{name} {place}")

        threads = [threading.Thread(target=write, args=(store, f"user-{place}")) for place, store in enumerate(stores)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(_live(stores[0])) == 100
        assert stores[0].store.head().counter == 100

    def test_owners_are_found_by_how_their_names_begin(self, open_store: Open) -> None:
        store = open_store()
        names = [
            "notes",
            "notes/ana",
            "notes/ana/deep",
            "notes/Ana",
            "notes0",
            "notes/ÿ",
            "notes/😀",
            "other_",
            "otherx",
        ]
        with store.writing() as change:
            for name in names:
                _add(store, change, name, "tea")

        assert set(store.holders("notes/")) == {"notes/ana", "notes/ana/deep", "notes/Ana", "notes/ÿ", "notes/😀"}
        assert store.holders("other_") == ["other_"]
        assert store.holders("notes/ana/deep") == ["notes/ana/deep"]
        assert store.holders("x") == []
        assert len(store.holders()) == len(names)

    @pytest.mark.parametrize("few", [1, 500])
    def test_the_skills_of_an_owner_in_a_scenario_are_only_theirs(
        self, open_store: Open, monkeypatch: pytest.MonkeyPatch, few: int
    ) -> None:
        monkeypatch.setattr(graph_rows, "FEW", few)
        store = open_store()
        with store.writing() as change:
            (scenario,) = store.nodes(change, "scenario", ["meeting"]).values()
            skills = [_add(store, change, owner, text) for owner in ("ana", "ben") for text in ("tea", "milk", "rum")]
            store.add_edges(change, [EdgeRow("APPLIES_TO", skill, scenario) for skill in skills if skill != skills[1]])
            store.end_skills(change, [skills[2]])
            user = store.find("user", "ana")
            assert user is not None

            assert store.owned_in(user, scenario) == [skills[0]]

    def test_versions_are_deleted_one_by_one(self, open_store: Open) -> None:
        store = open_store()
        with store.writing() as change:
            skill, other = _add(store, change, "ana", "tea"), _add(store, change, "ana", "milk")
            user = store.find("user", "ana")
            assert user is not None
            store.replace_skill(
                change, SkillRow(skill, user, "coffee", "private", np.eye(4, dtype=np.float32)[1], 2_000.0)
            )

            some = erase_versions(store, change, [(skill, 0)], [])
            rest = erase_versions(store, change, [(skill, 1)], [])

            assert (some["skills"], some["versions"], some["vectors"]) == (0, 1, 0)
            assert (rest["skills"], rest["versions"], rest["vectors"], rest["edges"]) == (1, 1, 1, 1)
            assert store.owned(user) == [other]
            left = Select("version", ("number", "ordinal", "text"), {"owner": user})
            assert store.store.read(left)[0] == [(other, 0, "milk")]
        assert store.store.head().forgotten == store.store.head().counter


def _add(store: GraphRows, change: Change, owner: str, text: str, *, shared: bool = False, at: int = 0) -> int:
    user = store.nodes(change, "user", [owner])[owner]
    number = store.store.new_numbers(1)[0]
    vector = np.eye(4, dtype=np.float32)[at]
    visibility: Visibility = "shared" if shared else "private"
    store.add_skills(change, [SkillRow(number, user, text, visibility, vector, change.now)])
    store.add_edges(change, [EdgeRow("OWNS", user, number)])
    return number


def _live(store: GraphRows, since: int = 0) -> dict[int, Float32Array]:
    return {
        number: vector
        for rows in store.live(since)
        for number, vector in zip(rows.numbers.tolist(), rows.vectors, strict=True)
    }


def _fill(store: GraphRows, *, users: int = 2) -> list[int]:
    numbers = []
    with store.writing() as change:
        store.store.set_head(embedder=MAKER)
        for place in range(users):
            name = f"unmistakable-{place}"
            number = _add(store, change, name, f"unmistakable-{place} text", shared=True, at=place)
            user = store.nodes(change, "user", [name])[name]
            names = [f"unmistakable-{place} tool", "common tool"]
            tools = store.nodes(change, "tool", names)
            store.add_edges(change, [EdgeRow("REQUIRES", number, tool) for tool in tools.values()])
            trip = TrajectoryRow(f"unmistakable-{place} trip", user, f"unmistakable-{place} query", "", 0.9)
            store.add_edges(change, [EdgeRow("EXECUTED", store.add_trajectory(change, trip), number, 0.9)])
            store.set_profile(change, user, f"unmistakable-{place} profile", np.eye(4, dtype=np.float32)[3])
            numbers.append(number)
    with store.writing() as change:
        user = store.find("user", "unmistakable-0") or 0
        vector = np.eye(4, dtype=np.float32)[2]
        store.replace_skill(change, SkillRow(numbers[0], user, "unmistakable-0 anew", "shared", vector, change.now))
        store.save_state(change, "communities", b"state")
    return numbers
