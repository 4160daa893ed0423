"""Users, years and rounds: what a benchmark may rely on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest

from agentfw_plugins.worlds.calendar.dataset import Calendar, Dataset
from agentfw_plugins.worlds.calendar.regular_year import ROUNDS, WEEKS

# -- organisations and users -------------------------------------------------------------------------------------------


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


# -- the year ----------------------------------------------------------------------------------------------------------


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
    for hash_seed in ("0", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", _PRINT], env=environment, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout.strip())
    assert len(digests) == 1
