"""Organisation schemas: the shipped ones, a person's own, and every way to break one that we could think of."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw.errors import SettingsError
from agentfw_plugins.worlds.calendar.dataset import Dataset
from agentfw_plugins.worlds.calendar.round_maker import verify
from agentfw_plugins.worlds.calendar.schema import load_folder, load_schema, shipped_schemas, vocabulary


@pytest.mark.parametrize("schema", shipped_schemas(), ids=lambda schema: schema.archetype)
def test_a_shipped_schema_has_what_the_benchmark_promises(schema) -> None:  # type: ignore[no-untyped-def]
    assert len(schema.user_roles) >= 5
    for role in schema.user_roles:
        assert len(role.meetings) >= 5
        assert 8 <= len(role.principles) <= 12
        assert min(role.principles.values()) < 0 < max(role.principles.values())
        assert len(role.reasons) >= 10
        assert sum(len(meeting.titles) for meeting in role.meetings) > len(role.meetings)
    # Together the roles react to nearly the whole vocabulary, so that no principle is only ever noise.
    assert len({name for role in schema.user_roles for name in role.principles}) >= 15


def test_there_are_four_archetypes_and_twenty_shared_principles() -> None:
    assert {schema.archetype for schema in shipped_schemas()} == {
        "research lab",
        "technology company",
        "hospital department",
        "consultancy",
    }
    assert 12 <= len(vocabulary().principles) <= 20
    for principle in vocabulary().principles.values():
        assert len(principle.praise) >= 3
        assert len(principle.complaint) >= 3


@pytest.mark.parametrize("schema", shipped_schemas(), ids=lambda schema: schema.archetype)
def test_every_role_of_a_shipped_schema_gets_a_verified_year(schema) -> None:  # type: ignore[no-untyped-def]
    dataset = Dataset(3, (schema,), len(schema.user_roles), {"train": 1, "validation": 0, "test": 0})
    roles = set()
    for name in dataset.users("train"):
        user = dataset.user(name)
        roles.add(user.role.name)
        calendar = dataset.calendar(user, rounds=20)
        assert all(verify(shown, user) is None for shown in calendar.rounds)
    assert roles == {role.name for role in schema.user_roles}


def test_somebodys_own_organisation_works_without_a_change_of_code(tmp_path: Path, bakery: Path) -> None:
    (tmp_path / "bakery.yaml").write_text(bakery.read_text("utf-8"), "utf-8")
    (schema,) = load_folder(tmp_path)
    dataset = Dataset(5, (schema,))
    user = dataset.user("5-test-0-0")
    calendar = dataset.calendar(user)
    assert len(calendar.rounds) == 104
    assert all(verify(shown, user) is None for shown in calendar.rounds)
    assert "early" in schema.principles  # its own principle, beside the shared ones
    assert any("early" in dataset.user(name).weights for name in dataset.users("train")[:10])


def test_a_folder_is_read_once_and_again_when_a_file_has_changed(tmp_path: Path, bakery: Path) -> None:
    file = tmp_path / "bakery.yaml"
    file.write_text(bakery.read_text("utf-8"), "utf-8")
    (first,) = load_folder(tmp_path)
    (again,) = load_folder(tmp_path)

    file.write_text(file.read_text("utf-8").replace(f"organisation: {first.archetype}", "organisation: mill"), "utf-8")
    (changed,) = load_folder(tmp_path)

    assert again is first
    assert changed.archetype == "mill"


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["partner", "client", "vendor"])
def test_a_role_may_be_called_like_a_relation(relation: str, tmp_path: Path, bakery: Path) -> None:
    text = bakery.read_text("utf-8").replace("  baker:", f"  {relation}:").replace(": baker\n", f": {relation}\n")
    (tmp_path / "firm.yaml").write_text(text, "utf-8")
    dataset = Dataset(5, load_folder(tmp_path))

    users = [dataset.user(name) for name in dataset.users("test")[:5]]

    assert relation in {user.role.name for user in users}
    assert all(verify(shown, user) is None for user in users for shown in dataset.calendar(user, rounds=10).rounds)


# What is replaced in bakery.yaml, by what, and what the complaint must say.
BREAKAGES = {
    "no YAML": ("names:\n", "names: [\n", r"isn't valid YAML"),
    "a tab": ("  first: [Golden", "\tfirst: [Golden", r"isn't valid YAML"),
    "an unknown key at the top": ("projects:", "project:", r'no such key; did you mean "projects"'),
    "a missing key": ("rooms: [the back office, the shop]\n", "", r"rooms: is required"),
    "a key twice": ("sites: [", "rooms: [a, b]\nsites: [", r"appears twice; the first is in line \d+"),
    "an empty list": ("projects: [rye line, wedding cakes, the new oven]", "projects: []", r"at least 2 items"),
    "the same text twice": ("[Golden, Corner]", "[Golden, Golden]", r'"Golden" appears twice'),
    "a list where text belongs": ("organisation: bakery", "organisation: [bakery]", r"organisation: must be text"),
    "text where a list belongs": (
        "projects: [rye line, wedding cakes, the new oven]",
        "projects: bread",
        r"must be a list",
    ),
    "a table that is a list": ("outsiders:\n", "outsiders: []\nnothing:\n", r"no such key|must be a table"),
    "an outsider of no kind": ("  vendor: {as", "  dealer: {as", r'"dealer" is not known'),
    "an unknown topic": (
        "topic: admin, cadence",
        "topic: admn, cadence",
        r'"admn" is not known here; did you mean "admin"',
    ),
    "an unknown cadence": ("cadence: monthly", "cadence: yearly", r'"yearly" is not known here'),
    "an odd duration": ("minutes: {45: 1}, by: superior", "minutes: {40: 1}, by: superior", r"multiple of 15"),
    "a share that is no number": ("minutes: {180: 1}", "minutes: {180: often}", r'must be a number \(got "often"\)'),
    "no share at all": ("minutes: {180: 1}", "minutes: {180: 0}", r"at least one share above 0"),
    "a place that isn't": (
        "place: {onsite: 1}, hold: fixed}",
        "place: {moon: 1}, hold: fixed}",
        r'"moon" is not known',
    ),
    "a hold that isn't": (
        'hold: fixed}\n      - {titles: ["Bench',
        'hold: firmly}\n      - {titles: ["Bench',
        r'"firmly"',
    ),
    "a wish that isn't": ("soft: [mornings]", "soft: [nights]", r'"nights" is not known'),
    "a span that falls": ("who: {report: 1-2}, place", "who: {report: 3-2}, place", r"must be ascending"),
    "a span of words": ("who: {report: 1-2}, place", "who: {report: few}, place", r"a span such as 2-5"),
    "a slot that can't be filled": (
        "[Trade school]",
        '["Trade school with {client}"]',
        r"\{client\} can't be filled in",
    ),
    "a slot that doesn't exist": ("[Trade school]", '["Trade {place}"]', r"\{place\} can't be filled in"),
    "a stray brace": ("[Trade school]", '["Trade {school"]', r"stray brace"),
    "a bar in a title": ("[Trade school]", '["Trade | school"]', r'without "\|"'),
    "people whom nobody has": (
        "who: {peer: 1}, place: {room: 1}, hold: must",
        "who: {report: 1}, place: {room: 1}, hold: must",
        r'nobody in the role "apprentice" has a report',
    ),
    "a boss who isn't there": ("reports_to: baker", "reports_to: bakr", r'no role "bakr"; did you mean "baker"'),
    "a ring of bosses": (
        "    people: 1\n    user: false",
        "    people: 1\n    reports_to: baker\n    user: false",
        r"report to themselves",
    ),
    "an unknown principle": ("superior: 3, learning: 3", "superiors: 3, learning: 3", r'did you mean "superior"'),
    "a weight too large": ("superior: 3, learning", "superior: 30, learning", r"must be at most 6"),
    "a weight of nothing": ("superior: 3, learning", "superior: 0, learning", r"weight of 0"),
    "a weight with a comma": ("superior: 3, learning", "superior: 3.5, learning", r"must be a whole number"),
    "too few principles": (
        "{superior: 3, learning: 3, due_today: 2, long: -2, personal: 2}",
        "{superior: 3, long: -2}",
        r"at least 4 principles",
    ),
    "nothing is valued": (
        "{superior: 3, learning: 3, due_today: 2, long: -2, personal: 2}",
        "{superior: -3, learning: -3, due_today: -2, long: -2}",
        r"at least two weights must be above 0",
    ),
    "an unknown reason": (
        "oven_broken, owner_comes, buyer",
        "oven_brocken, owner_comes, buyer",
        r'did you mean "oven_broken"',
    ),
    "a reason that does nothing": ("double: {longer: 60, ", "double: {", r"has no effect"),
    "a reason that sets what can't be set": ("{set: {due: today}", "{set: {topic: admin}", r'"topic" is not known'),
    "a reason with a wrong value": ("{set: {due: today}", "{set: {due: yesterday}", r'"yesterday" is not known'),
    "a note about nobody": ('["{superior} comes too"]', '["{client} comes too"]', r"\{client\} can't be filled in"),
    "company at the dentist's": (
        "{set: {hold: fixed}, topics: [personal], notes",
        "{add: {peer: 1}, topics: [personal], notes",
        r"nobody else comes to a personal",
    ),
    "a personal meeting of two": (
        "topic: personal, minutes: {60: 1}, by: self",
        "topic: personal, minutes: {60: 1}, by: peer",
        r"by: self and who: \{\}",
    ),
    "a meeting without anybody": ("by: self, who: {report: 1-2}", "by: self, who: {}", r"somebody must come"),
    "a share of acceptance too large": (
        "reports_to: owner\n    accepts: 0.4",
        "reports_to: owner\n    accepts: 4",
        r"must be at most 0.95",
    ),
    "no meetings": (
        "    accepts: 0.4\n    meetings:",
        "    accepts: 0.4\n    gatherings:",
        r"gatherings: no such key",
    ),
    "too few weekly meetings": (
        "topic: admin, cadence: weekly, minutes: {45: 1}",
        "topic: admin, cadence: monthly, minutes: {45: 1}",
        r"at least two meetings must be weekly",
    ),
    "a calendar for somebody who has none": (
        "    people: 1\n    user: false",
        "    people: 1\n    user: false\n    accepts: 0.5",
        r"has no calendar of its own",
    ),
    "a principle that is taken": ("  early:\n    label", "  urgent:\n    label", r"shared vocabulary"),
    "a principle about nothing": (
        "when: {topic: delivery, minutes: {at_most: 30}}",
        "when: {colour: red}",
        r"no such attribute",
    ),
    "a principle that always holds": (
        "when: {topic: delivery, minutes: {at_most: 30}}",
        "when: {}",
        r"at least one condition",
    ),
    "a principle that never holds": (
        "minutes: {at_most: 30}}",
        "minutes: {at_least: 90, at_most: 30}}",
        r"no event can have",
    ),
    "a principle without words": (
        "    against: [the short talks about bread are for the others]\n",
        "",
        r"against: is required",
    ),
    "nobody in a role": ("    people: 2\n", "    people: 0\n", r"between 1 and 30"),
}


@pytest.mark.parametrize("name", BREAKAGES)
def test_a_broken_schema_is_refused_with_file_line_and_reason(name: str, tmp_path: Path, bakery: Path) -> None:
    old, new, reason = BREAKAGES[name]
    whole = bakery.read_text("utf-8")
    assert whole.count(old) >= 1
    path = tmp_path / "broken.yaml"
    path.write_text(whole.replace(old, new, 1), "utf-8")
    with pytest.raises(SettingsError) as caught:
        load_schema(path)
    found = re.match(r"broken\.yaml, line (\d+): ", caught.value.message)
    assert found, caught.value.message
    assert re.search(reason, caught.value.message), caught.value.message
    assert caught.value.fix
    # The line is that of the change, or of the table that it leaves incomplete just above.
    changed = whole[: whole.index(old)].count("\n") + 1
    assert 1 <= int(found[1]) <= changed + new.count("\n") + 2


def test_the_line_is_the_one_to_mend(tmp_path: Path, bakery: Path) -> None:
    lines = bakery.read_text("utf-8").splitlines()
    place = next(number for number, line in enumerate(lines, 1) if "Trade school" in line)
    lines[place - 1] = lines[place - 1].replace("topic: learning", "topic: lerning")
    (tmp_path / "b.yaml").write_text("\n".join(lines), "utf-8")
    with pytest.raises(SettingsError, match=rf"b\.yaml, line {place}: roles\.apprentice\.meetings\[1\]\.topic"):
        load_schema(tmp_path / "b.yaml")


def test_two_files_of_one_archetype_and_empty_folders_are_refused(tmp_path: Path, bakery: Path) -> None:
    with pytest.raises(SettingsError, match=r"no \.yaml file"):
        load_folder(tmp_path)
    with pytest.raises(SettingsError, match="no directory"):
        load_folder(tmp_path / "nowhere")
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(bakery.read_text("utf-8"), "utf-8")
    with pytest.raises(SettingsError, match=r'b\.yaml, line 1: "bakery" is described by a\.yaml'):
        load_folder(tmp_path)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"a: \xff", "isn't UTF-8"),
        (b"a: &x [*x]", "contains itself"),
        (b"\x00", "valid YAML"),
    ],
)
def test_files_that_are_no_schema_at_all(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_bytes(data)
    with pytest.raises(SettingsError, match=rf"odd\.yaml, line \d+: .*{reason}"):
        load_schema(path)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_no_text_raises_anything_but_a_settings_error(text: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "any.yaml"
        path.write_text(text, "utf-8", newline="")
        with pytest.raises(SettingsError, match=r"any\.yaml, line "):
            load_schema(path)


def test_the_example_in_the_docs_works(tmp_path: Path) -> None:
    text = (Path(__file__).parents[4] / "docs" / "guides" / "organisations.md").read_text("utf-8")
    example = re.search(r"```yaml[^\n]*\n(.*?)```", text, re.S)
    assert example is not None
    (tmp_path / "bakery.yaml").write_text(example[1], "utf-8")
    dataset = Dataset(1, load_folder(tmp_path), 1)
    assert len(dataset.calendar(dataset.user("1-test-0-0"), rounds=20).rounds) == 20
