"""Organisations, users, years and rounds: what a benchmark may rely on, and every way to break a schema."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw.errors import SettingsError
from agentfw_plugins.worlds.calendar.dataset import Calendar, Dataset
from agentfw_plugins.worlds.calendar.event_attributes import LETTERS, event_line, parse_line
from agentfw_plugins.worlds.calendar.regular_year import ROUNDS, WEEKS, Round
from agentfw_plugins.worlds.calendar.schema import load_folder, load_schema, shipped_schemas


def test_splits_share_no_organisation_and_no_user_and_the_held_out_are_of_ten_roles(
    dataset: Dataset, calendars: list[Calendar]
) -> None:
    assert len({calendar.user.organisation.name for calendar in calendars}) == 2
    assert len({(one.user.organisation.schema.archetype, one.user.role.name) for one in calendars}) == 10
    users = {split: set(dataset.users(split)) for split in ("train", "validation", "test")}
    assert len(users["test"]) == 10
    assert not users["train"] & users["test"]
    assert not users["validation"] & users["test"]
    people = {
        split: {
            (organisation.name, person.name)
            for number in range(dataset.organisations[split])
            for organisation in [dataset.organisation(split, number)]
            for person in organisation.people.values()
        }
        for split in ("train", "test")
    }
    assert not people["train"] & people["test"]


def test_a_year_has_52_weeks_without_a_conflict_and_two_rounds_a_week_that_the_weights_decide(
    calendars: list[Calendar],
) -> None:
    for calendar in calendars:
        days: dict[int, list[tuple[int, int]]] = {}
        for event in calendar.events:
            days.setdefault(event.day, []).append((event.start, event.end))
        assert {day // 7 for day in days} == set(range(WEEKS))
        assert all(day % 7 < 5 for day in days)
        assert all(first[1] <= second[0] for spans in days.values() for first, second in pairwise(sorted(spans)))

        assert [shown.number for shown in calendar.rounds] == list(range(1, ROUNDS + 1))
        assert Counter(shown.week for shown in calendar.rounds) == dict.fromkeys(range(WEEKS), 2)
        starts = [(shown.day, shown.events[shown.anchor].start) for shown in calendar.rounds]
        assert starts == sorted(starts)
        for shown in calendar.rounds:
            values = [calendar.user.value(tags) for tags in shown.tags]
            best = max(values)
            assert values.index(best) == shown.accepted
            assert best - sorted(values)[-2] >= 1


def some_rounds() -> list[object]:
    dataset = Dataset(11)
    users = [dataset.user(name) for name in dataset.users("test")[:2] + dataset.users("train")[:1]]
    return [(dataset.calendar(user, rounds=30).rounds, sorted(user.weights.items())) for user in users]


def test_one_seed_gives_the_same_bytes_in_every_process() -> None:
    needed = "from __future__ import annotations\nfrom agentfw_plugins.worlds.calendar.dataset import Dataset\n"
    code = f"{needed}{inspect.getsource(some_rounds)}\nprint(some_rounds())"
    environment = {**os.environ, "PYTHONHASHSEED": "4242"}

    there = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)

    assert there.strip() == str(some_rounds())


def fits_together(shown: Round) -> bool:
    """Whether all lines read back, and all events fall into one hour of a working day."""
    lines: list[Any] = [
        (*one, tags) for *one, tags in zip(LETTERS, [one.shown for one in shown.events], shown.tags, strict=False)
    ]
    overlap = max(event.start for event in shown.events) < min(event.end for event in shown.events)
    at_day = all(event.day == shown.day and 420 <= event.start < event.end <= 1200 for event in shown.events)
    quarters = not any(event.start % 15 or event.minutes % 15 for event in shown.events)
    return overlap and at_day and quarters and all(parse_line(event_line(*line)) == line for line in lines)


@pytest.mark.parametrize("schema", shipped_schemas(), ids=lambda schema: schema.archetype)
def test_a_shipped_schema_has_what_the_benchmark_promises_and_each_role_gets_a_year(schema) -> None:  # type: ignore[no-untyped-def]
    assert len(schema.user_roles) >= 5
    for role in schema.user_roles:
        assert len(role.meetings) >= 5
        assert 8 <= len(role.principles) <= 12
        assert min(role.principles.values()) < 0 < max(role.principles.values())
        assert len(role.reasons) >= 10
        assert sum(len(meeting.titles) for meeting in role.meetings) > len(role.meetings)
    # Together the roles react to nearly the whole vocabulary, so that no principle is only ever noise.
    assert len({name for role in schema.user_roles for name in role.principles}) >= 15

    dataset = Dataset(3, (schema,), len(schema.user_roles), {"train": 1, "validation": 0, "test": 0})
    users = [dataset.user(name) for name in dataset.users("train")]
    for user in users:
        assert all(fits_together(shown) for shown in dataset.calendar(user, rounds=20).rounds)
    assert {user.role.name for user in users} == {role.name for role in schema.user_roles}


# What is replaced in bakery.yaml, by what, and what the complaint must say.
BREAKAGES = {
    "no YAML": ("names:\n", "names: [\n", "can't read"),
    "an unknown key": ("projects:", "project:", 'did you mean "projects"'),
    "a missing key": ("rooms: [the back office, the shop]\n", "", "rooms: is required"),
    "an unknown topic": ("topic: admin, cadence", "topic: admn, cadence", 'did you mean "admin"'),
    "a span of words": ("who: {report: 1-2}, place", "who: {report: few}, place", "a span such as 2-5"),
    "a slot that can't be filled": ("[Trade school]", '["Trade school with {client}"]', r"\{client\} can't be filled"),
    "a boss who isn't there": ("reports_to: baker", "reports_to: bakr", 'did you mean "baker"'),
    "a principle about nothing": (
        "when: {topic: delivery, minutes: {at_most: 30}}",
        "when: {colour: red}",
        "no such attribute",
    ),
}


@pytest.mark.parametrize("name", BREAKAGES)
def test_a_broken_schema_is_refused_with_file_and_reason(name: str, tmp_path: Path, bakery: Path) -> None:
    old, new, reason = BREAKAGES[name]
    whole = bakery.read_text("utf-8")
    assert whole.count(old) >= 1
    path = tmp_path / "broken.yaml"
    path.write_text(whole.replace(old, new, 1), "utf-8")
    with pytest.raises(SettingsError, match=reason) as caught:
        load_schema(path)
    assert "broken.yaml" in caught.value.message
    assert caught.value.fix


def test_two_files_of_one_archetype_and_empty_folders_are_refused(tmp_path: Path, bakery: Path) -> None:
    with pytest.raises(SettingsError, match=r"no \.yaml file"):
        load_folder(tmp_path)
    with pytest.raises(SettingsError, match="no directory"):
        load_folder(tmp_path / "nowhere")
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(bakery.read_text("utf-8"), "utf-8")
    with pytest.raises(SettingsError, match=r'b\.yaml: "bakery" is described by another file'):
        load_folder(tmp_path)


@settings(max_examples=15)  # each writes to the disk
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_no_text_raises_anything_but_a_settings_error(text: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "any.yaml"
        path.write_text(text, "utf-8", newline="")
        with pytest.raises(SettingsError, match=r"any\.yaml"):
            load_schema(path)


def test_the_example_in_the_docs_works(tmp_path: Path) -> None:
    text = (Path(__file__).parents[4] / "docs" / "guides" / "organisations.md").read_text("utf-8")
    example = re.search(r"```yaml[^\n]*\n(.*?)```", text, re.S)
    assert example is not None
    (tmp_path / "bakery.yaml").write_text(example[1], "utf-8")
    dataset = Dataset(1, load_folder(tmp_path), 1)
    assert len(dataset.calendar(dataset.user("1-test-0-0"), rounds=20).rounds) == 20
