"""What every store of a skill graph has to do. A further store adds itself to STORES and passes all of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from agentfw_memory import BadInputError
from agentfw_memory.graph.exchange.import_export import export_jsonl, import_jsonl
from agentfw_memory.graph.stores import sql_rows
from agentfw_memory.graph.stores.interface import Change, EdgeRow, EmbedderRecord, SkillRow, Store, TrajectoryRow
from agentfw_memory.graph.stores.postgres_store import PostgresStore
from agentfw_memory.graph.stores.sqlite_store import SqliteStore

MAKER = EmbedderRecord("hash:4", "1", 4)
Open = Callable[..., Store]


class Ticks:
    """A clock that shows one second more at every look."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def sqlite_opener(folder: Path) -> Open:
    clock = Ticks()
    return lambda tenant="team", place="store": SqliteStore.open(folder / f"{place}.db", tenant=tenant, clock=clock)


def postgres_opener(database: Callable[[str], str]) -> Open:
    clock = Ticks()
    return lambda tenant="team", place="store": PostgresStore.open(database(place), tenant=tenant, clock=clock)


STORES = {"sqlite": (sqlite_opener, "tmp_path"), "postgres": (postgres_opener, "postgres_database")}
"""Each with the fixture that says where it may keep its rows."""


@pytest.fixture(params=sorted(STORES))
def open_store(request: pytest.FixtureRequest) -> Iterator[Open]:
    opened: list[Store] = []
    make, place_fixture = STORES[request.param]
    opener = make(request.getfixturevalue(place_fixture))

    def open_(tenant: str = "team", place: str = "store") -> Store:
        opened.append(opener(tenant, place))
        return opened[-1]

    yield open_
    for store in opened:
        store.close()


def add(store: Store, change: Change, owner: str, text: str, *, shared: bool = False, at: int = 0) -> int:
    user = store.nodes(change, "user", [owner])[owner]
    number = store.new_numbers(change, 1)[0]
    vector = np.eye(4, dtype=np.float32)[at]
    visibility = "shared" if shared else "private"
    store.add_skills(change, [SkillRow(number, user, text, visibility, vector, change.now)])
    store.add_edges(change, [EdgeRow("OWNS", user, number)])
    return number


def live(store: Store, since: int = 0) -> dict[int, np.ndarray]:
    return {
        number: vector
        for rows in store.live(since)
        for number, vector in zip(rows.numbers.tolist(), rows.vectors, strict=True)
    }


def test_what_was_written_is_there_for_the_next_who_opens(open_store: Open) -> None:
    store = open_store()
    with store.writing() as change:
        store.set_embedder(change, MAKER)
        number = add(store, change, "ana", "Offer the earliest slot", at=2)
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
    assert live(again)[number].tolist() == [0, 0, 1, 0]
    assert again.embedder() == MAKER
    assert again.identity == store.identity


def test_a_block_that_fails_leaves_nothing(open_store: Open) -> None:
    store = open_store()
    before = store.counter()

    def half() -> None:
        with store.writing() as change:
            add(store, change, "ana", "half")
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        half()
    assert store.counter() == before
    assert live(store) == {}
    assert store.find("user", "ana") is None


def test_each_change_has_a_number_and_what_it_touched_is_found_by_it(open_store: Open) -> None:
    store = open_store()
    with store.writing() as first:
        one = add(store, first, "ana", "one")
    with store.writing() as second:
        two = add(store, second, "ana", "two")
    assert second.number == first.number + 1 == store.counter()
    assert set(live(store)) == {one, two}
    assert set(live(store, first.number)) == {two}
    with store.writing() as third:
        store.touch(third, [one])
        store.end_skills(third, [two])
    assert set(live(store, second.number)) == {one}
    assert store.ended(second.number) == [two]
    assert store.ended(third.number) == []


@pytest.mark.parametrize("only_changed", [False, True])
def test_skills_come_in_batches_by_number(open_store: Open, only_changed: bool) -> None:
    store = open_store()
    with store.writing() as change:
        numbers = [add(store, change, "ana", f"skill {place}") for place in range(5)]
    with store.writing() as later:
        store.touch(later, [numbers[3], numbers[0], numbers[1]])
    since = change.number if only_changed else 0

    batches = [rows.numbers.tolist() for rows in store.live(since, rows=2)]

    if only_changed:
        assert batches == [[numbers[0], numbers[1]], [numbers[3]]]
    else:
        assert batches == [numbers[:2], numbers[2:4], numbers[4:]]


def test_tenants_share_nothing(open_store: Open) -> None:
    ours, theirs = open_store("ours"), open_store("theirs")
    with ours.writing() as change:
        number = add(ours, change, "ana", "our secret", shared=True)
        ours.save_state(change, "communities", b"ours")
    assert theirs.counter() == 0
    assert live(theirs) == {}
    assert theirs.skills([number]) == {}
    assert theirs.versions(number) == []
    assert theirs.edges(number) == []
    assert theirs.find("user", "ana") is None
    assert theirs.state("communities") is None
    assert list(theirs.structure()) == []
    assert theirs.identity != ours.identity
    with theirs.writing() as change:
        same = add(theirs, change, "ana", "their secret")
    assert theirs.skills([same])[same].text == "their secret"
    assert ours.skills([number])[number].text == "our secret"


def test_a_reader_gets_what_is_shared_and_their_own(open_store: Open) -> None:
    store = open_store()
    with store.writing() as change:
        hers = add(store, change, "ana", "hers")
        his = add(store, change, "ben", "his")
        common = add(store, change, "ben", "common", shared=True)
    ana = store.find("user", "ana")
    assert set(store.skills([hers, his, common], ana)) == {hers, common}
    assert set(store.skills([hers, his, common], 0)) == {common}
    assert set(store.skills([hers, his, common])) == {hers, his, common}


def test_a_new_version_ends_the_old_one_and_both_stay(open_store: Open) -> None:
    store = open_store()
    with store.writing() as change:
        number = add(store, change, "ana", "first", at=0)
        user = store.nodes(change, "user", ["ana"])["ana"]
    with store.writing() as later:
        row = SkillRow(number, user, "second", "shared", np.eye(4, dtype=np.float32)[1], later.now)
        store.replace_skill(later, row)
    first, second = store.versions(number)
    assert (first.text, first.visibility, first.valid_to) == ("first", "private", later.now)
    assert (second.text, second.visibility, second.valid_from, second.valid_to) == ("second", "shared", later.now, None)
    assert live(store)[number].tolist() == [0, 1, 0, 0]
    assert store.twins([(user, "first"), (user, "second")]) == {(user, "second"): number}


def test_an_edge_is_there_once_and_keeps_its_past(open_store: Open) -> None:
    store = open_store()
    with store.writing() as change:
        one, two = add(store, change, "ana", "one"), add(store, change, "ana", "two")
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


def test_structure_is_who_owns_what_and_whom_it_served(open_store: Open) -> None:
    store = open_store()
    with store.writing() as change:
        one, other = add(store, change, "ana", "one"), add(store, change, "ben", "other", shared=True)
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


def test_uses_are_counted_and_can_be_counted_anew(open_store: Open) -> None:
    store = open_store()
    with store.writing() as change:
        one, two = add(store, change, "ana", "one"), add(store, change, "ana", "two")
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


def fill(store: Store, *, users: int = 2) -> list[int]:
    numbers = []
    with store.writing() as change:
        store.set_embedder(change, MAKER)
        for place in range(users):
            name = f"unmistakable-{place}"
            number = add(store, change, name, f"unmistakable-{place} text", shared=True, at=place)
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


def test_who_is_forgotten_is_gone_and_the_others_stay(open_store: Open) -> None:
    store = open_store()
    mine, others = fill(store)
    user = store.find("user", "unmistakable-0") or 0
    with store.writing() as change:
        # Somebody else's trajectory used the skill, and theirs used somebody else's.
        trip = store.find("trajectory", "unmistakable-0 trip") or 0
        store.add_edges(change, [EdgeRow("EXECUTED", trip, others, 0.9)])
        store.recount(change, [others])
    assert store.skills([others])[others].uses == 2
    with store.writing() as change:
        receipt = store.forget(change, user)
    store.erase()
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
    assert "unmistakable-0" not in "\n".join(json.dumps(record) for record in store.dump())
    assert set(live(store)) == {others}
    assert store.skills([others])[others].uses == 1
    assert store.skills([others])[others].tools == ("unmistakable-1 tool", "common tool")
    assert store.versions(mine) == []
    assert store.edges(mine) == []
    assert {mine, user} <= set(store.ended(change.number - 1))
    assert store.forgotten() == change.number
    assert store.state("communities") is None


def test_an_export_is_equal_after_it_was_imported(open_store: Open, tmp_path: Path) -> None:
    store, other = open_store(place="here"), open_store(place="there")
    fill(store)
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
    open_store: Open, tmp_path: Path, spoil: Callable[[list[str]], list[str]], words: str
) -> None:
    store, other = open_store(place="here"), open_store(place="there")
    fill(store)
    path = tmp_path / "one.jsonl"
    export_jsonl(store, path)
    path.write_text("\n".join(spoil(path.read_text("utf-8").splitlines())) + "\n", "utf-8")
    with pytest.raises(BadInputError, match=words):
        import_jsonl(other, path)
    assert list(other.dump()) == list(open_store(place="empty").dump())


def test_vectors_of_another_embedder_come_all_at_once(open_store: Open) -> None:
    store = open_store()
    numbers = fill(store)
    new = EmbedderRecord("other", "2", 2)
    rows = dict(store.unstaged(new, 100))
    assert len(rows) == 4
    assert rows[numbers[0]] == "unmistakable-0 anew"
    with store.writing() as change:
        store.stage_vectors(change, new, {number: np.array([1, 0], np.float32) for number in list(rows)[:3]})
    assert store.embedder() == MAKER
    assert live(store)[numbers[0]].tolist() == [0, 0, 1, 0]
    assert len(store.unstaged(new, 100)) == 1
    with store.writing() as change:
        store.stage_vectors(change, new, dict.fromkeys(rows, np.array([0, 1], np.float32)))
        store.take_staged(change, new)
    assert store.embedder() == new
    assert {tuple(vector) for vector in live(store, change.number - 1).values()} == {(0, 1)}
    assert len(store.unstaged(new, 100)) == 4


def test_a_skill_that_changes_while_vectors_are_made_gets_another(open_store: Open) -> None:
    store = open_store()
    numbers = fill(store)
    new = EmbedderRecord("other", "2", 2)
    with store.writing() as change:
        vectors = {number: np.array([1, 0], np.float32) for number, _ in store.unstaged(new, 100)}
        store.stage_vectors(change, new, vectors)
        user = store.find("user", "unmistakable-0") or 0
        vector = np.eye(4, dtype=np.float32)[0]
        store.replace_skill(change, SkillRow(numbers[0], user, "changed", "shared", vector, change.now))
    assert store.unstaged(new, 100) == [(numbers[0], "changed")]


def test_writers_wait_for_each_other(open_store: Open) -> None:
    stores = [open_store() for _ in range(4)]

    def write(store: Store, name: str) -> None:
        for place in range(25):
            with store.writing() as change:
                add(store, change, name, f"{name} {place}")

    threads = [threading.Thread(target=write, args=(store, f"user-{place}")) for place, store in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(live(stores[0])) == 100
    assert stores[0].counter() == 100


def test_owners_are_found_by_how_their_names_begin(open_store: Open) -> None:
    store = open_store()
    names = ["notes", "notes/ana", "notes/ana/deep", "notes/Ana", "notes0", "notes/ÿ", "notes/😀", "other_", "otherx"]
    with store.writing() as change:
        for name in names:
            add(store, change, name, "tea")

    assert set(store.holders("notes/")) == {"notes/ana", "notes/ana/deep", "notes/Ana", "notes/ÿ", "notes/😀"}
    assert store.holders("other_") == ["other_"]
    assert store.holders("notes/ana/deep") == ["notes/ana/deep"]
    assert store.holders("x") == []
    assert len(store.holders()) == len(names)


@pytest.mark.parametrize("few", [1, 500])
def test_the_skills_of_an_owner_in_a_scenario_are_only_theirs(
    open_store: Open, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(sql_rows, "FEW", few)
    store = open_store()
    with store.writing() as change:
        (scenario,) = store.nodes(change, "scenario", ["meeting"]).values()
        skills = [add(store, change, owner, text) for owner in ("ana", "ben") for text in ("tea", "milk", "rum")]
        store.add_edges(change, [EdgeRow("APPLIES_TO", skill, scenario) for skill in skills if skill != skills[1]])
        store.end_skills(change, [skills[2]])
        user = store.find("user", "ana")
        assert user is not None

        assert store.owned_in(user, scenario) == [skills[0]]


def test_versions_are_deleted_one_by_one(open_store: Open) -> None:
    store = open_store()
    with store.writing() as change:
        skill, other = add(store, change, "ana", "tea"), add(store, change, "ana", "milk")
        user = store.find("user", "ana")
        assert user is not None
        store.replace_skill(change, SkillRow(skill, user, "coffee", "private", np.eye(4, dtype=np.float32)[1], 2_000.0))

        some = store.erase_versions(change, [(skill, 0)], [])
        rest = store.erase_versions(change, [(skill, 1)], [])

        assert (some["skills"], some["versions"], some["vectors"]) == (0, 1, 0)
        assert (rest["skills"], rest["versions"], rest["vectors"], rest["edges"]) == (1, 1, 1, 1)
        assert store.owned(user) == [other]
        assert store.versions_of(user) == [(other, 0, "milk", False)]
    assert store.forgotten() == store.counter()
