"""What every store of a skill graph has to do, as tests. A further store passes them by naming where it keeps its rows:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def address(self, tmp_path):
            return lambda place: f"mystore://{tmp_path}/{place}"

Each place is a database of its own, in which tenants are created as they are opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from .graph.stores import store_class
from .graph.stores.sql import Store
from .graph.stores.store import Among, Between, Count, Delete, EmbedderRecord, Insert, Not, Select, Update

__all__ = ["StoreContract"]

NODE = ("number", "kind", "name", "recorded_at")
OpenStore = Callable[..., Store]


class Ticks:
    """A clock that shows one second more at every look."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


class StoreContract:
    """The tests. A subclass has a fixture `address`, which returns the address of a place by its name."""

    writes_while_read = True
    """Whether others can write while one reads a snapshot. Otherwise they wait for it."""

    @pytest.fixture
    def open_store(self, address: Callable[[str], str]) -> Iterator[OpenStore]:
        clock = Ticks()
        with ExitStack() as opened:

            def open_(tenant: str = "team", place: str = "store") -> Store:
                store = store_class(address(place)).open(address(place), tenant=tenant, clock=clock)
                opened.callback(store.close)
                return store

            yield open_

    def test_rows_are_found_by_conditions(self, open_store: OpenStore) -> None:
        store = open_store()
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

    def test_rows_are_changed_and_deleted_by_conditions(self, open_store: OpenStore) -> None:
        store = open_store()
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

    def test_a_key_that_exists_is_kept_or_replaced(self, open_store: OpenStore) -> None:
        store = open_store()
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

    def test_a_scan_yields_the_rows_in_order_and_from_a_row_on(self, open_store: OpenStore) -> None:
        store = open_store()
        columns = ("number", "ordinal", "owner", "text", "visibility", "valid_from", "recorded_at", "metadata")
        with store.writing():
            rows = [(number, ordinal, 1, "text", "shared", 1.0, 1.0, "") for number in (3, 1, 2) for ordinal in (1, 0)]
            store.write(Insert("version", columns, rows))
        batches = list(store.scan("version", ("number", "ordinal"), {}, size=4))
        assert batches == [[(1, 0), (1, 1), (2, 0), (2, 1)], [(3, 0), (3, 1)]]
        assert list(store.scan("version", ("number", "ordinal"), {"ordinal": 0}, after=1)) == [[(2, 0), (3, 0)]]

    def test_a_snapshot_sees_no_later_change(self, open_store: OpenStore) -> None:
        one, other = open_store(), open_store()
        _add_node(one, 1)
        if not self.writes_while_read:
            return
        with one.snapshot():
            assert _nodes(one) == [1]
            _add_node(other, 2)
            assert _nodes(one) == [1]
        assert _nodes(one) == [1, 2]

    def test_a_block_that_fails_leaves_nothing(self, open_store: OpenStore) -> None:
        store = open_store()

        def half() -> None:
            with store.writing():
                store.write(Insert("node", NODE, [(1, "user", "ana", 1.0)]))
                assert _nodes(store) == [1]
                raise RuntimeError("in the middle")

        with pytest.raises(RuntimeError, match="in the middle"):
            half()
        assert store.head().counter == 0
        assert _nodes(store) == []

    def test_the_head_tells_what_changed_for_whoever_opens(self, open_store: OpenStore) -> None:
        store, maker = open_store(), EmbedderRecord("hash:4", "1", 4)
        with store.writing() as first:
            store.set_head(embedder=maker)
            numbers = store.new_numbers(3)
        with store.writing() as second:
            store.set_head(forgotten=second.number)
            edge = ("kind", "source", "target", "weight", "valid_from", "recorded_at")
            store.write(Insert("edge", edge, [("OWNS", 1, 2, 1.0, 1.0, 1.0)]))

        head = open_store().head()

        assert second.number == first.number + 1 == head.counter == head.forgotten
        assert (head.embedder, head.next_number) == (maker, numbers[-1] + 1)
        assert [(head.latest_edge,)] == store.read(Select("edge", ("row",)))[0]

    def test_tenants_share_nothing_and_are_listed(self, open_store: OpenStore, address: Callable[[str], str]) -> None:
        ours, theirs = open_store("Team-a"), open_store("team b")
        _add_node(ours, 1)
        assert (theirs.head().counter, _nodes(theirs)) == (0, [])
        with theirs.writing():
            assert theirs.write(Delete("node", {}), Update("node", {"number": 1}, {"name": "other"})) == [0, 0]
        assert list(theirs.scan("node", ("number",), {})) == []
        assert _nodes(ours) == [1]
        open_store("elsewhere", place="other")
        open_store("\u00f6")
        assert store_class(address("store")).tenants(address("store")) == ["Team-a", "team b", "\u00f6"]


def _nodes(store: Store) -> list[int]:
    return sorted(number for (number,) in store.read(Select("node", ("number",)))[0])


def _add_node(store: Store, number: int) -> None:
    with store.writing() as change:
        store.write(Insert("node", NODE, [(number, "user", f"user {number}", change.now)]))
