"""Users, years and rounds: what a benchmark may rely on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw.errors import UnknownNameError, UsageError
from agentfw_plugins.worlds.calendar.dataset import Calendar, Dataset, schemas_of
from agentfw_plugins.worlds.calendar.event_attributes import LETTERS
from agentfw_plugins.worlds.calendar.organisation import Appraisal, Organisation
from agentfw_plugins.worlds.calendar.regular_year import ROUNDS, WEEKS

# -- organisations and users -------------------------------------------------------------------------------------------


def test_splits_share_no_organisation_and_no_user(dataset: Dataset) -> None:
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


def test_the_held_out_users_are_of_two_organisations_and_ten_different_roles(calendars: list[Calendar]) -> None:
    assert len({calendar.user.organisation.name for calendar in calendars}) == 2
    roles = Counter((one.user.organisation.schema.archetype, one.user.role.name) for one in calendars)
    assert len(roles) == 10


def test_relations_are_those_of_the_chart(dataset: Dataset) -> None:
    organisation = dataset.organisation("train", 0)
    for identity, person in organisation.people.items():
        relations = organisation.relations(identity)
        assert len(relations) == len(organisation.people) - 1 + len(organisation.contacts)
        if person.boss:
            assert relations[person.boss] == "superior"
            assert organisation.relations(person.boss)[identity] == "report"
        for other, relation in relations.items():
            if relation == "peer":
                assert organisation.relations(other)[identity] == "peer"


def test_everybody_has_another_first_name(dataset: Dataset) -> None:
    for number in range(4):
        organisation: Organisation = dataset.organisation("train", number)
        names = [person.first_name for person in (*organisation.people.values(), *organisation.contacts.values())]
        assert len(names) == len(set(names))


def test_users_are_of_their_role_but_are_not_their_role(dataset: Dataset) -> None:
    """Each user has an override, keeps most of the role, and no two of one role are the same."""
    by_role: dict[str, list[dict[str, int]]] = {}
    for name in dataset.users("train")[:80]:
        user = dataset.user(name)
        role = user.role.principles
        assert all(1 <= abs(weight) <= 6 for weight in user.weights.values())
        flipped = [name for name in role if name in user.weights and user.weights[name] * role[name] < 0]
        added = [name for name in user.weights if name not in role]
        assert len(flipped) == 1
        assert 1 <= len(added) <= 2
        same = [name for name in role if name in user.weights and user.weights[name] * role[name] > 0]
        assert len(same) >= len(role) - 2
        by_role.setdefault(f"{user.organisation.schema.archetype}/{user.role.name}", []).append(dict(user.weights))
    for weights in by_role.values():
        assert len({tuple(sorted(one.items())) for one in weights}) == len(weights)


def test_the_quick_appraisal_is_the_plain_sum(calendars: list[Calendar]) -> None:
    for calendar in calendars:
        appraisal = Appraisal(calendar.user)
        for shown in calendar.rounds:
            for tags in shown.tags:
                assert appraisal.value(tags) == calendar.user.value(tags)


# -- the year ----------------------------------------------------------------------------------------------------------


def test_a_year_has_52_weeks_without_a_conflict(calendars: list[Calendar]) -> None:
    for calendar in calendars:
        days: dict[int, list[tuple[int, int]]] = {}
        for event in calendar.events:
            days.setdefault(event.day, []).append((event.start, event.end))
        assert {day // 7 for day in days} == set(range(WEEKS))
        assert all(day % 7 < 5 for day in days)
        for spans in days.values():
            for first, second in combinations(sorted(spans), 2):
                assert first[1] <= second[0]


def test_a_series_comes_as_often_as_its_cadence_says(calendar: Calendar) -> None:
    dates = Counter(event.id.partition("w")[0] for event in calendar.events)
    for series in calendar.series:
        assert dates[series.event.id] == {"weekly": 52, "biweekly": 26, "monthly": 13}[series.meeting.cadence]
    mornings = [series for series in calendar.series if "mornings" in series.meeting.soft]
    assert all(series.start < 12 * 60 for series in mornings)


# -- rounds ------------------------------------------------------------------------------------------------------------


def test_a_year_has_104_rounds_two_a_week(calendars: list[Calendar]) -> None:
    for calendar in calendars:
        assert [shown.number for shown in calendar.rounds] == list(range(1, ROUNDS + 1))
        assert Counter(shown.week for shown in calendar.rounds) == dict.fromkeys(range(WEEKS), 2)
        starts = [(shown.day, shown.events[shown.anchor].start) for shown in calendar.rounds]
        assert starts == sorted(starts)


def test_the_hidden_weights_decide_every_round_by_the_margin(calendars: list[Calendar]) -> None:
    for calendar in calendars:
        for shown in calendar.rounds:
            values = [calendar.user.value(tags) for tags in shown.tags]
            best = max(values)
            assert values.index(best) == shown.accepted
            assert best - sorted(values)[-2] == shown.margin >= 1


def test_both_cases_occur_and_a_case_b_round_declines_its_anchor(calendars: list[Calendar]) -> None:
    cases = Counter(shown.case for calendar in calendars for shown in calendar.rounds)
    share = cases["A"] / sum(cases.values())
    assert 0.15 < share < 0.45
    for calendar in calendars:
        for shown in calendar.rounds:
            assert (shown.accepted == shown.anchor) == (shown.case == "A")


def test_the_place_of_the_answer_says_nothing(calendars: list[Calendar]) -> None:
    """A chi-squared test over 1040 rounds: at 4 degrees of freedom, 18.5 is exceeded once in a thousand times."""
    places = Counter(shown.accepted for calendar in calendars for shown in calendar.rounds)
    expected = sum(places.values()) / 5
    assert sum((places[place] - expected) ** 2 / expected for place in range(5)) < 18.5


def test_rounds_vary_in_difficulty_and_in_what_is_in_them(calendars: list[Calendar]) -> None:
    margins = Counter(shown.margin for calendar in calendars for shown in calendar.rounds)
    assert margins[1] > 200
    assert sum(count for margin, count in margins.items() if margin >= 3) > 100
    for calendar in calendars:
        titles = {event.title for shown in calendar.rounds for event in shown.events}
        assert len(titles) > 60
        for tag, least in (("topic", 6), ("due", 3), ("place", 4), ("hold", 3), ("notice", 3), ("who", 8)):
            assert len({tags[tag] for shown in calendar.rounds for tags in shown.tags}) >= least


@pytest.mark.parametrize("conflicts", [2, 3, 4])
def test_fewer_events_a_round(dataset: Dataset, conflicts: int) -> None:
    user = dataset.user("7-test-1-2")
    calendar = dataset.calendar(user, rounds=12, conflicts=conflicts)
    assert [len(shown.events) for shown in calendar.rounds] == [conflicts] * 12
    assert all(shown.answer in LETTERS[:conflicts] for shown in calendar.rounds)


def test_a_second_year_has_other_conflicts_and_the_same_user(dataset: Dataset) -> None:
    user = dataset.user("7-test-0-1")
    first, second = dataset.calendar(user, rounds=10), dataset.calendar(user, rounds=10, year=1)
    assert [shown.tags for shown in first.rounds] != [shown.tags for shown in second.rounds]
    assert dataset.user("7-test-0-1").weights == user.weights


def test_what_can_not_be_made_is_refused_in_words(dataset: Dataset) -> None:
    with pytest.raises(UnknownNameError, match="no split"):
        dataset.users("tset")
    for name in ("ana", "8-test-0-0", "7-test-0", ""):
        with pytest.raises(UsageError, match="no user"):
            dataset.user(name)
    for numbers in ({"rounds": 105}, {"conflicts": 6}, {"conflicts": 1}, {"rounds": 0}):
        with pytest.raises(UsageError, match="can't be made"):
            dataset.calendar(dataset.user("7-test-0-0"), **numbers)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**63), place=st.integers(0, 4), conflicts=st.integers(2, 5))
def test_any_seed_gives_verified_rounds(seed: int, place: int, conflicts: int) -> None:
    dataset = Dataset(seed)
    user = dataset.user(f"{seed}-train-3-{place}")
    calendar = dataset.calendar(user, rounds=4, conflicts=conflicts)
    for shown in calendar.rounds:
        values = [user.value(tags) for tags in shown.tags]
        assert values[shown.accepted] == max(values)
        assert values.count(max(values)) == 1


# -- one seed, one result ----------------------------------------------------------------------------------------------

_PRINT = """
import hashlib
from agentfw_plugins.worlds.calendar.dataset import Dataset
dataset = Dataset(11)
names = dataset.users("test")[:2] + dataset.users("train")[:1]
text = repr([dataset.calendar(dataset.user(name), rounds=30).rounds for name in names])
text += repr([sorted(dataset.user(name).weights.items()) for name in names])
print(hashlib.sha256(text.encode()).hexdigest())
"""


@pytest.mark.slow
def test_one_seed_gives_the_same_bytes_in_every_process() -> None:
    digests = set()
    for hash_seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", _PRINT], env=environment, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout.strip())
    assert len(digests) == 1


def test_a_user_alone_is_the_user_among_others(dataset: Dataset) -> None:
    """What was made before changes nothing."""
    dataset.calendar(dataset.user("7-train-1-0"), rounds=3)
    again = Dataset(seed=7)
    assert again.calendar(again.user("7-test-0-4"), rounds=6).rounds == (
        dataset.calendar(dataset.user("7-test-0-4"), rounds=6).rounds
    )


def test_knowing_the_role_is_not_knowing_the_user(calendars: list[Calendar]) -> None:
    errors = []
    for calendar in calendars:
        role, known = calendar.user.role.principles, calendar.user.organisation.schema.principles
        for shown in calendar.rounds:
            values = [sum(weight for name, weight in role.items() if known[name].triggers(tags)) for tags in shown.tags]
            errors.append(float(np.argmax(values) != shown.accepted))
    assert 0.35 < np.mean(errors) < 0.65


@pytest.mark.slow
def test_everybody_values_at_least_two_things(tmp_path: Path) -> None:
    """Also where a role says little: who values one thing only never has anything to weigh."""
    bakery = (Path(__file__).parent / "bakery.yaml").read_text("utf-8")
    thin = "{early: 3, due_today: 1, client: -2, vendor: -2}"
    (tmp_path / "thin.yaml").write_text(
        bakery.replace("{early: 3, due_today: 4, client: 2, vendor: -2, learning: 1, urgent: 2}", thin), "utf-8"
    )
    for seed in range(20):
        dataset = Dataset(seed, schemas_of(tmp_path), 2)
        for name in dataset.users("test"):
            user = dataset.user(name)
            assert sum(weight > 0 for weight in user.weights.values()) >= 2
            assert len(dataset.calendar(user, rounds=4).rounds) == 4
