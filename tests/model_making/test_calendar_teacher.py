"""The teacher: what it writes can be read back, and what it knows of the user it has from the conversation alone."""

import asyncio
from collections.abc import Sequence

import pytest
from calendar_teacher import (
    LABELS,
    NAMES,
    TeacherPolicy,
    expected_of,
    learned,
    read_terms,
    read_weights,
    terms,
    value,
    write_valued,
    write_weights,
)

from agentfw import Engagement, PolicyAgent, Task
from agentfw.episode import Episode, Observation
from agentfw.interfaces import EventDriven
from agentfw.memory import Memory
from agentfw.report.statistics import bootstrap
from agentfw_plugins.memories.strategyhub import StrategyHubMemory, StrategyHubSettings
from agentfw_plugins.worlds.calendar.environment import CalendarConflicts, CalendarSettings


def keep(rounds: int, memories: Sequence[Memory], index: int = 0, split: str = "validation") -> Episode:
    environment = CalendarConflicts(CalendarSettings(rounds=rounds))
    user = environment.settings.dataset().users(split)[index]
    agent = PolicyAgent(TeacherPolicy(), memories=memories, window=2, recall=10)
    task = Task(index, seed=index, user=user, split=split)
    return asyncio.run(Engagement(environment, agent, EventDriven()).run(task))


def hub() -> StrategyHubMemory:
    return StrategyHubMemory(StrategyHubSettings(show=True))


def feedback(kept: str, chosen: str, principle: str, second: str = "", *, valued: bool = True) -> Observation:
    because = {"principle": principle, "valued": valued}
    return Observation(0, "feedback", {"accepted": kept, "chosen": chosen, "second": second, "because": because})


def test_weights_are_read_as_they_were_written() -> None:
    weights = {name: number - 9 for number, name in enumerate(NAMES)}

    assert read_weights(write_weights(weights)) == weights


def test_a_hub_holds_all_weights_at_their_longest() -> None:
    entries = write_weights(dict.fromkeys(NAMES, -40))

    assert len(entries) <= 10
    assert max(map(len, entries)) <= 350


def test_each_line_says_what_its_event_is_worth_and_which_is_the_best_so_far() -> None:
    tags = {"by": "self", "who": "client", "size": "2", "min": "90", "topic": "people", "urgency": "high"}
    tags |= {"due": "today", "place": "room", "series": "none", "notice": "planned", "hold": "must", "start": "10:00"}
    weights = dict.fromkeys(NAMES, -2) | {"client": 7}
    valued = [value("A", ["crowd"], weights), value("C", terms(tags), weights), value("D", [], weights)]

    assert write_valued(valued, weights) == [
        "A: eight or more people -2 -2; A -2",
        "C: due today -2 -2, marked urgent -2 -4, client attends +7 3, just the two of us -2 1, "
        "ninety minutes or more -2 -1, can't move or must attend -2 -3, people and hiring -2 -5; A -2",
        "D: 0; D 0",
    ]


def test_what_the_user_names_counts_for_much_and_for_more_where_the_decision_was_wrong() -> None:
    right, wrong = feedback("B", "B", "client"), feedback("B", "A", "client")

    assert learned({"client": 2}, right, {})[0] == "named: client attends for, right: +2 to +10"
    assert learned({"client": 12}, right, {})[0] == "named: client attends for, right: +12 to +13"
    assert learned({"client": 2}, wrong, {})[0] == "named: client attends for, wrong: +2 to +12"
    assert learned({"client": 9}, wrong, {})[0] == "named: client attends for, wrong: +9 to +13"


def test_what_changes_is_in_the_weights_and_in_the_call() -> None:
    weights = {"client": 9}

    _, call = learned(weights, feedback("B", "A", "client"), {})

    assert weights["client"] == 13
    assert "client attends +13" in call


def test_what_puts_the_user_off_is_learned_with_its_sign() -> None:
    said = learned({"crowd": 3}, feedback("B", "A", "crowd", valued=False), {})

    assert said[0] == "named: eight or more people against, wrong: +3 to -12"


def test_a_weight_goes_no_further_than_forty() -> None:
    assert learned({"due_today": 40}, feedback("A", "B", "due_today"), {}) == [
        "named: due today for, wrong: +40 to +40"
    ]


def test_where_it_was_wrong_all_of_the_kept_event_counts_more_and_all_of_the_decided_less() -> None:
    weights = {"client": 4, "crowd": -3, "superior": 6, "onsite": 1}
    before = {"A": ["superior", "crowd", "onsite"], "B": ["client", "crowd", "due_today"]}

    said = learned(weights, feedback("B", "A", "client"), before)

    assert said[:6] == [
        "named: client attends for, wrong: +4 to +12",
        "now B: client attends +12 12, eight or more people -3 9, due today +0 9; B 9",
        "now A: superior attends +6 6, eight or more people -3 3, in person +1 4; A 4",
        "step: B 9, A 4: +5, 1",
        "kept B: client attends +12 to +13, eight or more people -3 to -2, due today +0 to +1",
        "rival A: superior attends +6 to +5, eight or more people -2 to -3, in person +1 to +0",
    ]
    assert weights == {"client": 13, "crowd": -3, "superior": 5, "onsite": 0, "due_today": 1}
    assert all(f"{LABELS[name]} {weight:+d}" in said[6] for name, weight in weights.items())


@pytest.mark.parametrize(("decided", "step"), [(13, 1), (14, 2), (18, 2), (19, 3), (40, 3)])
def test_the_further_the_kept_event_is_behind_the_greater_is_the_step(decided: int, step: int) -> None:
    before = {"A": ["superior"], "B": ["client"]}

    said = learned({"client": 5, "superior": decided}, feedback("B", "A", "client"), before)

    assert said[3] == f"step: B 12, A {decided}: {12 - decided:+d}, {step}"
    assert said[4:6] == [
        f"kept B: client attends +12 to +{12 + step}",
        f"rival A: superior attends {decided:+d} to {decided - step:+d}",
    ]


def test_where_it_was_right_but_not_clear_the_second_best_is_the_rival() -> None:
    before = {"A": ["superior"], "B": ["superior", "client"], "C": ["crowd"]}

    close = learned({"client": 4, "superior": 10}, feedback("B", "B", "superior", "A"), before)
    clear = learned({"client": 9, "superior": 10}, feedback("B", "B", "client", "C"), before)

    assert close[1:6] == [
        "now B: superior attends +11 11, client attends +4 15; B 15",
        "now A: superior attends +11 11; A 11",
        "step: B 15, A 11: +4, 1",
        "kept B: superior attends +11 to +12, client attends +4 to +5",
        "rival A: superior attends +12 to +11",
    ]
    assert clear[3] == "step: B 20, C 0: +20, 0"
    assert len(clear) == 5, "the call comes next"


def test_where_it_decided_nothing_only_what_is_named_counts() -> None:
    before = {"A": ["superior", "crowd"], "B": ["client", "due_today"]}

    for heard in (feedback("B", "none", "client"), feedback("E", "A", "client")):
        weights = {"client": 4}
        learned(weights, heard, before)
        assert set(weights) == {"client"}


def test_what_each_event_triggers_is_read_from_the_lines_of_an_answer() -> None:
    weights = {name: number - 9 for number, name in enumerate(NAMES)}
    events = {"A": list(NAMES[2:7]), "B": [], "C": [NAMES[-1]], "D": list(NAMES)}
    lines = write_valued([value(letter, names, weights) for letter, names in events.items()], weights)

    told = ["named: client attends for, wrong: +6 to +12", "now B: client attends +12 12; B 12", *lines]
    assert read_terms("\n".join([*told, "<tool_call>"])) == {letter: tuple(names) for letter, names in events.items()}
    assert read_terms(f"A: {LABELS['client']}, and more") == {}


def test_a_reason_that_has_no_name_teaches_nothing() -> None:
    assert learned({}, feedback("A", "B", "the weather"), {}) == []


def test_every_answer_is_understood_and_every_update_is_taken() -> None:
    episode = keep(30, [hub()])

    assert [turn.failures for turn in episode.turns] == [()] * 30
    assert episode.series("format") == [1.0] * 30
    assert not [event for event in episode.events if event.name == "refused"]


@pytest.mark.slow
def test_with_its_hub_it_learns_its_user_and_without_it_does_not() -> None:
    with_hub = [sum(keep(60, [hub()], index).series("error")) for index in range(8)]
    without = [sum(keep(60, [], index).series("error")) for index in range(8)]

    assert bootstrap([more - less for more, less in zip(without, with_hub, strict=True)]).low > 5


def test_a_role_that_nobody_knows_is_taken_for_anybody() -> None:
    assert expected_of("circus/clown") == expected_of("anybody")


def test_what_is_expected_of_a_role_is_that_role_s() -> None:
    from agentfw_plugins.worlds.calendar.schema import shipped_schemas

    roles = [f"{schema.archetype}/{role.title}" for schema in shipped_schemas() for role in schema.user_roles]

    assert len({tuple(expected_of(role).items()) for role in roles}) == len(roles) == 20


@pytest.mark.parametrize("text", ["", "due today", "- nonsense", "x +y 3", "due today + 3"])
def test_nonsense_in_the_hub_is_no_weight(text: str) -> None:
    assert read_weights([text]) == {}
